//! Records blocks of deleted nodes, so that new nodes do not get them during the quarantine.
//!
//! It must never decide which blocks those are, as the cache of the cluster does, or which of them
//! count, as `ipam_core::claims` does.

use std::collections::BTreeMap;

use ipam_cilium::observed::{ModeSeen, Observed, ObservedKind, StoredDeparted};
use ipam_cluster::{Cluster, ClusterError, Write, WriteError};
use ipam_core::claims::DepartedPart;
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::Block;
use ipam_desired::Desired;

/// Whether the files quarantine a block of a deleted node.
pub(super) fn is_quarantined(desired: &Desired, block: Block) -> bool {
    let is_of_pool = || desired.pools.values().any(|pool| pool.contains(block));
    desired.policy.quarantine.is_positive() && is_of_pool()
}

/// Whether the block can be recorded. Cilium's operator assigns blocks in `multi-pool`, and knows
/// no quarantine. A part that cannot be read is left alone: plans have a finding about it.
pub(super) fn is_recordable(observed: &Observed, block: Block) -> bool {
    let part = ObservedKind::Departed(DepartedPart::of(block));
    let is_assigned_here = observed.cilium.mode() != ModeSeen::Known(IpamMode::MultiPool);
    is_assigned_here && observed.blind_spot(part).is_none()
}

/// Records blocks of deleted nodes. `observed` must have the present record. If another program
/// has changed a part of the record since, the blocks of this part are not recorded.
///
/// # Errors
/// Fails if a part cannot be written.
pub(super) async fn record<C: Cluster>(
    cluster: &C,
    desired: &Desired,
    observed: &Observed,
    departed: &BTreeMap<Block, NodeName>,
) -> Result<(), ClusterError> {
    let StoredDeparted {
        departed: known,
        versions,
    } = &observed.departed;
    let changed = known.record(departed, cluster.now(), desired.policy.quarantine);
    for (part, blocks) in changed.parts {
        let write = Write::departed(part, &blocks, versions.get(&part));
        match cluster.write(&write).await {
            Ok(_) | Err(WriteError::Superseded(_)) => {}
            Err(error) => return Err(ClusterError::Departed { part, error }),
        }
    }
    Ok(())
}
