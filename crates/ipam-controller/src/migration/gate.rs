//! What must hold before nodes move on, or back: no two nodes show the same addresses. It must
//! never change anything.

use std::collections::BTreeMap;

use super::Host;
use super::run::Migration;
use ipam_cilium::observed::Observed;
use ipam_cluster::Workloads;
use ipam_core::model::NodeName;
use ipam_core::net::{RangeIndex, overlapping_pairs};
use ipam_planner::migration::NodeRecord;

impl<C: Workloads, H: Host> Migration<'_, C, H> {
    /// Why no node may move now: two nodes hold the same addresses.
    pub(super) fn unsafe_now(&self, snapshot: &Observed) -> Option<String> {
        let shown = snapshot.shown_blocks();
        let of_moved = |name: &NodeName| self.nodes.contains_key(name);
        let pairs = overlapping_pairs(shown.map(|(name, block)| (block.range(), name)));
        let pair = pairs
            .into_iter()
            .find(|(a, b)| a != b && (of_moved(a) || of_moved(b)))?;
        let (a, b) = pair;
        Some(format!("nodes {a} and {b} show the same addresses"))
    }

    /// Nodes among these whose old block another node shows, and which.
    pub(super) fn old_blocks_taken(
        &self,
        snapshot: &Observed,
        nodes: &[NodeName],
    ) -> BTreeMap<NodeName, String> {
        let shown = snapshot.shown_blocks();
        let shown = RangeIndex::new(shown.map(|(name, block)| (block.range(), name)));
        let records = nodes.iter().map(|name| &self.nodes[name].record);
        let blocks = records.flat_map(|one| one.from.iter().map(move |block| (&one.node, block)));
        let taken = blocks.filter_map(|(node, block)| {
            let mut others = shown.overlapping(&block.range());
            let (_, other) = others.find(|(_, other)| *other != node)?;
            let why = format!("{block}, the old block of node {node}, belongs to node {other} now");
            Some((node.clone(), why))
        });
        taken.collect()
    }

    /// Every node that cannot go on, and why.
    pub(super) fn failures(&self) -> Vec<String> {
        let failed = self.nodes.values().filter_map(|stored| {
            let NodeRecord {
                node,
                phase,
                failure,
                ..
            } = &stored.record;
            Some(format!("node {node}, {phase}: {}", failure.as_ref()?))
        });
        failed.collect()
    }

    pub(super) fn failed_nodes(&self) -> Vec<NodeName> {
        let failed = self.nodes.iter();
        let failed = failed.filter(|(_, stored)| stored.record.failure.is_some());
        failed.map(|(name, _)| name.clone()).collect()
    }

    /// Why the migration stopped, and what keeps nodes of the failed wave from being back.
    pub(super) fn why_stopped(&self) -> String {
        let cause = self.main.record.note.clone().unwrap_or_default();
        match self.main.record.not_back.is_empty() {
            true => cause,
            false => {
                let failures = self.failures().join("; ");
                format!("{cause}; and not all of the wave is back: {failures}")
            }
        }
    }
}
