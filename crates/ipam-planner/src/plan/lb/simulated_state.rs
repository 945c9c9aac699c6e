//! Pools and Services after some of the changes.

use std::collections::BTreeMap;

use super::super::change::Change;
use super::{AddressPoolChange, ServiceChange};
use ipam_cilium::lbipam::{
    ADDRESSES, AddressPool, Certainty, LbRules, LbService, Marking, OperatorState, conflicts,
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

    /// The pools as an operator of these rules reads them.
    pub(super) fn read(&self, rules: &LbRules) -> Vec<AddressPool> {
        self.pools
            .values()
            .map(|pool| pool.as_read(rules))
            .collect()
    }

    /// Applies a change to the simulated state.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::AddressPool(change) => self.put_pool(change),
            Change::Service(change) => self.put_service(change),
            Change::PodPool(_) | Change::Port(_) | Change::Node(_) => {}
        }
    }

    fn put_pool(&mut self, AddressPoolChange { name, after, .. }: &AddressPoolChange) {
        let Some(manifest) = after else {
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

    /// Sets the conflicts that the operator reports once it has seen the change.
    pub(super) fn mark(&mut self, pools: &[AddressPool], known: &[AddressPool]) {
        let conflicts = conflicts(pools, OperatorState::Running(known));
        for (name, pool) in &mut self.pools {
            pool.marking = match conflicts
                .get(name.as_str())
                .map(|conflict| conflict.certainty)
            {
                Some(Certainty::Certain) => Marking::Conflicting,
                Some(Certainty::LeftToChance) | None => Marking::None,
            };
        }
    }
}
