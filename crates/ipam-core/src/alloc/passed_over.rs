//! Pools that could not serve a demand, and the search for one that can. Demands with the same
//! candidates share both: pools only fill up, so what one of them passed over is no use to the next.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::allocate::Demand;
use super::supply::{PoolId, Supply};
use crate::model::{PoolName, grouped_digits};
use crate::net::Family;
use crate::text::joined;

/// Why a pool was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassedOver {
    /// The pool has too few free blocks.
    Full,
    /// The pool has too few free blocks, and its nodes wait: the pools after it are not tried.
    AwaitsRoom,
    /// The pool is disabled.
    Disabled,
    /// The pool has no CIDR of a family that the node requires.
    Lacks(Family),
}

impl PassedOver {
    /// Whether the pool has too few free blocks.
    pub fn is_full(self) -> bool {
        matches!(self, PassedOver::Full | PassedOver::AwaitsRoom)
    }
}

/// Follows the pool's name in a sentence.
impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassedOver::Full => f.write_str("is full"),
            PassedOver::AwaitsRoom => f.write_str("is full, and its `whenFull` is `Wait`"),
            PassedOver::Disabled => f.write_str("is disabled"),
            PassedOver::Lacks(family) => write!(f, "gives no {family}"),
        }
    }
}

/// A pool that could not serve a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassedOverPool {
    pub pool: PoolName,
    /// Why the pool does not serve the node.
    pub why: PassedOver,
}

/// Pools that a text names. Otherwise, the texts of a plan would grow with nodes times pools.
const NAMED: usize = 10;

/// Pools that could not serve a node, best first. Nodes share one list, of which each has the first
/// pools: thousands of nodes may pass over hundreds of full pools.
#[derive(Clone)]
pub struct PassedOverPools {
    shared: Arc<[PassedOverPool]>,
    len: usize,
}

impl PassedOverPools {
    pub(super) fn first_of(shared: &Arc<[PassedOverPool]>, len: usize) -> PassedOverPools {
        PassedOverPools {
            shared: shared.clone(),
            len,
        }
    }
}

impl PassedOverPools {
    /// The first pools in words, and the number of the others.
    pub fn in_words(&self, words: impl Fn(&PassedOverPool) -> String) -> String {
        let named = joined(self.iter().take(NAMED).map(words), ", ");
        match self.len.saturating_sub(NAMED) {
            0 => named,
            more => format!("{named}, and {} more", grouped_digits(more)),
        }
    }
}

impl FromIterator<PassedOverPool> for PassedOverPools {
    fn from_iter<I: IntoIterator<Item = PassedOverPool>>(pools: I) -> PassedOverPools {
        let shared: Arc<[PassedOverPool]> = pools.into_iter().collect();
        PassedOverPools {
            len: shared.len(),
            shared,
        }
    }
}

impl Deref for PassedOverPools {
    type Target = [PassedOverPool];

    fn deref(&self) -> &[PassedOverPool] {
        &self.shared[..self.len]
    }
}

impl fmt::Debug for PassedOverPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for PassedOverPools {
    fn eq(&self, other: &PassedOverPools) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PassedOverPools {}

impl PartialOrd for PassedOverPools {
    fn partial_cmp(&self, other: &PassedOverPools) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PassedOverPools {
    fn cmp(&self, other: &PassedOverPools) -> Ordering {
        if Arc::ptr_eq(&self.shared, &other.shared) {
            return self.len.cmp(&other.len);
        }
        (**self).cmp(&**other)
    }
}

/// The pools that demands with the same candidates have passed over.
#[derive(Default)]
pub(super) struct Search {
    passed_over: Vec<(PoolId, PassedOver)>,
    first_full: Option<PoolId>,
}

impl Search {
    /// Number of candidates that serve none of the search's demands.
    pub(super) fn passed(&self) -> usize {
        self.passed_over.len()
    }

    /// The next candidate to try; none behind a pool whose nodes wait.
    pub(super) fn next(&self, candidates: &[PoolId]) -> Option<PoolId> {
        match self.passed_over.last() {
            Some((_, PassedOver::AwaitsRoom)) => None,
            _ => candidates.get(self.passed()).copied(),
        }
    }

    pub(super) fn first_full(&self) -> Option<PoolId> {
        self.first_full
    }

    /// Records that the next candidate serves none of the search's demands.
    pub(super) fn pass_over(&mut self, pool: PoolId, why: PassedOver) {
        if why.is_full() {
            self.first_full.get_or_insert(pool);
        }
        self.passed_over.push((pool, why));
    }
}

/// Demands with the same list of candidates that miss and require the same families.
type Alike<'d> = (*const PoolId, &'d [Family], &'d [Family]);

/// All searches. A demand with addresses of its own, kept or avoided, has its own search.
#[derive(Default)]
pub(super) struct Searches<'d> {
    known: BTreeMap<Alike<'d>, usize>,
    searches: Vec<Search>,
}

impl<'d> Searches<'d> {
    /// The place of the demand's search.
    pub(super) fn place(&mut self, demand: &'d Demand) -> usize {
        let Demand {
            node: _,
            families,
            required,
            candidates,
            kept,
            apart,
        } = demand;
        let new = self.searches.len();
        let place = if kept.is_empty() && apart.is_empty() {
            let alike = (
                candidates.as_ptr(),
                families.as_slice(),
                required.as_slice(),
            );
            *self.known.entry(alike).or_insert(new)
        } else {
            new
        };
        if place == new {
            self.searches.push(Search::default());
        }
        place
    }

    pub(super) fn search_mut(&mut self, place: usize) -> &mut Search {
        &mut self.searches[place]
    }

    /// The pools that each search passed over, with the names of the pools.
    pub(super) fn named(self, supply: &Supply) -> Vec<Arc<[PassedOverPool]>> {
        let named = |(id, why): (PoolId, PassedOver)| PassedOverPool {
            pool: supply.pool(id).name().clone(),
            why,
        };
        let searches = self.searches.into_iter();
        let list = |search: Search| search.passed_over.into_iter().map(named).collect();
        searches.map(list).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AllocationMode, PoolSupply, WhenFull, allocate};
    use super::*;
    use crate::model::PerFamily;
    use crate::net::{Block, BlockSize, Range};
    use proptest::prelude::*;

    /// The mode of a pool, whether it has each family, and whether nodes wait for it.
    type WrittenPool = (bool, [bool; 2], bool);

    fn supply(pools: &[WrittenPool]) -> Supply {
        let pool = |(place, (is_active, has, waits)): (usize, &WrittenPool)| {
            let ranges = [format!("10.0.{place}.0/30"), format!("fd00:{place}::/63")];
            let ranges = ranges.iter().zip(has).filter(|(_, has)| **has);
            let ranges: Vec<Block> = ranges.map(|(range, _)| range.parse().unwrap()).collect();
            let size = PerFamily {
                ipv4: BlockSize::new(Family::Ipv4, 32_u64).ok(),
                ipv6: BlockSize::new(Family::Ipv6, 64_u64).ok(),
            };
            let mode = match is_active {
                true => AllocationMode::New,
                false => AllocationMode::Nothing,
            };
            let when_full = match waits {
                true => WhenFull::Wait,
                false => WhenFull::NextPool,
            };
            PoolSupply::new(format!("p{place}").parse().unwrap(), mode, &ranges, &size)
                .with_when_full(when_full)
        };
        Supply::new(pools.iter().enumerate().map(pool).collect())
    }

    /// What a node misses and requires, which of two lists of pools it may use, a block that is
    /// kept for it and an address that it avoids.
    type WrittenDemand = ([bool; 2], [bool; 2], bool, Option<u8>, Option<u8>);

    fn demand((index, written): (usize, &WrittenDemand), lists: &[Arc<[PoolId]>; 2]) -> Demand {
        let (missing, required, list, kept, apart) = written;
        let families = |which: &[bool; 2]| {
            let families = Family::BOTH.into_iter().zip(which);
            families
                .filter(|(_, is)| **is)
                .map(|(family, _)| family)
                .collect()
        };
        Demand {
            node: format!("n{index}").parse().unwrap(),
            families: families(missing),
            required: families(required),
            candidates: lists[usize::from(*list)].clone(),
            kept: kept
                .iter()
                .map(|n| format!("10.0.{n}.0/32").parse().unwrap())
                .collect(),
            apart: apart
                .iter()
                .map(|n| format!("10.0.{n}.1").parse::<Range>().unwrap())
                .collect(),
        }
    }

    #[test]
    fn a_text_names_the_first_pools() {
        let pools = |count: usize| -> String {
            let pool = |place: usize| PassedOverPool {
                pool: format!("p{place}").parse().unwrap(),
                why: PassedOver::Full,
            };
            let pools: PassedOverPools = (0..count).map(pool).collect();
            pools.in_words(|passed| passed.pool.to_string())
        };
        assert_eq!(pools(10), "p0, p1, p2, p3, p4, p5, p6, p7, p8, p9");
        assert_eq!(
            pools(12),
            "p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, and 2 more"
        );
    }

    proptest! {
        #[test]
        fn a_shared_search_finds_what_each_would_find_alone(
            pools in prop::collection::vec(
                (prop::bool::weighted(0.8), any::<[bool; 2]>(), prop::bool::weighted(0.3)),
                0..6,
            ),
            demands in prop::collection::vec(
                (
                    any::<[bool; 2]>(),
                    any::<[bool; 2]>(),
                    any::<bool>(),
                    prop::option::weighted(0.2, 0_u8..6),
                    prop::option::weighted(0.2, 0_u8..6),
                ),
                0..40,
            ),
        ) {
            let (mut together, mut alone) = (supply(&pools), supply(&pools));
            let all: Arc<[PoolId]> = together.pools().map(|(id, _)| id).collect();
            let reversed: Arc<[PoolId]> = all.iter().rev().copied().collect();
            let lists = [all, reversed];
            let sharing: Vec<Demand> =
                demands.iter().enumerate().map(|one| demand(one, &lists)).collect();
            // A list of its own for each demand.
            let apart: Vec<Demand> = sharing
                .iter()
                .map(|demand| Demand {
                    candidates: demand.candidates.to_vec().into(),
                    ..demand.clone()
                })
                .collect();
            let taken = ["10.0.0.0".parse().unwrap(), "10.0.1.0".parse().unwrap()];
            let shared = allocate(&mut together, &taken, &[], &sharing);
            let separate = allocate(&mut alone, &taken, &[], &apart);
            prop_assert_eq!(shared.outcomes, separate.outcomes);
            prop_assert_eq!(shared.shortfalls, separate.shortfalls);
        }
    }
}
