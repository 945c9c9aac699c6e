//! The blocks that Cilium's operator removes from CiliumNodes when it starts in ipam
//! `cluster-pool`. Must never know what a plan would write.
//!
//! Rules: `reuseIPNets` and `allocateIPNet` in `podcidr.go`, and `cidr_set.go` @ 1.15.19, 1.17.14,
//! 1.17.15, 1.18.8, 1.19.3, 1.20.0 and 1.20.2 (cilium#44832), run on the real operators. The
//! operator reads the CiliumNodes in an unknown order, and marks the slots of their blocks as used.
//! A slot has the size `cluster-pool-ipv4-mask-size`. If all slots of a block are used, the
//! operator removes the node's blocks of this family, unless
//! - the other family of the node fails as well, or
//! - no slot of the range is free: then it only sets an error.
//!
//! A block outside the ranges sets an error, too, and ends the node's turn before anything is used.
//! A node with blocks of one family gets its missing one in the same turn: the first free slot,
//! even if a node that comes later shows it.

mod judge;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::operator_settings::WrittenPool;
use super::{FamilyUse, ModeSeen, Observed, OperatorAttention};
use crate::behaviours;
use ipam_core::model::{CiliumVersion, IpamMode, NodeName};
use ipam_core::net::{Block, Family};

use slots::{FamilySlots, StartingNode};

/// How a starting operator handles a block whose slots are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateHandling {
    /// It sets an error and leaves the block.
    Reports,
    /// It removes the block.
    Removes,
    /// Unknown, because the patch release decides and is not known.
    DependsOnPatch,
}

impl DuplicateHandling {
    /// The handling by a release.
    pub fn of(release: CiliumVersion) -> DuplicateHandling {
        match behaviours::DUPLICATES_REMOVED.has(release) {
            Some(true) => DuplicateHandling::Removes,
            Some(false) => DuplicateHandling::Reports,
            None => DuplicateHandling::DependsOnPatch,
        }
    }
}

/// Why the operator finds the slots of a block used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalCause {
    /// Several CiliumNodes show overlapping blocks.
    SameBlock,
    /// Blocks of several CiliumNodes lie in one slot, which has this prefix length.
    SameSlot(u8),
    /// Two blocks of one CiliumNode lie in one slot.
    OwnBlocks,
    /// These nodes lack the family and take the first free slots.
    TakenFirst(BTreeSet<NodeName>),
}

/// How many of the candidates lose their blocks. The order of the CiliumNodes decides which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losers {
    Exactly(usize),
    AtMost(usize),
}

impl Losers {
    fn and(self, other: Losers) -> Losers {
        match (self, other) {
            (Losers::Exactly(one), Losers::Exactly(two)) => Losers::Exactly(one + two),
            _ => Losers::AtMost(self.most() + other.most()),
        }
    }

    pub fn most(self) -> usize {
        match self {
            Losers::Exactly(count) | Losers::AtMost(count) => count,
        }
    }
}

/// What the operator removes for one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub family: Family,
    pub cause: RemovalCause,
    /// Nodes that may lose their blocks of this family, with these blocks.
    pub candidates: BTreeMap<NodeName, Vec<Block>>,
    pub losers: Losers,
    /// The used slots with their nodes; larger than one slot if a block is.
    pub places: BTreeMap<Block, BTreeSet<NodeName>>,
}

impl Observed {
    /// The releases of the operators that may start next, never none. One that is not visible
    /// counts as that of the agents; `None` if theirs is unknown, too.
    pub fn operator_releases(&self) -> BTreeSet<Option<CiliumVersion>> {
        let cilium = &self.cilium;
        let of_agents = cilium.version.map(|(version, _)| version);
        let seen = cilium.operator_versions.iter();
        let seen: BTreeSet<_> = seen.map(|seen| seen.or(of_agents)).collect();
        match seen.is_empty() {
            true => BTreeSet::from([of_agents]),
            false => seen,
        }
    }

    /// The blocks that an operator of this release removes when it starts.
    pub fn removed_at_operator_start(&self, release: CiliumVersion) -> Vec<Removal> {
        if !self.starts_in_cluster_pool()
            || DuplicateHandling::of(release) == DuplicateHandling::Reports
        {
            return Vec::new();
        }
        let slots = Family::BOTH.map(|family| self.family_slots(family));
        let nodes = self.cilium_nodes.values().filter(|node| {
            let is_skipped = behaviours::IGNORED_NODES.include(release)
                && node.attention == OperatorAttention::Ignored;
            // A value that is not a CIDR ends the node's turn with an error.
            !is_skipped && node.unreadable.is_empty()
        });
        let nodes: Vec<StartingNode<'_>> = nodes
            .filter_map(|node| StartingNode::new(&node.name, &node.pod_cidrs, &slots))
            .collect();
        let mut removals = judge::removals(&slots, &nodes);
        // A node of both families fails at the family without blocks first, as long as it has none.
        if Family::BOTH
            .into_iter()
            .any(|family| self.is_without_blocks(family))
        {
            for removal in &mut removals {
                removal.losers = Losers::AtMost(removal.losers.most());
            }
        }
        removals
    }

    /// Whether the mask of a family is shorter than each of its ranges.
    fn is_without_blocks(&self, family: Family) -> bool {
        let ranges = self.slot_ranges(family);
        let mask = self.operator_mask(family);
        let is_shorter = |range: &Block| mask.is_some_and(|mask| mask < range.prefix_len());
        !ranges.is_empty() && ranges.iter().all(is_shorter)
    }

    /// Whether no operator that may start removes blocks.
    pub fn operators_only_report(&self) -> bool {
        let reports = |release: &Option<CiliumVersion>| {
            release.is_some_and(|one| DuplicateHandling::of(one) == DuplicateHandling::Reports)
        };
        self.operator_releases().iter().all(reports)
    }

    /// The family whose mask is unknown, if a starting operator may remove blocks because of it.
    pub fn unknown_mask_of_removals(&self) -> Option<Family> {
        if !self.starts_in_cluster_pool() || self.operators_only_report() {
            return None;
        }
        let mut pools = self.written_pools().into_iter();
        let is_hidden = |pool: &WrittenPool<'_>| {
            pool.mask.is_unknown() && !self.slot_ranges(pool.family).is_empty()
        };
        pools.find(is_hidden).map(|pool| pool.family)
    }

    /// The ranges of a family that is on.
    fn slot_ranges(&self, family: Family) -> Vec<Block> {
        match self.cilium.use_of(family) {
            FamilyUse::Off => Vec::new(),
            FamilyUse::Required | FamilyUse::Unspecified => self.operator_ranges(family),
        }
    }

    fn family_slots(&self, family: Family) -> FamilySlots {
        // With an unknown mask, only blocks that overlap are sure to share slots. A mask without a
        // slot has a finding of its own; the other family is judged as after its fix.
        let mask = self
            .operator_mask(family)
            .filter(|_| !self.is_without_blocks(family));
        let mask = mask.unwrap_or(family.bits());
        FamilySlots::new(family, self.slot_ranges(family), mask)
    }

    pub(super) fn starts_in_cluster_pool(&self) -> bool {
        let arguments = self.cilium.operator_arguments.as_ref();
        let of_operator = arguments.and_then(|arguments| arguments.get("ipam"));
        let cluster_pool = IpamMode::ClusterPool;
        self.cilium.mode() == ModeSeen::Known(cluster_pool)
            && !self.cilium.is_host_scope()
            && of_operator.is_none_or(|mode| mode.parse() == Ok(cluster_pool))
    }
}
