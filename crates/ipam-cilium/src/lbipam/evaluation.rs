//! The pools, ranges and holders of an evaluation, and the addresses that Services keep and lose. Must never
//! give a new address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conflict::Certainty;
use super::contested::Imported;
use super::evaluate::Takers;
use super::pool::{ActiveRange, AddressPool, Counts, OperatorState, active_ranges};
use super::rules::LbRules;
use super::satisfy::Reservation;
use super::selection::Request;
use super::service::{AddressRequest, LbService, incompatibility};
use super::service_outcome::{LossReason, ServiceOutcome};
use crate::behaviours;
use ipam_core::net::{Family, Range, RangeIndex};

/// Whether no address of the family is kept.
pub(super) fn lacks(outcome: &ServiceOutcome, family: Family) -> bool {
    !outcome
        .keeps
        .iter()
        .any(|address| Family::of(*address) == family)
}

/// Why a Service keeps an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptBecause {
    /// The operator has allocated the address.
    Allocated,
    /// The operator allocates the address when it processes the Service.
    Imported,
    /// Several ranges may be its source, and some of them are gone; or its pool overlaps another
    /// one, and chance decides which of them is used.
    Doubtful(LossReason),
}

pub(super) struct Evaluation<'p> {
    pub(super) rules: &'p LbRules,
    pub(super) state: OperatorState<'p>,
    pub(super) ranges: Vec<ActiveRange<'p>>,
    /// Indexes into `ranges`, by the addresses of the ranges.
    index: RangeIndex<usize>,
    /// Ranges of the previous pools, with the indexes of the pools.
    known: RangeIndex<usize>,
    pub(super) holders: BTreeMap<IpAddr, Vec<&'p LbService>>,
    pub(super) reservations: Vec<Reservation<'p>>,
    /// Indexes of the ranges of which a Service takes an address that nothing tells.
    pub(super) chosen_from: BTreeSet<usize>,
    /// Demand of Services that lack an address. Empty in the usual order of serving.
    pub(super) takers: Takers,
    pub(super) imported: Vec<Imported<'p>>,
    /// Addresses that Services keep, before any gets a new one.
    pub(super) kept: BTreeSet<IpAddr>,
    /// Kept addresses that a running operator has allocated.
    pub(super) allocated: BTreeSet<IpAddr>,
    /// Addresses of ranges that are gone, which their sharing key keeps.
    pub(super) stale: Vec<(IpAddr, &'p LbService)>,
}

impl<'p> Evaluation<'p> {
    pub(super) fn new(
        pools: &'p [AddressPool],
        rules: &'p LbRules,
        state: OperatorState<'p>,
    ) -> Evaluation<'p> {
        let ranges = active_ranges(pools, rules, state);
        let index = RangeIndex::new(
            ranges
                .iter()
                .enumerate()
                .map(|(place, active)| (active.range.range, place)),
        );
        let before: &[AddressPool] = match state {
            OperatorState::Running(before) => before,
            OperatorState::Restarted => &[],
        };
        let of_pool = |(place, pool): (usize, &AddressPool)| {
            pool.ranges
                .iter()
                .map(|range| (range.range, place))
                .collect::<Vec<_>>()
        };
        let known = RangeIndex::new(before.iter().enumerate().flat_map(of_pool));
        let (holders, reservations) = (BTreeMap::new(), Vec::new());
        let (imported, stale) = (Vec::new(), Vec::new());
        Evaluation {
            rules,
            state,
            chosen_from: BTreeSet::new(),
            takers: Takers::default(),
            ranges,
            index,
            known,
            holders,
            reservations,
            imported,
            kept: BTreeSet::new(),
            allocated: BTreeSet::new(),
            stale,
        }
    }

    pub(super) fn counts(&self) -> BTreeMap<String, Counts> {
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        for active in &self.ranges {
            let range = &active.range.range;
            let family = Family::of(range.first());
            let total = self.rules.counted(range);
            counts
                .entry(active.pool.name.clone())
                .or_default()
                .add(family, total, active.taken);
        }
        counts
    }

    /// Whether the range reserves the address.
    pub(super) fn is_reserved(&self, active: &ActiveRange<'_>, address: IpAddr) -> bool {
        let range = &active.range.range;
        (address == range.first() || address == range.last())
            && self
                .rules
                .reserves_first_and_last(active.pool.first_last, &active.range)
    }

    /// The addresses that a Service keeps and loses.
    pub(super) fn keep(&mut self, request: &Request<'_, 'p>) -> ServiceOutcome {
        let service = request.service;
        let mut outcome = ServiceOutcome::default();
        for address in &service.ingress {
            let is_wanted = match &request.wanted {
                AddressRequest::Exactly(requested) => requested.contains(address),
                AddressRequest::AnyOf(families) => families.contains(&Family::of(*address)),
            };
            let place = if is_wanted {
                self.place_of(request, *address)
            } else {
                Err(LossReason::NotRequested)
            };
            match place.and_then(|(place, because)| {
                self.take(service, *address, place, because)
                    .map(|()| (place, because))
            }) {
                Ok((place, because)) => {
                    outcome.keeps.push(*address);
                    if let KeptBecause::Doubtful(why) = because {
                        outcome.contested.push((*address, why));
                    } else if because == KeptBecause::Allocated {
                        self.allocated.insert(*address);
                    } else {
                        self.imported.push(Imported {
                            address: *address,
                            of_pool: self.ranges[place].of_pool,
                            service,
                        });
                    }
                }
                Err(LossReason::NoPool) if self.is_stale(request) => {
                    self.holders.entry(*address).or_default().push(service);
                    self.stale.push((*address, service));
                    outcome.keeps.push(*address);
                }
                Err(loss) => outcome.loses.push((*address, loss)),
            }
        }
        outcome
    }

    /// Whether the Service keeps an address that no range covers any more: the operator forgets
    /// ranges, but not the addresses of a sharing key.
    fn is_stale(&self, request: &Request<'_, '_>) -> bool {
        let is_running = matches!(self.state, OperatorState::Running(_));
        let is_generic = matches!(request.wanted, AddressRequest::AnyOf(_));
        let has_key = request.service.sharing_key.read(self.rules).is_some();
        self.rules.is_of(behaviours::KEYS_KEEP_ADDRESSES) && is_running && is_generic && has_key
    }

    /// Indexes of the ranges that cover an address, in order.
    pub(super) fn covering(&self, address: IpAddr) -> Vec<usize> {
        // LB-IPAM compares an IPv4-mapped address with IPv4 ranges, and none matches.
        if address.to_canonical() != address {
            return Vec::new();
        }
        let mut places: Vec<usize> = self
            .index
            .overlapping(&Range::from(address))
            .map(|(_, place)| *place)
            .collect();
        places.sort_unstable();
        places
    }

    /// The range that keeps an address, and why.
    fn place_of(
        &self,
        request: &Request<'_, '_>,
        address: IpAddr,
    ) -> Result<(usize, KeptBecause), LossReason> {
        let owners = self.owners(request, address);
        let is_owner = |place: &usize| {
            let active = &self.ranges[*place];
            owners.contains(&(active.pool.name.as_str(), active.range.range))
        };
        let selects = |place: &usize| request.is_selected_by(self.ranges[*place].of_pool);
        let mut covering = self.covering(address);
        let left = covering
            .iter()
            .filter(|place| is_owner(place) && selects(place))
            .count();
        let because = if left == owners.len() {
            KeptBecause::Allocated
        } else {
            KeptBecause::Doubtful(LossReason::UnknownPool)
        };
        // If two pools cover it, its owner keeps it, or else the active pool.
        covering.sort_by_key(|place| (!is_owner(place), self.ranges[*place].use_of.is_err()));
        let mut loss = LossReason::NoPool;
        for place in covering {
            if !selects(&place) {
                loss = loss.max(LossReason::NotSelected);
                continue;
            }
            match self.ranges[place].imports {
                _ if is_owner(&place) => return Ok((place, because)),
                Ok(()) if self.is_reserved(&self.ranges[place], address) => {
                    loss = loss.max(LossReason::Reserved)
                }
                Ok(()) if self.ranges[place].certainty == Certainty::LeftToChance => {
                    return Ok((place, KeptBecause::Doubtful(LossReason::PoolConflicting)));
                }
                Ok(())
                    if !owners.is_empty() && !self.rules.is_of(behaviours::KEPT_THROUGH_EDITS) =>
                {
                    return Ok((place, KeptBecause::Doubtful(LossReason::BlockEdited)));
                }
                Ok(()) => return Ok((place, KeptBecause::Imported)),
                Err(why) => loss = loss.max(why),
            }
        }
        Err(loss)
    }

    /// Pools and ranges that may have given the address. Nothing tells which of several it was.
    fn owners(&self, request: &Request<'_, '_>, address: IpAddr) -> Vec<(&'p str, Range)> {
        let OperatorState::Running(before) = self.state else {
            return Vec::new();
        };
        let covering = self.known.overlapping(&Range::from(address));
        let selecting =
            covering.filter(|(_, place)| before[*place].selects(&request.service.labels));
        let mut owners: Vec<(&str, Range)> = selecting
            .map(|(range, place)| (before[*place].name.as_str(), *range))
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    pub(super) fn take(
        &mut self,
        service: &'p LbService,
        address: IpAddr,
        place: usize,
        because: KeptBecause,
    ) -> Result<(), LossReason> {
        let is_reserved = self.is_reserved(&self.ranges[place], address);
        let holders = self.holders.entry(address).or_default();
        let is_incompatible = holders
            .iter()
            .any(|holder| incompatibility(holder, service, self.rules).is_some());
        // Two overlapping pools allocate independently, so both may have given it. An operator that
        // starts gives it to the first one in the order of a Go map.
        let is_running = matches!(self.state, OperatorState::Running(_));
        if is_incompatible && is_running && because == KeptBecause::Imported {
            return Err(LossReason::Taken);
        }
        // A reserved address is counted already.
        if holders.is_empty() && !is_reserved {
            self.ranges[place].taken += 1;
        }
        holders.push(service);
        Ok(())
    }
}
