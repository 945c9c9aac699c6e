//! Addresses of a pool: all, used, left (`updatePoolCounts`).

/// Addresses of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All; those that are kept back are among them.
    pub total: u128,
    /// Those of Services, and those that are kept back.
    pub used: u128,
    /// The others.
    pub available: u128,
}

impl Counts {
    /// Counts one range more.
    pub(super) fn add(&mut self, total: u128, used: u128) {
        let used = used.min(total);
        self.total = self.total.saturating_add(total);
        self.used = self.used.saturating_add(used);
        self.available = self.available.saturating_add(total - used);
    }
}
