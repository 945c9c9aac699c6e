//! Gives Services the addresses they lack: requested, shared, or any of a family
//! (`satisfyService`).

use std::net::IpAddr;

use super::active_range::ActiveRange;
use super::evaluate::{Evaluation, KeptBecause, lacks};
use super::selection::Request;
use super::service::{AddressRequest, LbService};
use super::service_outcome::{GainedAddress, Pending, ServiceOutcome};
use super::sharing::incompatibility;
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

    /// Whether the Service may take this address.
    pub(super) fn may_take(&self, address: IpAddr, outcome: &ServiceOutcome) -> bool {
        match &self.wanted {
            AddressRequest::Exactly(requested) => requested.contains(&address),
            AddressRequest::AnyOf(families) => {
                families.contains(&Family::of(address)) && lacks(outcome, Family::of(address))
            }
        }
    }
}

impl<'p> Evaluation<'p> {
    pub(super) fn satisfy(&mut self, request: &Request<'_, 'p>, outcome: &mut ServiceOutcome) {
        match request.wanted.clone() {
            AddressRequest::Exactly(requested) => {
                for address in requested
                    .into_iter()
                    .filter(|address| !outcome.keeps.contains(address))
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
                    .collect::<Vec<_>>()
                {
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
        // No incompatible Service has it, so this succeeds.
        let _ = self.take(service, address, place, KeptBecause::Imported);
        Ok(())
    }

    fn any_of(
        &mut self,
        request: &Request<'_, 'p>,
        family: Family,
    ) -> Result<GainedAddress, Pending> {
        let service = request.service;
        if let Some(gain) = self.share(service, family) {
            return Ok(gain);
        }
        let selecting = request.selecting();
        let is_candidate = |active: &ActiveRange<'_>| {
            active.gives()
                && active.range.range.family() == family
                && selecting.contains(&active.of_pool)
        };
        let places: Vec<usize> = self
            .ranges
            .iter()
            .enumerate()
            .filter(|(_, active)| is_candidate(active))
            .map(|(place, _)| place)
            .collect();
        let is_free =
            |place: &&usize| self.ranges[**place].taken <= self.ranges[**place].range.range.width();
        let free: Vec<usize> = places.iter().filter(is_free).copied().collect();
        match free.first() {
            Some(first) => {
                let pools = free
                    .iter()
                    .map(|place| self.ranges[*place].pool.name.clone())
                    .collect();
                self.ranges[*first].taken += 1;
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

    /// Joins an address, or a reservation, of its sharing key.
    fn share(&mut self, service: &'p LbService, family: Family) -> Option<GainedAddress> {
        service.sharing_key.read(self.rules)?;
        let rules = self.rules;
        let may_join = |members: &[&LbService]| {
            !members.is_empty()
                && members
                    .iter()
                    .all(|member| incompatibility(member, service, rules).is_none())
        };
        let joinable: Vec<IpAddr> = self
            .holders
            .iter()
            .filter(|(address, holders)| Family::of(**address) == family && may_join(holders))
            .map(|(address, _)| *address)
            .collect();
        if let Some(first) = joinable.first() {
            self.holders.entry(*first).or_default().push(service);
            return Some(self.joined(&joinable, family));
        }
        let reservation = self
            .reservations
            .iter_mut()
            .filter(|reservation| reservation.family == family)
            .find(|reservation| may_join(&reservation.members))?;
        reservation.members.push(service);
        Some(reservation.gain.clone())
    }

    /// One of these addresses. Which of several is not predictable: the operator goes by the order in
    /// which it learned of them.
    fn joined(&self, joinable: &[IpAddr], family: Family) -> GainedAddress {
        if let [only] = joinable {
            return GainedAddress::Exactly(*only);
        }
        let covering = joinable.iter().flat_map(|address| self.covering(*address));
        let pools = covering
            .map(|place| self.ranges[place].pool.name.clone())
            .collect();
        GainedAddress::OneOf { family, pools }
    }
}
