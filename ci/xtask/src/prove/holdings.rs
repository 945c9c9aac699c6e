//! The blocks of each node, in any field that some Cilium reads, and the blocks that two nodes
//! have. It knows nothing of how the tool decides, and uses none of its code.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use testbed::{Client, wait_until};
use xtask::node::{CILIUM_NODES, NODES};

use crate::prefix::Prefix;

/// Cilium's keys of both generations.
const ANNOTATIONS: [&str; 4] = [
    "network.cilium.io/ipv4-pod-cidr",
    "network.cilium.io/ipv6-pod-cidr",
    "io.cilium.network.ipv4-pod-cidr",
    "io.cilium.network.ipv6-pod-cidr",
];

/// A server that has just started fills its caches first.
const BUSY: [u16; 2] = [429, 503];
const BUSY_LIMIT: Duration = Duration::from_secs(60);

/// The blocks of every node.
pub struct Holdings {
    /// Of each name that a Node or a CiliumNode has.
    blocks: BTreeMap<String, BTreeSet<Prefix>>,
    /// The Nodes with their UIDs.
    nodes: BTreeMap<String, String>,
    /// The Nodes with their resourceVersions.
    versions: BTreeMap<String, String>,
}

impl Holdings {
    /// Lists both kinds without pages, so that each list is of one moment.
    pub fn read(client: &Client) -> Result<Self> {
        let list = |path: &str| {
            wait_until("the server to list nodes", BUSY_LIMIT, || {
                match client.list(path) {
                    Err(error) if error.status().is_some_and(|status| BUSY.contains(&status)) => {
                        Ok(None)
                    }
                    list => list.map(Some),
                }
            })
        };
        Self::of(&list(CILIUM_NODES)?, &list(NODES)?)
    }

    fn of(cilium_nodes: &[Value], nodes: &[Value]) -> Result<Self> {
        let mut holdings = Self {
            blocks: BTreeMap::new(),
            nodes: BTreeMap::new(),
            versions: BTreeMap::new(),
        };
        for object in cilium_nodes {
            holdings.add(
                object,
                object["spec"]["ipam"]["podCIDRs"]
                    .as_array()
                    .into_iter()
                    .flatten(),
            )?;
        }
        for object in nodes {
            let spec = object["spec"]["podCIDRs"].as_array().into_iter().flatten();
            let annotations = ANNOTATIONS
                .into_iter()
                .filter_map(|key| object["metadata"]["annotations"].get(key));
            holdings.add(
                object,
                spec.chain([&object["spec"]["podCIDR"]]).chain(annotations),
            )?;
            let text = |key: &str| {
                object["metadata"][key]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            holdings.nodes.insert(name(object), text("uid"));
            holdings
                .versions
                .insert(name(object), text("resourceVersion"));
        }
        Ok(holdings)
    }

    fn add<'v>(&mut self, object: &Value, blocks: impl Iterator<Item = &'v Value>) -> Result<()> {
        let held = self.blocks.entry(name(object)).or_default();
        for block in blocks
            .filter_map(Value::as_str)
            .filter(|block| !block.is_empty())
        {
            held.insert(Prefix::parse(block)?);
        }
        Ok(())
    }

    /// Pairs of blocks of different nodes which have an address in common.
    pub fn duplicates(&self) -> BTreeSet<String> {
        let pairs = self
            .blocks
            .iter()
            .flat_map(|(node, blocks)| blocks.iter().map(move |block| (block, node)));
        let mut all: Vec<(&Prefix, &String)> = pairs.collect();
        all.sort_by_key(|(block, _)| (block.width, block.first, Reverse(block.last)));
        let mut open: Vec<(&Prefix, &String)> = Vec::new();
        let mut found = BTreeSet::new();
        for (block, node) in all {
            open.retain(|(other, _)| other.width == block.width && other.last >= block.first);
            for (other, holder) in open.iter().filter(|(_, holder)| *holder != node) {
                found.insert(format!("{holder} has {other} and {node} has {block}"));
            }
            open.push((block, node));
        }
        found
    }

    /// The UID of a Node that exists.
    pub fn uid(&self, node: &str) -> Option<&str> {
        self.nodes.get(node).map(String::as_str)
    }

    /// The Nodes with a block that the later ones have lost, even if it was written again: their
    /// resourceVersions went back or on.
    pub fn lost_in(&self, later: &Self) -> BTreeSet<String> {
        let had_one = |node: &&String| self.blocks_of(node).next().is_some();
        let names = self.versions.keys().filter(had_one);
        names
            .filter(|node| self.versions.get(*node) != later.versions.get(*node))
            .cloned()
            .collect()
    }

    /// The blocks of one node.
    pub fn blocks_of(&self, node: &str) -> impl Iterator<Item = &Prefix> {
        self.blocks.get(node).into_iter().flatten()
    }

    /// The nodes that show this very block.
    pub fn holders(&self, block: &Prefix) -> impl Iterator<Item = &str> {
        self.blocks
            .iter()
            .filter(|(_, blocks)| blocks.contains(block))
            .map(|(node, _)| node.as_str())
    }

    /// The Nodes without any block.
    pub fn without_block(&self) -> impl Iterator<Item = &str> {
        self.nodes
            .keys()
            .map(String::as_str)
            .filter(|node| self.blocks_of(node).next().is_none())
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, blocks: &[&str], annotation: Option<&str>) -> Value {
        let annotations = annotation.map(|block| json!({ANNOTATIONS[2]: block}));
        json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "annotations": annotations},
            "spec": {"podCIDR": blocks.first(), "podCIDRs": blocks}})
    }

    fn holdings(nodes: &[Value]) -> Holdings {
        let cilium_node =
            json!({"metadata": {"name": "a"}, "spec": {"ipam": {"podCIDRs": ["10.0.8.0/24"]}}});
        Holdings::of(&[cilium_node], nodes).unwrap()
    }

    #[test]
    fn an_overlap_counts_in_every_field_and_between_any_two() {
        let nodes = [
            node("a", &["10.0.0.0/24", "fd00::/64"], None),
            node("b", &["10.0.0.128/25"], None),
            node("c", &["10.0.0.0/16"], None),
            node("d", &["10.1.0.0/24"], Some("10.1.0.0/25")),
            node("e", &[], Some("fd00::8000/113")),
            node("f", &["10.1.1.0/24"], None),
        ];
        let found = holdings(&nodes).duplicates();
        let expected = [
            "a has 10.0.0.0/24 and b has 10.0.0.128/25",
            "a has fd00::/64 and e has fd00::8000/113",
            "c has 10.0.0.0/16 and a has 10.0.0.0/24",
            "c has 10.0.0.0/16 and a has 10.0.8.0/24",
            "c has 10.0.0.0/16 and b has 10.0.0.128/25",
        ];
        assert_eq!(found, expected.map(str::to_owned).into());
    }

    #[test]
    fn a_node_without_a_block_is_told_and_one_with_two_of_its_own_is_none() {
        let nodes = [
            node("a", &[], None),
            node("b", &[], None),
            node("c", &["10.0.0.0/24"], Some("10.0.0.0/25")),
        ];
        let holdings = holdings(&nodes);
        assert!(holdings.duplicates().is_empty());
        assert_eq!(holdings.without_block().collect::<Vec<_>>(), ["b"]);
        assert_eq!(holdings.uid("b"), Some("uid-b"));
    }
}
