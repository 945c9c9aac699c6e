//! The outcomes that all changes leave to chance. Must never know the changes.
//!
//! A group of pools and Services is looked at when it is evaluated, for all changes since then; only the
//! number of Services that wait changes in the meantime.

use std::collections::BTreeMap;

use ipam_cilium::lbipam::{PartRivalry, Rivalry, Unrest, Waiting};
use ipam_core::net::Family;

/// Collects it change by change.
pub(super) struct Rivalries {
    found: Rivalry,
    groups: Vec<Since>,
    /// Of all groups, for both families.
    families: BTreeMap<Family, Numbers>,
    /// The number of changes so far.
    steps: usize,
}

/// Numbers of Services of all groups, of one family.
#[derive(Default)]
struct Numbers {
    unrest: Unrest,
    waiting: Maxima,
    waiting_while_moving: Maxima,
}

/// The outcomes that the last evaluation of a group left to chance.
#[derive(Default)]
struct Since {
    part: PartRivalry,
    step: usize,
}

/// The largest value of each stretch of steps up to the last one.
#[derive(Default)]
struct Maxima(Vec<(usize, u128)>);

impl Maxima {
    fn add(&mut self, step: usize, value: u128) {
        while self.0.last().is_some_and(|(_, last)| *last <= value) {
            self.0.pop();
        }
        self.0.push((step, value));
    }

    /// `None` if there is no value since then.
    fn since(&self, step: usize) -> Option<u128> {
        let place = self.0.partition_point(|(of, _)| *of < step);
        self.0.get(place).map(|(_, value)| *value)
    }
}

impl Rivalries {
    pub(super) fn new(groups: usize) -> Rivalries {
        Rivalries {
            found: Rivalry::default(),
            groups: (0..groups).map(|_| Since::default()).collect(),
            families: Family::BOTH
                .map(|family| (family, Numbers::default()))
                .into(),
            steps: 0,
        }
    }

    /// A change, with the groups that were evaluated for it. `active` is the number of Services that
    /// get, wait for, or may lose an address.
    pub(super) fn add(
        &mut self,
        evaluated: impl IntoIterator<Item = (usize, PartRivalry)>,
        active: usize,
    ) {
        for (group, part) in evaluated {
            self.finish_group(group);
            let step = self.steps;
            let before = std::mem::replace(&mut self.groups[group], Since { part, step });
            let after = &self.groups[group].part;
            for (family, numbers) in &mut self.families {
                let rest = numbers.unrest.without(before.part.unrest(*family));
                numbers.unrest = rest.with(after.unrest(*family));
            }
        }
        // Without such a Service there is no rivalry, whatever overlaps.
        for numbers in self.families.values_mut().filter(|_| active > 0) {
            let Unrest { waiting, moving } = numbers.unrest;
            numbers.waiting.add(self.steps, waiting);
            if moving > 0 {
                numbers.waiting_while_moving.add(self.steps, waiting);
            }
        }
        self.steps += 1;
    }

    fn finish_group(&mut self, group: usize) {
        let Since { part, step } = &self.groups[group];
        let mut since = Waiting::default();
        for (family, numbers) in &self.families {
            *since.most.get_mut(*family) = numbers.waiting.since(*step);
            *since.most_while_moving.get_mut(*family) = numbers.waiting_while_moving.since(*step);
        }
        if !since.most.is_empty() {
            self.found.add(part, &since);
        }
    }

    /// The outcomes that all changes leave to chance.
    pub(super) fn finish(mut self) -> Rivalry {
        for group in 0..self.groups.len() {
            self.finish_group(group);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_since_each_step() {
        let values = [3, 1, 4, 1, 5, 9, 2, 6];
        let mut maxima = Maxima::default();
        for (last, value) in values.into_iter().enumerate() {
            // A step without a value.
            maxima.add(2 * last, value);
            for first in 0..=2 * last + 1 {
                let since = &values[first.div_ceil(2)..=last];
                assert_eq!(maxima.since(first), since.iter().max().copied());
            }
        }
    }
}
