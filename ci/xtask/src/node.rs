//! Nodes as kubelets make them, but without a kubelet: about 3 KB of JSON each.

use serde_json::{Value, json};

/// The racks, by turns; a node has its own as the label `rack`.
pub const RACKS: [&str; 3] = ["a", "b", "c"];

/// The collection of Nodes.
pub const NODES: &str = "/api/v1/nodes";
/// The collection of CiliumNodes.
pub const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

const NODE: &str = include_str!("node/node.json");
const CILIUM_NODE: &str = include_str!("node/cilium_node.json");

/// Heartbeats are older than any action of a benchmark.
const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// The node's name.
#[must_use]
pub fn name(index: usize) -> String {
    format!("worker-{index:06}")
}

/// The path of the Node.
#[must_use]
pub fn path(index: usize) -> String {
    format!("{NODES}/{}", name(index))
}

/// The path of the Node's status.
#[must_use]
pub fn status_path(index: usize) -> String {
    format!("{NODES}/{}/status", name(index))
}

/// The path of the CiliumNode.
#[must_use]
pub fn cilium_node_path(index: usize) -> String {
    format!("{CILIUM_NODES}/{}", name(index))
}

/// A kubelet's heartbeat: the same status with another time, which differs each time.
#[must_use]
pub fn heartbeat(beat: u64) -> Value {
    let [hour, minute, second] = [beat / 3600 % 24, beat / 60 % 60, beat % 60];
    let time = format!("2026-01-02T{hour:02}:{minute:02}:{second:02}Z");
    let mut node = filled(NODE, 0, &time);
    json!({"status": {"conditions": node["status"]["conditions"].take()}})
}

/// The Node as a client sees it.
#[must_use]
pub fn node(index: usize) -> Value {
    filled(NODE, index, LONG_AGO)
}

/// The CiliumNode that an agent writes, before it has a block.
#[must_use]
pub fn cilium_node(index: usize) -> Value {
    filled(CILIUM_NODE, index, LONG_AGO)
}

/// The template as the object of this node, with this time of its last heartbeat.
fn filled(template: &str, index: usize, time: &str) -> Value {
    let text = template
        .replace("{name}", &name(index))
        .replace("{rack}", RACKS[index % RACKS.len()])
        .replace("{address}", &address(index))
        .replace("{machine}", &format!("{index:012x}"))
        .replace("{time}", time);
    serde_json::from_str(&text).expect("the template is JSON")
}

/// No pool of the benchmarks has these addresses.
fn address(index: usize) -> String {
    format!(
        "172.{}.{}.{}",
        16 + (index >> 16),
        (index >> 8) & 0xff,
        index & 0xff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_large_as_a_real_one() {
        let bytes = node(99_999).to_string().len();
        assert!((2_500..4_000).contains(&bytes), "{bytes}");
    }
}
