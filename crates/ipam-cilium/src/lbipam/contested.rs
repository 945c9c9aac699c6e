//! Finds addresses that a Service shows, and that another Service may take first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::evaluation::Evaluation;
use super::selection::Request;
use super::service::{AddressRequest, LbService, incompatibility};
use super::service_outcome::{LossReason, ServiceOutcome};
use crate::behaviours;
use ipam_core::model::ServiceName;
use ipam_core::net::Family;

/// An address that the operator has not allocated until it processes the Service.
pub(super) struct Imported<'p> {
    pub(super) address: IpAddr,
    /// Index of the address's pool.
    pub(super) of_pool: usize,
    pub(super) service: &'p LbService,
}

/// Number of rivals that are remembered: of two, one is not the holder of the address.
const ENOUGH: usize = 2;

/// Services that lack an address, or may come to lack one.
#[derive(Default)]
struct Rivals {
    /// Indexes of the Services that request an address.
    exact: BTreeMap<IpAddr, Vec<usize>>,
    /// Indexes of the Services that take any address of a family, by a pool that selects them, and
    /// by whether they show an address. Two of each are enough.
    any: BTreeMap<(usize, Family, Shows), Vec<usize>>,
}

/// Whether the status of a Service shows an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shows {
    Nothing,
    Some,
}

fn shows(request: &Request<'_, '_>) -> Shows {
    match request.service.ingress.is_empty() {
        true => Shows::Nothing,
        false => Shows::Some,
    }
}

impl Rivals {
    /// `sure` are the addresses that each Service certainly keeps.
    fn new(services: &[Request<'_, '_>], sure: &[Vec<IpAddr>]) -> Rivals {
        let mut rivals = Rivals::default();
        // Services with the same labels share one set of pools: its address tells them apart.
        let mut alike: BTreeMap<(*const BTreeSet<usize>, Family, Shows), usize> = BTreeMap::new();
        for (place, (request, sure)) in services.iter().zip(sure).enumerate() {
            match &request.wanted {
                AddressRequest::Exactly(requested) => {
                    for address in requested.iter().filter(|address| !sure.contains(address)) {
                        rivals.exact.entry(*address).or_default().push(place);
                    }
                }
                AddressRequest::AnyOf(families) => {
                    let lacks = |family: &&Family| sure.iter().all(|a| Family::of(*a) != **family);
                    for family in families.iter().filter(lacks) {
                        let (pools, shows) = (request.selecting(), shows(request));
                        let known = alike.entry((pools, *family, shows)).or_default();
                        if *known < ENOUGH {
                            *known += 1;
                            rivals.add(place, pools, *family, shows);
                        }
                    }
                }
            }
        }
        rivals
    }

    fn add(&mut self, place: usize, pools: &BTreeSet<usize>, family: Family, shows: Shows) {
        for pool in pools {
            let known = self.any.entry((*pool, family, shows)).or_default();
            if known.len() < ENOUGH {
                known.push(place);
            }
        }
    }

    /// Whether another Service may take the address. `least` is what it must show.
    fn may_take(
        &self,
        services: &[Request<'_, '_>],
        (owner, imported): (usize, &Imported<'_>),
        least: Shows,
    ) -> bool {
        let family = Family::of(imported.address);
        let is_other = |place: &usize| *place != owner;
        let exact = self.exact.get(&imported.address).into_iter().flatten();
        let mut requesting = exact.filter(|place| is_other(place));
        requesting.any(|place| {
            let request = &services[*place];
            shows(request) >= least && request.selecting().contains(&imported.of_pool)
        }) || [Shows::Nothing, Shows::Some].into_iter().any(|shows| {
            let alike = self.any.get(&(imported.of_pool, family, shows));
            shows >= least && alike.into_iter().flatten().any(is_other)
        })
    }
}

impl Evaluation<'_> {
    /// Marks addresses that another Service may take before the operator processes their owner.
    ///
    /// From 1.18.2 on it processes satisfied Services first. Otherwise the order is that of a Go
    /// map. A Service that may lose its address may take that of the next one.
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
        let mut contested = self.disputed(&places);
        contested.extend(self.of_several_stale(&places));
        loop {
            for (owner, address, why) in contested {
                let known = &mut outcomes[owner].contested;
                if !known.iter().any(|(known, _)| *known == address) {
                    known.push((address, why));
                }
            }
            contested = self.newly_contested(services, outcomes, &places);
            if contested.is_empty() {
                return;
            }
        }
    }

    fn newly_contested(
        &self,
        services: &[Request<'_, '_>],
        outcomes: &[ServiceOutcome],
        places: &BTreeMap<&ServiceName, usize>,
    ) -> Vec<(usize, IpAddr, LossReason)> {
        if self.rules.is_of(behaviours::ALL_IMPORTED_FIRST) {
            return Vec::new();
        }
        let is_marked = |outcome: &ServiceOutcome, address: IpAddr| {
            outcome.contested.iter().any(|(known, _)| *known == address)
        };
        // A Service that changes places within its sharing key takes no address of another Service.
        let may_go = |outcome: &ServiceOutcome, address: IpAddr| {
            let mut contested = outcome.contested.iter();
            contested.any(|(known, why)| *known == address && *why != LossReason::SharingKey)
        };
        let sure_of = |outcome: &ServiceOutcome| -> Vec<IpAddr> {
            let keeps = outcome.keeps.iter().copied();
            keeps.filter(|address| !may_go(outcome, *address)).collect()
        };
        let sure: Vec<Vec<IpAddr>> = outcomes.iter().map(sure_of).collect();
        let rivals = Rivals::new(services, &sure);
        let contest = |imported: &Imported<'_>| {
            let owner = places.get(&imported.service.name).copied()?;
            if is_marked(&outcomes[owner], imported.address) {
                return None;
            }
            let is_late = !self.rules.is_of(behaviours::HOLDERS_FIRST)
                || services[owner].lacks_in(&outcomes[owner]);
            let least = if is_late { Shows::Nothing } else { Shows::Some };
            let why = if rivals.may_take(services, (owner, imported), least) {
                LossReason::Waiting
            } else if self.may_change_places(imported) {
                LossReason::SharingKey
            } else {
                return None;
            };
            Some((owner, imported.address, why))
        };
        self.imported.iter().filter_map(contest).collect()
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

    /// Stale addresses of Services that may join another address of their key instead.
    fn of_several_stale(
        &self,
        places: &BTreeMap<&ServiceName, usize>,
    ) -> Vec<(usize, IpAddr, LossReason)> {
        let may_join = |address: IpAddr, service: &LbService| {
            self.holders.iter().any(|(other, holders)| {
                let mut holders = holders.iter();
                *other != address
                    && holders.all(|holder| incompatibility(holder, service, self.rules).is_none())
            })
        };
        self.stale
            .iter()
            .filter(|(address, service)| may_join(*address, service))
            .filter_map(|(address, service)| {
                let place = places.get(&service.name)?;
                Some((*place, *address, LossReason::SharingKey))
            })
            .collect()
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
