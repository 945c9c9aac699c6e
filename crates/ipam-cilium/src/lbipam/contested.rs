//! Finds addresses that a Service shows, and that another Service may take first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::evaluate::Evaluation;
use super::selection::Request;
use super::service::LbService;
use super::service_outcome::ServiceOutcome;
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
        let mut contested: Vec<(usize, IpAddr)> = Vec::new();
        for imported in &self.imported {
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
            if is_taken || self.may_change_places(imported) {
                contested.push((owner, imported.address));
            }
        }
        contested
            .into_iter()
            .for_each(|(owner, address)| outcomes[owner].contested.push(address));
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
