//! Where the traffic of a Pod of one port goes: to Pods, to Services of a real kube-proxy, to its
//! node, and outside.

use std::net::IpAddr;

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{debian_file, library_folders, or_skip};

use super::machine::{Machine, PORT};
use super::proxy::{SERVICE, SERVICE_PORT, create_service, start_kube_proxy};
use crate::neutron::plugins::secondary_route::ground::{
    BEHIND_ROUTER, BEHIND_ROUTER_V6, OF_NODE, OF_ROUTER,
};
use crate::neutron::plugins::secondary_route::{documented, neutron_network};
use crate::neutron::support::{Plugin, stack};

const OUTSIDE: [&str; 2] = [BEHIND_ROUTER, BEHIND_ROUTER_V6];
/// The interfaces of a Pod.
const PORT_LINK: &str = "eth0";
const PAIR_LINK: &str = "ptp-eth0";

/// What Debian's `tcpdump` loads.
const LIBRARIES: [(&str, &str); 2] = [
    ("libpcap0.8", "libpcap.so.0.8"),
    ("libssl3", "libcrypto.so.3"),
];

#[test]
fn a_pod_of_one_port_reaches_pods_services_its_node_and_the_outside() {
    let stack = or_skip!(stack(&Options::default()));
    let network = neutron_network(&stack);
    let list = one_port(&Plugin::new(&stack, &network, "n1"));
    let mut machine = or_skip!(Machine::new(&stack, &[("10-one-port.conflist", &list)]));
    let tcpdump = or_skip!(tcpdump());
    machine.create("a", &json!({}));
    machine.create("b", &json!({}));
    let [a, b] = ["a", "b"].map(|pod| machine.running(pod));
    assert_eq!((a.len(), b.len()), (2, 2), "{a:?} {b:?}");
    let mut expected = [&a, &b].map(Clone::clone).to_vec();
    expected.sort();
    assert_eq!(machine.ports(&network), expected, "one port for each Pod");
    machine.serve("on-node", None);
    machine.serve("outside", Some("router"));
    create_service(&machine, &b);
    start_kube_proxy(&mut machine, &["--masquerade-all"]);
    capture(&mut machine, &tcpdump, "a");
    for family in [0, 1] {
        from_a_pod(&machine, family, &a, &b);
        for (netns, to, what) in [(None, &a, "the node"), (Some("router"), &b, "the outside")] {
            let seen = machine.client_of_node(netns, &to[family], PORT);
            let own = netns.map_or(OF_NODE[family], |_| OF_ROUTER[family]);
            assert_eq!(seen, address(own), "{what} to a Pod");
        }
        let seen = machine.client_of_node(None, SERVICE[family], SERVICE_PORT);
        assert_eq!(seen, address(OF_NODE[family]), "the node to a Service");
    }
    ways(&machine, &a, &b);
    for pod in ["a", "b"] {
        machine.delete(pod);
    }
    machine.wait("the ports to go", || machine.ports(&network).is_empty());
}

/// What each server sees of `a`. The Service's backend sees the node, as kube-proxy masquerades.
fn from_a_pod(machine: &Machine<'_>, family: usize, a: &[String], b: &[String]) {
    let own = a[family].as_str();
    for (to, port, seen, what) in [
        (b[family].as_str(), PORT, own, "a Pod"),
        (OF_NODE[family], PORT, own, "its node"),
        (OUTSIDE[family], PORT, own, "the outside"),
        (SERVICE[family], SERVICE_PORT, OF_NODE[family], "a Service"),
    ] {
        let client = machine.client_of("a", to, port);
        assert_eq!(client, address(seen), "a Pod to {what}");
    }
}

/// Which interface of `a` its first packet to each destination left by.
fn ways(machine: &Machine<'_>, a: &[String], b: &[String]) {
    for family in [0, 1] {
        for (to, link) in [
            (b[family].as_str(), PORT_LINK),
            (OUTSIDE[family], PORT_LINK),
            (OF_NODE[family], PAIR_LINK),
            (SERVICE[family], PAIR_LINK),
        ] {
            let from = format!("{}.", a[family]);
            let towards = format!("> {to}.");
            let first = |line: &&str| {
                line.contains(&from) && line.contains(&towards) && line.contains("Flags [S],")
            };
            let mut line = None;
            machine.wait(&format!("a packet to {to}"), || {
                line = machine
                    .node
                    .log("tcpdump")
                    .lines()
                    .find(first)
                    .map(str::to_owned);
                line.is_some()
            });
            let line = line.unwrap();
            eprintln!("{line}");
            assert!(line.contains(&format!(" {link} ")), "{to}: {line}");
        }
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The documented list, on this network of Neutron.
pub fn one_port(addresses: &Plugin) -> String {
    let mut list: Value = serde_json::from_str(&documented(addresses)).unwrap();
    let ipam = list["plugins"][0]["ipam"].as_object_mut().unwrap();
    ipam.insert("type".to_owned(), json!("cni-ipam-neutron"));
    ipam.remove("stateDirectory");
    let routes = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
    ipam.insert("routes".to_owned(), routes);
    list.to_string()
}

/// Debian's `tcpdump`, as a line of shell begins with it.
fn tcpdump() -> testbed::Result<String> {
    let program = debian_file("tcpdump", "usr/bin/tcpdump")?;
    let libraries = library_folders(&LIBRARIES)?;
    Ok(format!(
        "env LD_LIBRARY_PATH={libraries} {}",
        program.display()
    ))
}

/// Waits until it listens to all interfaces of a Pod.
fn capture(machine: &mut Machine<'_>, tcpdump: &str, pod: &str) {
    let pid = machine.node.pid(pod).unwrap();
    let inside = format!("exec nsenter --net=/proc/{pid}/ns/net {tcpdump}");
    let line = format!("{inside} -Z root -n -l -i any tcp");
    let line = ["sh", "-c", &line].map(str::to_owned);
    machine.node.start("tcpdump", &line).unwrap();
    machine.wait("tcpdump", || {
        machine.node.log("tcpdump").contains("listening on any")
    });
}
