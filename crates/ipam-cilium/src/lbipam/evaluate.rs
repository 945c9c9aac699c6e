//! Evaluates Services against pools: what each Service keeps, loses, gains or waits for. Must never know
//! which change made the pools so.
//!
//! Finds what makes an operator panic: 1.20.0 to 1.20.2 do not expect that a pool reserves an
//! address of a sharing key (`sharingCluster.IsCompatible` of a nil cluster; cilium#48779).
//!
//! Whether a Service that takes any address may take the one that another Service requests. Must
//! know nothing of the order of serving.
//!
//! Services that compete for the last addresses: who of one rank gets one is left to chance.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conflict::Certainty;
use super::evaluation::Evaluation;
use super::groups::{Rank, Reaction, ServingOrder, competing, in_order, ranks};
use super::pool::{AddressPool, FirstLast, OperatorState, by_name};
use super::rules::LbRules;
use super::selection::{Request, Selection};
use super::service::{AddressRequest, LbService};
use super::service_outcome::{Evaluated, Fatal, GainedAddress, Pending, ServiceOutcome};
use crate::behaviours;
use ipam_core::net::{Family, Range};

/// Evaluates every Service that LB-IPAM serves, in the usual order.
pub fn evaluate<'s>(
    pools: &'s [AddressPool],
    services: impl IntoIterator<Item = &'s LbService>,
    rules: &'s LbRules,
    state: OperatorState<'s>,
) -> Evaluated {
    evaluate_in(ServingOrder::Usual, pools, services, rules, state)
}

/// Evaluates every Service that LB-IPAM serves. The order decides who of those that lack an address
/// gets the last ones.
pub fn evaluate_in<'s>(
    order: ServingOrder,
    pools: &'s [AddressPool],
    services: impl IntoIterator<Item = &'s LbService>,
    rules: &'s LbRules,
    state: OperatorState<'s>,
) -> Evaluated {
    let services = ours(services, rules);
    let (known, reaction) = match state {
        OperatorState::Restarted => (&[][..], Reaction::at_start(pools.len())),
        OperatorState::Running(known) => {
            let counts = (known.len(), pools.len());
            (known, Reaction::new(counts, known, pools, &services, rules))
        }
    };
    evaluate_part(order, (known, pools), services, rules, reaction)
}

/// The Services that LB-IPAM serves.
pub(super) fn ours<'s>(
    services: impl IntoIterator<Item = &'s LbService>,
    rules: &LbRules,
) -> Vec<&'s LbService> {
    let is_ours = |service: &&LbService| rules.serves(service);
    services.into_iter().filter(is_ours).collect()
}

/// Evaluates Services that LB-IPAM serves, and pools, that no other ones affect, see
/// [`Groups`](super::Groups). `reaction` is that to all pools. The pools are those that the operator knew, and those of now.
pub fn evaluate_part<'s>(
    order: ServingOrder,
    (known, pools): (&'s [AddressPool], &'s [AddressPool]),
    services: Vec<&'s LbService>,
    rules: &'s LbRules,
    reaction: Reaction,
) -> Evaluated {
    let state = match reaction {
        Reaction::Idle => return untouched(&services),
        Reaction::Starts => OperatorState::Restarted,
        Reaction::Runs(_) => OperatorState::Running(known),
    };
    let selection = Selection::new(pools);
    let requests: Vec<Request<'_, '_>> = services
        .iter()
        .map(|service| Request::new(service, rules, &selection))
        .collect();
    let mut evaluation = Evaluation::new(pools, rules, state);
    let mut outcomes: Vec<ServiceOutcome> = requests
        .iter()
        .map(|request| evaluation.keep(request))
        .collect();
    let counts = evaluation.counts();
    evaluation.kept = evaluation.holders.keys().copied().collect();
    if let Some(fatal) = evaluation.fatal(&requests, &outcomes) {
        return Evaluated {
            counts,
            fatal: Some(fatal),
            ..untouched(&services)
        };
    }
    evaluation.mark_contested(&requests, &mut outcomes);
    let how = (order, reaction);
    serve(how, pools, &mut evaluation, &requests, &mut outcomes);
    let names = services.iter().map(|service| service.name.clone());
    Evaluated {
        outcomes: names.zip(outcomes).collect(),
        counts,
        fatal: None,
    }
}

/// Gives addresses to the Services that lack them.
fn serve<'s>(
    (order, reaction): (ServingOrder, Reaction),
    pools: &[AddressPool],
    evaluation: &mut Evaluation<'s>,
    requests: &[Request<'_, 's>],
    outcomes: &mut [ServiceOutcome],
) {
    if order != ServingOrder::Usual {
        evaluation.takers = Takers::new(evaluation, requests, outcomes);
    }
    let ranks = ranks(requests, evaluation.rules, reaction);
    let competing = competing(&ranks, evaluation.state);
    let places = in_order(order, &ranks, &competing);
    for place in &places {
        evaluation.satisfy(&requests[*place], &mut outcomes[*place]);
    }
    while evaluation.retry(&places, requests, outcomes) {}
    for (request, outcome) in requests.iter().zip(&mut *outcomes) {
        outcome.restore();
        evaluation.widen(request, outcome);
    }
    mark_rivals(requests, &competing, pools, outcomes);
}

/// The outcome in which every Service keeps its addresses.
fn untouched(services: &[&LbService]) -> Evaluated {
    let outcome = |service: &LbService| ServiceOutcome {
        keeps: service.ingress.clone(),
        ..ServiceOutcome::default()
    };
    let outcomes = services
        .iter()
        .map(|service| (service.name.clone(), outcome(service)));
    Evaluated {
        outcomes: outcomes.collect(),
        ..Evaluated::default()
    }
}

impl Evaluation<'_> {
    /// A Service with a sharing key that requests an address which its pool reserves. The operator
    /// panics at each start.
    pub(super) fn fatal(
        &self,
        requests: &[Request<'_, '_>],
        outcomes: &[ServiceOutcome],
    ) -> Option<Fatal> {
        let is_open = self.rules.is_of(behaviours::PANICS_AT_RESERVED);
        let mut all = requests.iter().zip(outcomes).filter(|_| is_open);
        all.find_map(|(request, outcome)| self.fatal_request(request, outcome))
    }

    fn fatal_request(&self, request: &Request<'_, '_>, outcome: &ServiceOutcome) -> Option<Fatal> {
        request.service.sharing_key.read(self.rules)?;
        let AddressRequest::Exactly(requested) = &request.wanted else {
            return None;
        };
        let pool_of = |address: IpAddr| {
            let covering = self.covering(address).into_iter();
            let mut open = covering.filter(|place| self.ranges[*place].gives());
            let active = &self.ranges
                [open.find(|place| request.is_selected_by(self.ranges[*place].of_pool))?];
            let is_held = self
                .holders
                .get(&address)
                .is_some_and(|held| !held.is_empty());
            (self.is_reserved(active, address) && !is_held).then(|| active.pool.name.clone())
        };
        let mut missing = requested
            .iter()
            .filter(|address| !outcome.keeps.contains(address));
        missing.find_map(|address| {
            Some(Fatal {
                service: request.service.name.clone(),
                address: *address,
                pool: pool_of(*address)?,
            })
        })
    }
}

/// Whether an edit releases a first or last address that a Service has. The operator panics, and
/// starts again.
pub(super) fn frees_held(
    before: &[AddressPool],
    pools: &[AddressPool],
    services: &[&LbService],
    rules: &LbRules,
) -> bool {
    if !rules.is_of(behaviours::PANICS_AT_RESERVED) {
        return false;
    }
    let known = by_name(before);
    let reserves = |pool: &AddressPool| rules.meaning_of(pool.first_last) == FirstLast::Reserved;
    let freed = pools.iter().filter_map(|pool| {
        let known = *known.get(pool.name.as_str())?;
        (reserves(known) && !reserves(pool)).then_some((pool, known))
    });
    let is_held = |pool: &AddressPool, range: &Range| {
        services.iter().any(|service| {
            let mut ingress = service.ingress.iter();
            pool.selects(&service.labels)
                && ingress.any(|one| *one == range.first() || *one == range.last())
        })
    };
    let edges = |pool: &AddressPool, known: &AddressPool| {
        let mut kept = known.ranges.iter().filter(|range| {
            pool.ranges.contains(range) && rules.reserves_first_and_last(known.first_last, range)
        });
        kept.any(|range| is_held(known, &range.range))
    };
    freed.into_iter().any(|(pool, known)| edges(pool, known))
}

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

    /// Whether the Services may take this free address of a range, whose first address may be
    /// reserved. Each run of free addresses begins after one that is held or may be, and the
    /// Services take addresses from the start of the run.
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

/// Pools by name, for Services of a rank that want an address of a family.
type ByRank<'p> = BTreeMap<(Rank, Family), BTreeSet<&'p str>>;

fn names<'p>(request: &Request<'_, '_>, pools: &'p [AddressPool]) -> BTreeSet<&'p str> {
    let selecting = request.selecting().iter();
    selecting.map(|pool| pools[*pool].name.as_str()).collect()
}

fn families_without_room(outcome: &ServiceOutcome) -> Vec<Family> {
    let pending = outcome.pending.iter();
    pending.filter_map(Pending::family_without_room).collect()
}

/// Records for each Service whether another one of its rank may get its address, and which addresses
/// it may get instead of waiting.
pub(super) fn mark_rivals(
    requests: &[Request<'_, '_>],
    ranks: &[Rank],
    pools: &[AddressPool],
    outcomes: &mut [ServiceOutcome],
) {
    let (mut short, mut gained) = (ByRank::new(), BTreeMap::new());
    for ((request, rank), outcome) in requests.iter().zip(ranks).zip(&*outcomes) {
        for family in families_without_room(outcome) {
            let known = short.entry((*rank, family)).or_default();
            known.extend(names(request, pools));
        }
        for gain in &outcome.gains {
            let known: &mut BTreeSet<String> = gained.entry((*rank, gain.family())).or_default();
            known.extend(gain.pools());
        }
    }
    if short.is_empty() {
        return;
    }
    for ((request, rank), outcome) in requests.iter().zip(ranks).zip(outcomes) {
        let is_short = |gain: &GainedAddress| match gain {
            GainedAddress::Exactly(_) => false,
            // A choice between several addresses of a sharing key names no pool.
            GainedAddress::OneOf { pools, .. } if pools.is_empty() => false,
            GainedAddress::OneOf { family, pools } => short
                .get(&(*rank, *family))
                .is_some_and(|short| pools.iter().all(|pool| short.contains(pool.as_str()))),
        };
        if outcome.gains.iter().any(is_short) {
            outcome.certainty = Certainty::LeftToChance;
        }
        for family in families_without_room(outcome) {
            let of_others = gained.get(&(*rank, family)).into_iter().flatten();
            let its = names(request, pools);
            let pools: BTreeSet<String> = of_others
                .filter(|pool| its.contains(pool.as_str()))
                .cloned()
                .collect();
            if !pools.is_empty() {
                let chance = GainedAddress::OneOf { family, pools };
                outcome.chances.push(chance);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::service_outcome::GainedAddress;
    use super::super::test_objects::{pool, rules, service};
    use super::*;
    use crate::lbipam::{Annotation, FirstLast, Port, ServingState};
    use ipam_core::model::ServiceName;

    /// A Service with a sharing key.
    fn sharing(name: &str, port: u16, ingress: &[&str]) -> LbService {
        with_key(service(name, "blue", &[], ingress), port)
    }

    /// A line for each Service.
    fn reported(
        pools: &[AddressPool],
        services: &[LbService],
        version: &str,
        state: OperatorState<'_>,
    ) -> Vec<String> {
        let line = |(name, outcome): (ServiceName, ServiceOutcome)| {
            let ServiceOutcome {
                keeps,
                contested,
                loses,
                gains,
                pending,
                certainty: _,
                chances: _,
            } = outcome;
            let contested = |address| {
                if contested.iter().any(|(known, _)| known == address) {
                    " (contested)"
                } else {
                    ""
                }
            };
            let mut parts: Vec<String> = keeps
                .iter()
                .map(|address| format!("keeps {address}{}", contested(address)))
                .collect();
            parts.extend(
                loses
                    .iter()
                    .map(|(address, why)| format!("loses {address} ({why})")),
            );
            parts.extend(gains.iter().map(|gain| match gain {
                GainedAddress::Exactly(address) => format!("gets {address}"),
                GainedAddress::OneOf { pools, .. } => {
                    format!(
                        "gets one of {}",
                        pools.iter().cloned().collect::<Vec<_>>().join(" ")
                    )
                }
            }));
            parts.extend(
                pending
                    .iter()
                    .map(|pending| format!("waits: {}", pending.reason())),
            );
            format!("{}: {}", name.name(), parts.join(", "))
        };
        evaluate(pools, services, &rules(version), state)
            .outcomes
            .into_iter()
            .map(line)
            .collect()
    }

    #[test]
    fn a_disabled_pool_keeps_its_addresses_until_the_operator_restarts() {
        let before = [pool("blue", "blue", &["10.0.0.0/24"])];
        let mut after = before.clone();
        after[0].state = ServingState::Disabled;
        let services = [
            service("has", "blue", &[], &["10.0.0.7"]),
            service("new", "blue", &[], &[]),
        ];
        let running = reported(&after, &services, "1.19.3", OperatorState::Running(&before));
        assert_eq!(running, ["has: keeps 10.0.0.7", "new: waits: no_pool"]);
        let restarted = reported(&after, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            restarted,
            [
                "has: loses 10.0.0.7 (its pool is disabled), waits: no_pool",
                "new: waits: no_pool"
            ]
        );
    }

    #[test]
    fn an_edit_keeps_what_is_still_covered_unless_another_service_takes_it() {
        let before = [pool("blue", "blue", &["10.0.0.0/24"])];
        let after = [pool("blue", "blue", &["10.0.0.0/25"])];
        let (high, low) = (
            service("high", "blue", &[], &["10.0.0.200"]),
            service("low", "blue", &[], &["10.0.0.7"]),
        );
        let (waits, state) = (
            service("waits", "blue", &[], &[]),
            OperatorState::Running(&before),
        );
        let shrunk = reported(&after, &[high, low.clone()], "1.19.3", state);
        assert_eq!(
            shrunk,
            [
                "high: loses 10.0.0.200 (no pool covers it), gets one of blue",
                "low: keeps 10.0.0.7 (contested)"
            ]
        );
        let (new, old) = (["1.19.3", "1.18.2"], ["1.18.1", "1.15.19"]);
        for version in new {
            let reported = reported(&after, &[low.clone(), waits.clone()], version, state);
            assert_eq!(
                reported,
                ["low: keeps 10.0.0.7", "waits: gets one of blue"],
                "{version}"
            );
        }
        for version in old {
            let reported = reported(&after, &[low.clone(), waits.clone()], version, state);
            assert_eq!(
                reported,
                ["low: keeps 10.0.0.7 (contested)", "waits: gets one of blue"],
                "{version}"
            );
        }
    }

    #[test]
    fn addresses_do_not_move_to_a_pool_that_is_new_but_to_one_that_is_edited() {
        let before = [
            pool("a", "blue", &["10.0.0.0/24"]),
            pool("b", "blue", &["10.0.9.0/24"]),
        ];
        let has = service("has", "blue", &[], &["10.0.0.7"]);
        let state = OperatorState::Running(&before);
        let renamed = [pool("c", "blue", &["10.0.0.0/24"]), before[1].clone()];
        let reported_renamed = reported(&renamed, std::slice::from_ref(&has), "1.19.3", state);
        assert_eq!(
            reported_renamed,
            ["has: loses 10.0.0.7 (no pool covers it), gets one of b c"]
        );
        let deleted = reported(&[], std::slice::from_ref(&has), "1.19.3", state);
        assert_eq!(
            deleted,
            ["has: loses 10.0.0.7 (no pool covers it), waits: no_pool"]
        );
        let overlapping = [
            before[0].clone(),
            pool("b", "blue", &["10.0.9.0/24", "10.0.0.0/24"]),
        ];
        let widened = reported(&overlapping, &[has], "1.19.3", state);
        assert_eq!(widened, ["has: keeps 10.0.0.7"]);
    }

    #[test]
    fn reasons_to_wait() {
        let pools = [
            pool("blue", "blue", &["10.0.0.0/31"]),
            pool("red", "red", &["10.0.1.0/24"]),
        ];
        let services = [
            service("a", "blue", &[], &["10.0.0.0"]),
            service("b", "blue", &["10.0.0.0"], &[]),
            service("c", "blue", &["10.0.1.9"], &[]),
            service("d", "blue", &["10.9.9.9"], &[]),
            service("e", "green", &[], &[]),
            service("f", "blue", &[], &[]),
            service("g", "blue", &[], &[]),
        ];
        let reported = reported(&pools, &services, "1.19.3", OperatorState::Restarted);
        let expected = [
            "a: keeps 10.0.0.0",
            "b: waits: already_allocated",
            "c: waits: pool_selector_mismatch",
            "d: waits: no_pool",
            "e: waits: no_pool",
            "f: gets one of blue",
            "g: waits: out_of_ips",
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn sharing_needs_the_same_key_and_other_ports() {
        let pools = [pool("blue", "blue", &["10.0.0.0/24"])];
        let services = [
            sharing("a", 80, &["10.0.0.9"]),
            sharing("b", 443, &[]),
            sharing("c", 80, &[]),
        ];
        let shared = reported(&pools, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            shared,
            [
                "a: keeps 10.0.0.9",
                "b: gets 10.0.0.9",
                "c: gets one of blue"
            ]
        );
        let single = [pool("blue", "blue", &["10.0.0.4"])];
        let services = [
            sharing("a", 80, &[]),
            sharing("b", 443, &[]),
            sharing("c", 80, &[]),
        ];
        let reservations = reported(&single, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            reservations,
            [
                "a: gets one of blue",
                "b: gets one of blue",
                "c: waits: out_of_ips"
            ]
        );
    }

    #[test]
    fn a_restart_takes_addresses_of_a_key_with_several_up_to_1_19() {
        let pools = [pool("blue", "blue", &["10.0.0.0/24"])];
        let services = [
            sharing("a", 80, &["10.0.0.1"]),
            sharing("b", 80, &["10.0.0.2"]),
            sharing("c", 81, &["10.0.0.2"]),
            sharing("d", 82, &[]),
        ];
        let old = reported(&pools, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            old,
            [
                "a: keeps 10.0.0.1",
                "b: keeps 10.0.0.2 (contested)",
                "c: keeps 10.0.0.2 (contested)",
                "d: gets one of blue"
            ]
        );
        let new = reported(&pools, &services, "1.20.2", OperatorState::Restarted);
        assert_eq!(new[..3].join(", ").matches("contested").count(), 0);
    }

    fn with_key(service: LbService, port: u16) -> LbService {
        LbService {
            sharing_key: Annotation {
                newer: None,
                older: Some("k".into()),
            },
            ports: [Port {
                port,
                protocol: "TCP".into(),
            }]
            .into(),
            ..service
        }
    }

    #[test]
    fn holders_are_served_before_those_that_wait_from_1_18_2_on() {
        let before = [pool("blue", "blue", &["10.0.0.0/31"])];
        let after = [pool("blue", "blue", &["10.0.1.0"])];
        let services = [
            service("a", "blue", &[], &[]),
            service("z", "blue", &[], &["10.0.0.1"]),
        ];
        let edited = |version| {
            let running = OperatorState::Running(&before);
            reported(&after, &services, version, running).join(", ")
        };
        let lost = "loses 10.0.0.1 (no pool covers it)";
        assert_eq!(
            edited("1.19.3"),
            format!("a: waits: out_of_ips, z: {lost}, gets one of blue")
        );
        assert_eq!(
            edited("1.17.6"),
            format!("a: gets one of blue, z: {lost}, waits: out_of_ips")
        );
    }

    #[test]
    fn one_that_may_lose_its_address_may_take_that_of_the_next() {
        let pools = [pool("blue", "blue", &["10.0.0.0/30"])];
        let services = [
            service("a", "blue", &["10.0.0.0"], &[]),
            service("b", "blue", &[], &["10.0.0.0"]),
            service("c", "blue", &[], &["10.0.0.1"]),
        ];
        let old = reported(&pools, &services, "1.18.1", OperatorState::Restarted);
        assert_eq!(old.join(", ").matches("contested").count(), 2, "{old:?}");
        let new = reported(&pools, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(new.join(", ").matches("contested").count(), 0, "{new:?}");
    }

    #[test]
    fn a_service_joins_again_an_address_that_its_pool_does_not_give() {
        let pools = [
            pool("blue", "blue", &["10.0.0.0/30"]),
            pool("red", "red", &["10.0.1.0/30"]),
        ];
        let services = [
            with_key(service("a", "blue", &[], &["10.0.0.1"]), 80),
            with_key(service("b", "red", &[], &["10.0.0.1"]), 81),
        ];
        let old = reported(&pools, &services, "1.16.6", OperatorState::Restarted);
        assert_eq!(old, ["a: keeps 10.0.0.1", "b: keeps 10.0.0.1 (contested)"]);
        let new = reported(&pools, &services, "1.20.2", OperatorState::Restarted);
        assert_eq!(new, ["a: keeps 10.0.0.1", "b: keeps 10.0.0.1"]);
    }

    #[test]
    fn one_that_waits_joins_a_later_one_of_its_key() {
        let pools = [pool("blue", "blue", &["10.0.0.0/30"])];
        let services = [
            with_key(service("a", "red", &[], &[]), 80),
            with_key(service("b", "blue", &[], &[]), 81),
        ];
        let reported = reported(&pools, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(reported, ["a: gets one of blue", "b: gets one of blue"]);
    }

    #[test]
    fn the_last_address_is_given_once() {
        let pools = [pool("blue", "blue", &["10.0.0.0/31"])];
        let services = [
            service("a", "blue", &[], &["10.0.0.0"]),
            service("b", "blue", &[], &[]),
            service("c", "blue", &["10.0.0.1"], &[]),
        ];
        let reported = reported(&pools, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            reported[1..],
            ["b: gets one of blue", "c: waits: already_allocated"]
        );
    }

    #[test]
    fn a_key_keeps_the_address_of_a_gone_block_until_1_20_restarts() {
        let before = [pool("blue", "blue", &["10.0.0.0/30"])];
        let after = [pool("blue", "blue", &["10.0.1.0/30"])];
        let has = [with_key(service("has", "blue", &[], &["10.0.0.1"]), 80)];
        let lost = ["has: loses 10.0.0.1 (no pool covers it), gets one of blue"];
        let running = OperatorState::Running(&before);
        assert_eq!(
            reported(&after, &has, "1.20.2", running),
            ["has: keeps 10.0.0.1"]
        );
        assert_eq!(reported(&after, &has, "1.19.3", running), lost);
        assert_eq!(
            reported(&after, &has, "1.20.2", OperatorState::Restarted),
            lost
        );
    }

    #[test]
    fn a_reserved_address_of_a_key_stops_1_20_2() {
        let mut pools = [pool("blue", "blue", &["10.0.0.0/29"])];
        pools[0].first_last = FirstLast::Reserved;
        let services = [
            with_key(service("a", "blue", &["10.0.0.0"], &["10.0.0.0"]), 80),
            service("b", "blue", &[], &[]),
        ];
        let evaluated = |version: &str, state| {
            let Evaluated {
                outcomes, fatal, ..
            } = evaluate(&pools, &services, &rules(version), state);
            let gains: usize = outcomes.values().map(|outcome| outcome.gains.len()).sum();
            (fatal.map(|fatal| fatal.service.to_string()), gains)
        };
        let fatal = Some("default/a".to_owned());
        assert_eq!(evaluated("1.20.2", OperatorState::Restarted), (fatal, 0));
        assert_eq!(evaluated("1.19.3", OperatorState::Restarted).0, None);
        let running = OperatorState::Running(&pools);
        assert_eq!(evaluated("1.20.2", running), (None, 1));
    }

    #[test]
    fn an_edit_moves_addresses_before_1_17_6() {
        let before = [pool("blue", "blue", &["10.0.0.0/25"])];
        let after = [pool("blue", "blue", &["10.0.0.0/24"])];
        let has = [service("has", "blue", &[], &["10.0.0.7"])];
        for (version, expected) in [
            ("1.16.6", "has: keeps 10.0.0.7 (contested)"),
            ("1.17.3", "has: keeps 10.0.0.7 (contested)"),
            ("1.17.6", "has: keeps 10.0.0.7"),
            ("1.15.19", "has: keeps 10.0.0.7"),
        ] {
            let running = OperatorState::Running(&before);
            assert_eq!(
                reported(&after, &has, version, running),
                [expected],
                "{version}"
            );
        }
    }

    #[test]
    fn a_restart_decides_anew_between_pools_of_one_second() {
        let pools = [
            pool("a", "blue", &["10.0.0.0/24"]),
            pool("b", "green", &["10.0.0.0/25"]),
        ];
        let has = [service("has", "blue", &[], &["10.0.0.7"])];
        let restarted = reported(&pools, &has, "1.19.3", OperatorState::Restarted);
        assert_eq!(restarted, ["has: keeps 10.0.0.7 (contested)"]);
    }

    #[test]
    fn what_1_15_keeps_back_and_does_not_read() {
        let pools = [pool("blue", "blue", &["10.0.0.0/29"])];
        let newer = LbService {
            addresses: Annotation {
                newer: Some("10.0.0.5".into()),
                older: None,
            },
            ..service("newer", "blue", &[], &["10.0.0.1"])
        };
        let services = [newer, service("z", "blue", &["10.0.0.0"], &[])];
        let old = reported(&pools, &services, "1.15.19", OperatorState::Restarted);
        assert_eq!(
            old,
            ["newer: keeps 10.0.0.1", "z: waits: already_allocated"]
        );
        let new = reported(&pools, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            new,
            [
                "newer: loses 10.0.0.1 (the Service does not request it), gets 10.0.0.5",
                "z: gets 10.0.0.0"
            ]
        );
    }

    #[test]
    fn without_a_pool_the_operator_sleeps() {
        let services = [service("a", "blue", &[], &["192.0.2.1"])];
        assert_eq!(
            reported(&[], &services, "1.19.3", OperatorState::Restarted),
            ["a: keeps 192.0.2.1"]
        );
    }
}

#[cfg(test)]
mod takers_tests {
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
