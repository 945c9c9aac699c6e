//! `cni-vm-nic` on a node that is a network namespace, with links whose ports a real Neutron has.

use serde_json::{Value, json};
use testbed::OpenStack;
use testbed::openstack::Options;

use super::node::Node;
use super::support::{Plugin, addresses, stack};
use super::way::Way;

#[test]
fn a_nic_goes_to_a_pod_and_comes_back_as_it_was() {
    let Some(stack) = stack(&Options::default()) else { return };
    let Some(node) = Node::new() else { return };
    let _ways = [stack.keystone_url(), stack.neutron_url()].map(|url| Way::new(&node.own_netns(), &url));
    a_veth_by_name(&stack, &node);
}

/// A network of Neutron, and a configuration for NICs with ports of it.
struct Handover {
    network: String,
    plugin: Plugin,
}

impl Handover {
    fn new(stack: &OpenStack, prefix: &str) -> Handover {
        let network = stack.create_network(prefix).unwrap();
        stack.create_subnet(&network, &format!("{prefix}.0/24"), &json!({})).unwrap();
        let plugin = Plugin::new(stack, &network, "n1").with("deadlineSeconds", json!(20));
        Handover { network, plugin }
    }

    fn configuration(&self, name: &str, nic: &Value) -> Value {
        let mut neutron = self.plugin.configuration["ipam"].clone();
        for field in ["name", "type", "neutronConf"] {
            neutron.as_object_mut().unwrap().remove(field);
        }
        json!({"cniVersion": "1.1.0", "name": name, "type": "cni-vm-nic", "nic": nic, "neutron": neutron})
    }
}

/// What `ip` tells of a link of the node, or of a Pod.
#[track_caller]
fn told(node: &Node, pod: Option<&str>, link: &str) -> Value {
    let mut told: Value = serde_json::from_str(&node.ip(pod, &format!("-json address show dev {link}"))).unwrap();
    told[0].take()
}

/// The same without what a journey changes and nobody minds: numbers, and the state of the carrier.
fn lasting(node: &Node, link: &str) -> Value {
    let link_now = told(node, None, link);
    let of = |key: &str| link_now[key].clone();
    let is_up = link_now["flags"].as_array().unwrap().contains(&json!("UP"));
    let given: Vec<&Value> =
        link_now["addr_info"].as_array().unwrap().iter().filter(|one| one["scope"] != "link").collect();
    let routes: Value =
        serde_json::from_str(&node.ip(None, &format!("-json route show table all dev {link}"))).unwrap();
    json!({"mac": of("address"), "mtu": of("mtu"), "alias": of("ifalias"), "up": is_up, "addresses": given, "routes": routes})
}

fn port(stack: &OpenStack, network: &str, mac: &Value, address: &str) -> String {
    stack.create_port(network, &json!({"mac_address": mac, "fixed_ips": [{"ip_address": address}]})).unwrap()
}

fn a_veth_by_name(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, "10.1.0");
    node.ip(None, "link add nic0 type veth peer name up0");
    node.ip(None, "address add 10.1.0.1/24 dev up0");
    node.ip(None, "link set up0 up");
    let before = lasting(node, "nic0");
    port(stack, &handover.network, &before["mac"], "10.1.0.7");
    node.network_of("byname", &handover.configuration("byname", &json!({"name": "nic0"})));
    node.add_pod("a");
    let result = node.cnitool("add", "byname", "a", "eth0").expect(0).json();
    assert_eq!(addresses(&result), ["10.1.0.7/24"], "{result}");
    assert_eq!(node.links(Some("a")), ["eth0", "lo"]);
    assert!(node.reaches(Some("a"), "10.1.0.1"));
    node.cnitool("check", "byname", "a", "eth0").expect(0);
    node.cnitool("del", "byname", "a", "eth0").expect(0);
    node.cnitool("del", "byname", "a", "eth0").expect(0);
    assert_eq!(node.links(Some("a")), ["lo"]);
    assert_eq!(lasting(node, "nic0"), before);
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}
