//! Finds pools whose ranges overlap. The operator disables all ranges of the losing pool
//! (`settleConflicts`).

use std::collections::BTreeMap;

use super::pool::{AddressPool, Marking, OperatorState};
use ipam_core::net::{Range, RangeIndex, merge};

ipam_core::text_enum! {
    /// Whether the operator's decision is predictable. The text stands in JSON.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Certainty {
        /// The decision is predictable. A pool certainly loses if it overlaps an older pool that
        /// certainly stays, or itself, or if the operator has marked it.
        #[default]
        Certain = "certain",
        /// The order of a Go map decides. So it is between pools that were created in the same
        /// second, or if the other pool may lose too.
        LeftToChance = "possible",
    }
}

ipam_core::serde_as_text! { Certainty: "certainty" }

impl Certainty {
    /// `loses` or `may lose`.
    pub fn verb(self) -> &'static str {
        match self {
            Certainty::Certain => "loses",
            Certainty::LeftToChance => "may lose",
        }
    }
}

/// A conflict that disables a pool, or may disable it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The range of the disabled pool.
    pub range: Range,
    /// Name of the overlapping pool; the pool's own name if its ranges overlap each other.
    pub with: String,
    pub with_range: Range,
    pub certainty: Certainty,
}

#[derive(Clone, Copy)]
struct Overlap {
    range: Range,
    with: usize,
    with_range: Range,
}

/// The pools that lose or may lose, by name. Selectors and `disabled` have no effect.
///
/// A pool that the running operator has marked stays marked while it overlaps another pool. It
/// disables no other pool.
pub fn conflicts<'p>(
    pools: &'p [AddressPool],
    state: OperatorState<'_>,
) -> BTreeMap<&'p str, Conflict> {
    let own: Vec<Option<Overlap>> = pools
        .iter()
        .enumerate()
        .map(|(place, pool)| overlap_within(place, pool))
        .collect();
    let overlaps = overlaps_between(pools, &own);
    let is_marked = |place: usize| match state {
        OperatorState::Running(_) => pools[place].marking == Marking::Conflicting,
        OperatorState::Restarted => false,
    };
    let rivals = |place: usize| {
        overlaps[place]
            .iter()
            .filter(|overlap| !is_marked(overlap.with))
    };
    let is_younger = |place: usize, other: usize| age(&pools[place]) > age(&pools[other]);
    // No pool as old overlaps it, so no pool can disable it.
    let is_safe = |place: usize| {
        own[place].is_none()
            && !is_marked(place)
            && rivals(place).all(|overlap| is_younger(overlap.with, place))
    };
    let safe: Vec<bool> = (0..pools.len()).map(is_safe).collect();
    let mut conflicts = BTreeMap::new();
    for (place, pool) in pools.iter().enumerate() {
        let of_itself = own[place].as_ref();
        let stays_out = overlaps[place].first().filter(|_| is_marked(place));
        let lost_to = rivals(place).find(|overlap| safe[overlap.with]);
        let may_lose_to = rivals(place).find(|overlap| !is_younger(overlap.with, place));
        let (overlap, certainty) = match (of_itself.or(stays_out).or(lost_to), may_lose_to) {
            (Some(overlap), _) => (overlap, Certainty::Certain),
            (None, Some(overlap)) => (overlap, Certainty::LeftToChance),
            (None, None) => continue,
        };
        let Overlap {
            range,
            with,
            with_range,
        } = *overlap;
        conflicts.insert(
            pool.name.as_str(),
            Conflict {
                range,
                with: pools[with].name.clone(),
                with_range,
                certainty,
            },
        );
    }
    conflicts
}

/// Two ranges of a pool that overlap; `None` if no ranges do.
fn overlap_within(place: usize, pool: &AddressPool) -> Option<Overlap> {
    let mut ranges: Vec<Range> = pool.ranges.iter().map(|range| range.range).collect();
    ranges.sort_unstable();
    // Of the earlier ranges, the one with the highest last address.
    let mut widest: Option<Range> = None;
    for range in ranges {
        match widest {
            Some(before) if before.overlaps(&range) => {
                return Some(Overlap {
                    range,
                    with: place,
                    with_range: before,
                });
            }
            _ => widest = Some(range),
        }
    }
    None
}

/// One overlap per pair of pools, by index. Overlapping ranges of one pool are merged first: a
/// hostile pool may have thousands of them.
fn overlaps_between(pools: &[AddressPool], own: &[Option<Overlap>]) -> Vec<Vec<Overlap>> {
    let ranges_of = |(place, pool): (usize, &AddressPool)| {
        let ranges = pool.ranges.iter().map(|range| range.range);
        if own[place].is_some() {
            merge(ranges)
        } else {
            ranges.collect()
        }
    };
    let ranges: Vec<Vec<Range>> = pools.iter().enumerate().map(ranges_of).collect();
    let all = ranges
        .iter()
        .enumerate()
        .flat_map(|(place, ranges)| ranges.iter().map(move |range| (*range, place)));
    let index = RangeIndex::new(all);
    let of_pool = |(place, ranges): (usize, &Vec<Range>)| {
        let mut found: BTreeMap<usize, Overlap> = BTreeMap::new();
        for range in ranges {
            for (with_range, with) in index.overlapping(range).filter(|(_, with)| *with != place) {
                found.entry(*with).or_insert(Overlap {
                    range: *range,
                    with: *with,
                    with_range: *with_range,
                });
            }
        }
        found.into_values().collect()
    };
    ranges.iter().enumerate().map(of_pool).collect()
}

/// Sort key: older is less. A pool that does not exist yet is the newest.
fn age(pool: &AddressPool) -> (bool, Option<&str>) {
    (pool.created.is_none(), pool.created.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lbipam::{AddressRange, FirstLast, RangeForm, ServingState};

    fn pool(name: &str, created: &str, ranges: &[&str]) -> AddressPool {
        let range = |text: &&str| AddressRange {
            range: text.parse().unwrap(),
            form: RangeForm::Cidr,
        };
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
        let found: Vec<(&str, Certainty)> = found
            .iter()
            .map(|(name, conflict)| (*name, conflict.certainty))
            .collect();
        assert_eq!(found, losers);
    }

    #[test]
    fn the_newer_one_loses_and_equals_are_left_to_chance() {
        let old = pool(
            "old",
            "2026-01-01T00:00:00Z",
            &["10.0.0.0/24", "10.0.9.0/24"],
        );
        let new = pool("new", "2026-01-02T00:00:00Z", &["10.0.0.128/25"]);
        let wanted = pool("wanted", "", &["10.0.9.7"]);
        assert_losers(&[old.clone(), new.clone()], &[("new", Certainty::Certain)]);
        assert_losers(
            &[old.clone(), wanted.clone()],
            &[("wanted", Certainty::Certain)],
        );
        let twin = pool("twin", "2026-01-02T00:00:00Z", &["10.0.0.128/26"]);
        assert_losers(
            &[new.clone(), twin],
            &[
                ("new", Certainty::LeftToChance),
                ("twin", Certainty::LeftToChance),
            ],
        );
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
        assert_losers(
            &chain,
            &[("b", Certainty::Certain), ("c", Certainty::LeftToChance)],
        );
    }

    #[test]
    fn all_that_overlap_the_oldest_lose() {
        let pools = [
            pool("a", "2026-01-01T00:00:00Z", &["10.0.0.0/16"]),
            pool("b", "2026-01-02T00:00:00Z", &["10.0.1.0/24"]),
            pool("c", "2026-01-02T00:00:00Z", &["10.0.1.128/25"]),
        ];
        assert_losers(
            &pools,
            &[("b", Certainty::Certain), ("c", Certainty::Certain)],
        );
    }

    #[test]
    fn a_running_operator_has_decided_what_was_left_to_chance() {
        let mut twins = [
            pool("a", "2026-01-01T00:00:00Z", &["10.0.0.0/24"]),
            pool("b", "2026-01-01T00:00:00Z", &["10.0.0.0/25"]),
        ];
        twins[1].marking = Marking::Conflicting;
        let found = conflicts(&twins, OperatorState::Running(&twins));
        assert_eq!(found.keys().collect::<Vec<_>>(), [&"b"]);
        assert_eq!(found["b"].certainty, Certainty::Certain);
        assert_eq!(conflicts(&twins, OperatorState::Restarted).len(), 2);
    }

    #[test]
    fn a_pool_that_is_out_stays_out_and_pushes_none_out() {
        let (x, mut y) = (
            pool("x", "2026-01-01T00:00:00Z", &["10.9.0.0/24"]),
            pool("y", "2026-01-02T00:00:00Z", &["10.0.0.0/24"]),
        );
        y.marking = Marking::Conflicting;
        let pools = [x, y, pool("z", "2026-01-03T00:00:00Z", &["10.0.0.0/25"])];
        let found = conflicts(&pools, OperatorState::Running(&pools));
        assert_eq!(found.keys().collect::<Vec<_>>(), [&"y"]);
        assert_losers(&pools, &[("z", Certainty::Certain)]);
    }

    #[test]
    fn an_overlap_that_an_edit_makes_is_not_decided_yet() {
        let twins = [
            pool("a", "2026-01-01T00:00:00Z", &["10.0.0.0/24"]),
            pool("b", "2026-01-01T00:00:00Z", &["10.0.0.0/25"]),
        ];
        let found = conflicts(&twins, OperatorState::Running(&twins));
        assert!(
            found.len() == 2
                && found
                    .values()
                    .all(|conflict| conflict.certainty == Certainty::LeftToChance)
        );
    }

    #[test]
    fn thousands_of_equal_ranges_are_one() {
        let many = pool("many", "2026-01-01T00:00:00Z", &vec!["10.0.0.0/8"; 40_000]);
        let other = pool("other", "2026-01-02T00:00:00Z", &vec!["10.0.0.0/8"; 40_000]);
        assert_losers(
            &[many, other],
            &[("many", Certainty::Certain), ("other", Certainty::Certain)],
        );
    }
}
