//! Nodes that are deleted and join all the time, over the planner and the record of deleted nodes
//! alone: no block goes to another node during its quarantine, and none to two nodes.

use std::collections::BTreeMap;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use ipam_cilium::observed::{DEPARTED_KEY, Observed, ObservedKind, Reader, Understood};
use ipam_core::claims::{DepartedBlocks, Departure};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_plan::plan::{node_changes, plan};
use worlds::documents::{policy, pool};

use crate::setup::Directory;

const QUARANTINE: SignedDuration = SignedDuration::from_mins(10);

/// Nodes of a full cluster.
const NODES: usize = 500;

/// Most nodes that go and come between two plans.
const MOST_AT_ONCE: usize = 60;

/// Deletions in a release build: hours of an autoscaler.
const DELETIONS: usize = if cfg!(debug_assertions) {
    3_000
} else {
    200_000
};

#[derive(Default)]
struct Churn {
    now: Timestamp,
    /// The nodes, as a cache has understood them, with their blocks.
    nodes: BTreeMap<NodeName, (Understood, Option<Block>)>,
    /// The text of each part of the record: a program that starts anew reads nothing else.
    record: BTreeMap<ObservedKind, String>,
    /// Every block that a node had, its last node, and when that was deleted.
    departed: BTreeMap<Block, (NodeName, Timestamp)>,
    created: usize,
    returned: usize,
    reused: usize,
}

fn understood(name: &NodeName, block: Option<Block>) -> Understood {
    let blocks: Vec<Block> = block.into_iter().collect();
    let metadata = json!({"name": name.as_str(), "uid": name.as_str(), "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z"});
    let node = json!({"metadata": metadata, "spec": {"podCIDRs": blocks}});
    Understood::of(ObservedKind::Node, &node.to_string()).unwrap()
}

impl Churn {
    fn observed(&self) -> Observed {
        let mut reader = Reader::default();
        let metadata = json!({"name": "cilium-config", "namespace": "kube-system"});
        let settings = json!({"metadata": metadata, "data": {"ipam": "kubernetes"}});
        let read = reader.object(ObservedKind::CiliumConfig, &settings.to_string());
        read.unwrap();
        for (kind, text) in &self.record {
            let metadata = json!({"name": "part", "uid": "u", "resourceVersion": "7"});
            let object = json!({"metadata": metadata, "data": {DEPARTED_KEY: text}});
            reader.object(*kind, &object.to_string()).unwrap();
        }
        for (node, _) in self.nodes.values() {
            reader.understood(node);
        }
        reader.finish(self.now)
    }

    /// Deletes nodes, and records their blocks before the next plan.
    fn delete(&mut self, rng: &mut Rng, count: usize) -> usize {
        let mut gone: BTreeMap<Block, NodeName> = BTreeMap::new();
        for _ in 0..count.min(self.nodes.len()) {
            let index = rng.usize(..self.nodes.len());
            let name = self.nodes.keys().nth(index).unwrap().clone();
            let (_, block) = self.nodes.remove(&name).unwrap();
            gone.extend(block.map(|block| (block, name.clone())));
        }
        let mut known = self.observed().departed.departed;
        let waiting = gone.iter();
        known.waiting = waiting
            .map(|(block, node)| (*block, Departure::new(node.clone(), self.now)))
            .collect();
        for (part, blocks) in known.record(self.now, QUARANTINE) {
            assert!(DepartedBlocks::from_text(&blocks.to_text()).is_ok());
            let kind = ObservedKind::Departed(part);
            self.record.insert(kind, blocks.to_text());
        }
        let deleted = gone.len();
        let now = self.now;
        let gone = gone.into_iter();
        self.departed
            .extend(gone.map(|(block, node)| (block, (node, now))));
        deleted
    }

    /// Some nodes come back under their names; the others are new.
    fn join(&mut self, rng: &mut Rng) {
        while self.nodes.len() < NODES {
            let known = rng.usize(..self.departed.len().max(1));
            let earlier = self.departed.values().nth(known);
            let earlier = earlier.filter(|_| rng.u8(..4) == 0);
            let name = earlier.map(|(name, _)| name.clone());
            let name = name.filter(|name| !self.nodes.contains_key(name));
            let name = name.unwrap_or_else(|| {
                self.created += 1;
                format!("n{}", self.created).parse().unwrap()
            });
            let node = understood(&name, None);
            self.nodes.insert(name, (node, None));
        }
    }

    fn assign(&mut self, desired: &Desired) {
        let plan = plan(desired, &self.observed(), Vec::new());
        let held = self.nodes.values().filter_map(|(_, block)| *block);
        let mut held: BTreeMap<Block, ()> = held.map(|block| (block, ())).collect();
        for change in node_changes(&plan.changes) {
            let block = *change.after.first().unwrap();
            assert!(held.insert(block, ()).is_none(), "{block} is there twice");
            if let Some((last, at)) = self.departed.get(&block) {
                let age = self.now.duration_since(*at);
                let is_free = age >= QUARANTINE;
                assert!(
                    *last == change.node || is_free,
                    "{block} of {last} goes to {} after {age:#}",
                    change.node
                );
                self.returned += usize::from(*last == change.node && !is_free);
                self.reused += usize::from(*last != change.node);
            }
            let node = understood(&change.node, Some(block));
            self.nodes.insert(change.node.clone(), (node, Some(block)));
        }
    }
}

#[test]
fn no_block_is_reused_within_its_quarantine() {
    let documents = [
        pool("a", "{cidrs: [10.0.0.0/10], blockSize: 22}"),
        policy("{quarantine: 10m}"),
    ];
    let directory = Directory::new(&documents);
    let mut rng = Rng::with_seed(49);
    let mut churn = Churn {
        now: Timestamp::from_second(1_767_225_600).unwrap(),
        ..Churn::default()
    };
    let mut deletions = 0;
    while deletions < DELETIONS {
        let pause = SignedDuration::from_millis(rng.i64(1..60_000));
        churn.now = churn.now.saturating_add(pause).unwrap();
        churn.join(&mut rng);
        churn.assign(&directory.loaded.desired);
        let count = rng.usize(..MOST_AT_ONCE);
        deletions += churn.delete(&mut rng, count);
    }
    // The pool is small enough that blocks are used again, and names come back in time.
    assert!(churn.reused > deletions / 10, "{}", churn.reused);
    assert!(churn.returned > deletions / 100, "{}", churn.returned);
}
