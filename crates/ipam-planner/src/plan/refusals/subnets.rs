//! Pools that overlap a subnet of Neutron: a plan that gives their addresses is refused.

use super::Refusal;
use crate::openstack::{Overlapping, SubnetOverlap, SubnetPools};
use crate::plan::change::{Action, Change, NodeChange, Reason};
use ipam_cilium::observed::Observed;
use ipam_core::alloc::PassedOver;
use ipam_core::model::{PoolName, Rule};
use ipam_desired::Desired;

/// Whether a node gets a block of this pool, or of a worse one because this pool is full beside the
/// subnet.
fn gives_instead(change: &NodeChange, pool: &PoolName) -> bool {
    let is_passed_over = || match &change.reason {
        Reason::LowestFree { passed_over } => passed_over
            .iter()
            .any(|passed| passed.pool == *pool && passed.why == PassedOver::Full),
        Reason::Pinned
        | Reason::MovedByPin { .. }
        | Reason::PinnedInPart
        | Reason::HeldElsewhere { .. }
        | Reason::Undo => false,
    };
    change.action != Action::Release && (change.pool.as_ref() == Some(pool) || is_passed_over())
}

pub(super) fn refusals(changes: &[Change], desired: &Desired, observed: &Observed) -> Vec<Refusal> {
    if desired.neutron_pools.is_empty() {
        return Vec::new();
    }
    let gives = |change: &Change, other: &Overlapping<'_>| match (change, other) {
        (Change::Node(change), Overlapping::Pool(name)) => gives_instead(change, name),
        (Change::PodPool(change), Overlapping::Pool(name)) => {
            change.after.is_some() && change.pool == **name
        }
        (Change::AddressPool(change), Overlapping::AddressPool(name)) => {
            change.after.is_some() && change.name.as_str() == *name
        }
        (
            Change::Node(_)
            | Change::PodPool(_)
            | Change::Port(_)
            | Change::AddressPool(_)
            | Change::Service(_),
            _,
        ) => false,
    };
    let overlaps = SubnetPools::resolve(desired, observed)
        .overlaps()
        .into_iter();
    let concerned =
        overlaps.filter(|overlap| changes.iter().any(|change| gives(change, &overlap.other)));
    let refusal = |overlap: SubnetOverlap<'_>| Refusal {
        rule: Rule("neutron-overlap"),
        message: overlap.message(),
        help: "give each pool addresses of its own; Neutron gives those of a subnet to ports"
            .to_owned(),
        waiver: None,
    };
    concerned.map(refusal).collect()
}
