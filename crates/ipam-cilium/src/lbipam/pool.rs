//! An address pool as LB-IPAM sees it, and what the operator remembers of pools.

use ipam_core::model::{Labels, Selector};
use ipam_core::net::Range;

/// How a range is written; only a CIDR can have its first and last address reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RangeForm {
    /// `cidr`.
    Cidr,
    /// `start`, and `stop` where it has one.
    StartStop,
}

/// One range of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    /// Its addresses.
    pub range: Range,
    /// How it is written.
    pub form: RangeForm,
}

/// `spec.allowFirstLastIPs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstLast {
    /// `Yes`.
    Allowed,
    /// `No`.
    Reserved,
    /// Absent: it depends on the version.
    #[default]
    Unset,
}

/// `spec.disabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServingState {
    /// It gives addresses.
    #[default]
    Enabled,
    /// It gives none.
    Disabled,
}

/// What the running operator says of a pool's overlaps, in its condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Out of use.
    Conflicting,
    /// In use, or not looked at yet.
    #[default]
    None,
}

/// A `CiliumLoadBalancerIPPool`, with the ranges that the running version reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPool {
    /// Name.
    pub name: String,
    /// `metadata.creationTimestamp`, RFC 3339 in whole seconds; `None` for one that does not exist
    /// yet, which is the newest.
    pub created: Option<String>,
    /// Its ranges, in the order of the spec.
    pub ranges: Vec<AddressRange>,
    /// The Services that it is for; `None` means all.
    pub selector: Option<Selector>,
    /// Whether the first and last address of a CIDR are given.
    pub first_last: FirstLast,
    /// Whether it gives addresses.
    pub state: ServingState,
    /// What the running operator says of its overlaps.
    pub marking: Marking,
}

impl AddressPool {
    /// Whether a Service with these labels, pseudo-labels included, may have an address of it.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector
            .as_ref()
            .is_none_or(|selector| selector.matches(labels))
    }
}

/// What the operator remembers.
#[derive(Clone, Copy, Debug)]
pub enum OperatorState<'s> {
    /// It has run with these pools until now: an address in a range that stays as it is stays, even
    /// where the pool is disabled or in conflict.
    Running(&'s [AddressPool]),
    /// It starts: only addresses of pools that are in use are recognised.
    Restarted,
}
