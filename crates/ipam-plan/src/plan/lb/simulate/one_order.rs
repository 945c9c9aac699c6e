//! LB-IPAM, change by change, in one order of serving: which addresses Services get. Must never know
//! what they would have got without the changes.
//!
//! A change has effects in one group of pools and Services. The others are evaluated again only
//! if the last evaluation changed them, or the operator reacts in another way than before.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::super::super::change::Change;
use super::super::simulated_state::{Marked, SimulatedState};
use ipam_cilium::lbipam::{
    AddressPool, Evaluated, GainedAddress, Groups, LbService, OperatorState, Reaction,
    ServiceOutcome, ServingOrder, evaluate_in, evaluate_part,
};
use ipam_core::model::ServiceName;
use ipam_core::net::Family;

/// The simulation in one order.
pub(super) struct OneOrder {
    order: ServingOrder,
    pub(super) state: SimulatedState,
    given: BTreeMap<(ServiceName, Family), BTreeSet<String>>,
    groups: Rc<Groups>,
    /// The last evaluation of each group.
    last: Vec<Evaluated>,
    /// Groups whose next evaluation may differ from the last one, without a change.
    unsettled: BTreeSet<usize>,
    reaction: Option<Reaction>,
}

/// Evaluates a state in which no change happens.
pub(super) fn at_rest(order: ServingOrder, state: &SimulatedState) -> Evaluated {
    let pools = state.read(&state.rules);
    let running = OperatorState::Running(&pools);
    evaluate_in(
        order,
        &pools,
        state.services.values(),
        &state.rules,
        running,
    )
}

impl OneOrder {
    pub(super) fn new(order: ServingOrder, state: SimulatedState, groups: Rc<Groups>) -> OneOrder {
        OneOrder {
            order,
            state,
            given: BTreeMap::new(),
            last: groups.all().iter().map(|_| Evaluated::default()).collect(),
            groups,
            unsettled: BTreeSet::new(),
            reaction: None,
        }
    }

    pub(super) fn order(&self) -> ServingOrder {
        self.order
    }

    /// Simulates a change. Gives the groups that were evaluated; the last evaluation of the others
    /// holds for this change, too.
    pub(super) fn step(&mut self, change: &Change) -> BTreeSet<usize> {
        let touched = self.group_of(change);
        let known = touched.map(|group| self.pools(group)).unwrap_or_default();
        let before = self.state.pools.len();
        self.state.apply(change);
        let counts = (before, self.state.pools.len());
        let reaction = self.reaction_to(touched, counts, &known);
        let mut due = match self.reaction.replace(reaction) == Some(reaction) {
            true => std::mem::take(&mut self.unsettled),
            false => self.every_group(),
        };
        due.extend(touched);
        let evaluate = |group: &usize| {
            let pools = self.pools(*group);
            let known = if touched == Some(*group) {
                &known
            } else {
                &pools
            };
            let services = self.services(*group).collect();
            let pools = (known.as_slice(), pools.as_slice());
            evaluate_part(self.order, pools, services, &self.state.rules, reaction)
        };
        let evaluated: Vec<Evaluated> = due.iter().map(evaluate).collect();
        if evaluated.iter().any(|one| one.fatal.is_some()) {
            return self.stop(&due);
        }
        self.unsettled = touched.into_iter().collect();
        for (group, evaluated) in due.iter().zip(evaluated) {
            self.settle(*group, evaluated);
        }
        due
    }

    fn group_of(&self, change: &Change) -> Option<usize> {
        match change {
            Change::AddressPool(change) => self.groups.of_pool(change.object.name.as_str()),
            Change::Service(change) => self.groups.of_service(&change.service),
            Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
        }
    }

    fn reaction_to(
        &self,
        touched: Option<usize>,
        counts: (usize, usize),
        known: &[AddressPool],
    ) -> Reaction {
        let (pools, services) = match touched {
            Some(group) => (self.pools(group), self.services(group).collect()),
            None => (Vec::new(), Vec::new()),
        };
        Reaction::new(counts, known, &pools, &services, &self.state.rules)
    }

    fn every_group(&self) -> BTreeSet<usize> {
        (0..self.last.len()).collect()
    }

    /// The pools of a group as they are now, as the operator reads them.
    pub(super) fn pools(&self, group: usize) -> Vec<AddressPool> {
        let names = self.groups.all()[group].pools.iter();
        let pools = names.filter_map(|name| self.state.pools.get(name));
        pools.map(|pool| pool.as_read(&self.state.rules)).collect()
    }

    fn services(&self, group: usize) -> impl Iterator<Item = &LbService> {
        let names = self.groups.all()[group].services.iter();
        names.filter_map(|name| self.state.services.get(name))
    }

    /// The operator panics at this change: every Service stays as it is.
    fn stop(&mut self, due: &BTreeSet<usize>) -> BTreeSet<usize> {
        for group in due {
            self.mark(*group);
        }
        for group in self.every_group() {
            let services = self.services(group).collect();
            let rules = &self.state.rules;
            let untouched = evaluate_part(self.order, (&[], &[]), services, rules, Reaction::Idle);
            self.last[group] = untouched;
        }
        self.unsettled = self.every_group();
        self.every_group()
    }

    fn mark(&mut self, group: usize) {
        let pools = self.pools(group);
        if self.state.mark(&pools) == Marked::Anew {
            self.unsettled.insert(group);
        }
    }

    fn settle(&mut self, group: usize, evaluated: Evaluated) {
        self.mark(group);
        for (name, outcome) in &evaluated.outcomes {
            let Some(service) = self.state.services.get_mut(name) else {
                continue;
            };
            let mut ingress = outcome.keeps.clone();
            for gain in &outcome.gains {
                match gain {
                    GainedAddress::Exactly(address) => ingress.push(*address),
                    // The address is unknown, so the Service still lacks it in later steps.
                    GainedAddress::OneOf { family, pools } => {
                        let given = self.given.entry((name.clone(), *family)).or_default();
                        given.extend(pools.iter().cloned());
                    }
                }
            }
            if service.ingress != ingress {
                service.ingress = ingress;
                self.unsettled.insert(group);
            }
        }
        self.last[group] = evaluated;
    }

    /// The last evaluation of a group.
    pub(super) fn evaluated(&self, group: usize) -> &Evaluated {
        &self.last[group]
    }

    /// The outcome of a Service that LB-IPAM serves, after the last change.
    pub(super) fn outcome(&self, service: &ServiceName) -> Option<&ServiceOutcome> {
        let group = self.groups.of_service(service)?;
        self.last[group].outcomes.get(service)
    }

    /// What a Service has after all steps, and did not have before.
    pub(super) fn gains(&self, before: &SimulatedState, name: &ServiceName) -> Vec<GainedAddress> {
        let exactly = self.new_addresses(before, name);
        exactly.into_iter().chain(self.given_to(name)).collect()
    }

    /// Known addresses that a Service has after all steps, and did not have before.
    fn new_addresses(&self, before: &SimulatedState, name: &ServiceName) -> Vec<GainedAddress> {
        let ingress = |state: &SimulatedState| {
            let service = state.services.get(name);
            service.map(|one| one.ingress.clone()).unwrap_or_default()
        };
        let had = ingress(before);
        ingress(&self.state)
            .into_iter()
            .filter(|address| !had.contains(address))
            .map(GainedAddress::Exactly)
            .collect()
    }

    /// Addresses that a Service got in one of the steps, one of each family, and keeps: a later step
    /// took away none of the pools that may have given it.
    pub(super) fn given_to(&self, service: &ServiceName) -> Vec<GainedAddress> {
        let of_family = |family: Family| {
            let pools = self.given.get(&(service.clone(), family))?.clone();
            pools
                .iter()
                .all(|pool| self.covers(pool, service, family))
                .then_some(GainedAddress::OneOf { family, pools })
        };
        Family::BOTH.into_iter().filter_map(of_family).collect()
    }

    /// Whether a pool has addresses of the family for the Service now.
    fn covers(&self, pool: &str, service: &ServiceName, family: Family) -> bool {
        let pool = self.state.pools.get(pool);
        let service = self.state.services.get(service);
        let (Some(pool), Some(service)) = (pool, service) else {
            return false;
        };
        let pool = pool.as_read(&self.state.rules);
        let mut ranges = pool.ranges.iter();
        pool.selects(&service.labels) && ranges.any(|range| range.range.family() == family)
    }
}
