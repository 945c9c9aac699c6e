//! Where Services end up with given pools: what each keeps, loses, gains, or waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conflict::{Certainty, conflicts};
use super::counts::Counts;
use super::outlook::{Evaluated, Gain, Loss, Outlook};
use super::pool::{AddressPool, AddressRange, OperatorState, ServingState};
use super::rules::{ClassUse, LbRules};
use super::satisfy::Promised;
use super::selection::{Asking, Selection};
use super::service::{LbService, Wish};
use super::sharing::incompatibility;
use ipam_core::model::ServiceName;
use ipam_core::net::{Family, Range, RangeIndex};

/// What becomes of each Service that LB-IPAM takes. Those that have addresses are served before
/// those that have none, as the operator does it from 1.18.2 on; among those that compete for the
/// last addresses, the order is that of their names, which the operator's is not.
pub fn evaluate<'s>(
    pools: &'s [AddressPool],
    services: impl IntoIterator<Item = &'s LbService>,
    rules: &'s LbRules,
    state: OperatorState<'s>,
) -> Evaluated {
    let services: Vec<&LbService> = services
        .into_iter()
        .filter(|service| rules.class_use(service.class.as_deref()) == ClassUse::Ours)
        .collect();
    // Without a pool it slept, and wakes up as if it had just started.
    let (before, state) = match state {
        OperatorState::Running(before) if !before.is_empty() => (before, state),
        OperatorState::Running(_) | OperatorState::Restarted => (&[][..], OperatorState::Restarted),
    };
    if pools.is_empty() && before.is_empty() {
        // Without any pool the operator sleeps, and touches nothing.
        let untouched = |service: &&LbService| Outlook {
            keeps: service.ingress.clone(),
            ..Outlook::default()
        };
        let outlooks = services
            .iter()
            .map(|service| (service.name.clone(), untouched(service)))
            .collect();
        return Evaluated {
            outlooks,
            counts: BTreeMap::new(),
        };
    }
    let selection = Selection::new(pools);
    let asking: Vec<Asking<'_, '_>> = services
        .iter()
        .map(|service| Asking::new(service, rules, &selection))
        .collect();
    let mut settling = Settling::new(pools, rules, state);
    let mut outlooks: Vec<Outlook> = asking.iter().map(|asking| settling.keep(asking)).collect();
    let counts = settling.counts();
    settling.contest(&asking, &mut outlooks);
    for (asking, outlook) in asking.iter().zip(&mut outlooks) {
        settling.satisfy(asking, outlook);
        regain(outlook);
    }
    let names = services.iter().map(|service| service.name.clone());
    Evaluated {
        outlooks: names.zip(outlooks).collect(),
        counts,
    }
}

/// What is taken away and given back at once stays, unless another Service is faster.
fn regain(outlook: &mut Outlook) {
    let Outlook {
        keeps,
        contested,
        loses,
        gains,
        ..
    } = outlook;
    let is_regained = |address: &IpAddr| gains.contains(&Gain::Exactly(*address));
    let regained: Vec<IpAddr> = loses
        .iter()
        .map(|(address, _)| *address)
        .filter(is_regained)
        .collect();
    contested.extend(regained.iter().copied());
    keeps.extend(regained);
    loses.retain(|(address, _)| !keeps.contains(address));
    gains.retain(|gain| !matches!(gain, Gain::Exactly(address) if keeps.contains(address)));
}

/// Whether nothing of a family is kept.
pub(super) fn lacks(outlook: &Outlook, family: Family) -> bool {
    !outlook
        .keeps
        .iter()
        .any(|address| Family::of(*address) == family)
}

/// A range in use, with its pool.
pub(super) struct Serving<'p> {
    pub(super) pool: &'p AddressPool,
    /// Place of the pool.
    pub(super) of_pool: usize,
    pub(super) range: AddressRange,
    /// Whether addresses are given from it.
    use_of: Result<(), Loss>,
    /// Whether an address that a Service shows already is recognised as one of it.
    imports: Result<(), Loss>,
    /// Addresses that are given, and those that are kept back.
    pub(super) taken: u128,
}

impl Serving<'_> {
    /// Whether addresses are given from it: the operator that runs does so too from a pool out of
    /// use that was edited just now.
    pub(super) fn gives(&self) -> bool {
        self.use_of.is_ok() || self.imports.is_ok()
    }
}

/// How an address stays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    /// The operator has it on its list.
    Allocated,
    /// It is put on the list when the Service is looked at.
    Imported,
    /// It came from one of several ranges, and not all of them are left.
    Doubtful,
}

/// An address that is on nobody's list until its Service is looked at.
struct Imported<'p> {
    address: IpAddr,
    /// Place of its pool.
    of_pool: usize,
    service: &'p LbService,
}

pub(super) struct Settling<'p> {
    pub(super) rules: &'p LbRules,
    state: OperatorState<'p>,
    pub(super) ranges: Vec<Serving<'p>>,
    /// Places of the ranges.
    index: RangeIndex<usize>,
    /// Ranges of the pools that there were before, with the pools' places.
    known: RangeIndex<usize>,
    pub(super) holders: BTreeMap<IpAddr, Vec<&'p LbService>>,
    pub(super) promised: Vec<Promised<'p>>,
    imported: Vec<Imported<'p>>,
}

/// Whether a running operator recognises addresses of a pool: it looks only when a pool is edited,
/// and only at pools that it knows; that an edit makes a conflict it finds out later.
fn imports_of(
    pool: &AddressPool,
    before: &[AddressPool],
    out_before: &BTreeSet<&str>,
) -> Result<(), Loss> {
    let Some(known) = before.iter().find(|known| known.name == pool.name) else {
        return Err(Loss::NoPool);
    };
    let is_same = |known: &AddressPool| {
        AddressPool {
            marking: known.marking,
            ..pool.clone()
        } == *known
    };
    match pool.state {
        ServingState::Disabled => Err(Loss::PoolDisabled),
        ServingState::Enabled if is_same(known) && out_before.contains(pool.name.as_str()) => {
            Err(Loss::PoolConflicting)
        }
        ServingState::Enabled => Ok(()),
    }
}

impl<'p> Settling<'p> {
    fn new(pools: &'p [AddressPool], rules: &'p LbRules, state: OperatorState<'p>) -> Settling<'p> {
        let losers = conflicts(pools, state);
        let is_out = |pool: &AddressPool| {
            losers
                .get(pool.name.as_str())
                .is_some_and(|conflict| conflict.certainty == Certainty::Certain)
        };
        let use_of = |pool: &AddressPool| match pool.state {
            _ if is_out(pool) => Err(Loss::PoolConflicting),
            ServingState::Disabled => Err(Loss::PoolDisabled),
            ServingState::Enabled => Ok(()),
        };
        let out_before: BTreeSet<&str> = match state {
            OperatorState::Running(before) => conflicts(before, state).into_keys().collect(),
            OperatorState::Restarted => BTreeSet::new(),
        };
        let serving = |(of_pool, pool): (usize, &'p AddressPool)| {
            let use_of = use_of(pool);
            let imports = match state {
                OperatorState::Running(before) => imports_of(pool, before, &out_before),
                OperatorState::Restarted => use_of,
            };
            pool.ranges.iter().map(move |range| {
                let taken = if rules.reserves_first_and_last(pool.first_last, range) {
                    2
                } else {
                    0
                };
                Serving {
                    pool,
                    of_pool,
                    range: *range,
                    use_of,
                    imports,
                    taken,
                }
            })
        };
        let ranges: Vec<Serving<'_>> = pools.iter().enumerate().flat_map(serving).collect();
        let index = RangeIndex::new(
            ranges
                .iter()
                .enumerate()
                .map(|(place, serving)| (serving.range.range, place)),
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
        let (holders, promised, imported) = (BTreeMap::new(), Vec::new(), Vec::new());
        Settling {
            rules,
            state,
            ranges,
            index,
            known,
            holders,
            promised,
            imported,
        }
    }

    fn counts(&self) -> BTreeMap<String, Counts> {
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        for serving in &self.ranges {
            let total = self.rules.counted(&serving.range.range);
            counts
                .entry(serving.pool.name.clone())
                .or_default()
                .add(total, serving.taken);
        }
        counts
    }

    /// Whether an address of a range is kept back.
    pub(super) fn is_reserved(&self, serving: &Serving<'_>, address: IpAddr) -> bool {
        let range = &serving.range.range;
        (address == range.first() || address == range.last())
            && self
                .rules
                .reserves_first_and_last(serving.pool.first_last, &serving.range)
    }

    /// What a Service keeps and loses of what it has.
    fn keep(&mut self, asking: &Asking<'_, 'p>) -> Outlook {
        let service = asking.service;
        let mut outlook = Outlook::default();
        for address in &service.ingress {
            let is_wanted = match &asking.wish {
                Wish::Exactly(requested) => requested.contains(address),
                Wish::AnyOf(families) => families.contains(&Family::of(*address)),
            };
            let place = if is_wanted {
                self.place_of(asking, *address)
            } else {
                Err(Loss::NotRequested)
            };
            match place.and_then(|(place, stay)| {
                self.take(service, *address, place, stay)
                    .map(|()| (place, stay))
            }) {
                Ok((place, stay)) => {
                    outlook.keeps.push(*address);
                    if stay == Stay::Doubtful {
                        outlook.contested.push(*address);
                    } else if stay == Stay::Imported {
                        self.imported.push(Imported {
                            address: *address,
                            of_pool: self.ranges[place].of_pool,
                            service,
                        });
                    }
                }
                Err(loss) => outlook.loses.push((*address, loss)),
            }
        }
        outlook
    }

    /// Marks what another Service may take before its owner is looked at. Those that have all that
    /// they want are looked at first from 1.18.2 on; before, and among the others, the order is
    /// that of a Go map.
    fn contest(&self, services: &[Asking<'_, '_>], outlooks: &mut [Outlook]) {
        let places: BTreeMap<&ServiceName, usize> = services
            .iter()
            .enumerate()
            .map(|(place, asking)| (&asking.service.name, place))
            .collect();
        let needy: Vec<usize> = (0..services.len())
            .filter(|place| services[*place].lacks_in(&outlooks[*place]))
            .collect();
        let needs = |place: usize, imported: &Imported<'_>| {
            let asking = &services[place];
            let is_other = asking.service.name != imported.service.name;
            is_other
                && asking.may_take(imported.address, &outlooks[place])
                && asking.selecting().contains(&imported.of_pool)
        };
        let mut contested: Vec<(usize, IpAddr)> = Vec::new();
        for imported in &self.imported {
            let Some(owner) = places.get(&imported.service.name).copied() else {
                continue;
            };
            let is_late =
                !self.rules.serves_holders_first() || services[owner].lacks_in(&outlooks[owner]);
            let is_rival =
                |place: &&usize| is_late || !services[**place].service.ingress.is_empty();
            let is_taken = needy
                .iter()
                .filter(is_rival)
                .any(|place| needs(*place, imported));
            if is_taken || self.may_change_places(imported) {
                contested.push((owner, imported.address));
            }
        }
        contested
            .into_iter()
            .for_each(|(owner, address)| outlooks[owner].contested.push(address));
    }

    /// Of Services that share, the second one that is looked at joins any address of its key.
    fn may_change_places(&self, imported: &Imported<'_>) -> bool {
        let Some(key) = imported.service.sharing_key.read(self.rules) else {
            return false;
        };
        let is_shared = self
            .holders
            .get(&imported.address)
            .is_some_and(|holders| holders.len() > 1);
        let has_key = |holders: &Vec<&LbService>| {
            holders
                .iter()
                .any(|h| h.sharing_key.read(self.rules) == Some(key))
        };
        is_shared
            && self
                .holders
                .iter()
                .any(|(address, holders)| *address != imported.address && has_key(holders))
    }

    /// The ranges that cover an address, in their order.
    pub(super) fn covering(&self, address: IpAddr) -> Vec<usize> {
        let mut places: Vec<usize> = self
            .index
            .overlapping(&Range::from(address))
            .map(|(_, place)| *place)
            .collect();
        places.sort_unstable();
        places
    }

    /// The range in which an address stays, and how.
    fn place_of(&self, asking: &Asking<'_, '_>, address: IpAddr) -> Result<(usize, Stay), Loss> {
        let owners = self.owners(asking, address);
        let is_owner = |place: &usize| {
            let serving = &self.ranges[*place];
            owners.contains(&(serving.pool.name.as_str(), serving.range.range))
        };
        let selects = |place: &usize| asking.is_selected_by(self.ranges[*place].of_pool);
        let mut covering = self.covering(address);
        let left = covering
            .iter()
            .filter(|place| is_owner(place) && selects(place))
            .count();
        let stay = if left == owners.len() {
            Stay::Allocated
        } else {
            Stay::Doubtful
        };
        // Where two pools cover it, the one that has it keeps it, or else the one that is in use.
        covering.sort_by_key(|place| (!is_owner(place), self.ranges[*place].use_of.is_err()));
        let mut loss = Loss::NoPool;
        for place in covering {
            if !selects(&place) {
                loss = loss.max(Loss::NotSelected);
                continue;
            }
            match self.ranges[place].imports {
                _ if is_owner(&place) => return Ok((place, stay)),
                Ok(()) if self.is_reserved(&self.ranges[place], address) => {
                    loss = loss.max(Loss::Reserved)
                }
                Ok(()) => return Ok((place, Stay::Imported)),
                Err(why) => loss = loss.max(why),
            }
        }
        Err(loss)
    }

    /// The pools and ranges from which the operator that runs may have given an address; of several
    /// that cover it, nothing tells which.
    fn owners(&self, asking: &Asking<'_, '_>, address: IpAddr) -> Vec<(&'p str, Range)> {
        let OperatorState::Running(before) = self.state else {
            return Vec::new();
        };
        let covering = self.known.overlapping(&Range::from(address));
        let selecting =
            covering.filter(|(_, place)| before[*place].selects(&asking.service.labels));
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
        stay: Stay,
    ) -> Result<(), Loss> {
        let is_reserved = self.is_reserved(&self.ranges[place], address);
        let holders = self.holders.entry(address).or_default();
        let is_clash = holders
            .iter()
            .any(|holder| incompatibility(holder, service, self.rules).is_some());
        // Two pools that overlap have a list each, and may have given it to both.
        if is_clash && stay == Stay::Imported {
            return Err(Loss::Taken);
        }
        // One that is kept back is counted already.
        if holders.is_empty() && !is_reserved {
            self.ranges[place].taken += 1;
        }
        holders.push(service);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lbipam::{
        Annotation, FamilyPolicy, FirstLast, Marking, Port, RangeForm, TrafficPolicy,
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

    fn rules(version: &str) -> LbRules {
        LbRules::new(version.parse().ok(), &BTreeMap::new())
    }

    /// A line for each Service.
    fn told(
        pools: &[AddressPool],
        services: &[LbService],
        version: &str,
        state: OperatorState<'_>,
    ) -> Vec<String> {
        let line = |(name, outlook): (ServiceName, Outlook)| {
            let Outlook {
                keeps,
                contested,
                loses,
                gains,
                pending,
            } = outlook;
            let contested = |address| {
                if contested.contains(address) {
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
                Gain::Exactly(address) => format!("gets {address}"),
                Gain::OneOf { pools, .. } => {
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
            .outlooks
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
        let running = told(&after, &services, "1.19.3", OperatorState::Running(&before));
        assert_eq!(running, ["has: keeps 10.0.0.7", "new: waits: no_pool"]);
        let restarted = told(&after, &services, "1.19.3", OperatorState::Restarted);
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
        let shrunk = told(&after, &[high, low.clone()], "1.19.3", state);
        assert_eq!(
            shrunk,
            [
                "high: loses 10.0.0.200 (no pool covers it), gets one of blue",
                "low: keeps 10.0.0.7 (contested)"
            ]
        );
        let (new, old) = (["1.19.3", "1.18.2"], ["1.18.1", "1.15.19"]);
        for version in new {
            let told = told(&after, &[low.clone(), waits.clone()], version, state);
            assert_eq!(
                told,
                ["low: keeps 10.0.0.7", "waits: gets one of blue"],
                "{version}"
            );
        }
        for version in old {
            let told = told(&after, &[low.clone(), waits.clone()], version, state);
            assert_eq!(
                told,
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
        let told_renamed = told(&renamed, std::slice::from_ref(&has), "1.19.3", state);
        assert_eq!(
            told_renamed,
            ["has: loses 10.0.0.7 (no pool covers it), gets one of b c"]
        );
        let deleted = told(&[], std::slice::from_ref(&has), "1.19.3", state);
        assert_eq!(
            deleted,
            ["has: loses 10.0.0.7 (no pool covers it), waits: no_pool"]
        );
        let overlapping = [
            before[0].clone(),
            pool("b", "blue", &["10.0.9.0/24", "10.0.0.0/24"]),
        ];
        let widened = told(&overlapping, &[has], "1.19.3", state);
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
        let told = told(&pools, &services, "1.19.3", OperatorState::Restarted);
        let expected = [
            "a: keeps 10.0.0.0",
            "b: waits: already_allocated",
            "c: waits: pool_selector_mismatch",
            "d: waits: no_pool",
            "e: waits: no_pool",
            "f: gets one of blue",
            "g: waits: out_of_ips",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn sharing_needs_the_same_key_and_other_ports() {
        let pools = [pool("blue", "blue", &["10.0.0.0/24"])];
        let sharing = |name: &str, port: u16, ingress: &[&str]| LbService {
            sharing_key: Annotation {
                newer: None,
                older: Some("k".into()),
            },
            ports: [Port {
                port,
                protocol: "TCP".into(),
            }]
            .into(),
            ..service(name, "blue", &[], ingress)
        };
        let services = [
            sharing("a", 80, &["10.0.0.9"]),
            sharing("b", 443, &[]),
            sharing("c", 80, &[]),
        ];
        let shared = told(&pools, &services, "1.19.3", OperatorState::Restarted);
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
        let promised = told(&single, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            promised,
            [
                "a: gets one of blue",
                "b: gets one of blue",
                "c: waits: out_of_ips"
            ]
        );
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
        let old = told(&pools, &services, "1.15.19", OperatorState::Restarted);
        assert_eq!(
            old,
            ["newer: keeps 10.0.0.1", "z: waits: already_allocated"]
        );
        let new = told(&pools, &services, "1.19.3", OperatorState::Restarted);
        assert_eq!(
            new,
            [
                "newer: loses 10.0.0.1 (the Service does not ask for it), gets 10.0.0.5",
                "z: gets 10.0.0.0"
            ]
        );
    }

    #[test]
    fn without_a_pool_the_operator_sleeps() {
        let services = [service("a", "blue", &[], &["192.0.2.1"])];
        assert_eq!(
            told(&[], &services, "1.19.3", OperatorState::Restarted),
            ["a: keeps 192.0.2.1"]
        );
    }
}
