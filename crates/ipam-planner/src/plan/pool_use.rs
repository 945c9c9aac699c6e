//! How full each pool is.

use super::kept_addresses::KeptAddresses;
use super::supply::{foreign, supply};
use ipam_cilium::observed::Observed;
use ipam_core::net::{Block, Family, Range, largest_gap, merge};
use ipam_desired::{Desired, Pool};

/// How full one family of a pool is. Counts are blocks.
#[derive(Clone, Debug)]
pub struct PoolUse<'d> {
    /// The pool.
    pub pool: &'d Pool,
    /// The family.
    pub family: Family,
    /// Blocks in all its ranges.
    pub total: u128,
    /// Blocks that nodes hold or that are pinned.
    pub used: u128,
    /// Blocks that are kept free of nodes: reserved, excluded, claimed, quarantined, or used by
    /// something else.
    pub reserved: u128,
    /// Blocks that nodes can get.
    pub free: u128,
    /// The longest run of addresses that nothing uses or keeps free.
    pub longest_free: Option<Range>,
    /// Nodes that the selector matches.
    pub nodes: usize,
}

/// Use of every pool, by name and family.
pub fn pool_use<'d>(desired: &'d Desired, observed: &Observed) -> Vec<PoolUse<'d>> {
    let reserved = desired
        .pools
        .values()
        .flat_map(|pool| pool.reserved.iter().copied());
    let claims = observed.live_claims(desired.policy.quarantine);
    let mut by_nodes = supply(desired);
    let kept_addresses = KeptAddresses::new(observed, &by_nodes);
    let foreign = foreign(desired, observed, &kept_addresses);
    let reserved = merge(foreign.into_iter().chain(reserved).chain(claims.ranges()));
    let shown = kept_addresses.shown.iter().map(|(_, range)| *range);
    let pinned = desired
        .pins
        .values()
        .flat_map(|pin| pin.blocks.iter().copied());
    let used: Vec<Range> = merge(shown.chain(pinned.map(Block::range)));
    used.iter().for_each(|range| by_nodes.take(range));
    let mut by_all = by_nodes.clone();
    reserved.iter().for_each(|range| by_all.take(range));
    let taken = merge(used.iter().chain(&reserved).copied());
    let mut uses = Vec::new();
    for ((_, nodes_only), (_, all)) in by_nodes.pools().zip(by_all.pools()) {
        let Some(pool) = desired.pools.get(nodes_only.name()) else {
            continue;
        };
        for family in pool.families() {
            let sum = |supply: &ipam_core::alloc::PoolSupply,
                       count: fn(&ipam_core::net::Slots) -> u128|
             -> u128 {
                supply
                    .slots()
                    .iter()
                    .filter(|slots| slots.size().family() == family)
                    .map(count)
                    .sum()
            };
            let (total, used, free) = (
                sum(all, ipam_core::net::Slots::count),
                sum(nodes_only, ipam_core::net::Slots::taken),
                sum(all, ipam_core::net::Slots::free),
            );
            let nodes = observed
                .nodes
                .values()
                .filter(|node| pool.selector.matches(&node.labels))
                .count();
            let ranges = pool
                .ranges
                .iter()
                .map(|range| range.block)
                .filter(|block| block.family() == family);
            let gaps = ranges.filter_map(|range| largest_gap(&range.range(), &taken));
            let longest_free = gaps.max_by_key(Range::width);
            uses.push(PoolUse {
                pool,
                family,
                total,
                used,
                reserved: total - used - free,
                free,
                longest_free,
                nodes,
            });
        }
    }
    uses
}
