//! The state of single nodes. Must never know the addresses of other nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::taken_addresses::Taker;
use crate::plan::Misplaced;
use crate::plan::kept_addresses::{self, KeptAddresses};
use ipam_cilium::observed::Observed;
use ipam_core::alloc::Supply;
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Range};

/// The state of a Node and of the CiliumNode of that name.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeState {
    pub(super) presence: Presence,
    /// Blocks that it shows, or will show as soon as our write is reported.
    pub(super) blocks: BTreeSet<Block>,
    /// Addresses that it takes.
    pub(super) kept: Vec<(Range, Taker)>,
    pub(super) misplaced: Vec<Misplaced>,
}

/// Whether there is a Node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Presence {
    /// There is one.
    Node,
    /// There is one, and our write of its block is not reported yet.
    WrittenNode,
    /// The cluster has no such Node, and perhaps a CiliumNode.
    #[default]
    NoNode,
}

impl NodeState {
    /// Whether there is a Node, or something takes addresses for one.
    pub(super) fn is_known(&self) -> bool {
        self.presence != Presence::NoNode || !self.kept.is_empty()
    }

    /// Notes blocks that a plan gives to the node of this name, and that are not written yet. Of a
    /// block that it shows already, others may have the part that it does not keep.
    pub(super) fn will_get(&mut self, name: &NodeName, blocks: &[Block]) {
        let planned = blocks.iter().filter(|block| !self.blocks.contains(block));
        let planned = planned.map(|block| (block.range(), Taker::Planned(name.clone())));
        self.kept.extend(planned);
    }

    /// Notes that these blocks are written.
    pub(super) fn is_written(&mut self, name: &NodeName, blocks: &[Block]) {
        self.presence = Presence::WrittenNode;
        self.kept
            .retain(|(_, taker)| !matches!(taker, Taker::Planned(_)));
        for block in blocks {
            self.blocks.insert(*block);
            let kept = (block.range(), Taker::Node(name.clone()));
            if !self.kept.contains(&kept) {
                self.kept.push(kept);
            }
        }
    }

    /// Whether the cluster shows by now what was written, and nothing else.
    pub(super) fn is_shown_as_written(&self, after: &NodeState) -> bool {
        self.presence == Presence::WrittenNode && self.blocks == after.blocks
    }

    /// Whether it takes less than before.
    pub(super) fn takes_less_than(&self, before: &NodeState) -> bool {
        let taken = |state: &NodeState| -> Vec<Range> {
            let kept = state.kept.iter().filter(|(_, taker)| taker.takes());
            kept.map(|(range, _)| *range).collect()
        };
        let after = taken(self);
        let is_left = |range: &Range| after.iter().any(|other| other.contains(range));
        !taken(before).iter().all(is_left)
    }
}

/// What each Node and CiliumNode keeps of the pools and beside them.
pub(super) fn node_states(observed: &Observed, pools: &Supply) -> BTreeMap<NodeName, NodeState> {
    let mut nodes: BTreeMap<NodeName, NodeState> = BTreeMap::new();
    for node in observed.nodes.values() {
        let machine = kept_addresses::of_machine(node, pools).into_iter();
        let machine = machine.map(|range| (range, Taker::Machine(node.name.clone())));
        let state = nodes.entry(node.name.clone()).or_default();
        state.presence = Presence::Node;
        state.kept.extend(machine);
    }
    for (name, range) in KeptAddresses::new(observed, pools).shown {
        let state = nodes.entry(name.clone()).or_default();
        state.kept.push((range, Taker::Node(name.clone())));
    }
    for (name, block) in observed.shown_blocks() {
        let state = nodes.entry(name.clone()).or_default();
        let is_kept = |(range, _): &(Range, Taker)| *range == block.range();
        if state.blocks.insert(block) && !state.kept.iter().any(is_kept) {
            let shown = (block.range(), Taker::Shown(name.clone()));
            state.kept.push(shown);
        }
    }
    nodes
}
