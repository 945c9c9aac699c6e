//! Whether another program assigns `spec.podCIDRs` of Nodes. `plan`, `doctor`, `explain`, `import`
//! and `migrate` share this decision. It must never look for evidence itself.
//!
//! Nodes and the blocks that they hold: which pairs overlap.

use std::sync::Arc;

use ipam_cilium::observed::{Allocator, AllocatorStatus, ControllerProgram, ModeSeen, Observed};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Range, overlapping_pairs};
use ipam_desired::Policy;

/// The allocator of pod CIDRs, other than `cilium-ipam`, that matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherAllocator<'o> {
    /// The allocator assigns pod CIDRs to new Nodes.
    Active(&'o Arc<Allocator>),
    /// The allocator may assign pod CIDRs to new Nodes.
    Unknown(&'o Arc<Allocator>),
    /// Nothing shows how kube-controller-manager runs.
    Unseen,
    /// There is no other allocator, or the Policy acknowledges it.
    None,
}

impl<'o> OtherAllocator<'o> {
    /// The first allocator that the Policy does not acknowledge.
    pub fn of(observed: &'o Observed, policy: &Policy) -> OtherAllocator<'o> {
        let acknowledged = &policy.acknowledged_allocators;
        let is_open = |one: &&Arc<Allocator>| !acknowledged.contains(&one.name);
        // A cloud's controller may have the flag for its routes alone.
        let with = |status: AllocatorStatus| {
            let open = observed.allocators.iter().filter(is_open);
            let open = open.filter(|one| one.status == status);
            open.min_by_key(|one| !one.is_manager())
        };
        let manager = ControllerProgram::KubeControllerManager.as_str();
        match (
            with(AllocatorStatus::Active),
            with(AllocatorStatus::Unknown),
        ) {
            (Some(active), _) => OtherAllocator::Active(active),
            (None, Some(unknown)) => OtherAllocator::Unknown(unknown),
            (None, None) if acknowledged.contains(manager) => OtherAllocator::None,
            (None, None) if observed.allocators.iter().any(|one| one.is_manager()) => {
                OtherAllocator::None
            }
            (None, None) => OtherAllocator::Unseen,
        }
    }

    /// The allocator that is known to assign pod CIDRs.
    pub fn active(self) -> Option<&'o Arc<Allocator>> {
        match self {
            OtherAllocator::Active(allocator) => Some(allocator),
            _ => None,
        }
    }
}

/// Whether Cilium reads `spec.podCIDRs` of Nodes, so that an allocator of these matters.
pub fn reads_nodes(observed: &Observed) -> bool {
    observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes)
}

/// What an allocator does, as a sentence.
pub fn described(allocator: &Allocator) -> String {
    let Allocator { name, evidence, .. } = allocator;
    format!("{} {evidence}", name.escape_debug())
}

/// How to keep an allocator from assigning, or to tell that it does not.
pub fn fix(allocator: &Allocator) -> String {
    format!(
        "{}; if it assigns no pod CIDRs any more, add `{}` to `acknowledgedAllocators` in the Policy, and plan again",
        allocator.switch_off,
        allocator.name.escape_debug()
    )
}

/// A block and the node that has it.
pub type Holder<'o> = (&'o NodeName, Block);

/// Pairs of different nodes with blocks that overlap.
pub fn overlapping_holders<'o>(mut holders: Vec<Holder<'o>>) -> Vec<(Holder<'o>, Holder<'o>)> {
    holders.sort();
    holders.dedup();
    let owners: Vec<(Range, usize)> = holders
        .iter()
        .enumerate()
        .map(|(index, (_, block))| (block.range(), index))
        .collect();
    let pairs = overlapping_pairs(owners)
        .into_iter()
        .map(|(a, b)| (holders[a], holders[b]));
    let mut pairs: Vec<_> = pairs.filter(|(a, b)| a.0 != b.0).collect();
    pairs.sort();
    pairs.dedup();
    pairs
}
