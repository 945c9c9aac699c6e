//! Results of an evaluation: what Services and pools keep, lose and gain.
//!
//! The addresses that a Service which lacks one gets for sure, and those that another Service may
//! take first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::conflict::Certainty;
use super::pool::Counts;
use ipam_core::model::ServiceName;
use ipam_core::net::Family;
use ipam_core::text::joined;

ipam_core::text_enum! {
    /// Why a Service loses an address.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LossReason {
        /// No pool covers the address.
        NoPool = "no pool covers it",
        /// The pool that covers the address does not select the Service.
        NotSelected = "its pool does not select the Service",
        /// The pool that covers the address is disabled.
        PoolDisabled = "its pool is disabled",
        /// The pool that covers the address overlaps another pool.
        PoolConflicting = "its pool overlaps another one",
        /// The address is the first or last one of a CIDR, and its pool reserves both.
        Reserved = "its pool reserves the first and the last address",
        /// The Service does not request the address.
        NotRequested = "the Service does not request it",
        /// Another Service has the address and does not share it.
        Taken = "another Service has it",
        /// A waiting Service may take the address first.
        Waiting = "a Service that waits may take it first",
        /// The Service may join another address of its sharing key.
        SharingKey = "its sharing key has several addresses",
        /// The address's pool does not select the Service, which joins the address by its sharing
        /// key, unless the operator serves it before the holder.
        Rejoined = "its pool does not select the Service, which shares it by its sharing key",
        /// The Services that have the address may no longer share it.
        NoLongerShared = "the Services that have it may not share it",
        /// The operator takes back the addresses of a block that changes.
        BlockEdited = "the range of the pool with this address changes, and Cilium then gives the addresses of that range anew",
        /// LB-IPAM keeps only entries with an IP address.
        Hostname = "LB-IPAM removes hostnames from the status of the Services that it serves",
        /// Several pools may have given the address.
        UnknownPool = "several pools may have given it",
    }
}

/// An address that a Service gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GainedAddress {
    /// The Service gets this address, because it requests or shares it.
    Exactly(IpAddr),
    /// One address of this family from one of these pools. Which address is not predictable.
    OneOf {
        family: Family,
        pools: BTreeSet<String>,
    },
}

impl GainedAddress {
    pub fn family(&self) -> Family {
        match self {
            GainedAddress::Exactly(address) => Family::of(*address),
            GainedAddress::OneOf { family, .. } => *family,
        }
    }

    /// The address, or where it may be of: `an IPv4 address of blue or green`.
    pub fn address(&self) -> String {
        match self {
            GainedAddress::Exactly(address) => address.to_string(),
            GainedAddress::OneOf { family, pools } => {
                format!("an {family} address of {}", joined(pools, " or "))
            }
        }
    }

    /// The pools that may give the address.
    pub(super) fn pools(&self) -> BTreeSet<String> {
        match self {
            GainedAddress::Exactly(_) => BTreeSet::new(),
            GainedAddress::OneOf { pools, .. } => pools.clone(),
        }
    }
}

impl fmt::Display for GainedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gets {}", self.address())
    }
}

/// Why a Service waits. Variants follow the operator's reasons.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pending {
    /// `no_pool`: no pool covers the requested address, or no active pool of this family selects
    /// the Service.
    NoPool(Option<IpAddr>),
    /// `pool_selector_mismatch`: the pool of the requested address does not select the Service.
    SelectorMismatch(IpAddr),
    /// `already_allocated`: another Service has the address.
    AlreadyAllocated(IpAddr),
    /// `already_allocated`, too: it is the first or last address of a CIDR, and its pool reserves
    /// both.
    Reserved(IpAddr),
    /// `already_allocated_incompatible_service`, up to 1.16
    /// `already_allocated_different_sharing_key`.
    Incompatible {
        address: IpAddr,
        reason: &'static str,
        why: &'static str,
    },
    /// `out_of_ips`: no pool that selects the Service has a free address of this family.
    OutOfAddresses(Family),
}

impl Pending {
    pub fn reason(&self) -> &'static str {
        match self {
            Pending::NoPool(_) => "no_pool",
            Pending::SelectorMismatch(_) => "pool_selector_mismatch",
            Pending::AlreadyAllocated(_) | Pending::Reserved(_) => "already_allocated",
            Pending::Incompatible { reason, .. } => reason,
            Pending::OutOfAddresses(_) => "out_of_ips",
        }
    }

    /// The family of which no address is free.
    pub(super) fn family_without_room(&self) -> Option<Family> {
        match self {
            Pending::OutOfAddresses(family) => Some(*family),
            Pending::NoPool(_)
            | Pending::SelectorMismatch(_)
            | Pending::AlreadyAllocated(_)
            | Pending::Reserved(_)
            | Pending::Incompatible { .. } => None,
        }
    }

    /// Address that the Service gets when the Service that holds it moves on.
    pub fn awaits(&self) -> Option<IpAddr> {
        match self {
            Pending::AlreadyAllocated(address) | Pending::Incompatible { address, .. } => {
                Some(*address)
            }
            Pending::NoPool(_)
            | Pending::SelectorMismatch(_)
            | Pending::Reserved(_)
            | Pending::OutOfAddresses(_) => None,
        }
    }
}

/// Addresses of one Service after the evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceOutcome {
    pub keeps: Vec<IpAddr>,
    /// The kept addresses that the Service may lose all the same: another Service may take one
    /// first, or its pool is unknown.
    pub contested: Vec<(IpAddr, LossReason)>,
    pub loses: Vec<(IpAddr, LossReason)>,
    pub gains: Vec<GainedAddress>,
    /// Whether the Service surely gets an address of a pool for which other Services wait, too.
    pub certainty: Certainty,
    pub pending: Vec<Pending>,
    /// What it may get instead of waiting, if it is served before another Service.
    pub chances: Vec<GainedAddress>,
}

impl ServiceOutcome {
    /// Whether every address is certainly kept.
    pub fn keeps_all(&self) -> bool {
        self.loses.is_empty() && self.contested.is_empty()
    }

    /// Keeps addresses that are lost and gained again at once, unless another Service is faster.
    pub(super) fn restore(&mut self) {
        let gains = &self.gains;
        let lost = self.loses.iter().map(|(address, _)| *address);
        let is_regained = |address: &IpAddr| gains.contains(&GainedAddress::Exactly(*address));
        let regained: Vec<IpAddr> = lost.filter(is_regained).collect();
        let by_chance = regained
            .iter()
            .map(|address| (*address, LossReason::Waiting));
        self.contested.extend(by_chance);
        self.keeps.extend(regained);
        let keeps = &self.keeps;
        self.loses.retain(|(address, _)| !keeps.contains(address));
        self.gains.retain(
            |gain| !matches!(gain, GainedAddress::Exactly(address) if keeps.contains(address)),
        );
    }
}

/// What makes the operator panic, so that it serves no Service at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatal {
    pub service: ServiceName,
    pub address: IpAddr,
    pub pool: String,
}

/// Results for all Services that LB-IPAM serves, and for all pools.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    pub outcomes: BTreeMap<ServiceName, ServiceOutcome>,
    /// Each pool by name. Counts the kept addresses, not the gained ones.
    pub counts: BTreeMap<String, Counts>,
    /// What makes the operator panic, if anything does: then every Service stays as it is.
    pub fatal: Option<Fatal>,
}

/// An address that a Service gets, or may get, in addition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prospect {
    /// The Service gets one address of this list.
    pub any_of: Vec<GainedAddress>,
    /// Whether another Service may get the address instead.
    pub certainty: Certainty,
}

/// What a Service gets in one order of serving.
#[derive(Clone, Copy, Debug)]
pub struct InOrder<'o> {
    /// Addresses that the Service gets.
    pub gains: &'o [GainedAddress],
    /// See [`ServiceOutcome::certainty`].
    pub certainty: Certainty,
    /// See [`ServiceOutcome::chances`].
    pub chances: &'o [GainedAddress],
}

impl<'o> From<&'o ServiceOutcome> for InOrder<'o> {
    fn from(outcome: &'o ServiceOutcome) -> InOrder<'o> {
        InOrder {
            gains: &outcome.gains,
            certainty: outcome.certainty,
            chances: &outcome.chances,
        }
    }
}

/// Compares what a Service gets in each order of serving.
pub fn prospects(
    orders: &[InOrder<'_>],
    is_doubtful: &dyn Fn(&GainedAddress) -> bool,
) -> Vec<Prospect> {
    let of_family = |family| {
        let prospects = prospects_of(orders, family, is_doubtful);
        match prospects.is_empty() {
            true => chance_of(orders, family).into_iter().collect(),
            false => prospects,
        }
    };
    Family::BOTH.into_iter().flat_map(of_family).collect()
}

/// The address that the Service may get of a family instead of waiting.
fn chance_of(orders: &[InOrder<'_>], family: Family) -> Option<Prospect> {
    let chances = orders.iter().flat_map(|one| one.chances);
    let chances = chances.filter(|chance| chance.family() == family);
    let any_of: BTreeSet<&GainedAddress> = chances.collect();
    (!any_of.is_empty()).then(|| Prospect {
        any_of: any_of.into_iter().cloned().collect(),
        certainty: Certainty::LeftToChance,
    })
}

fn prospects_of(
    orders: &[InOrder<'_>],
    family: Family,
    is_doubtful: &dyn Fn(&GainedAddress) -> bool,
) -> Vec<Prospect> {
    let certainty = orders.iter().map(|one| one.certainty).max();
    let of_family = |one: &InOrder<'_>| -> BTreeSet<GainedAddress> {
        let gains = one.gains.iter().filter(|gain| gain.family() == family);
        gains.cloned().collect()
    };
    let orders: Vec<BTreeSet<GainedAddress>> = orders.iter().map(of_family).collect();
    let distinct: BTreeSet<&GainedAddress> = orders.iter().flatten().collect();
    // The Service requests several addresses, and gets each of them or not.
    let is_several = orders.iter().any(|gains| gains.len() > 1);
    let may_be_beaten = |gain: &GainedAddress| {
        let is_any = matches!(gain, GainedAddress::OneOf { .. });
        is_doubtful(gain) || is_any && certainty == Some(Certainty::LeftToChance)
    };
    let prospect = |any_of: Vec<GainedAddress>| {
        let is_in = |gains: &BTreeSet<_>| any_of.iter().any(|gain| gains.contains(gain));
        let is_sure = orders.iter().all(is_in) && !any_of.iter().any(may_be_beaten);
        let certainty = match is_sure {
            true => Certainty::Certain,
            false => Certainty::LeftToChance,
        };
        Prospect { any_of, certainty }
    };
    match (distinct.is_empty(), is_several) {
        (true, _) => Vec::new(),
        (false, true) => distinct
            .into_iter()
            .map(|gain| prospect(vec![gain.clone()]))
            .collect(),
        (false, false) => vec![prospect(distinct.into_iter().cloned().collect())],
    }
}

impl Prospect {
    /// Whether no other Service may take the address.
    pub fn is_sure(&self) -> bool {
        self.certainty == Certainty::Certain
    }
}

impl fmt::Display for Prospect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.certainty {
            Certainty::Certain => "gets",
            Certainty::LeftToChance => "may get",
        };
        let addresses = self.any_of.iter().map(GainedAddress::address);
        write!(f, "{verb} {}", joined(addresses, " or "))
    }
}
