//! Parts of all pools and Services that do not affect each other, through any number of changes. Must
//! never know the order of the changes, nor their effects.
//!
//! A pool and a Service are in one group if the pool selects the Service or covers an address that
//! the Service has or requests. So are two Services with a common address or sharing key, and two pools
//! that overlap. [`Reaction`](super::Reaction) has the operator's decisions for all groups.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::evaluate::ours;
use super::pool::AddressPool;
use super::rules::LbRules;
use super::selection::Selection;
use super::service::LbService;
use ipam_core::model::ServiceName;
use ipam_core::net::Range;

/// Pools and Services that no other ones affect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Names.
    pub pools: BTreeSet<String>,
    /// Names.
    pub services: BTreeSet<ServiceName>,
}

/// All groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    groups: Vec<Group>,
    of_pool: BTreeMap<String, usize>,
    of_service: BTreeMap<ServiceName, usize>,
}

impl Groups {
    /// The groups of pools and Services of which several of one name are versions: as it is, and as
    /// each change makes it. Services that LB-IPAM does not serve are in none.
    pub fn new<'s>(
        pools: &[AddressPool],
        services: impl IntoIterator<Item = &'s LbService>,
        rules: &LbRules,
    ) -> Groups {
        let services = ours(services, rules);
        let mut members = Members::new(pools.len() + services.len());
        let of_service = |place: usize| pools.len() + place;
        let named_pools = pools.iter().enumerate();
        members.join_equal(named_pools.map(|(place, pool)| (&pool.name, place)));
        let named = services.iter().enumerate();
        members.join_equal(
            named
                .clone()
                .map(|(place, one)| (&one.name, of_service(place))),
        );
        members.join_equal(named.filter_map(|(place, one)| {
            let key = one.sharing_key(rules)?;
            Some((key, of_service(place)))
        }));
        members.join_addresses(pools, &services, rules);
        members.join_selected(pools, &services);
        Groups::named(pools, &services, &mut members)
    }

    fn named(pools: &[AddressPool], services: &[&LbService], members: &mut Members) -> Groups {
        let mut named = Groups::default();
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        for member in 0..members.0.len() {
            let next = places.len();
            let group = *places.entry(members.first_of(member)).or_insert(next);
            if group == named.groups.len() {
                named.groups.push(Group::default());
            }
            match member.checked_sub(pools.len()) {
                None => {
                    let name = &pools[member].name;
                    named.groups[group].pools.insert(name.clone());
                    named.of_pool.insert(name.clone(), group);
                }
                Some(service) => {
                    let name = &services[service].name;
                    named.groups[group].services.insert(name.clone());
                    named.of_service.insert(name.clone(), group);
                }
            }
        }
        named
    }

    /// All of them. Others name them by their place.
    pub fn all(&self) -> &[Group] {
        &self.groups
    }

    /// The place of the group of a pool.
    pub fn of_pool(&self, name: &str) -> Option<usize> {
        self.of_pool.get(name).copied()
    }

    /// The place of the group of a Service that LB-IPAM serves.
    pub fn of_service(&self, name: &ServiceName) -> Option<usize> {
        self.of_service.get(name).copied()
    }
}

/// Members of groups, pools before Services: of each, an earlier member of its group, or itself.
struct Members(Vec<usize>);

impl Members {
    fn new(count: usize) -> Members {
        Members((0..count).collect())
    }

    /// The first member of its group.
    fn first_of(&mut self, member: usize) -> usize {
        let mut at = member;
        while self.0[at] != at {
            // Shortens the way of the next search.
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first_of(one), self.first_of(other));
        self.0[one.max(other)] = one.min(other);
    }

    /// Joins those with the same key.
    fn join_equal<K: Ord>(&mut self, keyed: impl Iterator<Item = (K, usize)>) {
        let mut first: BTreeMap<K, usize> = BTreeMap::new();
        for (key, member) in keyed {
            let first = *first.entry(key).or_insert(member);
            self.join(first, member);
        }
    }

    /// Joins pools and Services with common addresses.
    fn join_addresses(&mut self, pools: &[AddressPool], services: &[&LbService], rules: &LbRules) {
        let covered = services.iter().enumerate().flat_map(|(place, one)| {
            let addresses = one.ingress.iter().copied().chain(one.requested(rules));
            addresses.map(move |address| (Range::from(address), pools.len() + place))
        });
        let ranges = pools.iter().enumerate().flat_map(|(place, pool)| {
            let ranges = pool.ranges.iter();
            ranges.map(move |range| (range.range, place))
        });
        self.join_overlapping(ranges.chain(covered).collect());
    }

    /// Joins each Service with the pools that select it.
    fn join_selected(&mut self, pools: &[AddressPool], services: &[&LbService]) {
        let selection = Selection::new(pools);
        // Services with the same labels share one set of pools: its address tells it apart.
        let mut joined = BTreeSet::new();
        for (place, service) in services.iter().enumerate() {
            let selecting = selection.of(&service.labels);
            let enough = match joined.insert(Rc::as_ptr(&selecting)) {
                true => selecting.len(),
                false => 1,
            };
            for pool in selecting.iter().take(enough) {
                self.join(*pool, pools.len() + place);
            }
        }
    }

    fn join_overlapping(&mut self, mut ranges: Vec<(Range, usize)>) {
        ranges.sort_unstable();
        // Of the ranges before, the one that reaches furthest.
        let mut widest: Option<(Range, usize)> = None;
        for (range, member) in ranges {
            match widest {
                Some((before, with)) if before.overlaps(&range) => {
                    self.join(with, member);
                    if range.last() > before.last() {
                        widest = Some((range, member));
                    }
                }
                _ => widest = Some((range, member)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
