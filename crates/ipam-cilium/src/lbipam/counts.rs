//! Counts addresses of a pool (`updatePoolCounts`).

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Includes reserved addresses.
    pub total: u128,
    /// Addresses of Services, and reserved ones.
    pub used: u128,
    pub available: u128,
}

impl Counts {
    /// Adds a range.
    pub(super) fn add(&mut self, total: u128, used: u128) {
        let used = used.min(total);
        self.total = self.total.saturating_add(total);
        self.used = self.used.saturating_add(used);
        self.available = self.available.saturating_add(total - used);
    }
}
