//! Evaluates Services against pools: what each Service keeps, loses, gains or waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::active_range::{ActiveRange, active_ranges};
use super::conflict::Certainty;
use super::contested::Imported;
use super::counts::Counts;
use super::fatal::frees_held;
use super::pool::{AddressPool, OperatorState};
use super::rivals::mark_rivals;
use super::rules::{ClassUse, LbRules};
use super::satisfy::Reservation;
use super::selection::{Request, Selection};
use super::service::{AddressRequest, LbService};
use super::service_outcome::{Evaluated, LossReason, ServiceOutcome};
use super::serving_order::{ServingOrder, competing, in_order, ranks};
use super::sharing::incompatibility;
use super::takers::Takers;
use ipam_core::net::{Family, Range, RangeIndex};

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
    let services: Vec<&LbService> = services
        .into_iter()
        .filter(|service| rules.class_use(service.class.as_deref()) == ClassUse::Ours)
        .collect();
    // Without a pool the operator is idle, and then behaves as if it had just started.
    let (before, state) = match state {
        OperatorState::Running(before) if frees_held(before, pools, &services, rules) => {
            (&[][..], OperatorState::Restarted)
        }
        OperatorState::Running(before) if !before.is_empty() => (before, state),
        OperatorState::Running(_) | OperatorState::Restarted => (&[][..], OperatorState::Restarted),
    };
    if pools.is_empty() && before.is_empty() {
        // Without any pool the operator is idle and changes nothing.
        return untouched(&services);
    }
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
    if order != ServingOrder::Usual {
        evaluation.takers = Takers::new(&evaluation, &requests, &outcomes);
    }
    let ranks = ranks(&requests, pools, rules, state);
    let competing = competing(&ranks, state);
    let places = in_order(order, &ranks, &competing);
    for place in &places {
        evaluation.satisfy(&requests[*place], &mut outcomes[*place]);
    }
    while evaluation.retry(&places, &requests, &mut outcomes) {}
    for (request, outcome) in requests.iter().zip(&mut outcomes) {
        outcome.restore();
        evaluation.widen(request, outcome);
    }
    mark_rivals(&requests, &competing, pools, &mut outcomes);
    let names = services.iter().map(|service| service.name.clone());
    Evaluated {
        outcomes: names.zip(outcomes).collect(),
        counts,
        fatal: None,
    }
}

/// Every Service as it is.
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

/// Whether no address of the family is kept.
pub(super) fn lacks(outcome: &ServiceOutcome, family: Family) -> bool {
    !outcome
        .keeps
        .iter()
        .any(|address| Family::of(*address) == family)
}

/// Why a Service keeps an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptBecause {
    /// The operator has allocated it.
    Allocated,
    /// The operator allocates it when it processes the Service.
    Imported,
    /// Several ranges may be its source, and some of them are gone; or its pool overlaps another
    /// one, and chance decides which of them is used.
    Doubtful(LossReason),
}

pub(super) struct Evaluation<'p> {
    pub(super) rules: &'p LbRules,
    state: OperatorState<'p>,
    pub(super) ranges: Vec<ActiveRange<'p>>,
    /// Indexes into `ranges`.
    index: RangeIndex<usize>,
    /// Ranges of the previous pools, with the indexes of the pools.
    known: RangeIndex<usize>,
    pub(super) holders: BTreeMap<IpAddr, Vec<&'p LbService>>,
    pub(super) reservations: Vec<Reservation<'p>>,
    /// Indexes of the ranges of which a Service takes an address that nothing tells.
    pub(super) chosen_from: BTreeSet<usize>,
    /// Empty in the usual order.
    pub(super) takers: Takers,
    pub(super) imported: Vec<Imported<'p>>,
    /// Addresses that Services keep, before any gets a new one.
    pub(super) kept: BTreeSet<IpAddr>,
    /// Those of them that a running operator has allocated.
    pub(super) allocated: BTreeSet<IpAddr>,
    /// Addresses of ranges that are gone, which their sharing key keeps.
    pub(super) stale: Vec<(IpAddr, &'p LbService)>,
}

impl<'p> Evaluation<'p> {
    fn new(
        pools: &'p [AddressPool],
        rules: &'p LbRules,
        state: OperatorState<'p>,
    ) -> Evaluation<'p> {
        let ranges = active_ranges(pools, rules, state);
        let index = RangeIndex::new(
            ranges
                .iter()
                .enumerate()
                .map(|(place, active)| (active.range.range, place)),
        );
        let before: &[AddressPool] = match state {
            OperatorState::Running(before) => before,
            OperatorState::Restarted => &[],
        };
        let of_pool = |(place, pool): (usize, &AddressPool)| {
            pool.ranges
                .iter()
                .map(|range| (range.range, place))
                .collect::<Vec<_>>()
        };
        let known = RangeIndex::new(before.iter().enumerate().flat_map(of_pool));
        let (holders, reservations) = (BTreeMap::new(), Vec::new());
        let (imported, stale) = (Vec::new(), Vec::new());
        Evaluation {
            rules,
            state,
            chosen_from: BTreeSet::new(),
            takers: Takers::default(),
            ranges,
            index,
            known,
            holders,
            reservations,
            imported,
            kept: BTreeSet::new(),
            allocated: BTreeSet::new(),
            stale,
        }
    }

    fn counts(&self) -> BTreeMap<String, Counts> {
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        for active in &self.ranges {
            let range = &active.range.range;
            let family = Family::of(range.first());
            let total = self.rules.counted(range);
            counts
                .entry(active.pool.name.clone())
                .or_default()
                .add(family, total, active.taken);
        }
        counts
    }

    /// Whether the range reserves the address.
    pub(super) fn is_reserved(&self, active: &ActiveRange<'_>, address: IpAddr) -> bool {
        let range = &active.range.range;
        (address == range.first() || address == range.last())
            && self
                .rules
                .reserves_first_and_last(active.pool.first_last, &active.range)
    }

    /// The addresses that a Service keeps and loses.
    fn keep(&mut self, request: &Request<'_, 'p>) -> ServiceOutcome {
        let service = request.service;
        let mut outcome = ServiceOutcome::default();
        for address in &service.ingress {
            let is_wanted = match &request.wanted {
                AddressRequest::Exactly(requested) => requested.contains(address),
                AddressRequest::AnyOf(families) => families.contains(&Family::of(*address)),
            };
            let place = if is_wanted {
                self.place_of(request, *address)
            } else {
                Err(LossReason::NotRequested)
            };
            match place.and_then(|(place, because)| {
                self.take(service, *address, place, because)
                    .map(|()| (place, because))
            }) {
                Ok((place, because)) => {
                    outcome.keeps.push(*address);
                    if let KeptBecause::Doubtful(why) = because {
                        outcome.contested.push((*address, why));
                    } else if because == KeptBecause::Allocated {
                        self.allocated.insert(*address);
                    } else {
                        self.imported.push(Imported {
                            address: *address,
                            of_pool: self.ranges[place].of_pool,
                            service,
                        });
                    }
                }
                Err(LossReason::NoPool) if self.is_stale(request) => {
                    self.holders.entry(*address).or_default().push(service);
                    self.stale.push((*address, service));
                    outcome.keeps.push(*address);
                }
                Err(loss) => outcome.loses.push((*address, loss)),
            }
        }
        outcome
    }

    /// Whether the Service keeps an address that no range covers any more: the operator forgets
    /// ranges, but not the addresses of a sharing key.
    fn is_stale(&self, request: &Request<'_, '_>) -> bool {
        let is_running = matches!(self.state, OperatorState::Running(_));
        let is_generic = matches!(request.wanted, AddressRequest::AnyOf(_));
        let has_key = request.service.sharing_key.read(self.rules).is_some();
        self.rules.keeps_addresses_of_keys() && is_running && is_generic && has_key
    }

    /// Serves those that wait with a sharing key once more: by now they may join another Service.
    /// Returns whether one does.
    fn retry(
        &mut self,
        order: &[usize],
        requests: &[Request<'_, 'p>],
        outcomes: &mut [ServiceOutcome],
    ) -> bool {
        let mut any = false;
        for place in order {
            let (request, outcome) = (&requests[*place], &mut outcomes[*place]);
            let has_key = request.service.sharing_key.read(self.rules).is_some();
            if has_key && !outcome.pending.is_empty() {
                let count = outcome.pending.len();
                outcome.pending.clear();
                self.satisfy(request, outcome);
                any |= outcome.pending.len() < count;
            }
        }
        any
    }

    /// Indexes of the ranges that cover an address, in order.
    pub(super) fn covering(&self, address: IpAddr) -> Vec<usize> {
        let mut places: Vec<usize> = self
            .index
            .overlapping(&Range::from(address))
            .map(|(_, place)| *place)
            .collect();
        places.sort_unstable();
        places
    }

    /// The range that keeps an address, and why.
    fn place_of(
        &self,
        request: &Request<'_, '_>,
        address: IpAddr,
    ) -> Result<(usize, KeptBecause), LossReason> {
        let owners = self.owners(request, address);
        let is_owner = |place: &usize| {
            let active = &self.ranges[*place];
            owners.contains(&(active.pool.name.as_str(), active.range.range))
        };
        let selects = |place: &usize| request.is_selected_by(self.ranges[*place].of_pool);
        let mut covering = self.covering(address);
        let left = covering
            .iter()
            .filter(|place| is_owner(place) && selects(place))
            .count();
        let because = if left == owners.len() {
            KeptBecause::Allocated
        } else {
            KeptBecause::Doubtful(LossReason::UnknownPool)
        };
        // If two pools cover it, its owner keeps it, or else the active pool.
        covering.sort_by_key(|place| (!is_owner(place), self.ranges[*place].use_of.is_err()));
        let mut loss = LossReason::NoPool;
        for place in covering {
            if !selects(&place) {
                loss = loss.max(LossReason::NotSelected);
                continue;
            }
            match self.ranges[place].imports {
                _ if is_owner(&place) => return Ok((place, because)),
                Ok(()) if self.is_reserved(&self.ranges[place], address) => {
                    loss = loss.max(LossReason::Reserved)
                }
                Ok(()) if self.ranges[place].certainty == Certainty::LeftToChance => {
                    return Ok((place, KeptBecause::Doubtful(LossReason::PoolConflicting)));
                }
                Ok(()) if !owners.is_empty() && !self.rules.keeps_through_edits() => {
                    return Ok((place, KeptBecause::Doubtful(LossReason::BlockEdited)));
                }
                Ok(()) => return Ok((place, KeptBecause::Imported)),
                Err(why) => loss = loss.max(why),
            }
        }
        Err(loss)
    }

    /// Pools and ranges that may have given the address. Nothing tells which of several it was.
    fn owners(&self, request: &Request<'_, '_>, address: IpAddr) -> Vec<(&'p str, Range)> {
        let OperatorState::Running(before) = self.state else {
            return Vec::new();
        };
        let covering = self.known.overlapping(&Range::from(address));
        let selecting =
            covering.filter(|(_, place)| before[*place].selects(&request.service.labels));
        let mut owners: Vec<(&str, Range)> = selecting
            .map(|(range, place)| (before[*place].name.as_str(), *range))
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    pub(super) fn take(
        &mut self,
        service: &'p LbService,
        address: IpAddr,
        place: usize,
        because: KeptBecause,
    ) -> Result<(), LossReason> {
        let is_reserved = self.is_reserved(&self.ranges[place], address);
        let holders = self.holders.entry(address).or_default();
        let is_incompatible = holders
            .iter()
            .any(|holder| incompatibility(holder, service, self.rules).is_some());
        // Two overlapping pools allocate independently, so both may have given it. An operator that
        // starts gives it to the first one in the order of a Go map.
        let is_running = matches!(self.state, OperatorState::Running(_));
        if is_incompatible && is_running && because == KeptBecause::Imported {
            return Err(LossReason::Taken);
        }
        // A reserved address is counted already.
        if holders.is_empty() && !is_reserved {
            self.ranges[place].taken += 1;
        }
        holders.push(service);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::service_outcome::GainedAddress;
    use super::*;
    use crate::lbipam::{
        AddressRange, Annotation, FamilyPolicy, FirstLast, Marking, Port, RangeForm, RequestAuthor,
        ServingState, TrafficPolicy,
    };
    use ipam_core::model::{Labels, Operator, Requirement, Selector, ServiceName};

    fn pool(name: &str, color: &str, ranges: &[&str]) -> AddressPool {
        let range = |text: &&str| AddressRange {
            range: text.parse().unwrap(),
            form: RangeForm::Cidr,
        };
        let is_color = Requirement::new("color", Operator::In([color.to_owned()].into())).unwrap();
        AddressPool {
            name: name.into(),
            created: Some("2026-01-01T00:00:00Z".into()),
            ranges: ranges.iter().map(range).collect(),
            selector: Some(Selector::all_of([is_color])),
            first_last: FirstLast::Unset,
            state: ServingState::Enabled,
            marking: Marking::None,
        }
    }

    fn service(name: &str, color: &str, requested: &[&str], ingress: &[&str]) -> LbService {
        let name = ServiceName::new("default", name);
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        LbService {
            labels: LbService::with_pseudo_labels(
                &name,
                [("color".to_owned(), color.to_owned())].into(),
            ),
            name,
            version: ipam_core::model::ObjectVersion::default(),
            class: None,
            family_policy: FamilyPolicy::Single,
            families: vec![Family::Ipv4],
            spec_address: None,
            addresses: Annotation {
                newer: None,
                older: Some(requested.join(",")),
            },
            request_author: RequestAuthor::Others,
            owner: None,
            sharing_key: Annotation::default(),
            sharing_namespaces: Annotation::default(),
            traffic_policy: TrafficPolicy::Cluster,
            ports: [Port {
                port: 80,
                protocol: "TCP".into(),
            }]
            .into(),
            pod_selector: Labels::new(),
            ingress: addresses(ingress),
            reason: None,
        }
    }

    /// A Service with a sharing key.
    fn sharing(name: &str, port: u16, ingress: &[&str]) -> LbService {
        with_key(service(name, "blue", &[], ingress), port)
    }

    fn rules(version: &str) -> LbRules {
        LbRules::new(version.parse().ok(), &BTreeMap::new())
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
