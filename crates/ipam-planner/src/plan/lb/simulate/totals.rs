//! How many Services lack or lose an address, of all groups of pools and Services. Must never know which
//! addresses.

use ipam_cilium::lbipam::{Evaluated, ServiceOutcome};

/// Numbers of Services.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    /// Those that get or wait for an address.
    pub(super) lacking: usize,
    /// Those that lose an address, or may.
    pub(super) losing: usize,
    /// Those that get, wait for, or may lose an address.
    pub(super) active: usize,
}

impl Numbers {
    fn of(evaluated: &Evaluated) -> Numbers {
        let is_lacking = |one: &ServiceOutcome| !(one.gains.is_empty() && one.pending.is_empty());
        let mut numbers = Numbers::default();
        for outcome in evaluated.outcomes.values() {
            let is_contested = !outcome.contested.is_empty();
            numbers.lacking += usize::from(is_lacking(outcome));
            numbers.losing += usize::from(!outcome.keeps_all());
            numbers.active += usize::from(is_lacking(outcome) || is_contested);
        }
        numbers
    }
}

/// The numbers of each group, and their sum.
pub(super) struct Totals {
    groups: Vec<Numbers>,
    pub(super) sum: Numbers,
}

impl Totals {
    pub(super) fn new(groups: usize) -> Totals {
        Totals {
            groups: vec![Numbers::default(); groups],
            sum: Numbers::default(),
        }
    }

    /// The newest evaluation of a group.
    pub(super) fn set(&mut self, group: usize, evaluated: &Evaluated) {
        let after = Numbers::of(evaluated);
        let before = std::mem::replace(&mut self.groups[group], after);
        let sum = &mut self.sum;
        sum.lacking = sum.lacking - before.lacking + after.lacking;
        sum.losing = sum.losing - before.losing + after.losing;
        sum.active = sum.active - before.active + after.active;
    }
}
