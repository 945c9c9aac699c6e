//! Counts the blocks of each pool that claims and quarantines keep from other nodes. Must never decide
//! which block a node gets.

use std::collections::BTreeMap;

use ipam_cilium::observed::Observed;
use ipam_core::alloc::Supply;
use ipam_core::claims::Claims;
use ipam_core::model::PoolName;
use ipam_core::net::Block;
use ipam_desired::Desired;

/// Number of blocks of a pool that no other node may get for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimedBlocks {
    pub in_flight: usize,
    pub quarantined: usize,
}

impl ClaimedBlocks {
    /// When they are free, as the end of an advice.
    pub(super) fn until(self) -> &'static str {
        match (self.in_flight, self.quarantined) {
            (0, 0) => "",
            (0, _) => ", or plan again when the quarantine ends",
            (_, 0) => ", or plan again when the claims end: an apply ends those of a killed one",
            _ => {
                ", or plan again when the claims or the quarantine end: an apply ends the claims of a killed one"
            }
        }
    }
}

/// The claimed and quarantined blocks of each pool that has some.
pub(super) fn claimed_blocks(
    desired: &Desired,
    observed: &Observed,
    supply: &Supply,
) -> BTreeMap<PoolName, ClaimedBlocks> {
    let Claims {
        in_flight,
        quarantined,
    } = observed.live_claims(desired.policy.quarantine);
    let pool_of = |block: &Block| {
        let pool = supply.pool_of(*block)?;
        Some(supply.pool(pool).name().clone())
    };
    let mut claimed: BTreeMap<PoolName, ClaimedBlocks> = BTreeMap::new();
    for pool in in_flight.keys().filter_map(pool_of) {
        claimed.entry(pool).or_default().in_flight += 1;
    }
    for pool in quarantined.keys().filter_map(pool_of) {
        claimed.entry(pool).or_default().quarantined += 1;
    }
    claimed
}
