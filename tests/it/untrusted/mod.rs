//! Addresses that a node's own agent or kubelet reports: they neither decide a block nor exhaust a
//! pool.

mod admission;
mod adopted;
mod unreadable;

use serde_json::{Value, json};

use crate::server::{Server, node as server_node};
use crate::support::{Folder, pool};

const RACK_A: &str =
    "{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}";

fn folder(items: &[String]) -> Folder {
    Folder::with_cluster(items, &[("pools/a.yaml", &pool("a", RACK_A))])
}

fn cilium_node(name: &str, cidr: &str) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name}, "spec": {"ipam": {"podCIDRs": [cidr]}}})
}

/// The plan of each node, such as `n2 + 10.20.1.0/24` or `n2 ? duplicate-block`.
fn fates(plan: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let changes = plan["changes"].as_array().unwrap().iter().map(|change| {
        let waits = if text(&change["reason"]).contains("needs manual approval") {
            " if approved"
        } else {
            ""
        };
        let after: Vec<String> = change["after"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect();
        format!("{} + {}{waits}", text(&change["name"]), after.join(" "))
    });
    let blocked = plan["blocked"].as_array().unwrap().iter();
    let blocked =
        blocked.map(|blocked| format!("{} ? {}", text(&blocked["name"]), text(&blocked["code"])));
    let mut fates: Vec<String> = changes.chain(blocked).collect();
    fates.sort();
    fates
}

/// Blocks that an agent may write into a CiliumNode and that no pool gives to `n1`.
const FOREIGN: [(&str, &str); 3] = [
    ("8.8.8.0/24", "in no pool"),
    ("10.20.128.0/17", "the pool gives /24 blocks"),
    ("10.30.4.0/24", "the pool does not select the node"),
];

fn server() -> Server {
    let server = Server::usual();
    server.folder.write("pools/a.yaml", pool("a", RACK_A));
    server
}

fn in_rack_a(name: &str) -> Value {
    server_node(name, json!({"rack": "a"}))
}
