//! The supply of all pools, and the addresses that are taken from it.

use super::kept_addresses::KeptAddresses;
use crate::openstack::SubnetPools;
use ipam_cilium::observed::{Observed, OtherUser};
use ipam_core::alloc::{AllocationMode, PoolSupply, Supply};
use ipam_core::claims::Claims;
use ipam_core::net::{Block, Range, merge};
use ipam_desired::{Desired, PoolState};

/// The supply of all pools, with every block free.
pub(super) fn supply(desired: &Desired) -> Supply {
    let pools = desired.pools.values().map(|pool| {
        let ranges: Vec<Block> = pool.ranges.iter().map(|range| range.block).collect();
        let giving = match pool.state {
            PoolState::Active => AllocationMode::New,
            PoolState::Disabled => AllocationMode::Nothing,
        };
        PoolSupply::new(pool.name.clone(), giving, &ranges, &pool.block_size)
    });
    Supply::new(pools.collect())
}

/// Addresses that no node may get: used by something other than nodes' pods, or excluded by the
/// Policy.
pub fn foreign_ranges(desired: &Desired, observed: &Observed) -> Vec<Range> {
    foreign(
        desired,
        observed,
        &KeptAddresses::new(observed, &supply(desired)),
    )
}

/// Like [`foreign_ranges`], with known kept addresses.
pub(super) fn foreign(
    desired: &Desired,
    observed: &Observed,
    kept_addresses: &KeptAddresses<'_>,
) -> Vec<Range> {
    let machines = kept_addresses.machines.iter().copied();
    let tombstones = observed.tombstones.iter().map(|block| block.range());
    let fixed = fixed_ranges(desired, observed).into_iter();
    merge(fixed.chain(machines).chain(tombstones))
}

/// The foreign ranges that stay whatever nodes do.
fn fixed_ranges(desired: &Desired, observed: &Observed) -> Vec<Range> {
    let is_machine = |user: &OtherUser<'_>| matches!(user, OtherUser::Machine(_));
    let used = observed
        .used_by_others()
        .filter(|(_, user)| !is_machine(user))
        .map(|(range, _)| range);
    let wanted = desired
        .address_pools
        .values()
        .flat_map(|pool| pool.ranges.iter().map(|range| range.range));
    let unowned = observed.unowned_ranges().map(Block::range);
    let unattributed = observed
        .unattributed
        .iter()
        .map(|block| block.range())
        .chain(unowned);
    let excluded = desired.policy.excluded.iter().copied();
    let subnets = SubnetPools::resolve(desired, observed);
    let of_neutron = subnets.ranges().map(|(_, range)| range.range());
    merge(
        used.chain(wanted)
            .chain(unattributed)
            .chain(excluded)
            .chain(of_neutron),
    )
}

/// Every address that no node may get, or that a node has.
pub(super) fn addresses_in_use(
    desired: &Desired,
    observed: &Observed,
    claims: &Claims,
    kept_addresses: &KeptAddresses<'_>,
) -> Vec<Range> {
    let foreign = foreign(desired, observed, kept_addresses);
    let reserved = desired
        .pools
        .values()
        .flat_map(|pool| pool.reserved.iter().copied());
    let shown = kept_addresses.shown.iter().map(|(_, range)| *range);
    foreign
        .into_iter()
        .chain(reserved)
        .chain(shown)
        .chain(claims.ranges())
        .collect()
}
