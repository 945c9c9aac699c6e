//! Whether a change of nodes may matter to other nodes, which may wait for addresses, and to findings
//! about them.

use std::collections::{BTreeMap, BTreeSet};

use super::node_state::NodeState;
use super::taken_addresses::Taker;
use super::{PlannedState, Reservations, Waiting, finding_key};
use crate::plan::Plan;
use crate::plan::overview_update::PoolUpdate;
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::{Block, Family, Range};

/// Nodes before and after a change.
pub(super) struct Step<'s> {
    before: &'s BTreeMap<NodeName, NodeState>,
    after: &'s BTreeMap<NodeName, NodeState>,
}

impl<'s> Step<'s> {
    pub(super) fn new(
        before: &'s BTreeMap<NodeName, NodeState>,
        after: &'s BTreeMap<NodeName, NodeState>,
    ) -> Step<'s> {
        Step { before, after }
    }

    /// Each node that changed, and what it is now.
    fn nodes(&self) -> impl Iterator<Item = (&NodeName, &NodeState, NodeState)> {
        let nodes = self.before.iter();
        nodes.map(|(name, before)| {
            let after = self.after.get(name).cloned().unwrap_or_default();
            (name, before, after)
        })
    }
}

impl PlannedState {
    /// Whether others have addresses of these nodes too, so that both wait for each other.
    pub(super) fn is_shared(&self, names: &BTreeSet<NodeName>) -> bool {
        let mut states = names
            .iter()
            .filter_map(|name| Some((name, self.nodes.get(name)?)));
        states.any(|(name, state)| {
            let mut kept = state.kept.iter();
            kept.any(|(range, taker)| self.collides(name, range, taker))
        })
    }

    /// Whether another node has what this one takes.
    pub(super) fn collides(&self, name: &NodeName, range: &Range, taker: &Taker) -> bool {
        match taker {
            Taker::Machine(_) => self.taken.is_in_block_of_another(range, name),
            Taker::Shown(_) => false,
            Taker::Node(_) | Taker::Planned(_) | Taker::Pin(_) | Taker::Other => {
                self.taken.is_of_another(range, name)
            }
        }
    }

    /// Notes whether something that waits may get addresses now. It gets them before new nodes do.
    pub(super) fn notice_freed(&mut self, step: &Step<'_>) {
        let mut nodes = step.nodes();
        let is_freed = nodes.any(|(_, before, after)| after.takes_less_than(before));
        if self.waiting == Waiting::Something && is_freed {
            self.waiting = Waiting::ForFreed;
        }
    }

    /// Whether the whole plan may say something else of other nodes now.
    pub(super) fn concerns_others(
        &self,
        step: &Step<'_>,
        reservations: &Reservations,
        plan: &Plan,
    ) -> bool {
        let Reservations { ended, new } = reservations;
        let is_known = |finding| self.findings.contains(&finding_key(finding));
        let is_of_others = |(name, before, after): (&NodeName, &NodeState, NodeState)| {
            let is_unexpected = before.is_known() && !before.is_shown_as_written(&after);
            let mut changed = before.blocks.symmetric_difference(&after.blocks);
            let mut new = after.kept.iter().filter(|kept| !before.kept.contains(kept));
            (is_unexpected && self.waiting != Waiting::Nothing)
                || new.any(|(range, _)| self.taken.is_of_something_else(range))
                || changed.any(|block| self.is_wanted_by_another(block, name))
                || self.machine_in_pools(before) != self.machine_in_pools(&after)
        };
        self.waiting == Waiting::ForFreed
            || ended.union(new).any(|range| self.taken.is_for_pods(range))
            || !plan.findings.iter().all(is_known)
            || step.nodes().any(is_of_others)
    }

    /// Whether a part of the block is pinned to another node, or shown by one.
    fn is_wanted_by_another(&self, block: &Block, node: &NodeName) -> bool {
        let range = block.range();
        let mut pinned = self.taken.pinned_to(&range);
        pinned.any(|other| other != node) || self.taken.is_shown_by_another(&range, node)
    }

    /// Addresses of the node's machine that lie in pools.
    pub(super) fn machine_in_pools(&self, state: &NodeState) -> Vec<Range> {
        let machine = state.kept.iter();
        let machine = machine.filter(|(_, taker)| matches!(taker, Taker::Machine(_)));
        let in_pools = machine.filter(|(range, _)| !self.taken.free().parts(range).is_empty());
        in_pools.map(|(range, _)| *range).collect()
    }

    /// Pools that have no free block of a family. A node in another pool is misplaced as long as a
    /// better one has one.
    pub(super) fn full_pools(&self) -> BTreeSet<(PoolName, Family)> {
        let pools = self.taken.free().pools();
        let full = pools.flat_map(|(id, pool)| {
            let counts = self.taken.counts(id).into_iter();
            let full = counts.filter(|(_, counts)| counts.free == 0);
            full.map(|(family, _)| (pool.name().clone(), family))
        });
        full.collect()
    }

    /// Notes which of these pools are full now, and whether one was not, or no longer is.
    pub(super) fn notice_full(&mut self, pools: &BTreeMap<PoolName, PoolUpdate>) -> bool {
        let counts = pools.iter();
        let counts = counts.flat_map(|(name, pool)| pool.blocks.iter().map(move |of| (name, of)));
        let mut has_turned = false;
        for (name, (family, counts)) in counts {
            let key = (name.clone(), *family);
            has_turned |= match counts.free {
                0 => self.full.insert(key),
                _ => self.full.remove(&key),
            };
        }
        has_turned
    }
}
