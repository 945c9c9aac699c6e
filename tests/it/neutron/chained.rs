//! Under CNI's own plugins: Pods that are real network namespaces, with addresses of a real Neutron.

use serde_json::json;
use testbed::OpenStack;
use testbed::openstack::Options;

use super::node::Node;
use super::support::{Plugin, addresses, ports, stack};

/// What `ptp` makes an address of the node's end, instead of that of Neutron's router. It is of the subnet, and no port may have it.
const NODE_END: &str = "10.1.0.254";

#[test]
fn pods_talk_with_addresses_of_neutron() {
    let Some(stack) = stack(&Options::default()) else { return };
    let Some(node) = Node::new() else { return };
    pods_behind_veth_pairs(&stack, &node);
}

/// The address that a Pod gets, without the length of its prefix.
#[track_caller]
fn attach(node: &Node, network: &str, pod: &str, interface: &str) -> String {
    let result = node.cnitool("add", network, pod, interface).expect(0).json();
    let [address] = addresses(&result).try_into().unwrap();
    assert_eq!(result["interfaces"].as_array().unwrap().last().unwrap()["name"], interface, "{result}");
    address.split('/').next().unwrap().to_owned()
}

fn pods_behind_veth_pairs(stack: &OpenStack, node: &Node) {
    let network = stack.create_network("ptp").unwrap();
    let pool = json!({"allocation_pools": [{"start": "10.1.0.2", "end": "10.1.0.200"}]});
    stack.create_subnet(&network, "10.1.0.0/24", &pool).unwrap();
    let plugin = Plugin::new(stack, &network, "n1").with("gateways", json!([NODE_END]));
    let plugin = plugin.with("routes", json!([{"dst": "0.0.0.0/0"}]));
    node.network("ptp", &json!({"type": "ptp"}), &plugin);
    node.cnitool("status", "ptp", "none", "eth0").expect(0);
    ["a", "b"].into_iter().for_each(|pod| node.add_pod(pod));
    let [a, b] = ["a", "b"].map(|pod| attach(node, "ptp", pod, "eth0"));
    assert_eq!(ports(stack, &network).len(), 2);
    assert!(node.pings(Some("a"), NODE_END) && node.pings(None, &a), "Pod and node");
    assert!(node.pings(Some("a"), &b) && node.pings(Some("b"), &a), "Pod and Pod");
    node.cnitool("check", "ptp", "a", "eth0").expect(0);
    for pod in ["a", "b"] {
        node.cnitool("del", "ptp", pod, "eth0").expect(0);
        node.cnitool("del", "ptp", pod, "eth0").expect(0);
        assert_eq!(node.links(Some(pod)), ["lo"]);
        node.remove_pod(pod);
    }
    assert_eq!(node.links(None), ["lo"]);
    assert_eq!(ports(stack, &network), [""; 0]);
}
