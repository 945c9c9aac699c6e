//! What other writers of CiliumPodIPPools left: pools that cannot be read, and reserved ranges. Must
//! never know why a pool changes.

use crate::plan::blocked::{BlockedReason, PodPoolObstacle};
use ipam_cilium::observed::{Observed, PodRanges, SeenPodPool};
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, Range, covers, merge};
use ipam_desired::Pool;

/// Whether the CIDRs of all other pools are known. One that is not could overlap.
pub(super) fn others_are_readable(pool: &Pool, observed: &Observed) -> Result<(), BlockedReason> {
    let mut others = observed.pod_pools.iter();
    let unreadable = others.find_map(|(name, seen)| {
        let text = seen.unreadable.first()?;
        (name.as_str() != pool.name.as_str())
            .then(|| format!("CiliumPodIPPool {}: {text}", name.escape_debug()))
    });
    match unreadable {
        Some(text) => Err(BlockedReason::PodCidrUnreadable(text)),
        None => Ok(()),
    }
}

/// Whether the CIDRs still contain the pool's `reservedRanges`, which a change leaves alone.
pub(super) fn reserved_stay(
    seen: &SeenPodPool,
    after: &PerFamily<PodRanges>,
) -> Result<(), BlockedReason> {
    let cidrs = after.iter().flat_map(|now| &now.cidrs);
    let cidrs = merge(cidrs.map(|cidr| cidr.range()));
    let was = merge(seen.cidrs().map(Block::range));
    let is_lost = |reserved: &&Range| covers(&was, reserved) && !covers(&cidrs, reserved);
    match seen.reserved.iter().find(is_lost) {
        Some(reserved) => Err(BlockedReason::PodPool(PodPoolObstacle::Reserved(*reserved))),
        None => Ok(()),
    }
}
