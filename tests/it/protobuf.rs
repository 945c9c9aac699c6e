//! A real API server's objects: the views of their Protobuf are those of their JSON.

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{CiliumInstallation, Client, Options};

use super::server::Server;
use super::support::api_server;
use ipam_cilium::observed::{
    ObservedKind, ProtobufEvent, ProtobufList, Reader, slim, value_of_protobuf,
};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Follow, ObjectEvent};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

/// Nodes with each field that is read: empty, set, odd, and marked for deletion.
fn create_nodes(server: &Server) {
    server.nodes([
        json!({"metadata": {"name": "bare"}}),
        json!({
            "metadata": {
                "name": "full",
                "labels": {"rack": "a", "empty": "", "example.com/longer": "v-1.2_x"},
                "annotations": {
                    "network.cilium.io/ipv4-pod-cidr": "10.1.0.0/24",
                    "io.cilium.network.ipv6-pod-cidr": "",
                    "cilium-ipam.io/protected": "true",
                    "note": "naïve \u{1f600} \" \\ \u{7} \u{2028}",
                },
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "u", "controller": true},
                ],
                "finalizers": ["example.com/wait"],
            },
            "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00:1::/64"], "providerID": "metal://7"},
        }),
        json!({"metadata": {"name": "going", "finalizers": ["example.com/wait"]}}),
    ]);
    let client = server.plane.client();
    let addresses = json!([{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": "full"}, {"type": "", "address": ""}]);
    let status =
        json!({"status": {"addresses": addresses, "phase": "Running", "capacity": {"cpu": "4"}}});
    client
        .patch(&format!("{NODES}/full/status"), &status)
        .unwrap();
    for (manager, key) in [
        ("one", "network.cilium.io/ipv6-pod-cidr"),
        ("two", "io.cilium.network.ipv4-pod-cidr"),
    ] {
        let patch = json!({"metadata": {"annotations": {key: "10.1.0.0/24"}}});
        let path = format!("{NODES}/full?fieldManager={manager}");
        client.patch(&path, &patch).unwrap();
    }
    client.delete(&format!("{NODES}/going")).unwrap();
}

fn create_services(client: &Client) {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "web"}, {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}]);
    let full = json!({
        "metadata": {
            "name": "full",
            "labels": {"team": "shop"},
            "annotations": {"lbipam.cilium.io/ips": "20.0.10.9", "io.cilium/lb-ipam-sharing-key": "k"},
        },
        "spec": {
            "type": "LoadBalancer", "ports": ports, "selector": {"app": "x"}, "loadBalancerClass": "io.cilium/bgp-control-plane",
            "loadBalancerIP": "20.0.10.9", "externalTrafficPolicy": "Local", "ipFamilyPolicy": "PreferDualStack",
        },
    });
    client.create(SERVICES, &full).unwrap();
    let plain = json!({"metadata": {"name": "plain"}, "spec": {"ports": [{"port": 1}]}});
    client.create(SERVICES, &plain).unwrap();
    let condition = json!({"type": "cilium.io/IPRequestSatisfied", "status": "False", "reason": "no_pool", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let ingress = json!([{"ip": "20.0.10.9"}, {"hostname": "lb.example"}]);
    let status =
        json!({"status": {"loadBalancer": {"ingress": ingress}, "conditions": [condition]}});
    client
        .patch(&format!("{SERVICES}/full/status"), &status)
        .unwrap();
    let pin = json!({"metadata": {"annotations": {"io.cilium/lb-ipam-ips": "20.0.10.9"}}});
    let path = format!("{SERVICES}/full?fieldManager=cilium-ipam");
    client.patch(&path, &pin).unwrap();
}

fn create_agent(client: &Client) {
    let account = json!({"metadata": {"name": "default"}});
    // Nothing else creates it here.
    let _ = client.create("/api/v1/namespaces/kube-system/serviceaccounts", &account);
    let pod = json!({
        "metadata": {"name": "cilium-x", "labels": {"k8s-app": "cilium"}},
        "spec": {
            "nodeName": "full",
            "containers": [{"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.19.3", "command": ["cilium-agent"],
                "args": ["--config-dir=/tmp/cilium/config-map"], "env": [{"name": "A", "value": "b"}]}],
        },
    });
    client.create(PODS, &pod).unwrap();
    let status = json!({"status": {"phase": "Running", "startTime": "2026-01-02T03:04:05Z"}});
    client
        .patch(&format!("{PODS}/cilium-x/status"), &status)
        .unwrap();
}

/// What a reader makes of one object.
fn observed(read: impl FnOnce(&mut Reader)) -> String {
    let mut reader = Reader::default();
    read(&mut reader);
    format!("{:#?}", reader.finish(Timestamp::UNIX_EPOCH))
}

fn assert_equal(client: &Client, kind: ObservedKind, path: &str, least: usize) {
    let items: Vec<Value> = client.list(path).unwrap();
    let body = client.get_as(path, PROTOBUF).unwrap();
    let list = ProtobufList::read(&body).unwrap().unwrap();
    let expected = format!("{}List", kind.api_version_and_kind().1);
    assert_eq!((&*list.kind, &*list.api_version), (&*expected, "v1"));
    assert!(list.version.parse::<u64>().unwrap() > 0 && list.next.is_empty());
    assert!(items.len() >= least, "{path}: {}", items.len());
    assert_eq!(items.len(), list.items.len());
    for (json, protobuf) in items.iter().zip(&list.items) {
        let value = value_of_protobuf(kind, protobuf).unwrap();
        assert_eq!(slim(kind, &value), slim(kind, json));
        let of_json = observed(|reader| reader.object(kind, &json.to_string()).unwrap());
        let of_protobuf = observed(|reader| reader.protobuf(kind, protobuf).unwrap());
        assert_eq!(of_protobuf, of_json, "{json:#}");
    }
}

#[test]
fn objects_read_alike_in_both_encodings() {
    let installation = CiliumInstallation::default();
    let server = Server::start(&installation, None, Options::default(), &[]);
    let client = server.plane.client();
    create_nodes(&server);
    create_services(client);
    create_agent(client);
    assert_equal(client, ObservedKind::Node, NODES, 3);
    assert_equal(client, ObservedKind::Service, "/api/v1/services", 3);
    assert_equal(client, ObservedKind::CiliumAgentPod, PODS, 1);
    let pages = client
        .get_as(&format!("{NODES}?limit=2"), PROTOBUF)
        .unwrap();
    let first = ProtobufList::read(&pages).unwrap().unwrap();
    assert_eq!(first.items.len(), 2);
    let path = format!("{NODES}?limit=2&continue={}", first.next);
    let rest = client.get_as(&path, PROTOBUF).unwrap();
    let rest = ProtobufList::read(&rest).unwrap().unwrap();
    assert_eq!((rest.items.len(), &*rest.next), (1, ""));
}

/// The first events of a watch.
fn followed(server: &Server, from: u64, count: usize) -> Vec<Value> {
    let connection = api_server(server.plane.kubeconfig(), testbed::PATIENCE);
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    let mut on_event = |event: ObjectEvent<'_>| {
        let event = match event {
            ObjectEvent::Changed(object) => json!({"changed": object}),
            ObjectEvent::Deleted(object) => json!({"deleted": object}),
            ObjectEvent::Bookmark(version) => json!({"bookmark": version}),
        };
        send.send(event).unwrap();
    };
    let mut events = Vec::new();
    let all = async {
        while events.len() < count {
            events.extend(receive.recv().await);
        }
    };
    let follow = async {
        let cluster = LiveCluster::connect(connection).await.unwrap();
        let kind = ObservedKind::Node;
        cluster.follow(kind, "", from, &mut on_event).await
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::select! {
            ended = follow => panic!("the watch ended: {ended:?}"),
            () = all => {}
        }
    });
    events
}

#[test]
fn events_read_alike_in_both_encodings() {
    let installation = CiliumInstallation::default();
    let server = Server::start(&installation, None, Options::default(), &[]);
    let client = server.plane.client();
    let from = client.get(NODES).unwrap()["metadata"]["resourceVersion"].clone();
    let from: u64 = from.as_str().unwrap().parse().unwrap();
    create_nodes(&server);
    client.delete(&format!("{NODES}/bare")).unwrap();

    let path = format!("{NODES}?watch=true&timeoutSeconds=3&resourceVersion={from}");
    let body = client.get_as(&path, "application/json").unwrap();
    let lines = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
    let in_json: Vec<Value> = lines.map(Result::unwrap).collect();
    assert!(in_json.len() > 3, "{in_json:#?}");
    let events = followed(&server, from, in_json.len());
    assert_eq!(events.len(), in_json.len());
    for (event, of_json) in events.iter().zip(&in_json) {
        let (key, object) = event.as_object().unwrap().iter().next().unwrap();
        let expected = match of_json["type"].as_str().unwrap() {
            "DELETED" => "deleted",
            _ => "changed",
        };
        assert_eq!(key, expected, "{event:#}");
        let node = ObservedKind::Node;
        assert_eq!(slim(node, object), slim(node, &of_json["object"]));
    }
}

/// The server sends a bookmark after the objects that exist.
#[test]
fn a_bookmark_has_the_moment_that_the_watch_reached() {
    let installation = CiliumInstallation::default();
    let server = Server::start(&installation, None, Options::default(), &[]);
    let client = server.plane.client();
    server.nodes([json!({"metadata": {"name": "bare"}})]);
    let nodes = client.get(NODES).unwrap();
    let listed = nodes["metadata"]["resourceVersion"].as_str().unwrap();
    let existing = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("{NODES}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3&{existing}");
    let body = client.get_as(&path, PROTOBUF).unwrap();
    let mut events = Vec::new();
    let mut rest = &body[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let event;
        (event, rest) = after.split_at(u32::from_be_bytes(*length) as usize);
        events.push(ProtobufEvent::read(event).unwrap());
    }
    let [ProtobufEvent::Changed(_), ProtobufEvent::Bookmark(mark)] = &events[..] else {
        panic!("{events:?}");
    };
    let mark = value_of_protobuf(ObservedKind::Node, mark.object).unwrap();
    let reached = mark["metadata"]["resourceVersion"].as_str().unwrap();
    assert!(reached.parse::<u64>().unwrap() >= listed.parse::<u64>().unwrap());
}
