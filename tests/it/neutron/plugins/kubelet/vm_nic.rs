//! NICs of the machine for Pods, under a kubelet: as many Pods run as there are NICs.

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{OpenStack, or_skip};

use super::machine::{Machine, PORT};
use crate::neutron::support::{Plugin, stack};

const NICS: [&str; 2] = ["nic0", "nic1"];
/// The network of the NICs, and the address that the node has there.
const SUBNET: &str = "10.9.0.0/24";
const OF_NODE: &str = "10.9.0.1";

#[test]
fn each_pod_has_a_nic_and_the_next_one_waits() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("nics").unwrap();
    stack.create_subnet(&network, SUBNET, &json!({})).unwrap();
    let list = list(&stack, &network);
    let mut machine = or_skip!(Machine::new(&stack, &[("10-nics.conflist", &list)]));
    machine.serve("on-node", None);
    add_nics(&machine, &stack, &network);
    let ports = machine.ports(&network);
    for pod in ["a", "b"] {
        machine.create(pod, &json!({}));
    }
    let [a, b] = ["a", "b"].map(|pod| machine.running(pod));
    let mut given = vec![a.clone(), b.clone()];
    given.sort();
    assert_eq!(given, ports, "the addresses of the NICs' ports");
    for to in [b[0].as_str(), OF_NODE] {
        assert_eq!(
            machine.client_of("a", to, PORT).to_string(),
            a[0],
            "to {to}"
        );
    }
    machine.create("c", &json!({}));
    machine.wait("the reason", || {
        machine
            .node
            .log("kubelet")
            .contains("this node has no free NIC")
    });
    machine.delete("a");
    assert_eq!(machine.running("c"), a, "the NIC that became free");
    for pod in ["b", "c"] {
        machine.delete(pod);
    }
    machine.wait("them to go", || machine.pods().is_empty());
    for nic in NICS {
        machine.shell(&format!("ip link show dev {nic}"));
    }
    assert_eq!(machine.ports(&network), ports, "the plugin deletes no port");
}

fn list(stack: &OpenStack, network: &str) -> String {
    let addresses = Plugin::new(stack, network, "n1").configuration["ipam"].clone();
    let nic = json!({"any": {"names": ["nic*"], "drivers": ["veth"]}, "networks": [network]});
    let plugin = json!({"type": "cni-vm-nic", "nic": nic,
        "neutron": {"openstackConf": addresses["openstackConf"], "deadlineSeconds": 10}});
    json!({"cniVersion": "1.1.0", "name": "nics", "plugins": [plugin]}).to_string()
}

/// NICs that a bridge connects, and a port of Neutron for each.
fn add_nics(machine: &Machine<'_>, stack: &OpenStack, network: &str) {
    machine.shell(&format!(
        "ip link add lan0 type bridge && ip link set lan0 up && ip address add {OF_NODE}/24 dev lan0"
    ));
    for nic in NICS {
        machine.shell(&format!(
            "ip link add {nic} type veth peer name of-{nic} && ip link set of-{nic} master lan0 up"
        ));
        let link = machine.shell(&format!("ip -json link show dev {nic}"));
        let link: Value = serde_json::from_str(&link).unwrap();
        let mac = &link[0]["address"];
        let port = json!({"mac_address": mac});
        stack.create_port(network, &port).unwrap();
    }
}
