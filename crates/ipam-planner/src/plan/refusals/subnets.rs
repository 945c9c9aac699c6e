//! Changes that would give addresses of a Neutron subnet are refused. A plan from files blocks each of
//! them alone; an undo plan may name any.

use super::Refusal;
use crate::openstack::{Overlapping, SubnetOverlap, SubnetPools};
use crate::plan::change::{Action, Change};
use crate::plan::pod_pools::PodPoolSpec;
use ipam_cilium::observed::Observed;
use ipam_core::model::Rule;
use ipam_core::net::Block;
use ipam_desired::Desired;

pub(super) fn refusals(changes: &[Change], desired: &Desired, observed: &Observed) -> Vec<Refusal> {
    if desired.neutron_pools.is_empty() {
        return Vec::new();
    }
    let overlaps = SubnetPools::resolve(desired, observed)
        .overlaps()
        .into_iter();
    let concerned = overlaps.filter(|overlap| changes.iter().any(|change| gives(change, overlap)));
    let refusal = |overlap: SubnetOverlap<'_>| {
        Refusal {
        rule: Rule("neutron-overlap"),
        message: format!(
            "the plan would give addresses of a Neutron subnet: {}",
            overlap.message()
        ),
        help: "this cannot be undone while the ranges overlap; Neutron gives those of a subnet to ports"
            .to_owned(),
        waiver: None,
    }
    };
    concerned.map(refusal).collect()
}

/// Whether a change gives addresses that are of the pool and of the subnet.
fn gives(change: &Change, overlap: &SubnetOverlap<'_>) -> bool {
    let is_shared = |block: &Block| {
        let range = block.range();
        range.overlaps(&overlap.range.range()) && range.overlaps(&overlap.other_range)
    };
    match (change, &overlap.other) {
        (Change::Node(change), Overlapping::Pool(_)) => {
            change.action != Action::Release && change.after.iter().any(is_shared)
        }
        (Change::PodPool(change), Overlapping::Pool(_)) => match &change.after {
            Some(PodPoolSpec::Pool(ranges)) => {
                let mut cidrs = ranges.iter().flat_map(|ranges| &ranges.cidrs);
                cidrs.any(is_shared)
            }
            Some(PodPoolSpec::Choice { .. }) | None => false,
        },
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
    }
}
