//! Under CNI's own plugins: Pods that are real network namespaces, with addresses of a real
//! Neutron.

use std::time::Instant;

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{OpenStack, or_skip, wait_until};

use super::node::Node;
use crate::neutron::support::{Plugin, addresses, ports, stack};
use crate::support::TextAssertions;

#[test]
fn pods_talk_with_addresses_of_neutron() {
    let stack = or_skip!(stack(&Options::default()));
    let node = or_skip!(Node::new());
    pods_behind_veth_pairs(&stack, &node);
    both_families_behind_veth_pairs(&stack, &node);
    a_gateway_beyond_the_subnet(&stack, &node);
    networks_that_vanish(&stack, &node);
    garbage(&stack, &node);
    a_link_that_was_handed_over_and_vanished(&stack, &node);
    pods_on_a_bridge(&stack, &node);
    a_pod_with_a_leg_to_its_node(&stack, &node);
    assert_eq!(node.links(None), ["lo"]);
}

/// A network of Neutron that keeps its last addresses to itself: one of them is what `ptp` makes an
/// address of the node's end, instead of that of Neutron's router.
fn neutron_network(stack: &OpenStack, prefix: &str) -> String {
    let network = stack.create_network(prefix).unwrap();
    let pool = json!({"allocation_pools": [{"start": format!("{prefix}.2"), "end": format!("{prefix}.200")}]});
    stack
        .create_subnet(&network, &format!("{prefix}.0/24"), &pool)
        .unwrap();
    network
}

/// As `ptp` needs it: these destinations behind the node's end, which is `prefix.254`.
fn through_the_node(
    stack: &OpenStack,
    network: &str,
    prefix: &str,
    destinations: &[&str],
) -> Plugin {
    let routes: Vec<Value> = destinations
        .iter()
        .map(|destination| json!({"dst": destination}))
        .collect();
    let plugin =
        Plugin::new(stack, network, "n1").with("gateways", json!([format!("{prefix}.254")]));
    plugin.with("routes", json!(routes))
}

fn add_pods(node: &Node, pods: [&str; 2]) {
    pods.into_iter().for_each(|pod| node.add_pod(pod));
}

/// The addresses that a Pod gets, without the lengths of their prefixes.
#[track_caller]
fn attach_all(node: &Node, network: &str, pod: &str, interface: &str) -> Vec<String> {
    let began = Instant::now();
    let result = node
        .cnitool("add", network, pod, interface)
        .expect(0)
        .json();
    eprintln!(
        "cnitool add {network} {pod} {interface}: {:?}",
        began.elapsed()
    );
    assert_eq!(result["cniVersion"], "1.1.0", "{result}");
    assert!(
        node.links(Some(pod)).contains(&interface.to_owned()),
        "{result}"
    );
    addresses(&result)
        .iter()
        .map(|address| address.split('/').next().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn attach(node: &Node, network: &str, pod: &str, interface: &str) -> String {
    let [address] = attach_all(node, network, pod, interface)
        .try_into()
        .unwrap();
    address
}

/// Twice, as runtimes do.
#[track_caller]
fn detach(node: &Node, network: &str, pod: &str, interface: &str) {
    let began = Instant::now();
    node.cnitool("del", network, pod, interface).expect(0);
    eprintln!(
        "cnitool del {network} {pod} {interface}: {:?}",
        began.elapsed()
    );
    node.cnitool("del", network, pod, interface).expect(0);
    assert!(!node.links(Some(pod)).contains(&interface.to_owned()));
}

fn pods_behind_veth_pairs(stack: &OpenStack, node: &Node) {
    let network = neutron_network(stack, "10.1.0");
    node.network(
        "ptp",
        &json!({"type": "ptp"}),
        &through_the_node(stack, &network, "10.1.0", &["0.0.0.0/0"]),
    );
    let versions = node
        .plugin("ipam-neutron", "VERSION", &json!({"cniVersion": "1.1.0"}))
        .expect(0)
        .json();
    assert_eq!(
        versions["supportedVersions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap(),
        "1.1.0"
    );
    node.cnitool("status", "ptp", "a", "eth0").expect(0);
    add_pods(node, ["a", "b"]);
    let [a, b] = ["a", "b"].map(|pod| attach(node, "ptp", pod, "eth0"));
    assert_eq!(ports(stack, &network).len(), 2);
    assert!(
        node.reaches(Some("a"), "10.1.0.254") && node.reaches(None, &a),
        "Pod and node"
    );
    assert!(
        node.reaches(Some("a"), &b) && node.reaches(Some("b"), &a),
        "Pod and Pod"
    );
    assert!(
        !node.pings(None, "10.1.0.1"),
        "the router's address is not the node's"
    );
    node.cnitool("check", "ptp", "a", "eth0").expect(0);
    for pod in ["a", "b"] {
        detach(node, "ptp", pod, "eth0");
        node.remove_pod(pod);
    }
    assert_eq!(node.links(None), ["lo"]);
    assert_eq!(ports(stack, &network), [""; 0]);
}

/// For IPv6 the node's end can have a link-local address, the same on all nodes, as link-local
/// gateways need no route.
fn both_families_behind_veth_pairs(stack: &OpenStack, node: &Node) {
    let network = neutron_network(stack, "10.2.0");
    stack
        .create_subnet(&network, "fd00:2::/64", &json!({}))
        .unwrap();
    let plugin = through_the_node(stack, &network, "10.2.0", &["0.0.0.0/0", "::/0"]);
    node.network(
        "both",
        &json!({"type": "ptp"}),
        &plugin.with("gateways", json!(["10.2.0.254", "fe80::1"])),
    );
    add_pods(node, ["a", "b"]);
    let [a, b] = ["a", "b"].map(|pod| attach_all(node, "both", pod, "eth0"));
    assert!(
        b.len() == 2 && b.iter().all(|address| node.reaches(Some("a"), address)),
        "{a:?} {b:?}"
    );
    assert!(
        a.len() == 2 && a.iter().all(|address| node.reaches(None, address)),
        "{a:?} {b:?}"
    );
    node.cnitool("check", "both", "a", "eth0").expect(0);
    for pod in ["a", "b"] {
        detach(node, "both", pod, "eth0");
        node.remove_pod(pod);
    }
    assert_eq!(ports(stack, &network), [""; 0]);
}

/// The same on all nodes and of no subnet, so that no subnet has to reserve an address for it.
/// `ptp` adds the routes before it makes such a gateway reachable. The first of our routes makes it
/// reachable; versions before 1.1.0 cannot express that route.
fn a_gateway_beyond_the_subnet(stack: &OpenStack, node: &Node) {
    let network = neutron_network(stack, "10.3.0");
    let plugin = through_the_node(stack, &network, "10.3.0", &["0.0.0.0/0"])
        .with("gateways", json!(["169.254.1.1"]));
    node.network("beyond", &json!({"type": "ptp"}), &plugin);
    add_pods(node, ["a", "b"]);
    let [a, b] = ["a", "b"].map(|pod| attach(node, "beyond", pod, "eth0"));
    assert!(
        node.reaches(Some("a"), "169.254.1.1") && node.reaches(None, &a),
        "Pod and node"
    );
    assert!(
        node.reaches(Some("a"), &b) && node.reaches(Some("b"), &a),
        "Pod and Pod"
    );
    let way = node.ip(Some("a"), "route get 192.0.2.1");
    way.assert_has("via 169.254.1.1 dev eth0");
    node.cnitool("check", "beyond", "a", "eth0").expect(0);
    ["a", "b"]
        .into_iter()
        .for_each(|pod| detach(node, "beyond", pod, "eth0"));
    node.network_of("1.0.0", "beyond", &json!({"type": "ptp"}), &plugin);
    let refused = node.cnitool("add", "beyond", "a", "eth0").expect(1);
    refused.stderr.assert_has("network is unreachable");
    assert_eq!(
        ports(stack, &network),
        [""; 0],
        "ptp gives the address back"
    );
    ["a", "b"].into_iter().for_each(|pod| node.remove_pod(pod));
}

/// As at a reboot: the runtime remembers a Pod whose network is no more.
fn networks_that_vanish(stack: &OpenStack, node: &Node) {
    let network = neutron_network(stack, "10.4.0");
    node.network(
        "vanish",
        &json!({"type": "ptp"}),
        &through_the_node(stack, &network, "10.4.0", &[]),
    );
    node.add_pod("a");
    attach(node, "vanish", "a", "eth0");
    node.remove_pod("a");
    assert_eq!(ports(stack, &network).len(), 1);
    node.cnitool("del", "vanish", "a", "eth0").expect(0);
    assert_eq!(ports(stack, &network), [""; 0]);
}

/// No main plugin of CNI passes GC on to the IPAM plugin (1.9.1 has only a note there). So only a
/// runtime that remembers its attachments, or a direct call of our plugin, frees what is left.
fn garbage(stack: &OpenStack, node: &Node) {
    let network = neutron_network(stack, "10.5.0");
    let plugin = through_the_node(stack, &network, "10.5.0", &[]);
    node.network("garbage", &json!({"type": "ptp"}), &plugin);
    add_pods(node, ["a", "b"]);
    attach(node, "garbage", "b", "eth0");
    let remaining = ports(stack, &network);
    attach(node, "garbage", "a", "eth0");
    node.remove_pod("a");
    let container = remaining[0].strip_suffix("/eth0").unwrap();
    let configuration = valid(
        &plugin,
        "garbage",
        &json!([{"containerID": container, "ifname": "eth0"}]),
    );
    node.plugin("ptp", "GC", &configuration).expect(0);
    assert_eq!(ports(stack, &network).len(), 2, "`ptp` keeps it to itself");
    node.plugin("ipam-neutron", "GC", &configuration).expect(0);
    assert_eq!(ports(stack, &network), remaining);
    assert_eq!(node.links(Some("b")), ["eth0", "lo"]);
    // To cnitool, all attachments are garbage, and it remembers them.
    node.cnitool("gc", "garbage", "b", "eth0").expect(0);
    assert_eq!(ports(stack, &network), [""; 0]);
    assert_eq!(node.links(Some("b")), ["lo"]);
    node.remove_pod("b");
}

/// What GC gets on standard input.
fn valid(plugin: &Plugin, network: &str, attachments: &Value) -> Value {
    let mut configuration = plugin.configuration.clone();
    configuration["name"] = network.into();
    configuration["cni.dev/valid-attachments"] = attachments.clone();
    configuration
}

/// `host-device` looks for the Pod's network before it gives the address back, and so never does
/// (containernetworking/plugins#1196). Our GC finds the port.
fn a_link_that_was_handed_over_and_vanished(stack: &OpenStack, node: &Node) {
    let network = neutron_network(stack, "10.9.0");
    let plugin = Plugin::new(stack, &network, "n1");
    node.ip(None, "link add nic0 type veth peer name nic1");
    node.network(
        "nic",
        &json!({"type": "host-device", "device": "nic0"}),
        &plugin,
    );
    node.add_pod("a");
    attach(node, "nic", "a", "eth0");
    node.remove_pod("a");
    let refused = node.cnitool("del", "nic", "a", "eth0").expect(1);
    refused.stderr.assert_has("failed to open netns");
    assert_eq!(ports(stack, &network).len(), 1);
    node.plugin("ipam-neutron", "GC", &valid(&plugin, "nic", &json!([])))
        .expect(0);
    assert_eq!(ports(stack, &network), [""; 0]);
    // A veth pair goes with the network of one of its ends, in its own time.
    wait_until("the link to go", testbed::PATIENCE, || {
        Ok((node.links(None) == ["lo"]).then_some(()))
    })
    .unwrap();
}

fn pods_on_a_bridge(stack: &OpenStack, node: &Node) {
    let network = neutron_network(stack, "10.6.0");
    let plugin = Plugin::new(stack, &network, "n1");
    // With an address of its own: one that is not told takes that of a Pod's end, now and then
    // another one, and CHECK minds.
    node.ip(None, "link add pods0 address 02:00:00:00:00:01 type bridge");
    node.network(
        "bridge",
        &json!({"type": "bridge", "bridge": "pods0"}),
        &plugin,
    );
    add_pods(node, ["a", "b"]);
    let [a, b] = ["a", "b"].map(|pod| attach(node, "bridge", pod, "eth0"));
    assert!(node.reaches(Some("a"), &b) && node.reaches(Some("b"), &a));
    node.cnitool("check", "bridge", "a", "eth0").expect(0);
    for pod in ["a", "b"] {
        detach(node, "bridge", pod, "eth0");
        node.remove_pod(pod);
    }
    node.ip(None, "link delete pods0");
    assert_eq!(ports(stack, &network), [""; 0]);
}

/// On Neutron's network with `macvlan`, which cuts Pods off from their own node; to the node and to
/// Services with `ptp`.
fn a_pod_with_a_leg_to_its_node(stack: &OpenStack, node: &Node) {
    let [pods, legs] = ["10.7.0", "10.8.0"].map(|prefix| neutron_network(stack, prefix));
    let (of_node, of_service) = ("10.7.0.250", "10.96.0.10");
    node.ip(None, "link add up0 type veth peer name up1");
    ["up0", "up1"]
        .into_iter()
        .for_each(|link| drop(node.ip(None, &format!("link set {link} up"))));
    node.ip(None, &format!("address add {of_node}/24 dev up0"));
    node.ip(None, &format!("address add {of_service}/32 dev lo"));
    let main = Plugin::new(stack, &pods, "n1").with("routes", json!([{"dst": "0.0.0.0/0"}]));
    node.network(
        "main",
        &json!({"type": "macvlan", "master": "up0", "mode": "bridge"}),
        &main,
    );
    let leg = through_the_node(
        stack,
        &legs,
        "10.8.0",
        &["10.96.0.0/12", &format!("{of_node}/32")],
    );
    node.network("leg", &json!({"type": "ptp"}), &leg);
    add_pods(node, ["a", "b"]);
    let [a, b] = ["a", "b"].map(|pod| attach(node, "main", pod, "eth0"));
    assert!(
        node.reaches(Some("a"), &b) && node.reaches(Some("b"), &a),
        "Pod and Pod"
    );
    assert!(
        !node.pings(Some("a"), of_node) && !node.pings(Some("a"), of_service),
        "cut off"
    );
    two_legs_in_one_subnet(stack, node, &pods);
    let [leg, _] = ["a", "b"].map(|pod| attach(node, "leg", pod, "eth1"));
    assert_eq!(
        (ports(stack, &pods).len(), ports(stack, &legs).len()),
        (2, 2)
    );
    assert!(
        node.reaches(Some("a"), of_node) && node.reaches(None, &leg),
        "Pod and node"
    );
    assert!(node.reaches(Some("a"), of_service), "Pod and Service");
    assert!(node.reaches(Some("a"), &b), "still Pod and Pod");
    let way = |address: &str| node.ip(Some("a"), &format!("route get {address}"));
    assert!(way(&b).contains("dev eth0") && way("192.0.2.1").contains("via 10.7.0.1 dev eth0"));
    assert!(
        way(of_service).contains("via 10.8.0.254 dev eth1"),
        "{}",
        way(of_service)
    );
    for (network, interface) in [("main", "eth0"), ("leg", "eth1")] {
        node.cnitool("check", network, "a", interface).expect(0);
    }
    detach(node, "leg", "a", "eth1");
    assert_eq!(
        (ports(stack, &pods).len(), ports(stack, &legs).len()),
        (2, 1),
        "of one interface alone"
    );
    assert!(
        node.reaches(Some("a"), &b),
        "and it is on the network all the same"
    );
    detach(node, "main", "a", "eth0");
    detach(node, "main", "b", "eth0");
    detach(node, "leg", "b", "eth1");
    assert_eq!((ports(stack, &pods), ports(stack, &legs)), (vec![], vec![]));
    ["a", "b"].into_iter().for_each(|pod| node.remove_pod(pod));
    node.ip(None, "link delete up0");
    node.ip(None, &format!("address delete {of_service}/32 dev lo"));
}

/// Both want the route to the subnet.
fn two_legs_in_one_subnet(stack: &OpenStack, node: &Node, pods: &str) {
    node.network(
        "same",
        &json!({"type": "ptp"}),
        &through_the_node(stack, pods, "10.7.0", &[]),
    );
    let refused = node.cnitool("add", "same", "a", "eth1").expect(1);
    refused.stderr.assert_has("file exists");
    assert_eq!(ports(stack, pods).len(), 2, "ptp gives the address back");
    node.cnitool("del", "same", "a", "eth1").expect(0);
}
