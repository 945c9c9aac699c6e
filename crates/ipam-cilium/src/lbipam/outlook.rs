//! What becomes of Services and pools, in words that can be printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::counts::Counts;
use ipam_core::model::ServiceName;
use ipam_core::net::Family;

/// Why an address is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// No pool covers it.
    NoPool,
    /// The pool that covers it does not select the Service.
    NotSelected,
    /// The pool that covers it is disabled.
    PoolDisabled,
    /// The pool that covers it overlaps another one.
    PoolConflicting,
    /// It is the first or the last of a CIDR that keeps those back.
    Reserved,
    /// The Service does not ask for it.
    NotRequested,
    /// Another Service has it and does not share it.
    Taken,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::NoPool => "no pool covers it",
            Loss::NotSelected => "its pool does not select the Service",
            Loss::PoolDisabled => "its pool is disabled",
            Loss::PoolConflicting => "its pool overlaps another one",
            Loss::Reserved => "its pool keeps the first and the last address back",
            Loss::NotRequested => "the Service does not ask for it",
            Loss::Taken => "another Service has it",
        })
    }
}

/// An address that the Service gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gain {
    /// This one, because it asks for it or shares it.
    Exactly(IpAddr),
    /// One of that family from one of these pools; which one cannot be known.
    OneOf {
        /// The family.
        family: Family,
        /// The pools.
        pools: BTreeSet<String>,
    },
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gain::Exactly(address) => write!(f, "gets {address}"),
            Gain::OneOf { family, pools } => {
                let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
                write!(f, "gets an {family} address of {}", pools.join(" or "))
            }
        }
    }
}

/// Why a Service waits, with the operator's own reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pending {
    /// `no_pool`: nothing covers the address that it asks for, or no pool in use selects it for
    /// this family.
    NoPool(Option<IpAddr>),
    /// `pool_selector_mismatch`.
    SelectorMismatch(IpAddr),
    /// `already_allocated`: another Service has it, or the pool keeps it back.
    AlreadyAllocated(IpAddr),
    /// `already_allocated_incompatible_service`, up to 1.15
    /// `already_allocated_different_sharing_key`.
    Incompatible {
        /// The address.
        address: IpAddr,
        /// The operator's reason.
        reason: &'static str,
        /// Why they cannot share it.
        why: &'static str,
    },
    /// `out_of_ips`.
    OutOfAddresses(Family),
}

impl Pending {
    /// The reason of the Service's condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Pending::NoPool(_) => "no_pool",
            Pending::SelectorMismatch(_) => "pool_selector_mismatch",
            Pending::AlreadyAllocated(_) => "already_allocated",
            Pending::Incompatible { reason, .. } => reason,
            Pending::OutOfAddresses(_) => "out_of_ips",
        }
    }
}

/// What becomes of one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Addresses that stay.
    pub keeps: Vec<IpAddr>,
    /// Those of them that may go all the same: another Service may take it first, or it is not
    /// known which pool it came from.
    pub contested: Vec<IpAddr>,
    /// Addresses that go.
    pub loses: Vec<(IpAddr, Loss)>,
    /// Addresses that come.
    pub gains: Vec<Gain>,
    /// What it waits for.
    pub pending: Vec<Pending>,
}

impl Outlook {
    /// Whether every address surely stays.
    pub fn keeps_all(&self) -> bool {
        self.loses.is_empty() && self.contested.is_empty()
    }
}

/// What becomes of the Services that LB-IPAM takes, and of the pools.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    /// Each Service.
    pub outlooks: BTreeMap<ServiceName, Outlook>,
    /// Each pool by name, with what Services have now and keep.
    pub counts: BTreeMap<String, Counts>,
}
