//! Whether a Service that takes any address may take the one that another Service requests.
//!
//! Must know nothing of the order of serving.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::evaluation::Evaluation;
use super::rules::LbRules;
use super::selection::Request;
use super::service::{AddressRequest, LbService};
use super::service_outcome::ServiceOutcome;
use crate::behaviours;
use ipam_core::net::Range;

/// What Services that lack an address ask for.
#[derive(Default)]
pub(super) struct Takers {
    /// How many may take any address of a range, by its index.
    of_range: BTreeMap<usize, u128>,
    /// The addresses that Services request.
    requested: BTreeSet<IpAddr>,
}

impl Takers {
    pub(super) fn new(
        evaluation: &Evaluation<'_>,
        requests: &[Request<'_, '_>],
        outcomes: &[ServiceOutcome],
    ) -> Takers {
        let mut takers = Takers::default();
        let lacking = requests.iter().zip(outcomes);
        for (request, _) in lacking.filter(|(request, outcome)| request.lacks_in(outcome)) {
            let families = match &request.wanted {
                AddressRequest::Exactly(requested) => {
                    takers.requested.extend(requested);
                    continue;
                }
                AddressRequest::AnyOf(families) => families,
            };
            for place in request
                .selecting()
                .iter()
                .flat_map(|pool| evaluation.ranges_of(*pool))
                .filter(|place| families.contains(&evaluation.ranges[*place].range.range.family()))
            {
                *takers.of_range.entry(place).or_default() += 1;
            }
        }
        takers
    }

    /// Whether they may take this free address of a range, whose first one may be reserved. Each run of
    /// free addresses begins behind one that is held or may be, and they take it from its start.
    pub(super) fn may_take(
        &self,
        address: IpAddr,
        place: usize,
        range: &Range,
        reserved: Option<&IpAddr>,
        holders: &BTreeMap<IpAddr, Vec<&LbService>>,
        rules: &LbRules,
    ) -> bool {
        let many = self.of_range.get(&place).copied().unwrap_or_default();
        let up_to = |address: IpAddr| {
            let before = range.before(&Range::from(address));
            before.map_or(0, |before| before.width().saturating_add(1))
        };
        let held = holders.range(range.first()..address).next_back();
        let requested = self.requested.range(range.first()..address).next_back();
        let start = held.map(|(held, _)| held).max(requested).max(reserved);
        let start = start.map_or(0, |start| up_to(*start).saturating_add(1));
        let free_before = up_to(address).saturating_sub(start);
        many > 0 && (!rules.is_of(behaviours::LOWEST_FREE_ADDRESS) || many > free_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_take(many: u128, address: &str, held: &[&str], requested: &[&str]) -> bool {
        may_take_of(None, many, address, held, requested)
    }

    fn may_take_of(
        reserved: Option<&IpAddr>,
        many: u128,
        address: &str,
        held: &[&str],
        requested: &[&str],
    ) -> bool {
        let parse = |text: &&str| text.parse::<IpAddr>().unwrap();
        let takers = Takers {
            of_range: BTreeMap::from([(0, many)]),
            requested: requested.iter().map(parse).collect(),
        };
        let holders = held.iter().map(|held| (parse(held), Vec::new())).collect();
        let rules = LbRules::new("1.19.3".parse().ok(), &BTreeMap::new());
        let range = "10.0.0.0/24".parse().unwrap();
        takers.may_take(parse(&address), 0, &range, reserved, &holders, &rules)
    }

    #[test]
    fn they_take_a_run_from_its_start() {
        assert!(!may_take(0, "10.0.0.0", &[], &[]));
        assert!(may_take(1, "10.0.0.0", &[], &[]));
        assert!(!may_take(10, "10.0.0.10", &[], &[]));
        assert!(may_take(11, "10.0.0.10", &[], &[]));
    }

    #[test]
    fn a_run_begins_behind_what_is_held_or_requested() {
        assert!(may_take(1, "10.0.0.10", &["10.0.0.9"], &[]));
        assert!(!may_take(1, "10.0.0.10", &["10.0.0.8"], &[]));
        assert!(may_take(
            2,
            "10.0.0.10",
            &["10.0.0.2"],
            &["10.0.0.8", "10.0.0.10"]
        ));
    }

    #[test]
    fn a_reserved_address_is_not_taken() {
        let first: IpAddr = "10.0.0.0".parse().unwrap();
        assert!(!may_take(1, "10.0.0.1", &[], &[]));
        assert!(may_take_of(Some(&first), 1, "10.0.0.1", &[], &[]));
    }
}
