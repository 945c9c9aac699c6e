//! Hostnames that Services lose. LB-IPAM removes them with the first pool, or with the address in
//! their entry. With a pool it removes them anyway, so later changes are not the cause.

use std::collections::BTreeMap;

use super::{LossTime, LostAddress, ServiceEffect, Simulation};
use ipam_cilium::lbipam::{Certainty, LbService, LossReason, ServedHostname};
use ipam_core::model::ServiceName;

/// What the changes do to hostnames without an address in their entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hostnames {
    Kept,
    /// A change makes the first pool.
    Removed,
}

impl Simulation {
    /// Whether LB-IPAM has removed a hostname because of the changes so far.
    pub(super) fn loses_hostnames(&self) -> bool {
        let mut services = self.before.services.values();
        self.hostnames == Hostnames::Removed
            && services.any(|one| self.removed(one).next().is_some())
    }

    fn removed<'s>(&self, service: &'s LbService) -> impl Iterator<Item = &'s ServedHostname> {
        let hostnames = service.hostnames_that_go(&self.before.rules);
        hostnames.filter(|_| self.hostnames == Hostnames::Removed)
    }

    /// Adds the hostnames to the addresses that Services lose.
    pub(super) fn lose_hostnames(&self, effects: &mut BTreeMap<ServiceName, ServiceEffect>) {
        for (name, service) in &self.before.services {
            let Some(effect) = effects.get_mut(name) else {
                continue;
            };
            let removed = self.removed(service).map(|one| LostAddress {
                address: one.address(),
                when: LossTime::Now,
                why: LossReason::Hostname,
                certainty: Certainty::Certain,
            });
            let with_address = service.hostnames.iter().filter_map(|one| {
                let mut loses = effect.loses.iter();
                let lost = loses.find(|lost| one.ip.is_some() && lost.address.ip() == one.ip)?;
                Some(LostAddress {
                    address: one.address(),
                    ..lost.clone()
                })
            });
            let lost: Vec<LostAddress> = removed.chain(with_address).collect();
            effect.loses.extend(lost);
        }
    }
}
