//! A node with an uplink and a router behind it, Pods on the uplink's network, and connections
//! between their namespaces.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{wait_until, within};

use crate::neutron::plugins::node::Node;
use crate::neutron::support::finish;
use crate::support::Ran;

/// The node's addresses on the uplink, and one on another link.
pub const OF_NODE: [&str; 2] = ["10.7.0.250", "fd07::250"];
pub const ELSEWHERE_ON_NODE: &str = "192.0.2.9";
/// The router's addresses on the uplink's network, and one behind it.
pub const OF_ROUTER: [&str; 2] = ["10.7.0.1", "fd07::1"];
pub const BEHIND_ROUTER: &str = "198.51.100.1";
pub const BEHIND_ROUTER_V6: &str = "2001:db8::1";

/// The port of all servers.
pub const PORT: u16 = 8080;

/// Limit for a connection that must not work.
const PATIENCE: Duration = Duration::from_secs(2);

/// A line of shell that gives a node the uplink `up0`, another link, and the router with this
/// namespace behind the uplink. The node forwards.
pub fn uplink(router: &Path) -> String {
    let router = router.display();
    let at_router = format!("nsenter --net={router} ip");
    let ([node_v4, node_v6], [router_v4, router_v6]) = (OF_NODE, OF_ROUTER);
    format!(
        "set -e
        echo 1 > /proc/sys/net/ipv4/ip_forward
        echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
        ip link add up0 type veth peer name up1
        ip link add other0 type veth peer name other1
        ip link set up1 netns {router}
        for link in up0 other0 other1; do ip link set $link up; done
        {at_router} link set up1 up
        ip address add {node_v4}/24 dev up0
        ip address add {node_v6}/64 dev up0 nodad
        ip address add {ELSEWHERE_ON_NODE}/24 dev other0
        {at_router} address add {router_v4}/24 dev up1
        {at_router} address add {router_v6}/64 dev up1 nodad
        {at_router} address add {BEHIND_ROUTER}/32 dev lo
        {at_router} address add {BEHIND_ROUTER_V6}/128 dev lo
        ip route add default via {router_v4}
        ip -6 route add default via {router_v6}
        # As a router, it answers at the first address of the subnet, which is Neutron's gateway.
        nsenter --net={router} sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'"
    )
}

/// A node whose kernel filters sources strictly. The router is the namespace of a Pod.
pub struct Ground {
    pub node: Node,
}

impl Ground {
    pub fn new() -> testbed::Result<Ground> {
        let node = Node::new()?;
        let ground = Ground { node };
        ground.be_strict(None);
        ground.node.add_pod("router");
        let router = ground.node.netns("router");
        ground.node.shell(None, &uplink(&router)).expect(0);
        Ok(ground)
    }

    fn be_strict(&self, pod: Option<&str>) {
        for all in ["all", "default"] {
            let line = format!("echo 1 > /proc/sys/net/ipv4/conf/{all}/rp_filter");
            self.node.shell(pod, &line).expect(0);
        }
    }

    /// A Pod without any link but `lo`.
    pub fn add_pod(&self, pod: &str) {
        self.node.add_pod(pod);
        self.be_strict(Some(pod));
    }

    /// An interface of a Pod on the uplink's network, as a main plugin makes it.
    pub fn connect(&self, pod: &str, interface: &str, addresses: [&str; 2]) {
        let node = &self.node;
        node.ip(None, "link add link up0 name new0 type macvlan mode bridge");
        let netns = node.netns(pod);
        let moved = format!("link set new0 netns {} name {interface}", netns.display());
        node.ip(None, &moved);
        node.ip(Some(pod), &format!("link set {interface} up"));
        let [v4, v6] = addresses;
        node.ip(Some(pod), &format!("address add {v4} dev {interface}"));
        node.ip(
            Some(pod),
            &format!("address add {v6} dev {interface} nodad"),
        );
    }

    fn netns(&self, place: Option<&str>) -> PathBuf {
        match place {
            Some(pod) => self.node.netns_from_here(pod),
            None => self.node.own_netns(),
        }
    }

    /// Connects to a server from the node or a Pod. Returns the address that the server sees.
    pub fn connects(
        &self,
        client: Option<&str>,
        to: (&str, u16),
        server: Option<&str>,
    ) -> Option<IpAddr> {
        let to = SocketAddr::new(to.0.parse().unwrap(), to.1);
        let any = if to.is_ipv4() { "0.0.0.0" } else { "::" };
        let any = SocketAddr::new(any.parse().unwrap(), PORT);
        let [server, client] = [server, client].map(|one| File::open(self.netns(one)).unwrap());
        // A process that another test forks holds the last listener until its program starts.
        let listener = wait_until("the port", PATIENCE, || {
            Ok(within(&server, || TcpListener::bind(any)).ok())
        })
        .unwrap();
        within(&client, || TcpStream::connect_timeout(&to, PATIENCE)).ok()?;
        Some(listener.accept().unwrap().1.ip())
    }

    /// The configuration of the plugin as a runtime passes it, for an interface with these addresses.
    pub fn configuration(&self, network: &str, pod: &str, addresses: [&str; 2]) -> Value {
        let interface = json!({"name": "eth0", "mac": "", "sandbox": self.node.netns(pod)});
        let ips = addresses.map(|address| json!({"address": address, "interface": 0}));
        let routes = json!([{"dst": "10.96.0.0/12"}, {"dst": "fd00:96::/112"}]);
        json!({
            "cniVersion": "1.1.0", "name": network, "type": "cni-unnumbered-ptp", "routes": routes,
            "prevResult": {"cniVersion": "1.1.0", "interfaces": [interface], "ips": ips},
        })
    }

    /// A run of the plugin about an interface of a Pod, with more variables.
    pub fn start(
        &self,
        configuration: &Value,
        command: &str,
        pod: &str,
        more: &[(&str, &str)],
    ) -> Child {
        let netns = self.node.netns(pod);
        let mut variables = vec![
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", pod),
            ("CNI_NETNS", netns.to_str().unwrap()),
            ("CNI_IFNAME", "eth0"),
        ];
        // A later value wins.
        variables.extend(more);
        let input = configuration.to_string();
        self.node.start("cni-unnumbered-ptp", &input, &variables)
    }

    pub fn run(&self, configuration: &Value, command: &str, pod: &str) -> Ran {
        finish(self.start(configuration, command, pod, &[]))
    }

    /// Everything that the plugin changes, on the node and in Pods.
    pub fn state(&self, pods: &[&str]) -> String {
        let places = std::iter::once(None).chain(pods.iter().copied().map(Some));
        let facts = "for family in -4 -6; do ip $family rule; ip $family route show table all; done; \
                     ip neighbour show nud permanent; ip -o link | cut -d: -f2";
        // The kernel's own routes come and go with the state of links.
        let lines = format!("({facts}) | grep -v -e 'table local' -e ^multicast");
        let shown = places.map(|place| self.node.shell(place, &lines).stdout);
        shown.collect::<Vec<_>>().join("\n")
    }
}
