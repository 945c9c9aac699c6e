//! Parts of all pools and Services that do not affect each other, through any number of changes. Must
//! never know the order of the changes, nor their effects.
//!
//! A pool and a Service are in one group if the pool selects the Service or covers an address that
//! the Service has or requests. So are two Services with a common address or sharing key, and two pools
//! that overlap. [`Reaction`] has the operator's decisions for all groups.
//!
//! How the operator meets a change of a pool: it decides so for all Services at once.
//!
//! The order in which the operator serves Services that lack an address.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::evaluate::{frees_held, ours};
use super::pool::{AddressPool, OperatorState, by_name};
use super::rules::LbRules;
use super::selection::{Request, Selection};
use super::service::{AddressRequest, LbService};
use crate::behaviours;
use ipam_core::model::ServiceName;
use ipam_core::net::{Family, Range};

/// Pools and Services that no other ones affect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Names of `CiliumLoadBalancerIPPool`s.
    pub pools: BTreeSet<String>,
    /// Namespaces and names of Services.
    pub services: BTreeSet<ServiceName>,
}

/// All groups of one cluster, with the group of each pool and Service.
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

    /// All groups. Other methods return the index of a group in this slice.
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

    /// The first member of a member's group, which stands for the group.
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

    /// Joins the groups of members with the same key.
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
        // Of the earlier ranges, the one with the highest last address.
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

/// How the operator meets a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It has no pool, and changes nothing.
    Idle,
    /// It starts, or behaves as if it had just started.
    Starts,
    /// It runs.
    Runs(Revalidation),
}

/// Which Services a running operator serves anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidation {
    /// All, since a pool is edited (`revalidateAllServices`), and its release serves those that wait
    /// before those that have an address.
    All,
    /// First those that lose an address. Releases that serve holders first do so at any change.
    Changed,
}

impl Reaction {
    /// The reaction of an operator that starts with this number of pools.
    pub(super) fn at_start(pools: usize) -> Reaction {
        match pools {
            0 => Reaction::Idle,
            _ => Reaction::Starts,
        }
    }

    /// The reaction of a running operator. `before` and `after` are the numbers of all its pools.
    /// `known` and `pools` must hold each pool that changes, as it was and as it is; `services` those
    /// that these pools select.
    pub fn new(
        (before, after): (usize, usize),
        known: &[AddressPool],
        pools: &[AddressPool],
        services: &[&LbService],
        rules: &LbRules,
    ) -> Reaction {
        // Without a pool the operator is idle, and then behaves as if it had just started.
        if before == 0 || frees_held(known, pools, services, rules) {
            return Reaction::at_start(after);
        }
        let revalidates_all = !rules.is_of(behaviours::HOLDERS_FIRST) && has_edit(known, pools);
        Reaction::Runs(match revalidates_all {
            true => Revalidation::All,
            false => Revalidation::Changed,
        })
    }
}

fn has_edit(known: &[AddressPool], pools: &[AddressPool]) -> bool {
    let known = by_name(known);
    pools.iter().any(|pool| {
        let known = known.get(pool.name.as_str());
        known.is_some_and(|known| !pool.has_spec_of(known))
    })
}

/// Which of the Services that lack an address is served first, and what it takes. The operator goes by
/// the order of a Go map. Of two rivals, each is served first in one of the adverse orders; of three,
/// the one in between is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingOrder {
    /// Those that the operator prefers, then by name. A Service that takes any address takes none that
    /// another one requests.
    Usual,
    /// The same order. A Service that takes any address takes those that later ones request.
    Adverse,
    /// The reverse of it, among those that compete.
    AdverseReversed,
}

impl ServingOrder {
    /// The orders in which Services that compete have bad luck.
    pub const ADVERSE: [ServingOrder; 2] = [ServingOrder::Adverse, ServingOrder::AdverseReversed];
}

/// How soon the operator serves a Service. Among those of one rank, the order of a Go map decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    First,
    Second,
    Last,
}

/// By what the status of a Service shows of the addresses that it shall have: all, some, or none.
fn rank(request: &Request<'_, '_>) -> Rank {
    let ingress = &request.service.ingress;
    let is_complete = match &request.wanted {
        AddressRequest::Exactly(requested) => requested.iter().all(|one| ingress.contains(one)),
        AddressRequest::AnyOf(families) => families
            .iter()
            .all(|family| ingress.iter().any(|one| Family::of(*one) == *family)),
    };
    match (is_complete, ingress.is_empty()) {
        (true, _) => Rank::First,
        (false, false) => Rank::Second,
        (false, true) => Rank::Last,
    }
}

/// The rank of each Service.
pub(super) fn ranks(
    requests: &[Request<'_, '_>],
    rules: &LbRules,
    reaction: Reaction,
) -> Vec<Rank> {
    let revalidates_all = match reaction {
        Reaction::Idle | Reaction::Runs(Revalidation::Changed) => false,
        Reaction::Starts | Reaction::Runs(Revalidation::All) => true,
    };
    let is_waiting_first = !rules.is_of(behaviours::HOLDERS_FIRST) && revalidates_all;
    let of_one = |request| match (is_waiting_first, rank(request)) {
        (true, Rank::First) => Rank::Last,
        (true, Rank::Second | Rank::Last) => Rank::First,
        (false, rank) => rank,
    };
    requests.iter().map(of_one).collect()
}

/// The ranks within which Services compete. At a start it is one for all: which of them the operator
/// prefers depends on its release, and an upgrade may skip releases.
pub(super) fn competing(ranks: &[Rank], state: OperatorState<'_>) -> Vec<Rank> {
    match state {
        OperatorState::Running(_) => ranks.to_vec(),
        OperatorState::Restarted => vec![Rank::First; ranks.len()],
    }
}

/// Places of the Services in the order in which they are served. Those compete that are of one rank
/// in `competing`.
pub(super) fn in_order(wanted: ServingOrder, ranks: &[Rank], competing: &[Rank]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by_key(|place| ranks[*place]);
    if wanted == ServingOrder::AdverseReversed {
        order.reverse();
        order.sort_by_key(|place| competing[*place]);
    }
    order
}
