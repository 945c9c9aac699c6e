//! NICs of a node that is a network namespace, their ports at a real Neutron, and the plugin that
//! hands them over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::MutexGuard;

use serde_json::{Value, json};
use testbed::{LoopbackRelay, OpenStack};

use crate::neutron::plugins::node::Node;
use crate::neutron::support::{Plugin, finish};
use crate::support::Ran;

/// A node that reaches Neutron and Keystone.
pub struct Machine {
    pub node: Node,
    relays: [LoopbackRelay; 2],
}

impl Machine {
    pub fn new(stack: &OpenStack) -> testbed::Result<Machine> {
        let node = Node::new()?;
        let relays = [stack.keystone_url(), stack.neutron_url()]
            .map(|url| LoopbackRelay::new(&node.own_netns(), &url).unwrap());
        Ok(Machine { node, relays })
    }

    /// OpenStack does not answer until the guards are dropped.
    pub fn hold(&self) -> [MutexGuard<'_, ()>; 2] {
        self.relays.each_ref().map(LoopbackRelay::hold)
    }
}

/// A network of Neutron, and a plugin for NICs with ports of it.
pub struct Handover<'m> {
    pub network: String,
    stack: &'m OpenStack,
    node: &'m Node,
    plugin: Plugin,
    prefix: String,
    name: String,
}

impl<'m> Handover<'m> {
    /// The subnet is `prefix.0/24`.
    pub fn new(stack: &'m OpenStack, node: &'m Node, name: &str, prefix: &str) -> Handover<'m> {
        let network = stack.create_network(name).unwrap();
        stack
            .create_subnet(&network, &format!("{prefix}.0/24"), &json!({}))
            .unwrap();
        let plugin = Plugin::new(stack, &network, "n1").with("deadlineSeconds", json!(60));
        let (prefix, name) = (prefix.to_owned(), name.to_owned());
        Handover {
            network,
            stack,
            node,
            plugin,
            prefix,
            name,
        }
    }

    pub fn configuration(&self, nic: &Value) -> Value {
        let mut neutron = self.plugin.configuration["ipam"].clone();
        for field in ["name", "type", "neutronConf"] {
            neutron.as_object_mut().unwrap().remove(field);
        }
        json!({"cniVersion": "1.1.0", "name": self.name, "type": "cni-vm-nic", "nic": nic, "neutron": neutron})
    }

    /// A pair of links, one of which answers as the network's gateway, and the other one's port
    /// with the address `prefix.host`.
    pub fn veth(&self, name: &str, peer: &str, host: u32) {
        let Handover { node, prefix, .. } = self;
        node.ip(None, &format!("link add {name} type veth peer name {peer}"));
        node.ip(None, &format!("address add {prefix}.1/24 dev {peer}"));
        node.ip(None, &format!("link set {peer} up"));
        self.port(name, host);
    }

    /// The port of a link of the node.
    pub fn port(&self, link: &str, host: u32) -> String {
        let mac = told(self.node, None, link)["address"].clone();
        let fixed = json!([{"ip_address": format!("{}.{host}", self.prefix)}]);
        self.stack
            .create_port(
                &self.network,
                &json!({"mac_address": mac, "fixed_ips": fixed}),
            )
            .unwrap()
    }

    /// The number of NICs that are handed over, from the records.
    pub fn records(&self) -> usize {
        let Ok(kept) = std::fs::read_dir(self.folder()) else {
            return 0;
        };
        kept.filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|end| end == "json")
        })
        .count()
    }

    /// The folder of the records.
    pub fn folder(&self) -> PathBuf {
        self.plugin.state().join("nics")
    }

    /// A run about `eth0` of a container, whose network is that of the Pod of this name.
    pub fn start(&self, configuration: &Value, command: &str, pod: &str) -> Child {
        let netns = self.node.netns(pod);
        self.start_at(configuration, command, pod, &netns, "eth0")
    }

    pub fn start_at(
        &self,
        conf: &Value,
        command: &str,
        container: &str,
        netns: &Path,
        interface: &str,
    ) -> Child {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", container),
            ("CNI_NETNS", netns.to_str().unwrap()),
            ("CNI_IFNAME", interface),
        ];
        self.node.start("cni-vm-nic", &conf.to_string(), &variables)
    }

    pub fn run(&self, configuration: &Value, command: &str, pod: &str) -> Ran {
        finish(self.start(configuration, command, pod))
    }
}

/// The output of `ip` for a link of the node, or of a Pod.
#[track_caller]
pub fn told(node: &Node, pod: Option<&str>, link: &str) -> Value {
    let mut told: Value =
        serde_json::from_str(&node.ip(pod, &format!("-json address show dev {link}"))).unwrap();
    told[0].take()
}

/// The same without what a move may change: numbers, the state of the carrier, and the link-local
/// address, which the kernel makes again.
#[track_caller]
pub fn lasting(node: &Node, link: &str) -> Value {
    let shown: Value =
        serde_json::from_str(&node.ip(None, &format!("-json link show dev {link}"))).unwrap();
    let of = |key: &str| shown[0][key].clone();
    let flags: Vec<Value> = of("flags").as_array().unwrap().clone();
    let modes = ["UP", "NOARP", "PROMISC", "ALLMULTI"].map(|flag| flags.contains(&json!(flag)));
    let names = of("altnames").as_array().cloned().unwrap_or_default();
    let other_names: BTreeSet<String> = names
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let told = told(node, None, link);
    let listed = told["addr_info"].as_array().unwrap().iter();
    let given: Vec<Value> = listed
        .filter(|one| one["scope"] != "link")
        .map(without_state)
        .collect();
    let routes = node.ip(None, &format!("-json route show table all dev {link}"));
    let mut routes: Vec<Value> = serde_json::from_str(&routes).unwrap();
    let of_6 = node.ip(None, &format!("-6 -json route show table all dev {link}"));
    routes.extend(serde_json::from_str::<Vec<Value>>(&of_6).unwrap());
    // Those of addresses come with them, that of the link-local one in its own time.
    let routes: Vec<Value> = routes
        .iter()
        .filter(|one| one["protocol"] != "kernel")
        .map(without_state)
        .collect();
    json!({
        "mac": of("address"), "mtu": of("mtu"), "alias": of("ifalias"), "other_names": other_names, "modes": modes, "addresses": given, "routes": routes,
    })
}

fn without_state(one: &Value) -> Value {
    let mut one = one.clone();
    for key in ["flags", "tentative", "linkdown"] {
        one.as_object_mut().unwrap().remove(key);
    }
    one
}
