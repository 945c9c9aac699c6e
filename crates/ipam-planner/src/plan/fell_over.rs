//! Nodes that get a block of a later pool because a better one is full. The plan assigns the block
//! all the same: a node without a block is worse.

use super::change::{Change, NodeChange, Reason, node_changes};
use ipam_core::alloc::{PassedOver, PassedOverPool};
use ipam_core::model::{Finding, ObjectRef, PoolName, Rule, Severity};
use ipam_desired::Desired;

/// The pools before the one that gives the block, as far as they are full; best first.
pub(super) fn full_pools(change: &NodeChange) -> impl Iterator<Item = &PoolName> {
    let passed_over: &[PassedOverPool] = match &change.reason {
        Reason::LowestFree { passed_over } => passed_over,
        Reason::Pinned
        | Reason::MovedByPin { .. }
        | Reason::PinnedInPart
        | Reason::HeldElsewhere { .. }
        | Reason::Undo => &[],
    };
    let full = passed_over
        .iter()
        .filter(|passed| passed.why == PassedOver::Full);
    full.map(|passed| &passed.pool)
}

/// The best pool that is full; `None` if the node did not fall over.
pub(super) fn full_pool(change: &NodeChange) -> Option<&PoolName> {
    full_pools(change).next()
}

/// A warning for each node that falls over. Those of one full pool have one cause.
pub(super) fn findings<'p>(
    changes: &'p [Change],
    desired: &'p Desired,
) -> impl Iterator<Item = Finding> + 'p {
    node_changes(changes).filter_map(|change| {
        let full = full_pool(change)?;
        let later = match &change.pool {
            Some(pool) => format!("pool `{pool}`"),
            None => "a later pool".to_owned(),
        };
        let message = format!(
            "node `{}` gets a block of {later}, because pool `{full}` is full",
            change.node
        );
        let finding = Finding::new(Severity::Warning, Rule("fell-over"), message)
            .about(ObjectRef::node(&change.node))
            .about_also(ObjectRef::pool(full))
            .causes("the node keeps this block for good: routes and policies for the full pool do not cover it")
            .help(format!(
                "add a CIDR to pool `{full}` before you apply; later, only `cilium-ipam migrate` moves the nodes"
            ));
        Some(match desired.pools.get(full) {
            Some(pool) => finding.at(&pool.origin, "full"),
            None => finding,
        })
    })
}
