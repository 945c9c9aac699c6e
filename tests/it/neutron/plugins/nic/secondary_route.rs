//! `cni-unnumbered-ptp` behind `cni-vm-nic`, in one list.

use serde_json::json;
use testbed::openstack::Options;
use testbed::or_skip;

use super::support::{Handover, Machine, lasting};
use crate::neutron::support::{addresses, stack};
use crate::support::TextAssertions;

/// Another address of the node than those of its links.
const OF_NODE: &str = "192.0.2.9";

#[test]
fn a_pod_with_a_nic_of_the_machine_reaches_its_node() {
    let stack = or_skip!(stack(&Options::default()));
    let machine = or_skip!(Machine::new(&stack));
    let node = &machine.node;
    let handover = Handover::new(&stack, node, "behind", "10.1.0");
    handover.veth("nic0", "up0", 7);
    node.add_pod("router");
    let router = node.netns("router");
    node.ip(None, &format!("link set up0 netns {}", router.display()));
    node.ip(Some("router"), "address add 10.1.0.1/24 dev up0");
    node.ip(Some("router"), "link set up0 up");
    node.ip(None, &format!("address add {OF_NODE}/32 dev lo"));
    let before = lasting(node, "nic0");
    let nic = handover.configuration(&json!({"name": "nic0"}));
    let second = json!({"type": "cni-unnumbered-ptp", "routes": [{"dst": "10.96.0.0/12"}]});
    let list = json!({"cniVersion": "1.1.0", "name": "behind", "plugins": [nic, second]});
    node.network_list("behind", &list.to_string());
    node.add_pod("a");
    let result = node.cnitool("add", "behind", "a", "eth0").expect(0).json();
    assert_eq!(addresses(&result), ["10.1.0.7/24"], "{result}");
    assert_eq!(result["ips"][0]["interface"], 0);
    assert!(node.reaches(Some("a"), "10.1.0.1"), "by its NIC");
    assert!(node.reaches(Some("a"), OF_NODE), "Pod and node");
    assert!(node.reaches(None, "10.1.0.7"), "node and Pod");
    let way = node.ip(Some("a"), "route get 198.51.100.1");
    way.assert_has("via 10.1.0.1 dev eth0");
    node.cnitool("check", "behind", "a", "eth0").expect(0);
    for _ in 0..2 {
        node.cnitool("del", "behind", "a", "eth0").expect(0);
    }
    assert_eq!(node.links(Some("a")), ["lo"]);
    assert_eq!(node.links(None), ["lo", "nic0"]);
    assert_eq!(lasting(node, "nic0"), before);
}
