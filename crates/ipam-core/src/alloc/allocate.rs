//! The allocation itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::passed_over::{PassedOver, PassedOverPools, Search, Searches};
use super::supply::{AllocationMode, PoolId, PoolSupply, Supply};
use crate::model::{NodeName, PerFamily, PoolName};
use crate::net::{Block, Family, Range, largest_gap, merge};

/// A node that may need blocks.
#[derive(Clone, Debug)]
pub struct Demand {
    pub node: NodeName,
    /// Families that the node can use and has no block of.
    pub families: Vec<Family>,
    /// The families it requires: a pool without one of them is passed over.
    pub required: Vec<Family>,
    /// The pools to try, best first.
    pub candidates: Arc<[PoolId]>,
    /// Blocks reserved for this node. If a pool has one of them, the node gets it.
    pub kept: Vec<Block>,
    /// Addresses that its blocks must not contain. Blocks of other nodes may.
    pub apart: Vec<Range>,
}

/// Blocks for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    pub pool: PoolId,
    pub blocks: PerFamily<Block>,
    /// Better pools, with the reasons why they do not serve the node.
    pub passed_over: PassedOverPools,
}

/// Result for one demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Assigned(Assigned),
    /// The node's best pool has no family that the node lacks.
    NothingNeeded,
    /// No pool selects the node.
    NoPool,
    /// No matching pool can serve all of the demand.
    Short {
        /// The matching pools, best first.
        passed_over: PassedOverPools,
    },
}

/// Blocks that a pool lacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The first full pool among the nodes' candidates.
    pub pool: PoolName,
    /// The family that ran out.
    pub family: Family,
    /// Number of missing blocks.
    pub missing: usize,
    /// The widest free run of addresses. It is too small or too misaligned for a block.
    pub largest_free_run: Option<Range>,
}

#[derive(Clone, Debug, Default)]
pub struct Allocation {
    /// One outcome for each demand, in the order of the demands.
    pub outcomes: Vec<Outcome>,
    pub shortfalls: Vec<Shortfall>,
}

/// Serves the demands in order. Blocks that overlap `taken` or `pins` are not given.
///
/// One pool serves a demand completely or not at all, so that a dual-stack node never gets blocks
/// of only one family.
pub fn allocate(
    supply: &mut Supply,
    taken: &[Range],
    pins: &[Block],
    demands: &[Demand],
) -> Allocation {
    let kept = taken
        .iter()
        .copied()
        .chain(pins.iter().map(|block| block.range()));
    for range in merge(kept) {
        supply.take(&range);
    }
    let mut missing = BTreeMap::new();
    let mut searches = Searches::default();
    let served: Vec<(Served, Passed)> = demands
        .iter()
        .map(|demand| {
            let place = searches.place(demand);
            let search = searches.search_mut(place);
            let served = serve(supply, demand, search, &mut missing);
            (served, (place, search.passed()))
        })
        .collect();
    let lists = searches.named(supply);
    let outcome = |(served, (place, len)): (Served, Passed)| {
        let passed_over = || PassedOverPools::first_of(&lists[place], len);
        match served {
            Served::Assigned { pool, blocks } => Outcome::Assigned(Assigned {
                pool,
                blocks,
                passed_over: passed_over(),
            }),
            Served::NothingNeeded => Outcome::NothingNeeded,
            Served::NoPool => Outcome::NoPool,
            Served::Short => Outcome::Short {
                passed_over: passed_over(),
            },
        }
    };
    let outcomes: Vec<Outcome> = served.into_iter().map(outcome).collect();
    let shortfalls = shortfalls(supply, taken, pins, &outcomes, &missing);
    Allocation {
        outcomes,
        shortfalls,
    }
}

/// An outcome before the pools that were passed over have their names.
enum Served {
    Assigned {
        pool: PoolId,
        blocks: PerFamily<Block>,
    },
    NothingNeeded,
    NoPool,
    Short,
}

/// The place of a search, and how many pools were passed over until then.
type Passed = (usize, usize);

fn serve(
    supply: &mut Supply,
    demand: &Demand,
    search: &mut Search,
    missing: &mut BTreeMap<(PoolId, Family), usize>,
) -> Served {
    while let Some(id) = search.next(&demand.candidates) {
        let pool = supply.pool_mut(id);
        if let Some(family) = demand.required.iter().find(|family| !pool.has(**family)) {
            search.pass_over(id, PassedOver::Lacks(*family));
            continue;
        }
        let needed: Vec<Family> = demand
            .families
            .iter()
            .copied()
            .filter(|family| pool.has(*family))
            .collect();
        if needed.is_empty() {
            return Served::NothingNeeded;
        }
        if pool.mode() == AllocationMode::Nothing {
            search.pass_over(id, PassedOver::Disabled);
            continue;
        }
        let is_apart = |block: &Block| {
            !demand
                .apart
                .iter()
                .any(|range| range.overlaps(&block.range()))
        };
        let kept = |pool: &PoolSupply, family: Family| {
            let is_fit =
                |block: &Block| block.family() == family && pool.gives(*block) && is_apart(block);
            demand.kept.iter().copied().find(is_fit)
        };
        let has_free =
            |pool: &PoolSupply, family: Family| pool.has_free_apart(family, &demand.apart);
        if needed
            .iter()
            .all(|family| kept(pool, *family).is_some() || has_free(pool, *family))
        {
            let give = |family: &Family| {
                kept(pool, *family).or_else(|| pool.take_lowest_apart(*family, &demand.apart))
            };
            let blocks = needed.iter().filter_map(give).collect();
            return Served::Assigned { pool: id, blocks };
        }
        search.pass_over(id, pool.when_full());
    }
    if search.passed() == 0 {
        return Served::NoPool;
    }
    // Only a full pool lacks blocks; a disabled one has them.
    if let Some(first) = search.first_full() {
        for family in &demand.families {
            let pool = supply.pool_mut(first);
            if pool.has(*family) && !pool.has_free(*family) {
                *missing.entry((first, *family)).or_default() += 1;
            }
        }
    }
    Served::Short
}

fn shortfalls(
    supply: &Supply,
    taken: &[Range],
    pins: &[Block],
    outcomes: &[Outcome],
    missing: &BTreeMap<(PoolId, Family), usize>,
) -> Vec<Shortfall> {
    if missing.is_empty() {
        return Vec::new();
    }
    let assigned = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Assigned(assigned) => Some(assigned.blocks),
        _ => None,
    });
    let blocks: Vec<Block> = assigned
        .flat_map(|blocks| blocks.iter().copied().collect::<Vec<_>>())
        .chain(pins.iter().copied())
        .collect();
    let used = merge(
        taken
            .iter()
            .copied()
            .chain(blocks.into_iter().map(Block::range)),
    );
    let widest = |pool: PoolId, family: Family| {
        let ranges = supply
            .pool(pool)
            .slots()
            .iter()
            .map(|slots| slots.range())
            .filter(|range| range.family() == family);
        ranges
            .filter_map(|range| largest_gap(range, &used))
            .max_by_key(Range::width)
    };
    let shortfall = |(&(pool, family), &missing): (&(PoolId, Family), &usize)| Shortfall {
        pool: supply.pool(pool).name().clone(),
        family,
        missing,
        largest_free_run: widest(pool, family),
    };
    missing.iter().map(shortfall).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{PoolSupply, WhenFull};
    use super::*;
    use crate::net::BlockSize;

    fn pool(name: &str, mode: AllocationMode, ranges: &[&str], ipv4: u64, ipv6: u64) -> PoolSupply {
        let size = PerFamily {
            ipv4: BlockSize::new(Family::Ipv4, ipv4).ok(),
            ipv6: BlockSize::new(Family::Ipv6, ipv6).ok(),
        };
        let ranges: Vec<Block> = ranges.iter().map(|range| range.parse().unwrap()).collect();
        PoolSupply::new(name.parse().unwrap(), mode, &ranges, &size)
    }

    fn run(
        pools: Vec<PoolSupply>,
        taken: &[&str],
        pins: &[&str],
        nodes: usize,
    ) -> (Vec<String>, Vec<Shortfall>) {
        let mut supply = Supply::new(pools);
        let candidates: Arc<[PoolId]> = supply.pools().map(|(id, _)| id).collect();
        let demand = |index| Demand {
            node: format!("n{index}").parse().unwrap(),
            families: Family::BOTH.into(),
            required: Vec::new(),
            candidates: candidates.clone(),
            kept: Vec::new(),
            apart: Vec::new(),
        };
        let demands: Vec<Demand> = (0..nodes).map(demand).collect();
        let taken: Vec<Range> = taken.iter().map(|range| range.parse().unwrap()).collect();
        let pins: Vec<Block> = pins.iter().map(|block| block.parse().unwrap()).collect();
        let allocation = allocate(&mut supply, &taken, &pins, &demands);
        let text = |outcome: &Outcome| match outcome {
            Outcome::Assigned(assigned) => assigned
                .blocks
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
            Outcome::NothingNeeded => "nothing".into(),
            Outcome::NoPool => "no pool".into(),
            Outcome::Short { .. } => "short".into(),
        };
        (
            allocation.outcomes.iter().map(text).collect(),
            allocation.shortfalls,
        )
    }

    #[test]
    fn ranges_are_used_in_their_order_and_taken_parts_are_skipped() {
        let pools = vec![pool(
            "a",
            AllocationMode::New,
            &["10.9.0.0/31", "10.1.0.0/31"],
            32,
            64,
        )];
        let (given, _) = run(pools, &["10.9.0.0"], &["10.1.0.0/32"], 3);
        assert_eq!(given, ["10.9.0.1/32", "10.1.0.1/32", "short"]);
    }

    #[test]
    fn both_families_or_neither_and_then_the_next_pool() {
        let pools = vec![
            pool(
                "a",
                AllocationMode::New,
                &["10.0.0.0/30", "fd00::/64"],
                32,
                64,
            ),
            pool("b", AllocationMode::Nothing, &["10.0.1.0/30"], 32, 64),
            pool(
                "c",
                AllocationMode::New,
                &["10.0.2.0/31", "fd01::/63"],
                32,
                64,
            ),
        ];
        let (given, shortfalls) = run(pools, &[], &[], 4);
        assert_eq!(
            given,
            [
                "10.0.0.0/32 fd00::/64",
                "10.0.2.0/32 fd01::/64",
                "10.0.2.1/32 fd01:0:0:1::/64",
                "short"
            ]
        );
        let expected = Shortfall {
            pool: "a".parse().unwrap(),
            family: Family::Ipv6,
            missing: 1,
            largest_free_run: None,
        };
        assert_eq!(shortfalls, [expected]);
    }

    #[test]
    fn no_pool_behind_a_full_one_that_waits_is_tried() {
        let one = |name, mode, range| pool(name, mode, &[range], 32, 64);
        let pools = vec![
            one("a", AllocationMode::Nothing, "10.0.0.0/32").with_when_full(WhenFull::Wait),
            one("b", AllocationMode::New, "10.0.1.0/32"),
            one("c", AllocationMode::New, "10.0.2.0/32").with_when_full(WhenFull::Wait),
            one("d", AllocationMode::New, "10.0.3.0/24"),
        ];
        let (given, shortfalls) = run(pools, &[], &[], 4);
        assert_eq!(given, ["10.0.1.0/32", "10.0.2.0/32", "short", "short"]);
        assert_eq!(
            (shortfalls[0].pool.as_str(), shortfalls[0].missing),
            ("b", 2)
        );
    }

    #[test]
    fn what_is_kept_for_a_node_is_given_to_it() {
        let mut supply = Supply::new(vec![pool(
            "a",
            AllocationMode::New,
            &["10.0.0.0/30"],
            32,
            64,
        )]);
        let taken: Vec<Range> = vec!["10.0.0.2".parse().unwrap(), "10.0.0.9".parse().unwrap()];
        let demand = |name: &str, kept: &[&str]| Demand {
            node: name.parse().unwrap(),
            families: vec![Family::Ipv4],
            required: Vec::new(),
            candidates: supply.pools().map(|(id, _)| id).collect(),
            kept: kept.iter().map(|block| block.parse().unwrap()).collect(),
            apart: Vec::new(),
        };
        let demands = [
            demand("n0", &[]),
            demand("n1", &["10.0.0.9/32", "10.0.0.2/32"]),
            demand("n2", &["10.0.0.2/31"]),
        ];
        let given = allocate(&mut supply, &taken, &[], &demands).outcomes;
        let block = |outcome: &Outcome| match outcome {
            Outcome::Assigned(assigned) => assigned
                .blocks
                .ipv4
                .map(|block| block.to_string())
                .unwrap_or_default(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            given.iter().map(block).collect::<Vec<_>>(),
            ["10.0.0.0/32", "10.0.0.2/32", "10.0.0.1/32"]
        );
    }

    #[test]
    fn a_shortfall_names_the_largest_free_run() {
        let pools = vec![pool("a", AllocationMode::New, &["10.0.0.0/24"], 25, 64)];
        let (given, shortfalls) = run(pools, &["10.0.0.100", "10.0.0.200"], &[], 2);
        assert_eq!(given, ["short", "short"]);
        assert_eq!(
            (shortfalls[0].missing, shortfalls[0].largest_free_run),
            (2, "10.0.0.0-10.0.0.99".parse().ok())
        );
    }
}
