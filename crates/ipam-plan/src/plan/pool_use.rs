//! How full each pool is.

use std::collections::{BTreeMap, BTreeSet};

use super::candidates::{foreign, supply};
use super::kept_addresses::KeptAddresses;
use ipam_cilium::observed::Observed;
use ipam_core::alloc::{PoolSupply, Supply};
use ipam_core::model::{Labels, NodeName, PoolName, SelectorIndex};
use ipam_core::net::{Block, Family, Range, Slots, largest_gap, merge};
use ipam_desired::{Desired, Pool};

/// How full one family of a pool is.
#[derive(Clone, Debug)]
pub struct PoolUse<'d> {
    pub pool: &'d Pool,
    pub family: Family,
    pub counts: BlockCounts,
    /// The longest run of addresses that nothing uses or keeps free.
    pub longest_free: Option<Range>,
}

/// Blocks of one pool and family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Number of blocks in all ranges of the pool.
    pub total: u128,
    /// Number of blocks that nodes hold or that are pinned.
    pub used: u128,
    /// Number of blocks that are kept free of nodes: reserved, excluded, claimed, quarantined, or used
    /// by something else.
    pub reserved: u128,
    /// Number of blocks that nodes can still get.
    pub free: u128,
}

impl BlockCounts {
    /// Counts of one family of a pool, from its supply without the blocks that nodes hold or that
    /// are pinned, and from its supply without everything that is taken.
    pub(super) fn of(
        without_held: &PoolSupply,
        without_taken: &PoolSupply,
        family: Family,
    ) -> BlockCounts {
        let sum = |supply: &PoolSupply, count: fn(&Slots) -> u128| -> u128 {
            let slots = supply.slots().iter();
            let slots = slots.filter(|slots| slots.size().family() == family);
            slots.map(count).sum()
        };
        let (total, used, free) = (
            sum(without_taken, Slots::count),
            sum(without_held, Slots::taken),
            sum(without_taken, Slots::free),
        );
        BlockCounts {
            total,
            used,
            reserved: total - used - free,
            free,
        }
    }
}

/// How full one range of a pool is. Counts are blocks.
#[derive(Clone, Debug)]
pub struct RangeUse {
    pub range: Range,
    pub total: u128,
    /// Number of blocks that nodes hold or that are pinned.
    pub used: u128,
    pub free: u128,
    /// The lowest free blocks.
    pub next: Vec<Block>,
}

/// Use of each range of a pool, with at most `most` free blocks of each.
pub fn range_use(
    desired: &Desired,
    observed: &Observed,
    pool: &PoolName,
    most: usize,
) -> Vec<RangeUse> {
    let Supplies {
        by_nodes, by_all, ..
    } = Supplies::new(desired, observed);
    let Some(id) = by_all.id(pool) else {
        return Vec::new();
    };
    let slots = by_nodes.pool(id).slots().iter();
    let of_range = |(nodes_only, all): (&Slots, &Slots)| {
        let mut left = all.clone();
        RangeUse {
            range: *all.range(),
            total: all.count(),
            used: nodes_only.taken(),
            free: all.free(),
            next: std::iter::from_fn(|| left.take_lowest())
                .take(most)
                .collect(),
        }
    };
    slots.zip(by_all.pool(id).slots()).map(of_range).collect()
}

/// The supply of all pools, without what is taken.
struct Supplies {
    /// Without blocks that nodes hold or that are pinned.
    by_nodes: Supply,
    /// Also without all blocks that are kept free of nodes.
    by_all: Supply,
    /// Ranges that both supplies lack.
    taken: Vec<Range>,
}

impl Supplies {
    fn new(desired: &Desired, observed: &Observed) -> Supplies {
        let reserved = desired.never_given();
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
        Supplies {
            by_nodes,
            by_all,
            taken,
        }
    }
}

/// Use of every pool, by name and family.
pub fn pool_use<'d>(desired: &'d Desired, observed: &Observed) -> Vec<PoolUse<'d>> {
    let Supplies {
        by_nodes,
        by_all,
        taken,
    } = Supplies::new(desired, observed);
    let mut uses = Vec::new();
    for ((_, nodes_only), (_, all)) in by_nodes.pools().zip(by_all.pools()) {
        let Some(pool) = desired.pools.get(nodes_only.name()) else {
            continue;
        };
        for family in pool.families() {
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
                counts: BlockCounts::of(nodes_only, all, family),
                longest_free,
            });
        }
    }
    uses
}

/// The blocks of pools that nodes show, each with its pool and its node.
pub(crate) fn holders<'a>(
    supply: &'a Supply,
    observed: &'a Observed,
) -> impl Iterator<Item = (&'a PoolName, &'a NodeName, Block)> {
    let holder = |(node, block)| {
        let pool = supply.pool(supply.pool_of(block)?);
        Some((pool.name(), node, block))
    };
    observed.shown_blocks().filter_map(holder)
}

/// The number of nodes that each pool selects, without pools that select none.
pub fn nodes_by_pool<'d>(
    desired: &'d Desired,
    observed: &Observed,
) -> BTreeMap<&'d PoolName, usize> {
    let pools: Vec<&Pool> = desired.pools.values().collect();
    let keys: BTreeSet<&str> = pools.iter().flat_map(|pool| pool.selector.keys()).collect();
    // Nodes with the same values of these labels are in the same pools.
    let mut alike: BTreeMap<Vec<(&String, &String)>, (usize, &Labels)> = BTreeMap::new();
    for node in observed.nodes.values() {
        let labels = node.labels.iter();
        let looked_at = labels
            .filter(|(key, _)| keys.contains(key.as_str()))
            .collect();
        let (count, _) = alike.entry(looked_at).or_insert((0, &node.labels));
        *count += 1;
    }
    let selectors = SelectorIndex::new(pools.iter().map(|pool| &pool.selector));
    let mut nodes = BTreeMap::new();
    for (count, labels) in alike.into_values() {
        for place in selectors.matching(labels, |place| &pools[place].selector) {
            *nodes.entry(&pools[place].name).or_default() += count;
        }
    }
    nodes
}
