//! Two interfaces for each Pod, by containerd's own `max_conf_num`.

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{OpenStack, or_skip};

use super::machine::{Machine, PORT};
use super::proxy::{SERVICE, SERVICE_PORT, create_service, start_kube_proxy};
use crate::neutron::plugins::input::snippets;
use crate::neutron::plugins::secondary_route::ground::{OF_NODE, OF_ROUTER};
use crate::neutron::support::{Plugin, stack};

#[test]
fn containerd_attaches_a_pod_to_two_networks() {
    let stack = or_skip!(stack(&Options::default()));
    let networks = neutron_networks(&stack);
    let [main, leg] = &networks;
    let lists = [("main", main), ("leg", leg)].map(|(name, id)| documented(&stack, name, id));
    let files = [
        ("10-main.conflist", &*lists[0]),
        ("20-leg.conflist", &*lists[1]),
    ];
    let mut machine = or_skip!(Machine::new(&stack, &files));
    machine.serve("on-node", None);
    machine.serve("behind", Some("router"));
    // The network of the legs is behind the node.
    machine.shell(&format!(
        "ip -n router route add 10.8.0.0/24 via {}",
        OF_NODE[0]
    ));
    create_service(&machine, &[OF_ROUTER[0].to_owned()]);
    start_kube_proxy(&mut machine, &[]);
    for pod in ["a", "b"] {
        machine.create(pod, &json!({}));
    }
    reach(&machine, &networks);
    for pod in ["a", "b"] {
        machine.delete(pod);
    }
    for network in &networks {
        machine.wait_for_ports(network, &[]);
    }
}

/// Those of the first interfaces and of the legs.
fn neutron_networks(stack: &OpenStack) -> [String; 2] {
    [("main", "10.7.0"), ("leg", "10.8.0")].map(|(name, prefix)| {
        let network = stack.create_network(name).unwrap();
        let (start, end) = (format!("{prefix}.10"), format!("{prefix}.240"));
        let pools = json!({"allocation_pools": [{"start": start, "end": end}]});
        let cidr = format!("{prefix}.0/24");
        stack.create_subnet(&network, &cidr, &pools).unwrap();
        network
    })
}

/// A Pod sends to Pods from its first interface, and to its node and to Services from its leg.
fn reach(machine: &Machine<'_>, [main, leg]: &[String; 2]) {
    let [a, b] = ["a", "b"].map(|pod| machine.running(pod).swap_remove(0));
    let mut expected = [&a, &b].map(|address| vec![address.clone()]);
    expected.sort();
    assert_eq!(machine.ports(main), expected);
    let of_leg = machine.exec("a", "ip -4 -o address show dev eth1");
    let legs = machine.ports(leg).concat();
    assert_eq!(legs.len(), 2, "{legs:?}");
    let is_it = |leg: &&String| of_leg.contains(&format!(" {leg}/"));
    let own = legs.iter().find(is_it).expect("a port for eth1");
    assert_eq!(machine.client_of("a", &b, PORT).to_string(), a);
    for (to, port) in [(OF_NODE[0], PORT), (SERVICE[0], SERVICE_PORT)] {
        assert_eq!(
            machine.client_of("a", to, port).to_string(),
            *own,
            "to {to}"
        );
    }
}

/// The documented list of this name on this network of Neutron, with `macvlan` because this kernel
/// has no `ipvlan`.
fn documented(stack: &OpenStack, name: &str, network: &str) -> String {
    let mut lists = snippets("json")
        .into_iter()
        .map(|text| text.parse::<Value>().unwrap());
    let mut list = lists.find(|list| list["name"] == name).unwrap();
    let plugin = &mut list["plugins"][0];
    if plugin["type"] == "ipvlan" {
        plugin["type"] = json!("macvlan");
        plugin["mode"] = json!("bridge");
        plugin["master"] = json!("up0");
    }
    let of_plugin = Plugin::new(stack, network, "n1").configuration["ipam"].clone();
    let ipam = plugin["ipam"].as_object_mut().unwrap();
    for field in ["cloud", "networks"] {
        ipam.remove(field);
    }
    for field in ["openstackConf", "neutronConf", "node"] {
        ipam.insert(field.to_owned(), of_plugin[field].clone());
    }
    list.to_string()
}
