//! Gives Services what they lack: requested addresses, shared ones, or any of a family
//! (`satisfyService`).

use std::net::IpAddr;

use super::evaluate::{Serving, Settling, Stay, lacks};
use super::outlook::{Gain, Outlook, Pending};
use super::selection::Asking;
use super::service::{LbService, Wish};
use super::sharing::incompatibility;
use ipam_core::net::Family;

/// An address that is promised to Services of one sharing key, and not known yet.
pub(super) struct Promised<'p> {
    gain: Gain,
    family: Family,
    members: Vec<&'p LbService>,
}

impl Asking<'_, '_> {
    /// Whether it lacks something of what it wants.
    pub(super) fn lacks_in(&self, outlook: &Outlook) -> bool {
        match &self.wish {
            Wish::Exactly(requested) => requested
                .iter()
                .any(|address| !outlook.keeps.contains(address)),
            Wish::AnyOf(families) => families.iter().any(|family| lacks(outlook, *family)),
        }
    }

    /// Whether what it lacks may be this address.
    pub(super) fn may_take(&self, address: IpAddr, outlook: &Outlook) -> bool {
        match &self.wish {
            Wish::Exactly(requested) => requested.contains(&address),
            Wish::AnyOf(families) => {
                families.contains(&Family::of(address)) && lacks(outlook, Family::of(address))
            }
        }
    }
}

impl<'p> Settling<'p> {
    /// Gives a Service what it still lacks.
    pub(super) fn satisfy(&mut self, asking: &Asking<'_, 'p>, outlook: &mut Outlook) {
        match asking.wish.clone() {
            Wish::Exactly(requested) => {
                for address in requested
                    .into_iter()
                    .filter(|address| !outlook.keeps.contains(address))
                    .collect::<Vec<_>>()
                {
                    match self.request(asking, address) {
                        Ok(()) => outlook.gains.push(Gain::Exactly(address)),
                        Err(pending) => outlook.pending.push(pending),
                    }
                }
            }
            Wish::AnyOf(families) => {
                for family in families
                    .into_iter()
                    .filter(|family| lacks(outlook, *family))
                    .collect::<Vec<_>>()
                {
                    match self.any_of(asking, family) {
                        Ok(gain) => outlook.gains.push(gain),
                        Err(pending) => outlook.pending.push(pending),
                    }
                }
            }
        }
    }

    fn request(&mut self, asking: &Asking<'_, 'p>, address: IpAddr) -> Result<(), Pending> {
        let service = asking.service;
        let covering: Vec<usize> = self
            .covering(address)
            .into_iter()
            .filter(|place| self.ranges[*place].gives())
            .collect();
        let selects = |place: &usize| asking.is_selected_by(self.ranges[*place].of_pool);
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
        let is_there = !holders.is_empty() || self.is_reserved(&self.ranges[place], address);
        if is_there && service.sharing_key.read(self.rules).is_none() {
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
        // Nobody incompatible has it, so it can be taken.
        let _ = self.take(service, address, place, Stay::Imported);
        Ok(())
    }

    fn any_of(&mut self, asking: &Asking<'_, 'p>, family: Family) -> Result<Gain, Pending> {
        let service = asking.service;
        if let Some(gain) = self.share(service, family) {
            return Ok(gain);
        }
        let selecting = asking.selecting();
        let is_candidate = |serving: &Serving<'_>| {
            serving.gives()
                && serving.range.range.family() == family
                && selecting.contains(&serving.of_pool)
        };
        let places: Vec<usize> = self
            .ranges
            .iter()
            .enumerate()
            .filter(|(_, serving)| is_candidate(serving))
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
                let gain = Gain::OneOf { family, pools };
                if service.sharing_key.read(self.rules).is_some() {
                    self.promised.push(Promised {
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

    /// Joins an address of its sharing key, or one that is promised to it.
    fn share(&mut self, service: &'p LbService, family: Family) -> Option<Gain> {
        service.sharing_key.read(self.rules)?;
        let rules = self.rules;
        let may_join = |members: &[&LbService]| {
            !members.is_empty()
                && members
                    .iter()
                    .all(|member| incompatibility(member, service, rules).is_none())
        };
        let mut of_family = self
            .holders
            .iter_mut()
            .filter(|(address, _)| Family::of(**address) == family);
        if let Some((address, holders)) = of_family.find(|(_, holders)| may_join(holders)) {
            holders.push(service);
            return Some(Gain::Exactly(*address));
        }
        let mut promised = self
            .promised
            .iter_mut()
            .filter(|promised| promised.family == family);
        let promised = promised.find(|promised| may_join(&promised.members))?;
        promised.members.push(service);
        Some(promised.gain.clone())
    }
}
