//! Records blocks of deleted nodes, so that new nodes do not get them during the quarantine.
//!
//! It must never decide which blocks those are, as the cache of the cluster does, or which of them
//! count, as `ipam_core::claims` does.

use futures_util::future::join_all;
use ipam_cilium::observed::{ModeSeen, Observed, ObservedKind};
use ipam_cluster::{Cluster, ClusterError, Write, WriteError};
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

/// The writes that record the blocks of deleted nodes that wait for it.
pub(super) fn writes(desired: &Desired, observed: &Observed) -> Vec<(DepartedPart, Write)> {
    let departed = &observed.departed;
    let changed = departed
        .departed
        .record(observed.at, desired.policy.quarantine);
    let recordable = changed.into_iter();
    let recordable = recordable.filter(|(part, _)| can_be_recorded(observed, *part));
    recordable
        .map(|(part, blocks)| {
            let write = Write::departed(part, &blocks, departed.versions.get(&part));
            (part, write)
        })
        .collect()
}

/// Sends the writes at the same time. If another program has changed a part of the record since, the
/// blocks of this part wait.
///
/// # Errors
/// Fails if a part cannot be written. Its blocks wait.
pub(super) async fn record<C: Cluster>(
    cluster: &C,
    writes: &[(DepartedPart, Write)],
) -> Result<(), ClusterError> {
    let each = writes.iter().map(|(part, write)| async move {
        match cluster.write(write).await {
            Ok(_) | Err(WriteError::Superseded(_)) => Ok(()),
            Err(error) => Err(ClusterError::Departed { part: *part, error }),
        }
    });
    join_all(each).await.into_iter().collect()
}
