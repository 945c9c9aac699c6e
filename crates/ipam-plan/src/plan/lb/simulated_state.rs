//! Pools and Services after some of the changes.

use std::collections::BTreeMap;

use super::super::change::Change;
use super::{AddressPoolChange, ServiceChange};
use ipam_cilium::lbipam::{
    ADDRESSES, AddressPool, Certainty, Groups, LbRules, LbService, Marking, OperatorState,
    conflicts,
};
use ipam_cilium::observed::{Observed, SeenAddressPool};
use ipam_core::model::ServiceName;

/// The state on which LB-IPAM works.
#[derive(Clone)]
pub(crate) struct SimulatedState {
    pub(super) rules: LbRules,
    pub(super) pools: BTreeMap<String, SeenAddressPool>,
    pub(super) services: BTreeMap<ServiceName, LbService>,
}

impl SimulatedState {
    pub(crate) fn new(observed: &Observed) -> SimulatedState {
        SimulatedState {
            rules: observed.lb_rules(),
            pools: observed.address_pools.clone(),
            services: observed.services.clone(),
        }
    }

    /// The pools, read as an operator with these rules reads them.
    pub(super) fn read(&self, rules: &LbRules) -> Vec<AddressPool> {
        self.pools
            .values()
            .map(|pool| pool.as_read(rules))
            .collect()
    }

    /// The groups of pools and Services that do not affect each other through these changes.
    pub(super) fn groups<'c>(&self, changes: impl IntoIterator<Item = &'c Change>) -> Groups {
        let mut pools = self.read(&self.rules);
        let mut changed_services: Vec<LbService> = Vec::new();
        let mut changed = SimulatedState::of_rules(self.rules.clone());
        for change in changes {
            changed.copy_missing(change, self);
            changed.apply(change);
            match change {
                Change::AddressPool(change) => {
                    let pool = changed.pools.get(change.object.name.as_str());
                    pools.extend(pool.map(|pool| pool.as_read(&self.rules)));
                }
                Change::Service(change) => {
                    changed_services.extend(changed.services.get(&change.service).cloned());
                }
                Change::PodPool(_) | Change::Port(_) | Change::Node(_) => {}
            }
        }
        let services = self.services.values().chain(&changed_services);
        Groups::new(&pools, services, &self.rules)
    }

    fn of_rules(rules: LbRules) -> SimulatedState {
        SimulatedState {
            rules,
            pools: BTreeMap::new(),
            services: BTreeMap::new(),
        }
    }

    /// Copies the Service of a pin, which edits one annotation. A change of a pool has the whole pool.
    fn copy_missing(&mut self, change: &Change, from: &SimulatedState) {
        let Change::Service(change) = change else {
            return;
        };
        if let Some(service) = from.services.get(&change.service) {
            let copy = || service.clone();
            self.services
                .entry(change.service.clone())
                .or_insert_with(copy);
        }
    }

    /// Applies a change to the simulated state.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::AddressPool(change) => self.put_pool(change),
            Change::Service(change) => self.put_service(change),
            Change::PodPool(_) | Change::Port(_) | Change::Node(_) => {}
        }
    }

    fn put_pool(&mut self, change: &AddressPoolChange) {
        let name = &change.object.name;
        let Some(manifest) = &change.after else {
            self.pools.remove(name.as_str());
            return;
        };
        let pool = self.pools.entry(name.to_string()).or_default();
        pool.name = name.to_string();
        pool.manifest = manifest.clone();
    }

    fn put_service(
        &mut self,
        ServiceChange {
            service,
            key,
            after,
            ..
        }: &ServiceChange,
    ) {
        let annotation = self
            .services
            .get_mut(service)
            .and_then(|service| service.addresses.at(ADDRESSES, key));
        if let Some(value) = annotation {
            value.clone_from(after);
        }
    }

    /// Sets the conflicts that the operator reports of these pools once it has seen a change. They
    /// must hold all that overlap.
    pub(super) fn mark(&mut self, pools: &[AddressPool]) -> Marked {
        let conflicts = conflicts(pools, OperatorState::Running(pools));
        let mut marked = Marked::AsBefore;
        for AddressPool { name, .. } in pools {
            let conflict = conflicts.get(name.as_str());
            let marking = match conflict.map(|conflict| conflict.certainty) {
                Some(Certainty::Certain) => Marking::Conflicting,
                Some(Certainty::LeftToChance) | None => Marking::None,
            };
            if let Some(pool) = self.pools.get_mut(name)
                && pool.marking != marking
            {
                pool.marking = marking;
                marked = Marked::Anew;
            }
        }
        marked
    }
}

/// Whether the operator reports other conflicts than before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    AsBefore,
    Anew,
}
