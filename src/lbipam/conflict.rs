//! Pools whose ranges overlap: all ranges of the one that loses are out of use (`settleConflicts`).

use std::collections::{BTreeMap, BTreeSet};

use super::pool::{AddressPool, Marking, OperatorState};
use crate::net::{Range, RangeIndex};

/// Whether it is known which of two pools loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// It does: an older pool that overlaps nothing older is in use, or it overlaps itself, or the running operator says so.
    Certain,
    /// The order of a Go map decides: both were created in the same second, or what it overlaps may lose itself.
    LeftToChance,
}

/// Why a pool is, or may be, out of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// A range of it.
    pub range: Range,
    /// The pool with which it shares addresses; its own name when it overlaps itself.
    pub with: String,
    /// That pool's range.
    pub with_range: Range,
    /// Whether it is this one that loses.
    pub certainty: Certainty,
}

/// An overlap, seen from one of the two ranges.
#[derive(Clone, Copy)]
struct Overlap {
    range: Range,
    with: usize,
    with_range: Range,
}

/// The pools that lose, or may lose, by name. Selectors and disabled pools make no difference. What the running operator left to chance it
/// has decided by now, and its conditions tell.
pub fn conflicts<'p>(pools: &'p [AddressPool], state: OperatorState<'_>) -> BTreeMap<&'p str, Conflict> {
    let overlaps = overlaps(pools);
    let is_self = |place: usize| overlaps[place].iter().any(|overlap| overlap.with == place);
    let is_younger = |place: usize, other: usize| age(&pools[place]) > age(&pools[other]);
    // Nothing that is as old overlaps it, so nothing can push it out.
    let safe: BTreeSet<usize> = (0..pools.len())
        .filter(|&place| !is_self(place) && overlaps[place].iter().all(|overlap| is_younger(overlap.with, place)))
        .collect();
    let mut conflicts = BTreeMap::new();
    for (place, pool) in pools.iter().enumerate() {
        let of_itself = overlaps[place].iter().find(|overlap| overlap.with == place);
        let lost_to = overlaps[place].iter().find(|overlap| safe.contains(&overlap.with));
        let may_lose_to = overlaps[place].iter().find(|overlap| !is_younger(overlap.with, place));
        let found = match (of_itself.or(lost_to), may_lose_to, marking(pool, state)) {
            (Some(overlap), ..) => (overlap, Certainty::Certain),
            (None, Some(overlap), Marking::Conflicting) => (overlap, Certainty::Certain),
            (None, Some(overlap), Marking::None) => (overlap, Certainty::LeftToChance),
            (None, Some(_), Marking::Free) | (None, None, _) => continue,
        };
        let (Overlap { range, with, with_range }, certainty) = (*found.0, found.1);
        conflicts.insert(pool.name.as_str(), Conflict { range, with: pools[with].name.clone(), with_range, certainty });
    }
    conflicts
}

fn marking(pool: &AddressPool, state: OperatorState<'_>) -> Marking {
    match state {
        OperatorState::Running(_) => pool.marking,
        OperatorState::Restarted => Marking::None,
    }
}

/// The overlaps of each pool, by place.
fn overlaps(pools: &[AddressPool]) -> Vec<Vec<Overlap>> {
    let ranges: Vec<(Range, usize)> = pools
        .iter()
        .enumerate()
        .flat_map(|(place, pool)| pool.ranges.iter().map(move |range| (range.range, place)))
        .collect();
    let index = RangeIndex::new(ranges.iter().enumerate().map(|(id, (range, place))| (*range, (id, *place))));
    let mut overlaps = vec![Vec::new(); pools.len()];
    for (id, (range, place)) in ranges.iter().enumerate() {
        let others = index.overlapping(range).filter(|(_, (other, _))| *other != id);
        overlaps[*place].extend(others.map(|(with_range, (_, with))| Overlap {
            range: *range,
            with: *with,
            with_range: *with_range,
        }));
    }
    overlaps
}

/// Older is less; one that is yet to be created is newer than all.
fn age(pool: &AddressPool) -> (bool, Option<&str>) {
    (pool.created.is_none(), pool.created.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lbipam::{AddressRange, FirstLast, RangeForm, ServingState};

    fn pool(name: &str, created: &str, ranges: &[&str]) -> AddressPool {
        let range = |text: &&str| AddressRange { range: text.parse().unwrap(), form: RangeForm::Cidr };
        AddressPool {
            name: name.into(),
            created: (!created.is_empty()).then(|| created.into()),
            ranges: ranges.iter().map(range).collect(),
            selector: None,
            first_last: FirstLast::Unset,
            state: ServingState::Enabled,
            marking: Marking::None,
        }
    }

    #[track_caller]
    fn assert_losers(pools: &[AddressPool], losers: &[(&str, Certainty)]) {
        let found = conflicts(pools, OperatorState::Restarted);
        let found: Vec<(&str, Certainty)> = found.iter().map(|(name, conflict)| (*name, conflict.certainty)).collect();
        assert_eq!(found, losers);
    }

    #[test]
    fn the_newer_one_loses_and_equals_are_left_to_chance() {
        let old = pool("old", "2026-01-01T00:00:00Z", &["10.0.0.0/24", "10.0.9.0/24"]);
        let new = pool("new", "2026-01-02T00:00:00Z", &["10.0.0.128/25"]);
        let wanted = pool("wanted", "", &["10.0.9.7"]);
        assert_losers(&[old.clone(), new.clone()], &[("new", Certainty::Certain)]);
        assert_losers(&[old.clone(), wanted.clone()], &[("wanted", Certainty::Certain)]);
        let twin = pool("twin", "2026-01-02T00:00:00Z", &["10.0.0.128/26"]);
        assert_losers(&[new.clone(), twin], &[("new", Certainty::LeftToChance), ("twin", Certainty::LeftToChance)]);
        assert_losers(&[old, pool("far", "", &["10.1.0.0/24"])], &[]);
    }

    #[test]
    fn a_pool_may_overlap_itself() {
        let own = pool("own", "2026-01-01T00:00:00Z", &["10.0.0.0/24", "10.0.0.9"]);
        assert_losers(&[own], &[("own", Certainty::Certain)]);
    }

    #[test]
    fn in_a_chain_the_order_is_not_known() {
        let chain = [
            pool("a", "2026-01-01T00:00:00Z", &["10.0.0.0/24"]),
            pool("b", "2026-01-02T00:00:00Z", &["10.0.0.128-10.0.1.9"]),
            pool("c", "2026-01-03T00:00:00Z", &["10.0.1.0/24"]),
        ];
        assert_losers(&chain, &[("b", Certainty::Certain), ("c", Certainty::LeftToChance)]);
    }

    #[test]
    fn all_that_overlap_the_oldest_lose() {
        let pools = [
            pool("a", "2026-01-01T00:00:00Z", &["10.0.0.0/16"]),
            pool("b", "2026-01-02T00:00:00Z", &["10.0.1.0/24"]),
            pool("c", "2026-01-02T00:00:00Z", &["10.0.1.128/25"]),
        ];
        assert_losers(&pools, &[("b", Certainty::Certain), ("c", Certainty::Certain)]);
    }

    #[test]
    fn a_running_operator_has_decided_what_was_left_to_chance() {
        let mut twins =
            [pool("a", "2026-01-01T00:00:00Z", &["10.0.0.0/24"]), pool("b", "2026-01-01T00:00:00Z", &["10.0.0.0/25"])];
        (twins[0].marking, twins[1].marking) = (Marking::Free, Marking::Conflicting);
        let found = conflicts(&twins, OperatorState::Running(&twins));
        assert_eq!(found.keys().collect::<Vec<_>>(), [&"b"]);
        assert_eq!(found["b"].certainty, Certainty::Certain);
        assert_eq!(conflicts(&twins, OperatorState::Restarted).len(), 2);
    }
}
