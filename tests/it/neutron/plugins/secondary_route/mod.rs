//! `cni-unnumbered-ptp` behind other plugins: a secondary route into Pods that are network namespaces.

mod cilium;
mod faults;
pub mod ground;

use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{OpenStack, nft, or_skip};

use self::ground::{BEHIND_ROUTER, ELSEWHERE_ON_NODE, Ground, OF_NODE, OF_ROUTER, PORT};
use super::input::snippets;
use crate::neutron::support::{Plugin, addresses, ports, stack};
use crate::support::TextAssertions;

/// The port of Services.
const SERVICE_PORT: u16 = 80;

/// `nft` of Debian.
struct Nft {
    program: PathBuf,
    libraries: String,
}

impl Nft {
    fn new() -> testbed::Result<Nft> {
        let (program, libraries) = nft()?;
        Ok(Nft { program, libraries })
    }

    /// Replaces the node's rules.
    fn apply(&self, ground: &Ground, rules: &str) {
        let nft = self.program.display();
        let line = format!(
            "LD_LIBRARY_PATH={} {nft} -f - <<'END'\nflush ruleset\n{rules}\nEND",
            self.libraries
        );
        ground.node.shell(None, &line).expect(0);
    }
}

/// The documented list with another main plugin, as this kernel has no `ipvlan`, and with Services
/// of both families.
pub fn documented(addresses: &Plugin) -> String {
    let is_it = |list: &Value| list["plugins"][1]["type"] == "cni-unnumbered-ptp";
    let lists = snippets("json").into_iter();
    let mut lists = lists.map(|text| serde_json::from_str::<Value>(&text).unwrap());
    let mut list = lists.find(is_it).unwrap();
    let ipam = addresses.configuration["ipam"].clone();
    list["plugins"][0] =
        json!({"type": "macvlan", "master": "up0", "mode": "bridge", "ipam": ipam});
    let routes = list["plugins"][1]["routes"].as_array_mut().unwrap();
    routes.push(json!({"dst": "fd00:96::/112"}));
    list.to_string()
}

pub fn neutron_network(stack: &OpenStack) -> String {
    let network = stack.create_network("one-port").unwrap();
    // Not the addresses of the node and of the router.
    for (cidr, start, end) in [
        ("10.7.0.0/24", "10.7.0.10", "10.7.0.240"),
        ("fd07::/64", "fd07::1000", "fd07::ffff"),
    ] {
        let pools = json!({"allocation_pools": [{"start": start, "end": end}]});
        stack.create_subnet(&network, cidr, &pools).unwrap();
    }
    network
}

#[test]
fn pods_of_one_port_reach_services_and_their_node() {
    let stack = or_skip!(stack(&Options::default()));
    let ground = or_skip!(Ground::new());
    let nft = or_skip!(Nft::new());
    let network = neutron_network(&stack);
    let routes = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
    let plugin = Plugin::new(&stack, &network, "n1").with("routes", routes);
    ground.node.ip(None, "link set up0 mtu 1400");
    ground.node.network_list("one-port", &documented(&plugin));
    let before = ground.state(&[]);
    let pods = ["a", "b"].map(|pod| attach(&ground, pod));
    assert_eq!(ports(&stack, &network).len(), 2, "one port for each Pod");
    pods_and_the_node(&ground, &pods);
    services(&ground, &nft, &pods);
    from_outside(&ground, &nft, &pods[0]);
    let mtu = ground.node.ip(Some("a"), "link show ptp-eth0");
    mtu.assert_has("mtu 1400");
    for pod in ["a", "b"] {
        for verb in ["check", "del", "del"] {
            ground.node.cnitool(verb, "one-port", pod, "eth0").expect(0);
        }
        assert_eq!(ground.node.links(Some(pod)), ["lo"]);
    }
    assert_eq!(ground.state(&[]), before);
    assert_eq!(ports(&stack, &network), [""; 0]);
}

/// A Pod by cnitool. Returns its addresses, IPv4 first.
fn attach(ground: &Ground, pod: &str) -> [String; 2] {
    ground.add_pod(pod);
    let result = ground.node.cnitool("add", "one-port", pod, "eth0");
    let result = result.expect(0).json();
    let interfaces = result["interfaces"].as_array().unwrap();
    let places: Vec<bool> = interfaces
        .iter()
        .map(|one| one["sandbox"].is_string())
        .collect();
    assert_eq!(places, [true, false, true], "{result}");
    assert_eq!(interfaces[2]["name"], "ptp-eth0");
    let given = addresses(&result);
    let given: [String; 2] = given.try_into().unwrap();
    given.map(|address| address.split('/').next().unwrap().to_owned())
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

fn pods_and_the_node(ground: &Ground, [a, b]: &[[String; 2]; 2]) {
    for family in [0, 1] {
        let of_node = OF_NODE[family];
        let seen = ground.connects(Some("a"), (&b[family], PORT), Some("b"));
        assert_eq!(seen, address(&a[family]), "Pod and Pod");
        let seen = ground.connects(Some("a"), (of_node, PORT), None);
        assert_eq!(seen, address(&a[family]), "Pod and node");
        let seen = ground.connects(None, (&b[family], PORT), Some("b"));
        assert_eq!(seen, address(of_node), "node and Pod");
        let way = |to: &str| ground.node.ip(Some("a"), &format!("route get {to}"));
        assert!(way(&b[family]).contains("dev eth0"), "{}", way(&b[family]));
        assert!(way(of_node).contains("dev ptp-eth0"), "{}", way(of_node));
    }
    let seen = ground.connects(Some("a"), (ELSEWHERE_ON_NODE, PORT), None);
    assert_eq!(seen, address(&a[0]), "Pod and another address of its node");
}

/// Translation of Services to a backend each, as kube-proxy in its mode `nftables` makes it.
fn translation(backends: &[(&str, &str)], then: &str) -> String {
    let tables = ["ip", "ip6"].map(|family| {
        let of_family = backends
            .iter()
            .filter(|(service, _)| service.contains(':') == (family == "ip6"));
        let rules: String = of_family
            .map(|(service, backend)| {
                let backend = match family {
                    "ip" => format!("{backend}:{PORT}"),
                    _ => format!("[{backend}]:{PORT}"),
                };
                format!("{family} daddr {service} tcp dport {SERVICE_PORT} dnat to {backend}\n")
            })
            .collect();
        format!(
            "table {family} services {{\nchain nat-prerouting {{\ntype nat hook prerouting priority dstnat\n{rules}}}\n\
             chain nat-postrouting {{\ntype nat hook postrouting priority srcnat\n{then}\n}}\n}}\n"
        )
    });
    tables.concat()
}

/// A backend beyond the node, one on it, and the Pod itself.
fn services(ground: &Ground, nft: &Nft, [a, b]: &[[String; 2]; 2]) {
    let services = [
        ("10.96.0.10", OF_ROUTER[0], "router"),
        ("10.96.0.11", &b[0], "b"),
        ("10.96.0.12", &a[0], "a"),
        ("fd00:96::10", OF_ROUTER[1], "router"),
        ("fd00:96::11", &b[1], "b"),
        ("fd00:96::12", &a[1], "a"),
    ];
    let backends = services.map(|(service, backend, _)| (service, backend));
    nft.apply(ground, &translation(&backends, "ct status dnat masquerade"));
    for (service, _, server) in services {
        let seen = ground.connects(Some("a"), (service, SERVICE_PORT), Some(server));
        let of_node = OF_NODE[usize::from(service.contains(':'))];
        assert_eq!(seen, address(of_node), "Service {service} on {server}");
    }
    // The backend answers by its port, past the node that translated.
    nft.apply(ground, &translation(&backends, ""));
    let seen = ground.connects(Some("a"), ("10.96.0.10", SERVICE_PORT), Some("router"));
    assert_eq!(seen, None, "without masquerading");
}

/// The node drops answers on the wrong way, which would also come from it.
fn from_outside(ground: &Ground, nft: &Nft, a: &[String; 2]) {
    let chain = "type filter hook prerouting priority filter\niifname \"unp*\" ip daddr 198.51.100.0/24 drop\n\
                 iifname \"unp*\" ip6 daddr fd07::1 drop";
    nft.apply(
        ground,
        &format!("table inet wrong {{\nchain way {{\n{chain}\n}}\n}}"),
    );
    let through = format!("route add {}/32 dev up1 src {BEHIND_ROUTER}", a[0]);
    ground.node.ip(Some("router"), &through);
    let seen = ground.connects(Some("router"), (&a[0], PORT), Some("a"));
    assert_eq!(seen, address(BEHIND_ROUTER));
    let seen = ground.connects(Some("router"), (&a[1], PORT), Some("a"));
    assert_eq!(seen, address(OF_ROUTER[1]));
    nft.apply(ground, "");
}
