//! Gives Services the addresses they lack: requested, shared, or any of a family
//! (`satisfyService`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::evaluation::{Evaluation, KeptBecause, lacks};
use super::selection::Request;
use super::service::{AddressRequest, LbService, incompatibility};
use super::service_outcome::{GainedAddress, LossReason, Pending, ServiceOutcome};
use crate::behaviours;
use ipam_core::net::Family;

/// An address for Services of one sharing key; the operator has not chosen it yet.
pub(super) struct Reservation<'p> {
    gain: GainedAddress,
    family: Family,
    members: Vec<&'p LbService>,
}

impl Request<'_, '_> {
    /// Whether a requested address or family is missing.
    pub(super) fn lacks_in(&self, outcome: &ServiceOutcome) -> bool {
        match &self.wanted {
            AddressRequest::Exactly(requested) => requested
                .iter()
                .any(|address| !outcome.keeps.contains(address)),
            AddressRequest::AnyOf(families) => {
                families.iter().any(|family| lacks(outcome, *family))
            }
        }
    }
}

impl<'p> Evaluation<'p> {
    /// Serves those that wait with a sharing key once more: by now they may join another Service.
    /// Returns whether one does.
    pub(super) fn retry(
        &mut self,
        order: &[usize],
        requests: &[Request<'_, 'p>],
        outcomes: &mut [ServiceOutcome],
    ) -> bool {
        let mut any = false;
        for place in order {
            let (request, outcome) = (&requests[*place], &mut outcomes[*place]);
            let has_key = request.service.sharing_key.read(self.rules).is_some();
            if has_key && !outcome.pending.is_empty() {
                let count = outcome.pending.len();
                outcome.pending.clear();
                self.satisfy(request, outcome);
                any |= outcome.pending.len() < count;
            }
        }
        any
    }

    pub(super) fn satisfy(&mut self, request: &Request<'_, 'p>, outcome: &mut ServiceOutcome) {
        match request.wanted.clone() {
            AddressRequest::Exactly(requested) => {
                for address in requested
                    .into_iter()
                    .filter(|address| !outcome.keeps.contains(address))
                    .filter(|address| !outcome.gains.contains(&GainedAddress::Exactly(*address)))
                    .collect::<Vec<_>>()
                {
                    match self.take_requested(request, address) {
                        Ok(()) => outcome.gains.push(GainedAddress::Exactly(address)),
                        Err(pending) => outcome.pending.push(pending),
                    }
                }
            }
            AddressRequest::AnyOf(families) => {
                for family in families
                    .into_iter()
                    .filter(|family| lacks(outcome, *family))
                    .filter(|family| outcome.gains.iter().all(|gain| gain.family() != *family))
                    .collect::<Vec<_>>()
                {
                    if self.rejoin(request, family, outcome) {
                        continue;
                    }
                    match self.any_of(request, family) {
                        Ok(gain) => outcome.gains.push(gain),
                        Err(pending) => outcome.pending.push(pending),
                    }
                }
            }
        }
    }

    fn take_requested(
        &mut self,
        request: &Request<'_, 'p>,
        address: IpAddr,
    ) -> Result<(), Pending> {
        let service = request.service;
        let covering: Vec<usize> = self
            .covering(address)
            .into_iter()
            .filter(|place| self.ranges[*place].gives())
            .collect();
        let selects = |place: &usize| request.is_selected_by(self.ranges[*place].of_pool);
        let Some(place) = covering.iter().copied().find(selects) else {
            let is_covered = !covering.is_empty();
            return Err(if is_covered {
                Pending::SelectorMismatch(address)
            } else {
                Pending::NoPool(Some(address))
            });
        };
        let holders = self
            .holders
            .get(&address)
            .map(Vec::as_slice)
            .unwrap_or_default();
        if service.sharing_key.read(self.rules).is_none() {
            if !holders.is_empty() {
                return Err(Pending::AlreadyAllocated(address));
            }
            if self.is_reserved(&self.ranges[place], address) {
                return Err(Pending::Reserved(address));
            }
        }
        // Other Services have all addresses of the range, and nothing tells which one has this
        // address.
        let is_there = !holders.is_empty() || self.is_reserved(&self.ranges[place], address);
        if !is_there && (self.ranges[place].is_full() || self.may_be_chosen(place, address)) {
            return Err(Pending::AlreadyAllocated(address));
        }
        if let Some(why) = holders
            .iter()
            .find_map(|holder| incompatibility(holder, service, self.rules))
        {
            let reason = self.rules.incompatible_reason();
            return Err(Pending::Incompatible {
                address,
                reason,
                why,
            });
        }
        // No incompatible Service has the address, so `take` succeeds.
        let _ = self.take(service, address, place, KeptBecause::Imported);
        Ok(())
    }

    /// Whether a Service that takes any address of the range may have taken this one.
    fn may_be_chosen(&self, place: usize, address: IpAddr) -> bool {
        let active = &self.ranges[place];
        let range = &active.range.range;
        let first = range.first();
        let reserved = self.is_reserved(active, first).then_some(&first);
        let (takers, holders) = (&self.takers, &self.holders);
        self.chosen_from.contains(&place)
            && takers.may_take(address, place, range, reserved, holders, self.rules)
    }

    /// Indexes of the ranges of a pool, which are together, in order.
    pub(super) fn ranges_of(&self, pool: usize) -> std::ops::Range<usize> {
        let first = |pool: usize| self.ranges.partition_point(|active| active.of_pool < pool);
        first(pool)..first(pool + 1)
    }

    fn any_of(
        &mut self,
        request: &Request<'_, 'p>,
        family: Family,
    ) -> Result<GainedAddress, Pending> {
        let service = request.service;
        let selecting = request.selecting();
        let is_candidate = |place: &usize| {
            let active = &self.ranges[*place];
            active.gives() && active.range.range.family() == family
        };
        let places: Vec<usize> = selecting
            .iter()
            .flat_map(|pool| self.ranges_of(*pool))
            .filter(is_candidate)
            .collect();
        let is_free = |place: &&usize| !self.ranges[**place].is_full();
        let free: Vec<usize> = places.iter().filter(is_free).copied().collect();
        if let Some(gain) = self.share(request, family, &free) {
            return Ok(gain);
        }
        match free.first() {
            Some(first) => {
                let pools = self.pools_of(&free);
                self.ranges[*first].taken += 1;
                self.chosen_from.extend(&free);
                let gain = GainedAddress::OneOf { family, pools };
                if service.sharing_key.read(self.rules).is_some() {
                    self.reservations.push(Reservation {
                        gain: gain.clone(),
                        family,
                        members: vec![service],
                    });
                }
                Ok(gain)
            }
            None if places.is_empty() => Err(Pending::NoPool(None)),
            None => Err(Pending::OutOfAddresses(family)),
        }
    }

    fn pools_of(&self, places: &[usize]) -> BTreeSet<String> {
        let names = places
            .iter()
            .map(|place| self.ranges[*place].pool.name.clone());
        names.collect()
    }

    /// Addresses that the Service may share by its key.
    fn joinable(&self, service: &LbService, family: Family) -> Vec<IpAddr> {
        if service.sharing_key.read(self.rules).is_none() {
            return Vec::new();
        }
        let may_join = |(address, holders): &(&IpAddr, &Vec<&LbService>)| {
            let mut all = holders.iter();
            Family::of(**address) == family
                && !holders.is_empty()
                && all.all(|holder| incompatibility(holder, service, self.rules).is_none())
        };
        let joinable = self.holders.iter().filter(may_join);
        joinable.map(|(address, _)| *address).collect()
    }

    /// Gives back an address that the Service has only by its sharing key. Returns whether it does.
    fn rejoin(
        &mut self,
        request: &Request<'_, 'p>,
        family: Family,
        outcome: &mut ServiceOutcome,
    ) -> bool {
        let joinable = self.joinable(request.service, family);
        let mut lost = outcome.loses.iter().map(|(address, _)| *address);
        let Some(address) = lost.find(|address| joinable.contains(address)) else {
            return false;
        };
        outcome.loses.retain(|(lost, _)| *lost != address);
        outcome.keeps.push(address);
        if joinable.len() > 1 || !self.rules.is_of(behaviours::ALL_IMPORTED_FIRST) {
            outcome.contested.push((address, LossReason::Rejoined));
        }
        self.holders
            .entry(address)
            .or_default()
            .push(request.service);
        true
    }

    /// Whether the operator knows who has the address when it serves the Service.
    fn is_there_before(&self, service: &LbService, address: IpAddr) -> bool {
        let is_late = self.rules.is_of(behaviours::ALL_IMPORTED_FIRST)
            || self.rules.is_of(behaviours::HOLDERS_FIRST) && service.ingress.is_empty();
        self.allocated.contains(&address) || is_late && self.kept.contains(&address)
    }

    /// Joins an address, or a reservation, of its sharing key. The operator may serve the Service
    /// before those that it could join: then it gets one of these ranges.
    fn share(
        &mut self,
        request: &Request<'_, 'p>,
        family: Family,
        free: &[usize],
    ) -> Option<GainedAddress> {
        let service = request.service;
        service.sharing_key.read(self.rules)?;
        let joinable = self.joinable(service, family);
        if let Some(first) = joinable.first() {
            self.holders.entry(*first).or_default().push(service);
            let is_there = |address: &IpAddr| self.is_there_before(service, *address);
            if free.is_empty() || joinable.iter().any(is_there) {
                return Some(self.joined(&joinable, family));
            }
            let covering = joinable.iter().flat_map(|address| self.covering(*address));
            let places: Vec<usize> = covering.chain(free.iter().copied()).collect();
            let pools = self.pools_of(&places);
            let gain = GainedAddress::OneOf { family, pools };
            self.reservations.push(Reservation {
                gain: gain.clone(),
                family,
                members: vec![service],
            });
            return Some(gain);
        }
        let rules = self.rules;
        let may_join = |members: &[&LbService]| {
            let mut all = members.iter();
            all.all(|member| incompatibility(member, service, rules).is_none())
        };
        let reservation = self
            .reservations
            .iter_mut()
            .filter(|reservation| reservation.family == family)
            .find(|reservation| may_join(&reservation.members))?;
        reservation.members.push(service);
        Some(reservation.gain.clone())
    }

    /// Where the Service may also join one that chance gives another address, it is that of either.
    pub(super) fn widen(&self, request: &Request<'_, 'p>, outcome: &mut ServiceOutcome) {
        let service = request.service;
        let is_generic = matches!(request.wanted, AddressRequest::AnyOf(_));
        if !is_generic || service.sharing_key.read(self.rules).is_none() {
            return;
        }
        for gain in &mut outcome.gains {
            let GainedAddress::Exactly(address) = *gain else {
                continue;
            };
            if self.is_there_before(service, address) {
                continue;
            }
            let family = Family::of(address);
            let may_join = |reservation: &&Reservation<'_>| {
                let mut members = reservation.members.iter();
                reservation.family == family
                    && members.all(|one| incompatibility(one, service, self.rules).is_none())
            };
            let open = self.reservations.iter().filter(may_join);
            let mut pools: BTreeSet<String> = open.flat_map(|one| one.gain.pools()).collect();
            if !pools.is_empty() {
                pools.extend(self.pools_of(&self.covering(address)));
                *gain = GainedAddress::OneOf { family, pools };
            }
        }
    }

    /// The address that a Service joins by its sharing key. Which one of several is not
    /// predictable: the operator goes by the order in which it learned of them.
    fn joined(&self, joinable: &[IpAddr], family: Family) -> GainedAddress {
        if let [only] = joinable {
            return GainedAddress::Exactly(*only);
        }
        let covering = joinable.iter().flat_map(|address| self.covering(*address));
        let pools = self.pools_of(&covering.collect::<Vec<_>>());
        GainedAddress::OneOf { family, pools }
    }
}
