//! What the program foretells of one step of a scenario, by the paths of `plan` and `doctor`, and
//! whether it happened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use super::scenario::{Action, Scenario, Wave, id_of, without_nulls};
use ipam_cilium::lbipam::{
    AddressPool, AddressPoolApi, Certainty, Conflict, GainedAddress, InOrder, LbRules, LbService,
    OperatorState, Pending, Prospect, Rivalry, ServiceOutcome, ServingOrder, conflicts,
    evaluate_in, prospects,
};
use ipam_cilium::observed::{Observed, ObservedKind, Reader, SeenAddressPool};
use ipam_core::model::{ObjectVersion, ServiceName};
use ipam_core::net::{Family, Range};
use ipam_plan::plan::{
    AddressPoolChange, AddressPoolObject, Change, LossTime, PoolAction, effects,
};

/// What is foretold of one Service.
#[derive(Debug, Default)]
pub struct Told {
    pub loses: BTreeMap<IpAddr, Certainty>,
    pub gains: Vec<Prospect>,
    pub pending: Vec<Pending>,
}

/// What is foretold of all Services of a scenario.
pub struct Telling {
    services: BTreeMap<ServiceName, Told>,
    /// Which of two overlapping pools Cilium uses.
    pools: Certainty,
}

/// The parts of the cluster, one for each scenario.
pub fn parts(mut observed: Observed, scenarios: &[&Scenario]) -> BTreeMap<String, Observed> {
    let pools = std::mem::take(&mut observed.address_pools);
    let services = std::mem::take(&mut observed.services);
    let mut parts: BTreeMap<String, Observed> = scenarios
        .iter()
        .map(|scenario| (scenario.id.clone(), observed.clone()))
        .collect();
    for (name, pool) in pools {
        if let Some(part) = parts.get_mut(id_of(&name)) {
            part.address_pools.insert(name, pool);
        }
    }
    for (name, service) in services {
        if let Some(part) = parts.get_mut(id_of(name.name())) {
            part.services.insert(name, service);
        }
    }
    parts
}

fn of_outcome(outcome: &ServiceOutcome, gains: Vec<Prospect>) -> Told {
    let contested = outcome.contested.iter();
    let mut loses: BTreeMap<IpAddr, Certainty> = contested
        .map(|(address, _)| (*address, Certainty::LeftToChance))
        .collect();
    let certain = outcome.loses.iter();
    loses.extend(certain.map(|(address, _)| (*address, Certainty::Certain)));
    Told {
        loses,
        gains,
        pending: outcome.pending.clone(),
    }
}

/// When the operator starts.
pub fn at_restart(before: &Observed) -> Telling {
    let rules = before.lb_rules();
    let pools = before.address_pools_as_read(&rules);
    let services = before.services.values();
    let telling = telling(&pools, services, &rules, OperatorState::Restarted);
    doctor_names_each_loss(before, &telling);
    telling
}

/// `doctor` and `plan` show the same check.
fn doctor_names_each_loss(before: &Observed, telling: &Telling) {
    let found: Vec<String> = ipam_plan::check::load_balancing(before)
        .into_iter()
        .filter(|finding| finding.rule.0 == "addresses-lost-at-restart")
        .map(|finding| finding.message)
        .collect();
    let found = found.join("\n");
    for (name, told) in &telling.services {
        for address in told.loses.keys() {
            let is_named = found.contains(&format!("`{name}` {address}"));
            assert!(
                is_named || found.contains(" more, see"),
                "{name} {address}: {found}"
            );
        }
    }
}

fn telling<'s>(
    pools: &'s [AddressPool],
    services: impl Iterator<Item = &'s LbService> + Clone,
    rules: &'s LbRules,
    state: OperatorState<'s>,
) -> Telling {
    let evaluated = |order| evaluate_in(order, pools, services.clone(), rules, state);
    let usual = evaluated(ServingOrder::Usual);
    let adverse = ServingOrder::ADVERSE.map(evaluated);
    let rivalry = Rivalry::new(&usual, pools, state);
    let told = |(name, outcome): (&ServiceName, &ServiceOutcome)| {
        let orders = [&usual].into_iter().chain(&adverse);
        let gains = orders.filter_map(|one| one.outcomes.get(name));
        let gains: Vec<InOrder<'_>> = gains.map(InOrder::from).collect();
        let gains = prospects(&gains, &|gain| rivalry.is_doubtful(gain, pools));
        (name.clone(), of_outcome(outcome, gains))
    };
    Telling {
        services: usual.outcomes.iter().map(told).collect(),
        pools: certainty(&conflicts(pools, state)),
    }
}

fn certainty<K: Ord>(conflicts: &BTreeMap<K, Conflict>) -> Certainty {
    let all = conflicts.values().map(|conflict| conflict.certainty);
    all.max().unwrap_or(Certainty::Certain)
}

/// When these things happen while the operator runs.
pub fn of_wave(before: &Observed, wave: &Wave) -> Telling {
    let is_of_pools =
        |action: &Action| matches!(action, Action::Pool { .. } | Action::DeletePool(_));
    if wave.iter().all(is_of_pools) && !before.services.is_empty() {
        return of_changes(before, wave);
    }
    let mut after = before.clone();
    wave.iter().for_each(|action| apply(action, &mut after));
    let rules = before.lb_rules();
    let known = before.address_pools_as_read(&rules);
    let pools = after.address_pools_as_read(&rules);
    let running = OperatorState::Running(&known);
    telling(&pools, after.services.values(), &rules, running)
}

/// What a plan with these changes of pools tells.
fn of_changes(before: &Observed, wave: &Wave) -> Telling {
    let mut state = before.clone();
    let mut changes = Vec::new();
    for action in wave {
        let name = match action {
            Action::Pool { name, .. } | Action::DeletePool(name) => name,
            Action::Service { .. } | Action::DeleteService(_) => continue,
        };
        let known = state.address_pools.get(name).cloned();
        apply(action, &mut state);
        let after = state.address_pools.get(name);
        let object = AddressPoolObject {
            api: AddressPoolApi::V2Alpha1,
            name: name.parse().unwrap(),
        };
        let before = known.map(|pool| pool.manifest);
        let specs = (before, after.map(|pool| pool.manifest.clone()));
        let guard = ObjectVersion::default();
        let change = AddressPoolChange::new(PoolAction::Update, object, specs, guard);
        changes.push(Change::from(change));
    }
    let effects = effects(&changes, before);
    let told = effects.services.into_iter().map(|effect| {
        let now = effect
            .loses
            .iter()
            .filter(|lost| lost.when == LossTime::Now);
        let told = Told {
            loses: now
                .filter_map(|lost| Some((lost.address.ip()?, lost.certainty)))
                .collect(),
            gains: effect.gains,
            pending: effect.pending,
        };
        (effect.service, told)
    });
    Telling {
        services: told.collect(),
        pools: certainty(&effects.conflicts),
    }
}

fn read(kind: ObservedKind, object: &Value) -> Observed {
    let mut reader = Reader::default();
    reader.object(kind, &object.to_string()).unwrap();
    reader.finish("2026-01-01T00:00:00Z".parse().unwrap())
}

/// Does to the observed cluster what the action does to the real one.
fn apply(action: &Action, observed: &mut Observed) {
    match action {
        Action::DeletePool(name) => drop(observed.address_pools.remove(name)),
        Action::DeleteService(name) => {
            observed.services.remove(&ServiceName::new("default", name));
        }
        Action::Pool { name, spec } => {
            let spec = without_nulls(spec);
            let object = json!({"metadata": {"name": name}, "spec": spec});
            let mut read = read(ObservedKind::LoadBalancerPool, &object);
            let manifest = read.address_pools.remove(name).unwrap().manifest;
            let fresh = SeenAddressPool {
                name: name.clone(),
                ..SeenAddressPool::default()
            };
            let pool = observed.address_pools.entry(name.clone()).or_insert(fresh);
            pool.manifest = manifest;
        }
        Action::Service { name, object } => {
            let mut read = read(ObservedKind::Service, &with_namespace(object));
            let name = ServiceName::new("default", name);
            let service = read.services.remove(&name).unwrap();
            let ingress = observed
                .services
                .get(&name)
                .map(|known| known.ingress.clone())
                .unwrap_or_default();
            observed
                .services
                .insert(name, LbService { ingress, ..service });
        }
    }
}

fn with_namespace(object: &Value) -> Value {
    let mut object = without_nulls(object);
    object["metadata"]["namespace"] = json!("default");
    object
}

/// How a telling fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It happened as foretold.
    #[default]
    Agree,
    /// Cilium chose between outcomes that were foretold together.
    Chance,
    /// It happened otherwise.
    Wrong,
}

/// Compares the telling with the cluster afterwards; the text names each difference. `rekeyed` are
/// Services whose addresses the operator finds by an old sharing key, which no object shows.
pub fn compare(
    telling: &Telling,
    before: &Observed,
    after: &Observed,
    rekeyed: &BTreeSet<ServiceName>,
) -> (Verdict, String) {
    let mut comparison = Comparison {
        telling,
        rekeyed,
        before,
        after,
        differences: Vec::new(),
    };
    after
        .services
        .values()
        .for_each(|service| comparison.service(service));
    let mut verdict = Verdict::Agree;
    let mut text = String::new();
    for (worst, difference) in comparison.differences {
        verdict = verdict.max(worst);
        text.push_str(&format!("\n    {worst:?}: {difference}"));
    }
    (verdict, text)
}

struct Comparison<'a> {
    telling: &'a Telling,
    rekeyed: &'a BTreeSet<ServiceName>,
    before: &'a Observed,
    after: &'a Observed,
    differences: Vec<(Verdict, String)>,
}

impl Comparison<'_> {
    fn service(&mut self, service: &LbService) {
        let none = Told::default();
        let told = self.telling.services.get(&service.name).unwrap_or(&none);
        let known = self.before.services.get(&service.name);
        let had: BTreeSet<IpAddr> = known.into_iter().flat_map(|s| s.ingress.clone()).collect();
        let has: BTreeSet<IpAddr> = service.ingress.iter().copied().collect();
        let name = service.name.name();
        let mut differ = |verdict, text: String| self.differences.push((verdict, text));
        for address in had.difference(&has) {
            match told.loses.get(address) {
                None => differ(
                    Verdict::Wrong,
                    format!("{name} lost {address}, which was not told"),
                ),
                Some(Certainty::LeftToChance) => {
                    differ(Verdict::Chance, format!("{name} lost {address}"));
                }
                Some(Certainty::Certain) => {}
            }
        }
        let stays = |(address, how): &(&IpAddr, &Certainty)| {
            **how == Certainty::Certain && has.contains(*address)
        };
        for (address, _) in told.loses.iter().filter(stays) {
            let mut any_of = told.gains.iter().flat_map(|gain| &gain.any_of);
            let by_luck = any_of.any(|gain| self.covers(gain, *address));
            let verdict = if by_luck {
                Verdict::Chance
            } else {
                Verdict::Wrong
            };
            self.differences
                .push((verdict, format!("{name} kept {address}, told as lost")));
        }
        self.gained(told, service, &had, &has);
    }

    fn gained(
        &mut self,
        told: &Told,
        service: &LbService,
        had: &BTreeSet<IpAddr>,
        has: &BTreeSet<IpAddr>,
    ) {
        let name = service.name.name();
        for address in has.difference(had) {
            let mut any_of = told.gains.iter().flat_map(|gain| &gain.any_of);
            if any_of.any(|gain| self.covers(gain, *address)) {
                continue;
            }
            let mut all = self.telling.services.values();
            let may_change_hands = all.any(|told| told.loses.contains_key(address));
            let any_of = || told.gains.iter().flat_map(|gain| &gain.any_of);
            let has_old_key = any_of().any(|gain| self.has_old_key(gain));
            let is_explained = may_change_hands || !told.loses.is_empty() || has_old_key;
            let verdict = match is_explained || self.telling.pools == Certainty::LeftToChance {
                true => Verdict::Chance,
                false => Verdict::Wrong,
            };
            let text = format!("{name} got {address}, which was not told");
            self.differences.push((verdict, text));
        }
        for gain in &told.gains {
            let has_one = |gain: &GainedAddress| match gain {
                GainedAddress::Exactly(address) => has.contains(address),
                GainedAddress::OneOf { family, .. } => {
                    has.iter().any(|a| Family::of(*a) == *family)
                }
            };
            if !gain.any_of.iter().any(has_one) {
                let has_old_key = gain.any_of.iter().any(|gain| self.has_old_key(gain));
                let verdict = match (gain.certainty, has_old_key) {
                    (Certainty::Certain, false) => Verdict::Wrong,
                    (Certainty::Certain, true) | (Certainty::LeftToChance, _) => Verdict::Chance,
                };
                let text = format!("{name} {gain}, but did not");
                self.differences.push((verdict, text));
            }
        }
        if !told.pending.is_empty() && has.len() <= had.len() {
            let reason = service.reason.as_deref().unwrap_or_default();
            // With an address after all, which counts above.
            let is_served = reason == "satisfied";
            if !is_served
                && !told
                    .pending
                    .iter()
                    .any(|pending| pending.reason() == reason)
            {
                let told: Vec<&str> = told.pending.iter().map(Pending::reason).collect();
                self.differences.push((
                    Verdict::Wrong,
                    format!("{name} waits because of {reason:?}, told {told:?}"),
                ));
            }
        }
    }

    /// Whether the address is of a Service whose key changed while it had it.
    fn has_old_key(&self, gain: &GainedAddress) -> bool {
        let GainedAddress::Exactly(address) = gain else {
            return false;
        };
        let mut rekeyed = self.rekeyed.iter();
        let held = |name: &ServiceName| self.before.services.get(name).map(|one| &one.ingress);
        rekeyed.any(|name| held(name).is_some_and(|held| held.contains(address)))
    }

    /// Whether this may be the gained address.
    fn covers(&self, gain: &GainedAddress, address: IpAddr) -> bool {
        match gain {
            GainedAddress::Exactly(exactly) => *exactly == address,
            GainedAddress::OneOf { pools, .. } => {
                let rules = self.after.lb_rules();
                self.after
                    .address_pools_as_read(&rules)
                    .iter()
                    .filter(|pool| pools.contains(&pool.name))
                    .flat_map(|pool| pool.ranges.iter())
                    .any(|range| range.range.contains(&Range::from(address)))
            }
        }
    }
}

/// The telling in a few words, for the table.
pub fn summary(telling: &Telling, before: &Observed) -> &'static str {
    let held: Vec<&Told> = before
        .services
        .values()
        .filter(|service| !service.ingress.is_empty())
        .filter_map(|service| telling.services.get(&service.name))
        .collect();
    let any = |told: fn(&Told) -> bool| held.iter().any(|service| told(service));
    let is_lost = |told: &Told| told.loses.values().any(|how| *how == Certainty::Certain);
    if any(|told| {
        let is_lost = told.loses.values().any(|how| *how == Certainty::Certain);
        is_lost && !told.gains.iter().any(Prospect::is_sure)
    }) {
        "loses"
    } else if held.iter().any(|told| is_lost(told)) {
        "changes"
    } else if any(|told| !told.loses.is_empty()) {
        "may change"
    } else {
        "keeps"
    }
}
