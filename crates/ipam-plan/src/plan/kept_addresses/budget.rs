//! How many blocks of each pool one object may keep out of it. Counts blocks; knows no object.
//!
//! The families of a pool count apart: they differ widely in size.

use std::collections::BTreeMap;

use ipnet::IpNet;

use ipam_core::alloc::{PoolId, PoolPart, Supply};
use ipam_core::model::PoolName;
use ipam_core::net::{Block, Family, Range};

/// Limit of the blocks of one pool that the addresses of one machine keep free. Machines have few
/// addresses, and seldom in a pool.
const MACHINE: u128 = 8;

/// Blocks of one pool that one object may keep free by fields that no agent reads; an eighth of a
/// large pool. That is enough for a block of an earlier, larger size, which an agent may still use.
const UNREAD: u128 = 16;

/// The most blocks that one object may keep out of a pool with this number of blocks: half of them,
/// and at least two, because an honest machine may have an internal and an external address there;
/// but never the last of several.
fn most_of(blocks: u128) -> u128 {
    (blocks / 2).max(2).min(blocks.saturating_sub(1)).max(1)
}

/// The number of blocks of a pool above which one object is reported.
fn reported_share(blocks: u128) -> u128 {
    (blocks / 4).max(1)
}

/// How much of each pool one object may keep.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// The blocks have addresses of the object's machine: at most [`MACHINE`] blocks are kept.
    Machine,
    /// The object shows the blocks in fields that no agent reads.
    Unread,
    /// The blocks are in use: all of them are kept.
    All,
}

impl Bound {
    /// The most blocks of a pool with this number of blocks.
    fn max_kept(self, blocks: u128) -> u128 {
        match self {
            Bound::Machine => MACHINE.min(most_of(blocks)),
            Bound::Unread => UNREAD.max(blocks / 8).min(most_of(blocks)),
            Bound::All => u128::MAX,
        }
    }
}

/// The blocks of one pool and family that one object shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolShare {
    pub(super) pool: PoolName,
    /// Number of the pool's blocks that the object shows.
    pub(super) shows: u128,
    /// Number of the shown blocks that are kept out of the pool.
    pub(super) keeps: u128,
}

#[derive(Clone, Copy, Default)]
struct Count {
    shows: u128,
    keeps: u128,
}

/// What one object may still keep out of each pool.
pub(super) struct Budget<'s> {
    supply: &'s Supply,
    bound: Bound,
    counts: BTreeMap<(PoolId, Family), Count>,
    /// Single blocks that were shown, and whether each is kept: a block with two addresses of a
    /// machine counts once.
    singles: BTreeMap<(PoolId, IpNet), bool>,
}

impl<'s> Budget<'s> {
    pub(super) fn new(supply: &'s Supply, bound: Bound) -> Budget<'s> {
        Budget {
            supply,
            bound,
            counts: BTreeMap::new(),
            singles: BTreeMap::new(),
        }
    }

    /// The part of a range that is kept out of the pools; all of it if it touches no pool.
    pub(super) fn take(&mut self, range: Range) -> Vec<Range> {
        let parts = self.supply.parts(&range);
        if parts.is_empty() {
            return vec![range];
        }
        parts
            .into_iter()
            .filter_map(|part| self.take_part(part))
            .collect()
    }

    fn take_part(&mut self, part: PoolPart) -> Option<Range> {
        let PoolPart { pool, blocks, part } = part;
        let single = (blocks == 1).then(|| self.single(pool, &part)).flatten();
        if let Some(is_kept) = single.and_then(|block| self.singles.get(&(pool, block))) {
            return is_kept.then_some(part);
        }
        let family = part.family();
        let max_kept = self.bound.max_kept(self.supply.pool(pool).blocks(family));
        let count = self.counts.entry((pool, family)).or_default();
        let keeps = blocks.min(max_kept.saturating_sub(count.keeps));
        count.shows = count.shows.saturating_add(blocks);
        count.keeps = count.keeps.saturating_add(keeps);
        if let Some(block) = single {
            self.singles.insert((pool, block), keeps == blocks);
        }
        if keeps == blocks {
            Some(part)
        } else {
            self.supply.first_blocks(pool, &part, keeps)
        }
    }

    /// The block of the pool in which a range lies.
    fn single(&self, pool: PoolId, part: &Range) -> Option<IpNet> {
        let of_part = self.supply.pool(pool).slots_around(part)?;
        IpNet::new(part.first(), of_part.size().prefix_len())
            .ok()
            .map(|block| block.trunc())
    }

    /// Pools of which more was shown than is kept.
    pub(super) fn over_bound(self) -> Vec<PoolShare> {
        self.shares(|count, _| count.shows > count.keeps)
    }

    /// Pools of which more was shown than one object's share.
    pub(super) fn over_share(self) -> Vec<PoolShare> {
        self.shares(|count, blocks| count.shows > reported_share(blocks))
    }

    fn shares(self, is_over: impl Fn(&Count, u128) -> bool) -> Vec<PoolShare> {
        let Budget { supply, counts, .. } = self;
        let over = counts
            .into_iter()
            .filter(|((pool, family), count)| is_over(count, supply.pool(*pool).blocks(*family)));
        let share = |((pool, _), count): ((PoolId, Family), Count)| PoolShare {
            pool: supply.pool(pool).name().clone(),
            shows: count.shows,
            keeps: count.keeps,
        };
        over.map(share).collect()
    }
}

/// The number of pools' blocks that have addresses of a block.
pub(super) fn touched_blocks(supply: &Supply, block: Block) -> u128 {
    supply
        .parts(&block.range())
        .iter()
        .fold(0, |sum, part| sum.saturating_add(part.blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_core::alloc::{AllocationMode, PoolSupply};
    use ipam_core::model::PerFamily;
    use ipam_core::net::BlockSize;

    fn supply(cidrs: &[&str]) -> Supply {
        let size = PerFamily {
            ipv4: BlockSize::new(Family::Ipv4, 24).ok(),
            ipv6: BlockSize::new(Family::Ipv6, 64).ok(),
        };
        let ranges: Vec<Block> = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
        let mode = AllocationMode::New;
        Supply::new(vec![PoolSupply::new(
            "a".parse().unwrap(),
            mode,
            &ranges,
            &size,
        )])
    }

    fn take(budget: &mut Budget<'_>, range: &str) -> Vec<String> {
        let kept = budget.take(range.parse().unwrap());
        kept.iter().map(ToString::to_string).collect()
    }

    fn share(shows: u128, keeps: u128) -> PoolShare {
        PoolShare {
            pool: "a".parse().unwrap(),
            shows,
            keeps,
        }
    }

    #[test]
    fn one_object_keeps_its_bound_and_the_lowest_blocks() {
        let supply = supply(&["10.20.0.0/16"]);
        let mut budget = Budget::new(&supply, Bound::Machine);
        assert_eq!(take(&mut budget, "10.9.0.0/16"), ["10.9.0.0/16"]);
        assert_eq!(take(&mut budget, "10.20.9.7"), ["10.20.9.7/32"]);
        assert_eq!(
            take(&mut budget, "10.20.128.0/17"),
            ["10.20.128.0-10.20.134.255"]
        );
        assert!(take(&mut budget, "10.20.3.1").is_empty());
        assert_eq!(budget.over_bound(), [share(130, 8)]);
    }

    #[test]
    fn a_small_pool_is_never_filled_by_one_object() {
        for (cidr, blocks, by_unread, by_machine) in [
            ("10.20.0.0/24", 1, 1, 1),
            ("10.20.0.0/23", 2, 1, 1),
            ("10.20.0.0/22", 4, 2, 2),
            ("10.20.0.0/21", 8, 4, 4),
            ("10.20.0.0/19", 32, 16, 8),
        ] {
            let supply = supply(&[cidr]);
            let expected = |kept| {
                let over = (blocks > kept).then(|| share(blocks, kept));
                over.into_iter().collect::<Vec<_>>()
            };
            let mut unread = Budget::new(&supply, Bound::Unread);
            unread.take(cidr.parse().unwrap());
            assert_eq!(unread.over_bound(), expected(by_unread), "{cidr}");
            let mut machine = Budget::new(&supply, Bound::Machine);
            for third in 0..blocks {
                take(&mut machine, &format!("10.20.{third}.1"));
            }
            assert_eq!(machine.over_bound(), expected(by_machine), "{cidr}");
        }
    }

    #[test]
    fn two_blocks_are_kept_where_one_is_left() {
        assert_eq!([1, 2, 3, 4, 8, 100].map(most_of), [1, 1, 2, 2, 4, 50]);
    }

    #[test]
    fn a_held_block_beyond_the_share_is_reported_and_never_cut() {
        let supply = supply(&["10.20.0.0/21"]);
        let mut within = Budget::new(&supply, Bound::All);
        take(&mut within, "10.20.0.0/23");
        assert_eq!(within.over_share(), []);
        let mut beyond = Budget::new(&supply, Bound::All);
        assert_eq!(take(&mut beyond, "10.20.0.0/22"), ["10.20.0.0/22"]);
        assert_eq!(beyond.over_share(), [share(4, 4)]);
    }

    #[test]
    fn a_block_with_two_addresses_counts_once() {
        let supply = supply(&["10.20.0.0/22"]);
        let mut budget = Budget::new(&supply, Bound::Machine);
        assert_eq!(take(&mut budget, "10.20.1.1"), ["10.20.1.1/32"]);
        assert_eq!(take(&mut budget, "10.20.1.2"), ["10.20.1.2/32"]);
        assert_eq!(budget.over_bound(), []);
    }

    #[test]
    fn families_count_apart() {
        let supply = supply(&["10.20.0.0/22", "fd00::/56"]);
        let mut budget = Budget::new(&supply, Bound::All);
        take(&mut budget, "10.20.0.0-10.20.2.255");
        take(&mut budget, "fd00::/64");
        assert_eq!(budget.over_share(), [share(3, 3)]);
    }
}
