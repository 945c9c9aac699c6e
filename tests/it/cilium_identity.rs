//! Cilium is what runs in one namespace: objects that a tenant creates change nothing.

use serde_json::{Value, json};

use super::operator::{install_definitions, operator_of, pool as custom_pool, until};
use super::running::{Running, http_get};
use super::server::{Server, node as live_node};
use super::support::{TextAssertions, address_pool, args, pool};

const GROUP: &str = super::operator::GROUP;
const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

/// A DaemonSet with the label of Cilium's agents.
fn daemon_set(namespace: &str, version: &str) -> Value {
    let labels = json!({"k8s-app": "cilium"});
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "cilium", "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "nodeSelector": {"never": "scheduled"},
                "containers": [{"name": "cilium-agent",
                    "image": format!("quay.io/cilium/cilium:v{version}")}]}}}})
}

fn config(namespace: &str, ipam: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cilium-config", "namespace": namespace},
        "data": {"ipam": ipam, "enable-ipv4": "true", "enable-ipv6": "false"}})
}

fn server() -> Server {
    let server = Server::usual();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}});
    server
        .plane
        .create("/api/v1/namespaces", &namespace)
        .unwrap();
    server
}

/// What a user with the ClusterRole `edit` in one namespace can create.
fn attack(server: &Server) {
    let path = "/apis/apps/v1/namespaces/team-a/daemonsets";
    server
        .plane
        .create(path, &daemon_set("team-a", "1.12.19"))
        .unwrap();
    let path = "/api/v1/namespaces/team-a/configmaps";
    server
        .plane
        .create(path, &config("team-a", "cluster-pool"))
        .unwrap();
}

fn in_rack(name: &str) -> Value {
    live_node(name, json!({"rack": "a"}))
}

#[test]
fn a_daemon_set_of_a_tenant_stops_no_watch() {
    let server = server();
    server.folder.write("pools/a.yaml", pool("a", POOL));
    server.folder.write(
        "pools/lb.yaml",
        address_pool("blue", "{blocks: [{cidr: 20.0.10.0/24}]}"),
    );
    let watching = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    server.nodes([in_rack("n1")]);
    assert_eq!(watching.written("n1"), json!(["10.20.0.0/24"]));
    let pools = "/apis/cilium.io/v2/ciliumloadbalancerippools/blue";
    until("the pool is written", || server.plane.get(pools).is_ok());
    let before = server.plane.get(pools).unwrap()["spec"].clone();
    attack(&server);
    let seen = watching.until("seen", json!({}));
    let seen = match seen["warnings"].as_array().unwrap().is_empty() {
        true => watching.until("seen", json!({})),
        false => seen,
    };
    assert_eq!(seen["warnings"][0]["rule"], "objects-like-cilium", "{seen}");
    server.nodes([in_rack("n2")]);
    assert_eq!(watching.written("n2"), json!(["10.20.1.0/24"]));
    assert_eq!(server.plane.get(pools).unwrap()["spec"], before);
    watching.end();
    // A process that starts after the attack sees the same.
    let again = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    server.nodes([in_rack("n3")]);
    assert_eq!(again.written("n3"), json!(["10.20.2.0/24"]));
    assert_eq!(server.plane.get(pools).unwrap()["spec"], before);
    again.end();
}

#[test]
fn a_daemon_set_of_a_tenant_stops_no_operator() {
    let server = server();
    install_definitions(&server);
    attack(&server);
    let path = format!("{GROUP}/ippools");
    server
        .plane
        .create(&path, &custom_pool("a", "10.20.0.0/16", "a"))
        .unwrap();
    let operator = operator_of(&server);
    let address = operator.address();
    server.nodes([in_rack("n1")]);
    assert_eq!(operator.written("n1"), json!(["10.20.0.0/24"]));
    until("it is ready", || http_get(&address, "/readyz").0 == 200);
    operator.end();
}

#[test]
fn a_named_namespace_is_the_only_one_that_is_read() {
    let server = server();
    attack(&server);
    server.folder.write("pools/a.yaml", pool("a", POOL));
    server.nodes([in_rack("n1")]);
    let ran = server.run(&args(
        "doctor pools --verbose --cilium-namespace kube-system --fail-on never",
    ));
    let requests: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("GET "))
        .collect();
    for kind in ["daemonsets", "deployments", "ciliumnodeconfigs", "pods"] {
        let of_kind = || {
            requests
                .iter()
                .filter(|line| line.contains(&format!("/{kind}")))
        };
        assert!(of_kind().count() > 0, "{kind}: {requests:#?}");
        assert!(
            of_kind().all(|line| line.contains("/namespaces/kube-system/")),
            "{requests:#?}"
        );
    }
    ran.stdout.assert_lacks("objects-like-cilium");
    let ran = server.run(&["doctor", "pools", "--fail-on", "never"]);
    ran.stdout.assert_has("objects-like-cilium");
}
