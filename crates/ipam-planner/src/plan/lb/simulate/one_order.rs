//! LB-IPAM, change by change, in one order of serving: which addresses Services get. Must never know
//! what they would have got without the changes.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::change::Change;
use super::super::simulated_state::SimulatedState;
use ipam_cilium::lbipam::{
    Evaluated, GainedAddress, OperatorState, Rivalry, ServiceOutcome, ServingOrder, evaluate_in,
};
use ipam_core::model::ServiceName;
use ipam_core::net::Family;

/// The simulation in one order.
pub(super) struct OneOrder {
    order: ServingOrder,
    pub(super) state: SimulatedState,
    given: BTreeMap<(ServiceName, Family), BTreeSet<String>>,
    pub(super) last: Evaluated,
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
    pub(super) fn new(order: ServingOrder, state: SimulatedState) -> OneOrder {
        OneOrder {
            order,
            state,
            given: BTreeMap::new(),
            last: Evaluated::default(),
        }
    }

    pub(super) fn order(&self) -> ServingOrder {
        self.order
    }

    /// Simulates a change.
    pub(super) fn step(&mut self, change: &Change) {
        let rules = self.state.rules.clone();
        let known = self.state.read(&rules);
        self.state.apply(change);
        let pools = self.state.read(&rules);
        self.last = evaluate_in(
            self.order,
            &pools,
            self.state.services.values(),
            &rules,
            OperatorState::Running(&known),
        );
        self.state.mark(&pools, &known);
        for (name, outlook) in &self.last.outcomes {
            let Some(service) = self.state.services.get_mut(name) else {
                continue;
            };
            service.ingress.clone_from(&outlook.keeps);
            for gain in &outlook.gains {
                match gain {
                    GainedAddress::Exactly(address) => service.ingress.push(*address),
                    // The address is unknown, so the Service still lacks it in later steps.
                    GainedAddress::OneOf { family, pools } => {
                        self.given
                            .entry((name.clone(), *family))
                            .or_default()
                            .extend(pools.iter().cloned());
                    }
                }
            }
        }
    }

    /// What the last step leaves to chance.
    pub(super) fn rivalry(&self) -> Rivalry {
        let is_quiet = |one: &ServiceOutcome| {
            one.gains.is_empty() && one.pending.is_empty() && one.contested.is_empty()
        };
        if self.last.outcomes.values().all(is_quiet) {
            return Rivalry::default();
        }
        let pools = self.state.read(&self.state.rules);
        Rivalry::new(&self.last, &pools, OperatorState::Running(&pools))
    }

    /// Whether two Services lack an address after the last step, so that the order decides.
    pub(super) fn has_rivals(&self) -> bool {
        let outcomes = self.last.outcomes.values();
        let lacking = outcomes.filter(|one| !(one.gains.is_empty() && one.pending.is_empty()));
        lacking.take(2).count() > 1
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
