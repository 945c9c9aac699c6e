//! The addresses that changes take from Services and give them. Must never know the changes.
//!
//! The effect of changes on one Service, from its addresses in each order of serving.
//!
//! How many Services lack or lose an address, of all groups of pools and Services.
//!
//! Hostnames that Services lose.
//!
//! The outcomes that all changes leave to chance.

use std::collections::BTreeMap;

use super::Simulation;
use ipam_cilium::lbipam::{
    Certainty, Conflict, Evaluated, GainedAddress, InOrder, LbService, LossReason, PartRivalry,
    Pending, Prospect, Rivalry, ServedAddress, ServedHostname, ServiceOutcome, Unrest, Waiting,
    prospects,
};
use ipam_core::model::ServiceName;
use ipam_core::net::Family;

ipam_core::text_enum! {
    /// When a Service loses an address. The text stands in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LossTime {
        /// The address is lost when the change is written.
        Now = "now",
        /// When the operator restarts or another replica takes over.
        OperatorRestart = "operator-restart",
        /// The address is lost when Cilium is upgraded to the newest known version.
        Upgrade = "upgrade",
    }
}

ipam_core::serde_as_text! { LossTime: "time of a loss" }

impl LossTime {
    pub fn in_words(self) -> &'static str {
        match self {
            LossTime::Now => "now",
            LossTime::OperatorRestart => "when the operator restarts",
            LossTime::Upgrade => "when Cilium is upgraded",
        }
    }
}

/// An address or a hostname that a Service has and loses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostAddress {
    pub address: ServedAddress,
    /// When the Service loses the address.
    pub when: LossTime,
    /// Why the Service loses the address.
    pub why: LossReason,
    /// Whether the loss is certain.
    pub certainty: Certainty,
}

/// The effects on one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEffect {
    pub service: ServiceName,
    /// Addresses that the Service loses, or may lose.
    pub loses: Vec<LostAddress>,
    /// Addresses that the Service gets, or may get.
    pub gains: Vec<Prospect>,
    /// Why the Service waits for an address afterwards, or may wait.
    pub pending: Vec<Pending>,
}

/// The effects of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// On Services, by name, without unaffected ones.
    pub services: Vec<ServiceEffect>,
    /// Number of addresses that Services get, one of which several Services may get counted once.
    pub given: usize,
    /// Pools that come to overlap, by name.
    pub conflicts: BTreeMap<String, Conflict>,
}

impl Effects {
    /// Addresses that Services lose, or may lose, now or later.
    pub fn lost(&self) -> impl Iterator<Item = (&ServiceName, &LostAddress)> {
        self.services
            .iter()
            .flat_map(|effect| effect.loses.iter().map(move |lost| (&effect.service, lost)))
    }
}

/// What a Service gets in one order, and why it waits.
pub(super) struct Expected {
    pub(super) gains: Vec<GainedAddress>,
    pub(super) certainty: Certainty,
    pub(super) chances: Vec<GainedAddress>,
    pub(super) pending: Vec<Pending>,
}

impl Expected {
    fn in_order(&self) -> InOrder<'_> {
        InOrder {
            gains: &self.gains,
            certainty: self.certainty,
            chances: &self.chances,
        }
    }
}

/// The effect without losses, from what is expected in each order.
pub(super) fn effect_of(
    name: &ServiceName,
    orders: Vec<Expected>,
    is_doubtful: &dyn Fn(&GainedAddress) -> bool,
) -> ServiceEffect {
    let all: Vec<InOrder<'_>> = orders.iter().map(Expected::in_order).collect();
    let gains = prospects(&all, is_doubtful);
    let counted = match gains.iter().all(Prospect::is_sure) {
        true => 1,
        false => orders.len(),
    };
    let mut pending: Vec<Pending> = Vec::new();
    for why in orders.into_iter().take(counted).flat_map(|one| one.pending) {
        if !pending.contains(&why) {
            pending.push(why);
        }
    }
    ServiceEffect {
        service: name.clone(),
        loses: Vec::new(),
        gains,
        pending,
    }
}

/// Numbers of Services that lack, lose or get an address.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    /// Services that get or wait for an address.
    pub(super) lacking: usize,
    /// Services that lose an address, or may.
    pub(super) losing: usize,
    /// Services that get, wait for, or may lose an address.
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

/// The numbers of Services of each group, and their sum over all groups.
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

/// What the changes do to hostnames without an address in their entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hostnames {
    Kept,
    /// A change makes the first pool.
    Removed,
}

impl Simulation {
    /// Whether LB-IPAM has removed a hostname because of the changes so far.
    pub(super) fn loses_hostnames(&self) -> bool {
        let mut services = self.before.services.values();
        self.hostnames == Hostnames::Removed
            && services.any(|one| self.removed(one).next().is_some())
    }

    fn removed<'s>(&self, service: &'s LbService) -> impl Iterator<Item = &'s ServedHostname> {
        let hostnames = service.hostnames_that_go(&self.before.rules);
        hostnames.filter(|_| self.hostnames == Hostnames::Removed)
    }

    /// Adds the hostnames to the addresses that Services lose.
    pub(super) fn lose_hostnames(&self, effects: &mut BTreeMap<ServiceName, ServiceEffect>) {
        for (name, service) in &self.before.services {
            let Some(effect) = effects.get_mut(name) else {
                continue;
            };
            let removed = self.removed(service).map(|one| LostAddress {
                address: one.address(),
                when: LossTime::Now,
                why: LossReason::Hostname,
                certainty: Certainty::Certain,
            });
            with_hostnames(service, removed, &mut effect.loses);
        }
    }
}

/// Adds the hostnames that LB-IPAM removes, and those that go with an address in their entry.
pub(in super::super) fn with_hostnames(
    service: &LbService,
    removed: impl Iterator<Item = LostAddress>,
    loses: &mut Vec<LostAddress>,
) {
    let with_address = service.hostnames.iter().filter_map(|one| {
        let mut loses = loses.iter();
        let lost = loses.find(|lost| one.ip.is_some() && lost.address.ip() == one.ip)?;
        Some(LostAddress {
            address: one.address(),
            ..lost.clone()
        })
    });
    let lost: Vec<LostAddress> = removed.chain(with_address).collect();
    loses.extend(lost);
}

/// Collects the rivalry of Services change by change.
pub(super) struct Rivalries {
    found: Rivalry,
    groups: Vec<Since>,
    /// Numbers of all groups together, by family.
    families: BTreeMap<Family, RivalryNumbers>,
    /// The number of changes so far.
    steps: usize,
}

/// Numbers of Services of all groups, of one family.
#[derive(Default)]
struct RivalryNumbers {
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
                .map(|family| (family, RivalryNumbers::default()))
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
