//! Address pools as LB-IPAM sees them, and the operator's memory of them.
//!
//! Counts addresses of a pool (`updatePoolCounts`).
//!
//! Ranges of all pools, and whether the operator gives or recognises their addresses.
//!
//! What clients of a Service connect to: the entries of `status.loadBalancer.ingress[]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::conflict::{Certainty, conflicts};
use super::rules::LbRules;
use super::service::LbService;
use super::service_outcome::LossReason;
use ipam_core::model::{Labels, PerFamily, Selector};
use ipam_core::net::{Family, Range};

/// Form of a range in the spec. Only a CIDR can have its first and last address reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RangeForm {
    /// A block with `cidr`.
    Cidr,
    /// `start`, optionally with `stop`.
    StartStop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    pub range: Range,
    pub form: RangeForm,
}

/// The value of `spec.allowFirstLastIPs` of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstLast {
    /// The value `Yes`: Services may get the first and last address of a CIDR.
    Allowed,
    /// The value `No`: the first and last address of a CIDR are not given.
    Reserved,
    /// The field is absent: the default depends on the version of Cilium.
    #[default]
    Unset,
}

/// The value of `spec.disabled` of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServingState {
    #[default]
    Enabled,
    /// The pool gives no new addresses.
    Disabled,
}

/// Conflict state of a pool, from the condition that the operator writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// The operator does not use the pool.
    Conflicting,
    /// The operator uses the pool, or has not evaluated it yet.
    #[default]
    None,
}

/// A `CiliumLoadBalancerIPPool`, with the ranges that the running version reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPool {
    pub name: String,
    /// `metadata.creationTimestamp`, RFC 3339 in whole seconds. `None`: it does not exist yet, so
    /// it is the newest.
    pub created: Option<String>,
    /// In the order of the spec.
    pub ranges: Vec<AddressRange>,
    /// Services that may use the pool; `None` means all.
    pub selector: Option<Selector>,
    pub first_last: FirstLast,
    pub state: ServingState,
    pub marking: Marking,
}

impl AddressPool {
    /// Whether a Service with these labels may use the pool. `labels` include the pseudo-labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector
            .as_ref()
            .is_none_or(|selector| selector.matches(labels))
    }

    /// Whether two pools have the same spec: then the operator sees no edit.
    pub(super) fn has_spec_of(&self, other: &AddressPool) -> bool {
        let marking = other.marking;
        *other
            == AddressPool {
                marking,
                ..self.clone()
            }
    }
}

/// The operator's memory of pools.
#[derive(Clone, Copy, Debug)]
pub enum OperatorState<'s> {
    /// The operator runs with these pools. It keeps addresses in unchanged ranges, even if their
    /// pool is disabled or conflicting.
    Running(&'s [AddressPool]),
    /// The operator starts, and recognises only addresses of active pools.
    Restarted,
}

/// Pools by name. Kubernetes allows one of each.
pub(super) fn by_name(pools: &[AddressPool]) -> BTreeMap<&str, &AddressPool> {
    pools
        .iter()
        .map(|pool| (pool.name.as_str(), pool))
        .collect()
}

/// The addresses of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of all addresses, including reserved ones.
    total: PerFamily<u128>,
    /// Addresses of Services, and reserved ones.
    used: PerFamily<u128>,
}

impl Counts {
    /// Adds a range of this family.
    pub(super) fn add(&mut self, family: Family, total: u128, used: u128) {
        for (sum, more) in [(&mut self.total, total), (&mut self.used, used.min(total))] {
            let sum = sum.get_mut(family).get_or_insert_default();
            *sum = sum.saturating_add(more);
        }
    }

    pub fn total_of(&self, family: Family) -> u128 {
        self.total.get(family).copied().unwrap_or_default()
    }

    pub fn used_of(&self, family: Family) -> u128 {
        self.used.get(family).copied().unwrap_or_default()
    }

    /// Number of free addresses of one family: a Service that lacks an IPv4 address cannot use an
    /// IPv6 address.
    pub fn available_of(&self, family: Family) -> u128 {
        self.total_of(family) - self.used_of(family)
    }
}

/// A range of a pool, and whether the operator uses it.
pub(super) struct ActiveRange<'p> {
    pub(super) pool: &'p AddressPool,
    /// Index of the pool.
    pub(super) of_pool: usize,
    pub(super) range: AddressRange,
    /// Whether the operator gives addresses from this range.
    pub(super) use_of: Result<(), LossReason>,
    /// Whether the operator recognises an address that a Service already shows.
    pub(super) imports: Result<(), LossReason>,
    /// Whether the operator uses its pool is left to chance: it starts, and the pool overlaps
    /// another one.
    pub(super) certainty: Certainty,
    /// Number of given and reserved addresses.
    pub(super) taken: u128,
}

impl ActiveRange<'_> {
    /// Whether the range gives addresses. A running operator also gives them from an unused pool
    /// that was just edited.
    pub(super) fn gives(&self) -> bool {
        self.use_of.is_ok() || self.imports.is_ok()
    }

    /// Whether all addresses of the range are given or reserved.
    pub(super) fn is_full(&self) -> bool {
        self.taken > self.range.range.width()
    }
}

/// The ranges of all pools, in the order of the pools.
pub(super) fn active_ranges<'p>(
    pools: &'p [AddressPool],
    rules: &LbRules,
    state: OperatorState<'p>,
) -> Vec<ActiveRange<'p>> {
    let losers = conflicts(pools, state);
    let is_out = |pool: &AddressPool| {
        losers
            .get(pool.name.as_str())
            .is_some_and(|conflict| conflict.certainty == Certainty::Certain)
    };
    let certainty = |pool: &AddressPool| match (state, losers.get(pool.name.as_str())) {
        (OperatorState::Restarted, Some(conflict)) => conflict.certainty,
        _ => Certainty::Certain,
    };
    let use_of = |pool: &AddressPool| match pool.state {
        _ if is_out(pool) => Err(LossReason::PoolConflicting),
        ServingState::Disabled => Err(LossReason::PoolDisabled),
        ServingState::Enabled => Ok(()),
    };
    let out_before: BTreeSet<&str> = match state {
        OperatorState::Running(before) => conflicts(before, state).into_keys().collect(),
        OperatorState::Restarted => BTreeSet::new(),
    };
    let known: BTreeMap<&str, &AddressPool> = match state {
        OperatorState::Running(before) => by_name(before),
        OperatorState::Restarted => BTreeMap::new(),
    };
    let active = |(of_pool, pool): (usize, &'p AddressPool)| {
        let (use_of, certainty) = (use_of(pool), certainty(pool));
        let imports = match state {
            OperatorState::Running(_) => {
                imports_of(pool, known.get(pool.name.as_str()).copied(), &out_before)
            }
            OperatorState::Restarted => use_of,
        };
        pool.ranges.iter().map(move |range| {
            let taken = if rules.reserves_first_and_last(pool.first_last, range) {
                2
            } else {
                0
            };
            ActiveRange {
                pool,
                of_pool,
                range: *range,
                use_of,
                imports,
                certainty,
                taken,
            }
        })
    };
    pools.iter().enumerate().flat_map(active).collect()
}

/// Whether a running operator recognises addresses of a pool. It checks only known pools, and only
/// when one is edited. It detects a conflict made by an edit later.
fn imports_of(
    pool: &AddressPool,
    known: Option<&AddressPool>,
    out_before: &BTreeSet<&str>,
) -> Result<(), LossReason> {
    let Some(known) = known else {
        return Err(LossReason::NoPool);
    };
    match pool.state {
        ServingState::Disabled => Err(LossReason::PoolDisabled),
        ServingState::Enabled
            if pool.has_spec_of(known) && out_before.contains(pool.name.as_str()) =>
        {
            Err(LossReason::PoolConflicting)
        }
        ServingState::Enabled => Ok(()),
    }
}

/// An IP address, or a hostname that a cloud gave.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServedAddress {
    Ip(IpAddr),
    Hostname(String),
}

impl ServedAddress {
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            ServedAddress::Ip(ip) => Some(*ip),
            ServedAddress::Hostname(_) => None,
        }
    }
}

/// A hostname comes from an object that others write, so it is escaped.
impl fmt::Display for ServedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServedAddress::Ip(ip) => write!(f, "{ip}"),
            ServedAddress::Hostname(name) => write!(f, "{}", name.escape_debug()),
        }
    }
}

/// A hostname of `status.loadBalancer.ingress[]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedHostname {
    pub hostname: String,
    /// The address in the same entry. LB-IPAM keeps the hostname as long as this address.
    pub ip: Option<IpAddr>,
}

impl ServedHostname {
    pub fn address(&self) -> ServedAddress {
        ServedAddress::Hostname(self.hostname.clone())
    }
}

impl LbService {
    /// Every address and every hostname.
    pub fn served(&self) -> impl Iterator<Item = ServedAddress> {
        let ips = self.ingress.iter().copied().map(ServedAddress::Ip);
        ips.chain(self.hostnames.iter().map(ServedHostname::address))
    }

    /// The hostnames that LB-IPAM removes when it writes the status: those without an address in
    /// their entry, of a Service that it serves.
    pub fn hostnames_that_go(&self, rules: &LbRules) -> impl Iterator<Item = &ServedHostname> {
        let is_served = rules.serves(self);
        let hostnames = self.hostnames.iter().filter(move |_| is_served);
        hostnames.filter(|one| one.ip.is_none())
    }
}
