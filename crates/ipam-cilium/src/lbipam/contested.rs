//! Finds addresses that a Service shows, and that another Service may take first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::evaluate::Evaluation;
use super::selection::Request;
use super::service::LbService;
use super::service_outcome::{LossReason, ServiceOutcome};
use super::sharing::incompatibility;
use ipam_core::model::ServiceName;

/// An address that the operator has not allocated until it processes the Service.
pub(super) struct Imported<'p> {
    pub(super) address: IpAddr,
    /// Index of its pool.
    pub(super) of_pool: usize,
    pub(super) service: &'p LbService,
}

impl Evaluation<'_> {
    /// Marks addresses that another Service may take before the operator processes their owner.
    ///
    /// From 1.18.2 on it processes satisfied Services first. Otherwise the order is that of a Go
    /// map.
    pub(super) fn mark_contested(
        &self,
        services: &[Request<'_, '_>],
        outcomes: &mut [ServiceOutcome],
    ) {
        let places: BTreeMap<&ServiceName, usize> = services
            .iter()
            .enumerate()
            .map(|(place, request)| (&request.service.name, place))
            .collect();
        let needy: Vec<usize> = (0..services.len())
            .filter(|place| services[*place].lacks_in(&outcomes[*place]))
            .collect();
        let needs = |place: usize, imported: &Imported<'_>| {
            let request = &services[place];
            let is_other = request.service.name != imported.service.name;
            is_other
                && request.may_take(imported.address, &outcomes[place])
                && request.selecting().contains(&imported.of_pool)
        };
        let mut contested = self.disputed(&places);
        let is_open = !self.rules.imports_all_first();
        for imported in self.imported.iter().filter(|_| is_open) {
            let Some(owner) = places.get(&imported.service.name).copied() else {
                continue;
            };
            let is_late =
                !self.rules.serves_holders_first() || services[owner].lacks_in(&outcomes[owner]);
            let is_rival =
                |place: &&usize| is_late || !services[**place].service.ingress.is_empty();
            let is_taken = needy
                .iter()
                .filter(is_rival)
                .any(|place| needs(*place, imported));
            if is_taken {
                contested.push((owner, imported.address, LossReason::Waiting));
            } else if self.may_change_places(imported) {
                contested.push((owner, imported.address, LossReason::SharingKey));
            }
        }
        for (owner, address, why) in contested {
            let known = &mut outcomes[owner].contested;
            if !known.iter().any(|(known, _)| *known == address) {
                known.push((address, why));
            }
        }
    }

    /// Addresses of Services that may no longer share them: one has changed its sharing key, port or
    /// policy, and loses the address. Nothing tells which one.
    fn disputed(&self, places: &BTreeMap<&ServiceName, usize>) -> Vec<(usize, IpAddr, LossReason)> {
        let why = LossReason::NoLongerShared;
        let rules = self.rules;
        let is_disputed = |holders: &[&LbService], holder: &LbService| {
            holders.iter().any(|other| {
                other.name != holder.name && incompatibility(other, holder, rules).is_some()
            })
        };
        let of_address = |(address, holders): (&IpAddr, &Vec<&LbService>)| {
            holders
                .iter()
                .filter(|holder| is_disputed(holders, holder))
                .filter_map(|holder| Some((*places.get(&holder.name)?, *address, why)))
                .collect::<Vec<_>>()
        };
        self.holders.iter().flat_map(of_address).collect()
    }

    /// Whether sharing Services may swap addresses: the second one joins any address of its key.
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
}
