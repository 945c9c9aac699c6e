//! What a history remembers beside the cluster, and what must hold at every moment.
//!
//! The rules are those of a person who watches. They must never use code of the migration.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::world::{Kind, State, texts as texts_of};
use ipam_core::net::Block;
use worlds::invariants::shared;

/// A rival that ignores claims may be faster than a migrator between its last look and its write,
/// in seconds.
const RIVAL_MAY_BE_FASTER: i64 = 60;

#[derive(Default)]
pub(super) struct Books {
    pub(super) violations: Vec<String>,
    /// Blocks of the range of Cilium's operator, for each family.
    pub(super) families: Vec<Vec<Block>>,
    pub(super) last_given: Vec<Block>,
    /// Blocks that rivals take, for each family.
    pub(super) of_rivals: Vec<Vec<Block>>,
    /// Blocks of nodes that move which a program without claims gave to other nodes.
    pub(super) given_by_rivals: BTreeMap<Block, Timestamp>,
    /// Blocks that Cilium's operator gave while another agent used them.
    pub(super) taken_by_operator: usize,
    pub(super) bindings: Vec<(String, String)>,
    /// Of a thousand bindings, those that come a round later.
    pub(super) late_bindings: u32,
    pub(super) gone_since: BTreeMap<String, i64>,
    pub(super) lost: BTreeSet<String>,
    /// How often each node came to each phase, and in each direction.
    entered: BTreeMap<(String, String), u32>,
    last_phase: BTreeMap<String, (String, String)>,
    pub(super) agents_deleted: BTreeMap<String, u32>,
    pub(super) nodes_deleted: BTreeMap<String, u32>,
    pub(super) duplicates: usize,
}

impl State {
    pub(super) fn violated(&mut self, what: String) {
        self.note(|| format!("VIOLATION {what}"));
        if !self.books.violations.contains(&what) {
            self.books.violations.push(what);
        }
    }

    /// The record of a node, as the cluster stores it now.
    pub(super) fn record_of(&self, node: &str) -> Option<Value> {
        let records = self.all(Kind::Record).into_iter();
        let mut records = records.filter_map(|(_, object)| {
            let text = object["data"]["record.json"].as_str()?;
            serde_json::from_str::<Value>(text).ok()
        });
        records.find(|record| record["node"] == node)
    }

    /// A record of a node was stored.
    pub(super) fn recorded(&mut self, object: &Value) {
        let text = object["data"]["record.json"].as_str().unwrap_or_default();
        let record: Value = serde_json::from_str(text).unwrap_or_default();
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let (node, phase, direction) = (text("node"), text("phase"), text("direction"));
        if node.is_empty() {
            return;
        }
        let now = (phase.clone(), direction.clone());
        if self.books.last_phase.get(&node) != Some(&now) {
            self.books.last_phase.insert(node.clone(), now);
            *self.books.entered.entry((node.clone(), phase)).or_default() += 1;
        }
    }

    /// Whether the record of another node names the block.
    pub(super) fn belongs_to_mover(&self, name: &str, block: Block) -> bool {
        let records = self.all(Kind::Record).into_iter();
        let texts = records
            .filter_map(|(_, object)| Some(object["data"]["record.json"].as_str()?.to_owned()));
        texts
            .filter_map(|text| serde_json::from_str::<Value>(&text).ok())
            .filter(|record| record["node"].is_string() && record["node"] != name)
            .any(|record| {
                let named = [texts_of(&record["from"]), texts_of(&record["to"])].concat();
                named.iter().any(|one| one == &block.to_string())
            })
    }

    fn entered(&self, node: &str, phase: &str) -> u32 {
        let key = (node.to_owned(), phase.to_owned());
        self.books.entered.get(&key).copied().unwrap_or_default()
    }

    /// A migrator does this to a node: its record must be at the phase, or have been.
    pub(super) fn is_recorded(&mut self, node: &str, phase: &str, what: &str) {
        if self.entered(node, phase) == 0 {
            self.violated(format!("{node}: {what} before it was recorded"));
        }
    }

    pub(super) fn agent_deleted(&mut self, node: &str) {
        self.is_recorded(node, "restart", "the agent's Pod was deleted");
        let times = self
            .books
            .agents_deleted
            .entry(node.to_owned())
            .or_default();
        *times += 1;
        let times = *times;
        if times > self.entered(node, "restart") {
            self.violated(format!(
                "{node}: {times} agents were deleted in fewer restarts"
            ));
        }
    }

    pub(super) fn node_deleted(&mut self, node: &str, object: &Value) {
        self.is_recorded(node, "remove", "the Node was deleted");
        let record = self.record_of(node).unwrap_or_default();
        let saved = &record["saved"]["resource_version"];
        if *saved != object["metadata"]["resourceVersion"]
            || record["uid"] != object["metadata"]["uid"]
        {
            self.violated(format!("{node}: a Node was deleted that was not saved"));
        }
        let times = self.books.nodes_deleted.entry(node.to_owned()).or_default();
        *times += 1;
        let times = *times;
        if times > self.entered(node, "create") + 1 {
            self.violated(format!("{node}: {times} Nodes were deleted"));
        }
    }

    /// A migrator writes a block for a node.
    pub(super) fn block_written(&mut self, node: &str, blocks: &[Block]) {
        for block in blocks {
            let Some(other) = self.others_with(node, *block) else {
                continue;
            };
            let given = self.books.given_by_rivals.get(block);
            let age = given.map(|at| self.now.duration_since(*at).as_secs());
            if age.is_none_or(|age| age > RIVAL_MAY_BE_FASTER) {
                self.violated(format!("{node}: {block} was written, and {other} has it"));
            }
        }
    }

    /// What must hold at every moment.
    pub(super) fn check(&mut self) {
        let used: Vec<(String, Block)> = self
            .machines
            .iter()
            .flat_map(|(name, machine)| machine.in_use.iter().map(move |one| (name.clone(), *one)))
            .collect();
        for ((a, block), (b, other)) in shared(&used, |one, two| one.overlaps(*two)) {
            if !self.books.given_by_rivals.contains_key(block) {
                self.books.duplicates += 1;
                self.violated(format!("{a} uses {block}, and {b} uses {other}"));
            }
        }
    }
}
