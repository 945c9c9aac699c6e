//! Records blocks of deleted nodes, so that new nodes do not get them during the quarantine.
//!
//! It must never decide which blocks those are, as the cache of the cluster does, or which of them
//! count, as `ipam_core::claims` does.

use ipam_cilium::observed::{ModeSeen, Observed, ObservedKind};
use ipam_cluster::{Cluster, Write, WriteError};
use ipam_core::claims::{DepartedPart, Departure};
use ipam_core::model::IpamMode;
use ipam_core::net::Block;
use ipam_desired::Desired;

/// Whether the files quarantine a block of a deleted node.
pub(super) fn is_quarantined(desired: &Desired, block: Block) -> bool {
    let is_of_pool = || desired.pools.values().any(|pool| pool.contains(block));
    desired.policy.quarantine.is_positive() && is_of_pool()
}

/// Whether the block must still be recorded, and can be. Cilium's operator assigns blocks in
/// `multi-pool`, and knows no quarantine. A part that cannot be read is left alone: plans have a
/// finding about it.
pub(super) fn must_be_recorded(
    desired: &Desired,
    observed: &Observed,
    block: Block,
    departure: &Departure,
) -> bool {
    let (at, quarantine) = (observed.at, desired.policy.quarantine);
    let departed = &observed.departed.departed;
    can_be_recorded(observed, DepartedPart::of(block))
        && !departed.is_settled(block, departure, at, quarantine)
}

fn can_be_recorded(observed: &Observed, part: DepartedPart) -> bool {
    let is_assigned_here = observed.cilium.mode() != ModeSeen::Known(IpamMode::MultiPool);
    is_assigned_here && observed.blind_spot(ObservedKind::Departed(part)).is_none()
}

/// Records the blocks of deleted nodes that wait for it. If another program has changed a part of
/// the record since, the blocks of this part wait. Returns the parts that cannot be written.
pub(super) async fn record<C: Cluster>(
    cluster: &C,
    desired: &Desired,
    observed: &Observed,
) -> Vec<(DepartedPart, WriteError)> {
    let departed = &observed.departed;
    let changed = departed
        .departed
        .record(observed.at, desired.policy.quarantine);
    let mut failed = Vec::new();
    for (part, blocks) in changed {
        if !can_be_recorded(observed, part) {
            continue;
        }
        let write = Write::departed(part, &blocks, departed.versions.get(&part));
        match cluster.write(&write).await {
            Ok(_) | Err(WriteError::Superseded(_)) => {}
            Err(error) => failed.push((part, error)),
        }
    }
    failed
}
