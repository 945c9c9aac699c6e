//! Services of Cilium in place of kube-proxy, from a Pod of this plugin on a node with the real
//! cilium-agent.

use serde_json::{Value, json};
use testbed::agent_nodes::AgentNode;
use testbed::wait_until;

use crate::cilium_guests::{Ground, GroundOptions};
use crate::support::{TextAssertions, node_program};

/// The address of the Pod on the wire of the nodes, as a port of Neutron would give it.
const POD: &str = "192.0.2.50";

/// A Service, the address of its backend, and what the backend answers.
struct Backend<'b> {
    service: &'b str,
    address: String,
    answer: &'b str,
}

#[test]
#[ignore = "slow: boots QEMU guests; cargo xtask test --agent runs it"]
fn services_of_cilium_work_from_a_pod_with_one_port() {
    let ground = Ground::start(&GroundOptions {
        settings: &[("kube-proxy-replacement", "true")],
        program: Some(node_program("cni-unnumbered-ptp")),
    });
    let [first, second] = &ground.nodes.nodes;
    let [a, b] = [("a", "n1"), ("b", "n2")].map(|(pod, node)| ground.pod(pod, node));
    let backends = [
        ("10.96.0.101", first.address().to_owned(), "own-node"),
        ("10.96.0.102", second.address().to_owned(), "other-node"),
        ("10.96.0.103", a, "pod-of-own-node"),
        ("10.96.0.104", b, "pod-of-other-node"),
    ]
    .map(|(service, address, answer)| Backend {
        service,
        address,
        answer,
    });
    serve(first, "", "own-node");
    serve(second, "", "other-node");
    serve(first, "ip netns exec a ", "pod-of-own-node");
    serve(second, "ip netns exec b ", "pod-of-other-node");
    for backend in &backends {
        create_service(&ground, backend);
    }
    attach(first);
    for backend in &backends {
        for address in [backend.address.as_str(), backend.service] {
            let answered = || Ok((fetch(first, address) == backend.answer).then_some(()));
            wait_until(address, testbed::PATIENCE, answered)
                .unwrap_or_else(|why| panic!("{} at {address}: {why}", backend.answer));
        }
    }
    // The socket translates, so packets go the way of the backend.
    let way = |address: &str| {
        let route = first.run(&format!("ip -n way route get {address}"));
        route.unwrap().stdout
    };
    for (index, interface) in ["ptp-eth0", "eth0", "ptp-eth0", "ptp-eth0"]
        .iter()
        .enumerate()
    {
        let way = way(&backends[index].address);
        way.assert_has(&format!("dev {interface} "));
    }
    let sent = |interface: &str| {
        let file = format!("/sys/class/net/{interface}/statistics/tx_packets");
        let sent = first.run(&format!("ip netns exec way cat {file}"));
        sent.unwrap().stdout.trim().parse::<u64>().unwrap()
    };
    let before = ["eth0", "ptp-eth0"].map(sent);
    assert_eq!(fetch(first, backends[1].service), "other-node");
    let after = ["eth0", "ptp-eth0"].map(sent);
    assert!(after[0] > before[0], "the port was not used");
    assert_eq!(after[1], before[1], "the pair was used");
}

/// A server on port 8080 of a node or one of its Pods.
fn serve(node: &AgentNode, within: &str, answer: &str) {
    let line = format!(
        "mkdir -p /tmp/{answer} && echo -n {answer} > /tmp/{answer}/who && {within}busybox httpd -p 8080 -h /tmp/{answer}"
    );
    let ran = node.run(&line).unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn create_service(ground: &Ground, backend: &Backend<'_>) {
    let plane = &ground.server.plane;
    let name = backend.answer;
    let port = json!([{"port": 80, "targetPort": 8080}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": backend.service, "ports": port}});
    plane
        .create("/api/v1/namespaces/default/services", &service)
        .unwrap();
    let labels = json!({"kubernetes.io/service-name": name});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": labels}, "ports": [{"port": 8080}],
        "endpoints": [{"addresses": [backend.address]}]});
    plane
        .create(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            &slice,
        )
        .unwrap();
}

/// A Pod with `ipvlan` and the plugin.
fn attach(node: &AgentNode) {
    let ipvlan = format!(
        "ip netns add way && ip -n way link set lo up && ip link add link eth1 name way0 type ipvlan mode l2 \
         && ip link set way0 netns way && ip -n way link set way0 name eth0 && ip -n way address add {POD}/24 dev eth0 \
         && ip -n way link set eth0 up"
    );
    let interface = json!({"name": "eth0", "mac": "", "sandbox": "/run/netns/way"});
    let previous = json!({"cniVersion": "1.1.0", "interfaces": [interface],
        "ips": [{"address": format!("{POD}/24"), "interface": 0}]});
    let configuration: Value = json!({"cniVersion": "1.1.0", "name": "one-port", "type": "cni-unnumbered-ptp",
        "routes": [{"dst": "10.96.0.0/12"}, {"dst": "10.20.0.0/16"}], "prevResult": previous});
    let add = format!(
        "CNI_COMMAND=ADD CNI_CONTAINERID=way CNI_NETNS=/run/netns/way CNI_IFNAME=eth0 CNI_PATH=/agent \
         /agent/cni-unnumbered-ptp <<< '{configuration}'"
    );
    for line in [ipvlan, add] {
        let ran = node.run(&line).unwrap();
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

/// What the Pod reads from port 80, or from 8080 of a backend; empty without an answer.
fn fetch(node: &AgentNode, address: &str) -> String {
    let port = if address.starts_with("10.96.") {
        80
    } else {
        8080
    };
    let line = format!("ip netns exec way curl -s -m 10 http://{address}:{port}/who");
    node.run(&line).unwrap().stdout
}
