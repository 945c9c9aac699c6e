//! Address pools as LB-IPAM sees them, and the operator's memory of them.

use std::collections::BTreeMap;

use ipam_core::model::{Labels, Selector};
use ipam_core::net::Range;

/// Form of a range in the spec. Only a CIDR can have its first and last address reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RangeForm {
    /// `cidr`.
    Cidr,
    /// `start`, optionally with `stop`.
    StartStop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    pub range: Range,
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
    #[default]
    Enabled,
    /// It gives no addresses.
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
    /// Services that may use it; `None` means all.
    pub selector: Option<Selector>,
    pub first_last: FirstLast,
    pub state: ServingState,
    pub marking: Marking,
}

impl AddressPool {
    /// Whether a Service with these labels may use it. `labels` include the pseudo-labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector
            .as_ref()
            .is_none_or(|selector| selector.matches(labels))
    }

    /// Whether both have the same spec: the operator sees no edit.
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
    /// It runs with these pools. It keeps addresses in unchanged ranges, even if their pool is
    /// disabled or conflicting.
    Running(&'s [AddressPool]),
    /// It starts, and recognises only addresses of active pools.
    Restarted,
}

/// Pools by name. Kubernetes allows one of each.
pub(super) fn by_name(pools: &[AddressPool]) -> BTreeMap<&str, &AddressPool> {
    pools
        .iter()
        .map(|pool| (pool.name.as_str(), pool))
        .collect()
}
