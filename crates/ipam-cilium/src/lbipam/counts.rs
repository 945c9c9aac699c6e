//! Counts addresses of a pool (`updatePoolCounts`).

use ipam_core::model::PerFamily;
use ipam_core::net::Family;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Includes reserved addresses.
    pub total: u128,
    /// Addresses of Services, and reserved ones.
    pub used: u128,
    available: PerFamily<u128>,
}

impl Counts {
    /// Adds a range of this family.
    pub(super) fn add(&mut self, family: Family, total: u128, used: u128) {
        let used = used.min(total);
        self.total = self.total.saturating_add(total);
        self.used = self.used.saturating_add(used);
        let available = self.available.get_mut(family).get_or_insert_default();
        *available = available.saturating_add(total - used);
    }

    /// Those of both families, as the operator shows them.
    pub fn available(&self) -> u128 {
        self.available.iter().copied().fold(0, u128::saturating_add)
    }

    /// Those of one family: a Service that lacks an IPv4 address cannot use an IPv6 address.
    pub(super) fn available_of(&self, family: Family) -> u128 {
        self.available.get(family).copied().unwrap_or_default()
    }
}
