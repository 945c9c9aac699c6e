//! The effects of changes of pools and pins on each Service, step by step, now and when the
//! operator restarts.

mod at_start;
mod one_order;
mod service_effect;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

use service_effect::{Expected, Hostnames, Rivalries, Totals, effect_of};

use self::one_order::{OneOrder, at_rest};
use super::super::change::Change;
use super::simulated_state::SimulatedState;
use ipam_cilium::lbipam::{
    Certainty, Conflict, Evaluated, GainedAddress, Groups, LbRules, LossReason, OperatorState,
    PartRivalry, Pending, Rivalry, ServedAddress, ServiceOutcome, ServingOrder, conflicts,
};
use ipam_cilium::observed::{Observed, ObservedKind, OperatorRun};
use ipam_core::model::{Hazard, ServiceName};
use ipam_core::net::{Range, RangeIndex};

pub(super) use self::service_effect::with_hostnames;
pub use self::service_effect::{Effects, LossTime, LostAddress, ServiceEffect};

/// Effects of the changes on Services, simulated in this order.
pub fn effects<'c>(changes: impl IntoIterator<Item = &'c Change>, observed: &Observed) -> Effects {
    let changes = changes.into_iter();
    let changes: Vec<&Change> = changes.filter(|one| one.as_node().is_none()).collect();
    if changes.is_empty() {
        // Changes of nodes have no effect here, so nothing is copied.
        return Effects::default();
    }
    Simulation::after(observed, changes).finish()
}

type Losses = BTreeMap<(ServiceName, IpAddr), (LossReason, Certainty)>;

/// Simulates LB-IPAM change by change.
pub(super) struct Simulation {
    before: SimulatedState,
    usual: OneOrder,
    /// Empty until two Services lack an address.
    adverse: Vec<OneOrder>,
    steps: Vec<Change>,
    groups: Rc<Groups>,
    /// In the usual order, as `rivalries`.
    totals: Totals,
    rivalries: Rivalries,
    lost: Losses,
    hostnames: Hostnames,
    /// Ranges of the pools that change, before and after.
    touched: Vec<Range>,
    visibility: Visibility,
    run: OperatorRun,
}

/// Whether Services can be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    Clear,
    Blind,
}

fn lost_of(
    outcomes: &BTreeMap<ServiceName, ServiceOutcome>,
    include: fn(&ServiceOutcome) -> Vec<(IpAddr, LossReason, Certainty)>,
) -> Losses {
    let of_service = |(name, outlook): (&ServiceName, &ServiceOutcome)| {
        let name = name.clone();
        include(outlook)
            .into_iter()
            .map(move |(address, why, certainty)| ((name.clone(), address), (why, certainty)))
    };
    outcomes
        .iter()
        .filter(|(_, outlook)| !outlook.keeps_all())
        .flat_map(of_service)
        .collect()
}

fn certain(outlook: &ServiceOutcome) -> Vec<(IpAddr, LossReason, Certainty)> {
    outlook
        .loses
        .iter()
        .map(|(address, why)| (*address, *why, Certainty::Certain))
        .collect()
}

/// Losses of a Service. A contested address may stay.
fn all(outlook: &ServiceOutcome) -> Vec<(IpAddr, LossReason, Certainty)> {
    let contested = outlook
        .contested
        .iter()
        .map(|(address, why)| (*address, *why, Certainty::LeftToChance));
    contested.chain(certain(outlook)).collect()
}

impl Simulation {
    /// A simulation of the Services and pools that the changes affect. No change is simulated yet.
    pub(super) fn new<'c>(
        observed: &Observed,
        changes: impl IntoIterator<Item = &'c Change>,
    ) -> Simulation {
        let state = SimulatedState::new(observed);
        let groups = state.groups(changes);
        Simulation::of_groups(observed, state, groups)
    }

    /// A simulation after all these changes.
    pub(super) fn after<'c>(
        observed: &Observed,
        changes: impl IntoIterator<Item = &'c Change>,
    ) -> Simulation {
        let changes: Vec<&Change> = changes.into_iter().collect();
        let mut simulation = Simulation::new(observed, changes.iter().copied());
        for change in changes {
            simulation.step(change);
        }
        simulation
    }

    fn of_groups(observed: &Observed, state: SimulatedState, groups: Groups) -> Simulation {
        let is_blind = super::hidden(observed, ObservedKind::Service).is_some();
        let visibility = if is_blind {
            Visibility::Blind
        } else {
            Visibility::Clear
        };
        let groups = Rc::new(groups);
        Simulation {
            before: state.clone(),
            usual: OneOrder::new(ServingOrder::Usual, state, Rc::clone(&groups)),
            adverse: Vec::new(),
            steps: Vec::new(),
            totals: Totals::new(groups.all().len()),
            rivalries: Rivalries::new(groups.all().len()),
            groups,
            lost: Losses::new(),
            hostnames: Hostnames::Kept,
            touched: Vec::new(),
            visibility,
            run: observed.operator_run(),
        }
    }

    /// Pools and Services after the changes so far.
    pub(super) fn state(&self) -> &SimulatedState {
        &self.usual.state
    }

    /// Simulates a change, and sets the hazard of the change.
    pub(super) fn record_step(&mut self, change: &mut Change) {
        let is_first = self.usual.state.pools.is_empty();
        let takes_away = self.step(change);
        let hazard = match change {
            // The first pool activates LB-IPAM, which then removes addresses that it did not give.
            Change::AddressPool(pool)
                if self.visibility == Visibility::Blind && (pool.before.is_some() || is_first) =>
            {
                Hazard::Destructive
            }
            _ if takes_away => Hazard::Destructive,
            _ => Hazard::None,
        };
        match change {
            Change::AddressPool(change) => change.hazard = hazard,
            Change::Service(change) => change.hazard = hazard,
            Change::PodPool(_) | Change::Port(_) | Change::Node(_) => {}
        }
    }

    /// Simulates a change; `true` if a Service loses an address, or may.
    pub(super) fn step(&mut self, change: &Change) -> bool {
        if change.as_node().is_some() {
            return false;
        }
        let was_idle = self.usual.state.pools.is_empty();
        let evaluated = self.usual.step(change);
        if was_idle && !self.usual.state.pools.is_empty() {
            self.hostnames = Hostnames::Removed;
        }
        for one in &mut self.adverse {
            one.step(change);
        }
        for group in &evaluated {
            self.record_evaluation(*group);
        }
        self.record_rivalries(&evaluated);
        self.steps.push(change.clone());
        if self.adverse.is_empty() && self.totals.sum.lacking > 1 {
            self.adverse = ServingOrder::ADVERSE
                .map(|order| self.repeated(order))
                .into();
        }
        if let Change::AddressPool(change) = change {
            let manifests = change.before.iter().chain(&change.after);
            self.touched
                .extend(manifests.flat_map(|manifest| manifest.spec.ranges()));
        }
        self.totals.sum.losing > 0 || self.loses_hostnames()
    }

    /// Records the addresses that the newest evaluation of a group takes away.
    fn record_evaluation(&mut self, group: usize) {
        let evaluated = self.usual.evaluated(group);
        self.totals.set(group, evaluated);
        for (address, (why, certainty)) in lost_of(&evaluated.outcomes, all) {
            let known = self.lost.entry(address).or_insert((why, certainty));
            if certainty == Certainty::Certain {
                *known = (why, certainty);
            }
        }
    }

    fn record_rivalries(&mut self, evaluated: &BTreeSet<usize>) {
        let part = |group: &usize| {
            let pools = self.usual.pools(*group);
            let running = OperatorState::Running(&pools);
            let evaluated = self.usual.evaluated(*group);
            (*group, PartRivalry::new(evaluated, &pools, running))
        };
        let parts: Vec<(usize, PartRivalry)> = evaluated.iter().map(part).collect();
        self.rivalries.add(parts, self.totals.sum.active);
    }

    /// The steps so far in another order.
    fn repeated(&self, order: ServingOrder) -> OneOrder {
        let mut one = OneOrder::new(order, self.before.clone(), Rc::clone(&self.groups));
        for change in &self.steps {
            one.step(change);
        }
        one
    }

    pub(super) fn finish(mut self) -> Effects {
        if self.steps.is_empty() {
            return Effects::default();
        }
        let none = Rivalries::new(0);
        let rivalry = std::mem::replace(&mut self.rivalries, none).finish();
        let rules = self.before.rules.clone();
        let anyway = at_rest(ServingOrder::Usual, &self.before);
        let (mut effects, given) = match self.run {
            OperatorRun::Assumed => self.expected(&anyway, &rivalry),
            OperatorRun::Stopped => self.expected_at_start(&rivalry),
        };
        // An address in a changed pool goes with the pool, even if its origin is unknown.
        let mut anyway = lost_of(&anyway.outcomes, certain);
        let touched = RangeIndex::new(self.touched.iter().map(|range| (*range, ())));
        let is_touched =
            |address: IpAddr| touched.overlapping(&Range::from(address)).next().is_some();
        anyway.retain(|(_, address), _| !is_touched(*address));
        for ((name, address), when, why, certainty) in self.losses(&rules, &anyway) {
            if let Some(effect) = effects.get_mut(&name) {
                effect.loses.push(LostAddress {
                    address: ServedAddress::Ip(address),
                    when,
                    why,
                    certainty,
                });
            }
        }
        self.lose_hostnames(&mut effects);
        let is_one = |effect: &ServiceEffect| {
            !(effect.loses.is_empty() && effect.gains.is_empty() && effect.pending.is_empty())
        };
        Effects {
            services: effects.into_values().filter(is_one).collect(),
            given,
            conflicts: self.conflicts(&rules),
        }
    }

    /// What each Service gets or waits for because of the changes, and how many addresses they give.
    /// `anyway` is what happens without them, in the usual order.
    fn expected(
        &self,
        anyway: &Evaluated,
        rivalry: &Rivalry,
    ) -> (BTreeMap<ServiceName, ServiceEffect>, usize) {
        let pools = self.usual.state.read(&self.before.rules);
        let others = self.adverse.iter();
        let others: Vec<(&OneOrder, Evaluated)> = others
            .map(|one| (one, at_rest(one.order(), &self.before)))
            .collect();
        let is_doubtful = |gain: &GainedAddress| rivalry.is_doubtful(gain, &pools);
        let (mut effects, mut given) = (BTreeMap::new(), 0);
        let services = self.usual.state.services.keys();
        for name in services.filter(|name| self.usual.outcome(name).is_some()) {
            let usual = self.expected_in(&self.usual, anyway, name);
            given += usual.gains.len();
            let others = others
                .iter()
                .map(|(one, anyway)| self.expected_in(one, anyway, name));
            let orders: Vec<Expected> = [usual].into_iter().chain(others).collect();
            effects.insert(name.clone(), effect_of(name, orders, &is_doubtful));
        }
        (effects, given)
    }

    /// What a Service gets or waits for in one order, and not without the changes.
    fn expected_in(&self, one: &OneOrder, anyway: &Evaluated, name: &ServiceName) -> Expected {
        let before = anyway.outcomes.get(name);
        let is_new = |gain: &GainedAddress| {
            before.is_none_or(|before| {
                !(before.gains.contains(gain) || before.chances.contains(gain))
            })
        };
        let has_been_given = !one.given_to(name).is_empty();
        let waits = |why: &&Pending| {
            !has_been_given && before.is_none_or(|before| !before.pending.contains(*why))
        };
        let last = one.outcome(name);
        let pending = last.into_iter().flat_map(|last| &last.pending);
        let chances = last.into_iter().flat_map(|last| &last.chances);
        let mut gains = one.gains(&self.before, name);
        gains.retain(is_new);
        Expected {
            gains,
            certainty: last.map(|last| last.certainty).unwrap_or_default(),
            chances: chances.filter(|chance| is_new(chance)).cloned().collect(),
            pending: pending.filter(waits).cloned().collect(),
        }
    }

    /// Pools that come to overlap.
    fn conflicts(&self, rules: &LbRules) -> BTreeMap<String, Conflict> {
        let (before, after) = (self.before.read(rules), self.usual.state.read(rules));
        let known = conflicts(&before, OperatorState::Running(&before));
        let new = conflicts(&after, OperatorState::Running(&after));
        new.into_iter()
            .filter(|(name, _)| !known.contains_key(name))
            .map(|(name, conflict)| (name.to_owned(), conflict))
            .collect()
    }

    /// Every address that is lost by the changes, with the earliest time of the loss.
    fn losses(
        &self,
        rules: &LbRules,
        anyway: &Losses,
    ) -> Vec<((ServiceName, IpAddr), LossTime, LossReason, Certainty)> {
        let mut losses = Vec::new();
        let mut reported: Losses = anyway.clone();
        let mut times = vec![(LossTime::OperatorRestart, self.lost_at_start(rules))];
        if self.run == OperatorRun::Assumed {
            times.insert(0, (LossTime::Now, self.lost.clone()));
        }
        if rules.is_before_newest() {
            times.push((LossTime::Upgrade, self.lost_at_start(&rules.upgraded())));
        }
        for (when, lost) in times {
            for (address, (why, certainty)) in lost {
                if reported.insert(address.clone(), (why, certainty)).is_none() {
                    losses.push((address, when, why, certainty));
                }
            }
        }
        losses
    }
}

#[cfg(test)]
mod tests;
