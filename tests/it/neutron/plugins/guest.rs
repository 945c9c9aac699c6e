//! Under CNI's own `ipvlan`, and `ptp` beside it, as the pages about OpenStack have them: on a kernel that has
//! `ipvlan`, with addresses of a real Neutron.

use serde_json::Value;
use testbed::openstack::{ApplicationCredential, Internal, Options};
use testbed::{CniPlugin, Guest, Initramfs, OpenStack, Program, Setup, build, or_skip};

use super::input::{pages, snippets};
use crate::neutron::support::{addresses, ports, stack};
use crate::support::{Ran, TextAssertions, node_program};

/// The guest's name in its firmware; its ports are named after it.
const MACHINE: &str = "0f1e2d3c-4b5a-4697-8877-665544332211";
/// From the example in two-interfaces.md: the address of the node, and one of the Service range.
const OF_NODE: &str = "10.7.0.250";
const OF_SERVICE: &str = "10.96.0.10";
/// The ids of its networks, and its secret.
const NETWORKS: [&str; 2] = [
    "782ec9ac-44f9-4318-8c67-a2fed2ccca4f",
    "882ec9ac-44f9-4318-8c67-a2fed2ccca4f",
];
const SECRET: [&str; 2] = ["4c2a1d5e9f7b4b0c8a6d3e2f1a0b9c8d", "the-secret"];
const KEYSTONE: &str = "https://keystone.example/v3";

#[test]
fn pods_on_ipvlan_with_a_leg_to_their_node() {
    let stack = or_skip!(stack(&Options {
        internal: Internal::Guest,
        ..Options::default()
    }));
    let networks = ["10.7.0", "10.8.0"].map(|prefix| neutron_network(&stack, prefix));
    let node = or_skip!(Node::new(&stack, &networks));
    ["a", "b"].into_iter().for_each(|pod| node.add_pod(pod));
    let links = node.links(None);
    pods_on_ipvlan(&stack, &node, &networks[0], "main-l3");
    pods_on_ipvlan(&stack, &node, &networks[0], "main");
    pods_with_a_leg(&stack, &node, &networks);
    both_at_once(&stack, &node, &networks);
    pods_of_one_port(&stack, &node, &networks[0]);
    ports_name_their_server(&stack, &node, &networks[0]);
    assert_eq!(node.links(None), links, "{}", node.guest.console());
    for pod in ["a", "b"] {
        assert_eq!(node.links(Some(pod)), ["lo"]);
    }
    assert_eq!(
        networks.map(|network| ports(&stack, &network).len()),
        [0, 0]
    );
}

fn neutron_network(stack: &OpenStack, prefix: &str) -> String {
    let network = stack.create_network(prefix).unwrap();
    let pool = serde_json::json!({"allocation_pools": [{"start": format!("{prefix}.2"), "end": format!("{prefix}.200")}]});
    stack
        .create_subnet(&network, &format!("{prefix}.0/24"), &pool)
        .unwrap();
    network
}

/// Two Pods with a port each. They reach each other, and not their node.
fn pods_on_ipvlan(stack: &OpenStack, node: &Node, network: &str, list: &str) {
    node.cnitool("status", list, "a", "eth0").expect(0);
    let [a, b] = ["a", "b"].map(|pod| node.attach(list, pod, "eth0"));
    assert_eq!(at_neutron(stack, network), sorted([&a, &b]));
    assert!(
        node.reaches(Some("a"), &b) && node.reaches(Some("b"), &a),
        "{list}: Pod and Pod"
    );
    assert!(
        !node.pings(Some("a"), OF_NODE) && !node.pings(None, &a),
        "{list}: cut off"
    );
    node.cnitool("check", list, "a", "eth0").expect(0);
    node.detach(list, "a", "eth0");
    assert_eq!(at_neutron(stack, network), [b.as_str()], "of one Pod alone");
    node.cnitool("check", list, "a", "eth0").expect(1);
    node.detach(list, "b", "eth0");
    assert_eq!(ports(stack, network), [""; 0]);
}

/// The second interface leads to the node and to Services, whichever of the two goes first.
fn pods_with_a_leg(stack: &OpenStack, node: &Node, networks: &[String; 2]) {
    let now = || {
        networks
            .each_ref()
            .map(|network| ports(stack, network).len())
    };
    let [a, b] = ["a", "b"].map(|pod| node.attach("main", pod, "eth0"));
    assert!(
        !node.pings(Some("a"), OF_NODE) && !node.pings(Some("a"), OF_SERVICE),
        "cut off"
    );
    let [leg, _] = ["a", "b"].map(|pod| node.attach("leg", pod, "eth1"));
    assert_eq!(now(), [2, 2]);
    assert!(
        node.reaches(Some("a"), OF_NODE) && node.reaches(None, &leg),
        "Pod and node"
    );
    assert!(node.reaches(Some("a"), OF_SERVICE), "Pod and Service");
    assert!(
        node.reaches(Some("a"), &b) && node.reaches(Some("b"), &a),
        "still Pod and Pod"
    );
    for (to, way) in [
        (b.as_str(), "dev eth0"),
        ("192.0.2.1", "dev eth0"),
        (OF_SERVICE, "dev eth1"),
        (OF_NODE, "dev eth1"),
    ] {
        let taken = node
            .inside(Some("a"), &format!("ip route get {to}"))
            .expect(0)
            .stdout;
        assert!(taken.contains(way), "{to}: {taken}");
    }
    for (list, interface) in [("main", "eth0"), ("leg", "eth1")] {
        node.cnitool("check", list, "a", interface).expect(0);
    }
    node.detach("leg", "a", "eth1");
    assert_eq!(now(), [2, 1], "of one interface alone");
    assert!(
        node.reaches(Some("a"), &b) && !node.pings(Some("a"), OF_NODE),
        "the other one is as it was"
    );
    node.detach("main", "b", "eth0");
    assert_eq!(now(), [1, 1]);
    assert!(
        node.reaches(Some("b"), OF_NODE) && !node.pings(Some("b"), &a),
        "the other one is as it was"
    );
    node.detach("main", "a", "eth0");
    node.detach("leg", "b", "eth1");
    assert_eq!(now(), [0, 0]);
}

/// A secondary route on the addresses of the same port.
fn pods_of_one_port(stack: &OpenStack, node: &Node, network: &str) {
    for filter in ["all", "default"] {
        let line = format!("echo 1 > /proc/sys/net/ipv4/conf/{filter}/rp_filter");
        node.inside(None, &line).expect(0);
    }
    let [a, b] = ["a", "b"].map(|pod| node.attach("one-port", pod, "eth0"));
    assert_eq!(at_neutron(stack, network), sorted([&a, &b]));
    assert!(
        node.reaches(Some("a"), OF_NODE) && node.reaches(None, &a),
        "Pod and node"
    );
    assert!(node.reaches(Some("a"), OF_SERVICE), "Pod and Service");
    assert!(
        node.reaches(Some("a"), &b) && node.reaches(Some("b"), &a),
        "Pod and Pod"
    );
    for (to, way) in [
        (b.as_str(), "dev eth0"),
        ("192.0.2.1", "via 10.7.0.1 dev eth0"),
        (OF_SERVICE, "via 169.254.1.1 dev ptp-eth0"),
        (OF_NODE, "via 169.254.1.1 dev ptp-eth0"),
    ] {
        let order = format!("ip route get {to}");
        let taken = node.inside(Some("a"), &order).expect(0).stdout;
        assert!(taken.contains(way), "{to}: {taken}");
    }
    for pod in ["a", "b"] {
        node.cnitool("check", "one-port", pod, "eth0").expect(0);
        node.detach("one-port", pod, "eth0");
    }
    assert_eq!(ports(stack, network), [""; 0]);
}

/// Only once Neutron has shown that the machine is a server.
fn ports_name_their_server(stack: &OpenStack, node: &Node, network: &str) {
    let daemon = "mkdir -p /var/lib/cni/results && /opt/cni/bin/neutron-node --once";
    let described = || {
        node.inside(None, daemon).expect(0);
        node.attach("one-port", "a", "eth0");
        let filter = format!("network_id={network}&device_owner=cilium-ipam:pod");
        let description = stack.ports(&filter).unwrap()[0]["description"].take();
        node.detach("one-port", "a", "eth0");
        description.as_str().unwrap().to_owned()
    };
    assert!(!described().contains(" on server "));
    let nic = serde_json::json!({"device_id": MACHINE, "device_owner": "compute:nova"});
    let nic = stack.create_port(network, &nic).unwrap();
    let description = described();
    let of_server = format!(" on server {MACHINE}");
    assert!(description.ends_with(&of_server), "{description}");
    let nic = format!("/v2.0/ports/{nic}");
    stack.as_admin().delete(&nic).unwrap();
    assert!(!described().contains(" on server "));
}

/// As containerd attaches a Pod to several networks.
fn both_at_once(stack: &OpenStack, node: &Node, networks: &[String; 2]) {
    let [main, leg] = [("main", "eth0"), ("leg", "eth1")]
        .map(|(list, interface)| Node::order("add", list, "a", interface));
    node.inside(None, &format!("{main} & first=$!; {leg} && wait $first"))
        .expect(0);
    assert_eq!(
        networks
            .each_ref()
            .map(|network| ports(stack, network).len()),
        [1, 1]
    );
    assert!(
        node.reaches(Some("a"), OF_NODE) && node.reaches(Some("a"), OF_SERVICE),
        "Pod and node, Pod and Service"
    );
    let way = node
        .inside(Some("a"), "ip route get 192.0.2.1")
        .expect(0)
        .stdout;
    way.assert_has("via 10.7.0.1 dev eth0");
    [("main", "eth0"), ("leg", "eth1")]
        .into_iter()
        .for_each(|(list, interface)| node.detach(list, "a", interface));
}

/// The addresses of a network's ports, all of which are this node's.
fn at_neutron(stack: &OpenStack, network: &str) -> Vec<String> {
    let ports = stack.ports(&format!("network_id={network}")).unwrap();
    assert!(
        ports
            .iter()
            .all(|port| port["name"].as_str().unwrap().starts_with(MACHINE)),
        "{ports:?}"
    );
    let mut addresses: Vec<String> = ports
        .iter()
        .map(|port| {
            port["fixed_ips"][0]["ip_address"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    addresses.sort();
    addresses
}

fn sorted<const N: usize>(addresses: [&String; N]) -> Vec<String> {
    let mut addresses: Vec<String> = addresses.into_iter().cloned().collect();
    addresses.sort();
    addresses
}

/// The documented lists with this name, for the networks of this Neutron. There may be one for
/// each main plugin.
fn documented(name: &str, main: &str, networks: &[String; 2]) -> String {
    let is_it = |text: &String| {
        let list: Value = serde_json::from_str(text).unwrap();
        list["name"] == name && list["plugins"][0]["type"] == main
    };
    let found = snippets("json").into_iter().find(is_it);
    let text = found.unwrap_or_else(|| panic!("no page has a list `{name}` with {main}"));
    NETWORKS
        .iter()
        .zip(networks)
        .fold(text, |text, (shown, network)| text.replace(shown, network))
}

/// The documented `clouds.yaml`, for this Keystone.
fn documented_cloud(stack: &OpenStack, credential: &ApplicationCredential) -> String {
    let text = snippets("yaml")
        .into_iter()
        .find(|text| text.starts_with("clouds:"))
        .unwrap();
    let values = [credential.id.as_str(), &credential.secret];
    let text = SECRET
        .iter()
        .zip(values)
        .fold(text, |text, (shown, value)| text.replace(shown, value));
    text.replace(KEYSTONE, &stack.keystone_url_in_guest())
}

/// The access rules of a node's credential, as documented.
fn documented_rules() -> Value {
    let text = pages();
    let rules = text
        .split("$ cat rules.json\n")
        .nth(1)
        .unwrap()
        .split("\n$")
        .next()
        .unwrap();
    serde_json::from_str(rules).unwrap()
}

/// A node with its files where a node has them.
struct Node {
    guest: Guest,
}

impl Node {
    fn new(stack: &OpenStack, networks: &[String; 2]) -> testbed::Result<Node> {
        let credential = stack
            .create_application_credential("node", Some(&documented_rules()))
            .unwrap();
        let main = documented("main", "ipvlan", networks);
        let l3 = main
            .replace(r#""mode": "l2""#, r#""mode": "l3""#)
            .replace(r#""name": "main""#, r#""name": "main-l3""#);
        l3.assert_has("l3");
        l3.assert_has("main-l3");
        let mut files = Initramfs::default()
            .file("/etc/cni/net.d/10-main.conflist", 0o600, main)
            .file(
                "/etc/cni/net.d/20-leg.conflist",
                0o600,
                documented("leg", "ptp", networks),
            )
            .file("/etc/cni/net.d/30-l3.conflist", 0o600, l3)
            .file(
                "/etc/cni/net.d/40-one-port.conflist",
                0o600,
                documented("one-port", "ipvlan", networks),
            )
            .file(
                "/etc/openstack/clouds.yaml",
                0o600,
                documented_cloud(stack, &credential),
            );
        for name in ["cni-ipam-neutron", "cni-unnumbered-ptp", "neutron-node"] {
            let own = node_program(name);
            files = files.program(&format!("/opt/cni/bin/{name}"), own).unwrap();
        }
        let wanted = [
            Program::Cnitool,
            Program::CniPlugin(CniPlugin::Ipvlan),
            Program::CniPlugin(CniPlugin::Ptp),
        ];
        let programs = build(&wanted).unwrap();
        for program in wanted {
            let path = programs.path(program).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            files = files
                .program(&format!("/opt/cni/bin/{name}"), path)
                .unwrap();
        }
        let modules = vec!["dummy", "ipvlan", "veth"];
        let guest = Guest::start(&Setup {
            files,
            modules,
            uuid: MACHINE.to_owned(),
            nics: Vec::new(),
        })?;
        let node = Node { guest };
        for command in [
            "ip link add eth0 type dummy".to_owned(),
            "ip link set eth0 up".to_owned(),
            format!("ip address add {OF_NODE}/24 dev eth0"),
            format!("ip address add {OF_SERVICE}/32 dev lo"),
        ] {
            node.inside(None, &command).expect(0);
        }
        Ok(node)
    }

    /// On the node, or in the network of a Pod.
    fn inside(&self, pod: Option<&str>, command: &str) -> Ran {
        let command = match pod {
            Some(pod) => format!("nsenter --net=/run/netns/{pod} {command}"),
            None => command.to_owned(),
        };
        let answer = self.guest.run(&command).unwrap();
        Ran {
            code: answer.code,
            stdout: answer.stdout,
            stderr: answer.stderr,
        }
    }

    /// A Pod without any link but `lo`.
    fn add_pod(&self, pod: &str) {
        self.inside(None, &format!("touch /run/netns/{pod}"))
            .expect(0);
        self.inside(
            None,
            &format!("unshare --net=/run/netns/{pod} ip link set lo up"),
        )
        .expect(0);
    }

    /// The names of the links of the node, or of a Pod.
    fn links(&self, pod: Option<&str>) -> Vec<String> {
        let listed = self.inside(pod, "ip -o link").expect(0).stdout;
        let name = |line: &str| line.split([':', '@']).nth(1).unwrap().trim().to_owned();
        let mut names: Vec<String> = listed.lines().map(name).collect();
        names.sort();
        names
    }

    /// Whether an address answers, be the guest as slow as it may.
    fn reaches(&self, pod: Option<&str>, address: &str) -> bool {
        (0..5).any(|_| self.pings(pod, address))
    }

    /// Whether it answers at once.
    fn pings(&self, pod: Option<&str>, address: &str) -> bool {
        self.inside(pod, &format!("ping -c 1 -W 1 {address}")).code == 0
    }

    fn order(verb: &str, list: &str, pod: &str, interface: &str) -> String {
        let environment = format!("CNI_PATH=/opt/cni/bin CNI_IFNAME={interface}");
        format!("{environment} /opt/cni/bin/cnitool {verb} {list} /run/netns/{pod}")
    }

    fn cnitool(&self, verb: &str, list: &str, pod: &str, interface: &str) -> Ran {
        self.inside(None, &Node::order(verb, list, pod, interface))
    }

    /// The address that a Pod gets, without the length of its prefix.
    #[track_caller]
    fn attach(&self, list: &str, pod: &str, interface: &str) -> String {
        let result = self.cnitool("add", list, pod, interface).expect(0).json();
        assert!(
            self.links(Some(pod)).contains(&interface.to_owned()),
            "{result}"
        );
        let [address] = addresses(&result).try_into().unwrap();
        address.split('/').next().unwrap().to_owned()
    }

    /// Twice, as runtimes do.
    #[track_caller]
    fn detach(&self, list: &str, pod: &str, interface: &str) {
        for _ in 0..2 {
            self.cnitool("del", list, pod, interface).expect(0);
        }
        assert!(!self.links(Some(pod)).contains(&interface.to_owned()));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the guest's console:\n{}", self.guest.console());
        }
    }
}
