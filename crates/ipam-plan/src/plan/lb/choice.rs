//! Chooses addresses for Services that the files pin to a pool, or to the best pool.
//!
//! A Service keeps what it requests or holds, if that fits. Then the others get the lowest free
//! address of the best pool: first those whose pin names a pool, then those that take any, each in
//! the order of their names. The order of files makes no difference. A held address moves only if
//! the files no longer allow it. Another pool with the address, or another user of it, does not
//! move it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::obstacle::LbObstacle;
use super::simulated_state::SimulatedState;
use ipam_cilium::lbipam::{AddressPool, FamilyPolicy, LbService, RangeForm, may_share};
use ipam_cilium::observed::Observed;
use ipam_core::model::ServiceName;
use ipam_core::net::{Family, Range, covers, gaps, lowest_free, merge};
use ipam_desired::{ChosenFrom, Desired, PinnedTo, WantedAddressPool};

/// The chosen addresses of each Service, or why there are none.
pub(super) type Choices = BTreeMap<ServiceName, Result<Vec<IpAddr>, LbObstacle>>;

/// An enabled pool, as an input.
pub(super) struct EnabledPool {
    pub(super) pool: AddressPool,
    pub(super) standing: Standing,
}

/// Whether an enabled pool gives addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    InUse,
    /// The pool overlaps another pool, and gives no new addresses.
    Conflicting,
}

/// A pool that gives addresses, or gave them.
struct Source<'p> {
    pool: &'p AddressPool,
    standing: Standing,
    /// Priority of the pool; of several pools, the highest wins.
    priority: i32,
    /// Number of requirements of the pool's selector.
    requirements: usize,
    /// Ranges of the pool, lowest first.
    ranges: Vec<Range>,
    /// Addresses of it that the files or its edges keep back, also from their holders. Merged.
    kept_back: Vec<Range>,
    /// Addresses of it that no Service gets: those, and those that something else has. Merged.
    busy: Vec<Range>,
}

impl Source<'_> {
    fn covers(&self, address: IpAddr, except: &[Range]) -> bool {
        let own = Range::from(address);
        self.ranges.iter().any(|range| range.contains(&own)) && !covers(except, &own)
    }
}

struct Chooser<'p> {
    observed: &'p Observed,
    state: &'p SimulatedState,
    /// Pools that may give addresses, best first.
    sources: Vec<Source<'p>>,
    /// Users of each address: Services that hold it, request it, are pinned to it, or are to get
    /// it.
    users: BTreeMap<IpAddr, Vec<&'p LbService>>,
    /// Holders of each address.
    holders: BTreeMap<IpAddr, Vec<&'p LbService>>,
    /// Addresses that the files pin to Services that do not exist yet.
    waiting: BTreeSet<IpAddr>,
    /// Addresses that have a user, or that are pinned to a Service that does not exist yet.
    taken: BTreeSet<IpAddr>,
}

/// A Service, and the pools from which it may get its addresses.
struct Wanting<'p> {
    service: &'p LbService,
    from: &'p ChosenFrom,
    chosen: Vec<IpAddr>,
    open: Vec<Family>,
}

/// Chooses addresses for pins without addresses of their own. `in_use` are ranges in other use.
pub(super) fn choose<'p>(
    desired: &'p Desired,
    observed: &'p Observed,
    state: &'p SimulatedState,
    pools: &'p [EnabledPool],
    in_use: &dyn Fn(&Range) -> Vec<Range>,
) -> Choices {
    let wanting = desired.service_pins.values().filter_map(|pin| {
        let PinnedTo::Chosen(from) = &pin.to else {
            return None;
        };
        let service = state.services.get(&pin.service)?;
        Some(Wanting {
            service,
            from,
            chosen: Vec::new(),
            open: service.wanted_families(&state.rules),
        })
    });
    let mut wanting: Vec<Wanting<'p>> = wanting.collect();
    if wanting.is_empty() {
        return Choices::new();
    }
    let mut chooser = Chooser::new(desired, observed, state, pools, in_use);
    for one in &mut wanting {
        chooser.keep(one);
    }
    // A Service that takes any pool leaves the last address of a pool to one that needs it.
    wanting.sort_by_key(|one| matches!(one.from, ChosenFrom::BestPool));
    let mut choices = Choices::new();
    for one in wanting {
        let name = one.service.name.clone();
        choices.insert(name, chooser.complete(one));
    }
    choices
}

impl<'p> Chooser<'p> {
    fn new(
        desired: &'p Desired,
        observed: &'p Observed,
        state: &'p SimulatedState,
        pools: &'p [EnabledPool],
        in_use: &dyn Fn(&Range) -> Vec<Range>,
    ) -> Chooser<'p> {
        let mut sources: Vec<Source<'p>> = pools
            .iter()
            .filter_map(|pool| source(pool, desired, state, in_use))
            .collect();
        sources.sort_by(|a, b| {
            let rank = |one: &Source<'_>| Reverse((one.priority, one.requirements));
            rank(a)
                .cmp(&rank(b))
                .then_with(|| a.pool.name.cmp(&b.pool.name))
        });
        let mut chooser = Chooser {
            observed,
            state,
            sources,
            users: BTreeMap::new(),
            holders: BTreeMap::new(),
            waiting: BTreeSet::new(),
            taken: BTreeSet::new(),
        };
        for service in state.services.values() {
            let requested = service.requested(&state.rules);
            let held = service.ingress.iter().chain(chooser.held_by(service));
            for address in held.clone().copied().collect::<BTreeSet<_>>() {
                chooser.holders.entry(address).or_default().push(service);
            }
            for address in held.copied().chain(requested).collect::<Vec<_>>() {
                chooser.take(address, service);
            }
        }
        for pin in desired.service_pins.values() {
            for pinned in pin.addresses() {
                match state.services.get(&pin.service) {
                    Some(service) => chooser.take(pinned.address, service),
                    None => {
                        chooser.waiting.insert(pinned.address);
                        chooser.taken.insert(pinned.address);
                    }
                }
            }
        }
        chooser
    }

    fn take(&mut self, address: IpAddr, service: &'p LbService) {
        let users = self.users.entry(address).or_default();
        if users.iter().all(|user| user.name != service.name) {
            users.push(service);
        }
        self.taken.insert(address);
    }

    /// What it holds now, even if a change of a pool takes it away before a pin gives it back.
    fn held_by(&self, service: &LbService) -> &'p [IpAddr] {
        let observed: &'p Observed = self.observed;
        let service = observed.services.get(&service.name);
        service.map_or(&[], |service| &service.ingress)
    }

    /// The enabled pools for which the pin asks, and that select the Service.
    fn enabled_for<'s>(&'s self, one: &'s Wanting<'_>) -> impl Iterator<Item = &'s Source<'p>> {
        self.sources.iter().filter(|source| {
            source.pool.selects(&one.service.labels)
                && match one.from {
                    ChosenFrom::Pool(name) => source.pool.name == name.as_str(),
                    ChosenFrom::BestPool => true,
                }
        })
    }

    fn sources_of<'s>(&'s self, one: &'s Wanting<'_>) -> impl Iterator<Item = &'s Source<'p>> {
        let enabled = self.enabled_for(one);
        enabled.filter(|source| source.standing == Standing::InUse)
    }

    fn share(&self, others: Option<&Vec<&'p LbService>>, one: &Wanting<'_>) -> bool {
        others.into_iter().flatten().all(|other| {
            other.name == one.service.name || may_share(other, one.service, &self.state.rules)
        })
    }

    /// Whether a pool gives the Service the address, and all other users share it.
    fn fits(&self, address: IpAddr, one: &Wanting<'_>) -> bool {
        let is_held = self.held_by(one.service).contains(&address);
        let is_given = self.sources_of(one).any(|source| match is_held {
            true => source.covers(address, &source.kept_back),
            false => source.covers(address, &source.busy),
        });
        is_given && self.share(self.users.get(&address), one) && !self.waiting.contains(&address)
    }

    /// Whether a Service holds an address that it requests. It stays, even if others want it.
    fn stays(&self, address: IpAddr, one: &Wanting<'_>) -> bool {
        let mut enabled = self.enabled_for(one);
        self.held_by(one.service).contains(&address)
            && one.service.requested(&self.state.rules).contains(&address)
            && enabled.any(|source| source.covers(address, &source.kept_back))
            && self.share(self.holders.get(&address), one)
    }

    /// Keeps the requested addresses of each family that fit, or else the held addresses that fit.
    fn keep(&mut self, one: &mut Wanting<'p>) {
        let requested = one.service.requested(&self.state.rules);
        for family in one.open.clone() {
            let fits = |address: &&IpAddr| {
                Family::of(**address) == family
                    && (self.stays(**address, one) || self.fits(**address, one))
            };
            let own = [&requested, self.held_by(one.service)];
            let mut kept = own
                .into_iter()
                .map(|own| own.iter().filter(fits).copied().collect::<Vec<_>>());
            let Some(kept) = kept.find(|kept| !kept.is_empty()) else {
                continue;
            };
            one.open.retain(|open| *open != family);
            for address in kept {
                self.take(address, one.service);
                one.chosen.push(address);
            }
        }
    }

    /// Chooses an address of each family that has none yet. For a Service that only prefers two
    /// families, one is enough.
    fn complete(&mut self, mut one: Wanting<'p>) -> Result<Vec<IpAddr>, LbObstacle> {
        let mut obstacle = None;
        for family in std::mem::take(&mut one.open) {
            let address = self
                .shared(&one, family)
                .or_else(|| self.lowest(&one, family));
            let Some(address) = address else {
                obstacle.get_or_insert_with(|| self.obstacle(&one, family));
                continue;
            };
            self.take(address, one.service);
            one.chosen.push(address);
        }
        let needs_all = one.service.family_policy != FamilyPolicy::PreferDual;
        if let Some(obstacle) = obstacle.filter(|_| needs_all || one.chosen.is_empty()) {
            return Err(obstacle);
        }
        one.chosen.sort();
        one.chosen.dedup();
        Ok(one.chosen)
    }

    /// The lowest address of a Service with the same sharing key, as the operator does it.
    fn shared(&self, one: &Wanting<'_>, family: Family) -> Option<IpAddr> {
        let shares = |users: &[&LbService]| {
            let mut others = users.iter().filter(|user| user.name != one.service.name);
            others.any(|other| may_share(other, one.service, &self.state.rules))
        };
        let mut used = self.users.iter();
        let (address, _) = used.find(|(address, users)| {
            Family::of(**address) == family && shares(users) && self.fits(**address, one)
        })?;
        Some(*address)
    }

    fn lowest(&self, one: &Wanting<'_>, family: Family) -> Option<IpAddr> {
        self.sources_of(one).find_map(|source| {
            let mut ranges = source.ranges.iter();
            ranges
                .by_ref()
                .filter(|range| range.family() == family)
                .find_map(|range| lowest_free(range, &source.busy, &self.taken))
        })
    }

    fn obstacle(&self, one: &Wanting<'_>, family: Family) -> LbObstacle {
        let has_family =
            |source: &Source<'_>| source.ranges.iter().any(|range| range.family() == family);
        match (self.sources_of(one).any(has_family), one.from) {
            (true, _) => LbObstacle::ServiceNoFreeAddress(family),
            (false, ChosenFrom::Pool(name)) => LbObstacle::PoolGivesNone(name.clone(), family),
            (false, ChosenFrom::BestPool) => LbObstacle::ServiceNoPool(family),
        }
    }
}

/// A pool with an annotation that cannot be read gives nothing: what it reserves is unknown.
fn source<'p>(
    EnabledPool { pool, standing }: &'p EnabledPool,
    desired: &Desired,
    state: &SimulatedState,
    in_use: &dyn Fn(&Range) -> Vec<Range>,
) -> Option<Source<'p>> {
    let manifest = &state.pools.get(&pool.name)?.manifest;
    let (priority, reserved) = (manifest.priority()?, manifest.reserved().ok()?);
    let mut ranges: Vec<Range> = pool.ranges.iter().map(|range| range.range).collect();
    ranges.sort();
    // The pool is as the files want it, unless its change is blocked.
    let name = pool.name.parse().ok();
    let wanted = name.and_then(|name| desired.address_pools.get(&name));
    let withheld = wanted.map(|wanted| withheld(wanted, &ranges));
    let of_others = state.pools.values().filter(|other| other.name != pool.name);
    let of_others: Vec<Range> = of_others
        .flat_map(|other| other.manifest.spec.ranges().collect::<Vec<_>>())
        .filter(|other| ranges.iter().any(|range| range.overlaps(other)))
        .collect();
    let edges = pool.ranges.iter().filter(|range| {
        range.form == RangeForm::Cidr && state.rules.reserves_first_and_last(pool.first_last, range)
    });
    let edges = edges.flat_map(|range| [range.range.first(), range.range.last()].map(Range::from));
    let kept_back = edges
        .chain(reserved)
        .chain(desired.policy.excluded.iter().copied());
    let kept_back = merge(kept_back);
    let busy = ranges.iter().flat_map(in_use).chain(of_others);
    let busy = busy.chain(withheld.into_iter().flatten());
    let busy = merge(busy.chain(kept_back.iter().copied()));
    Some(Source {
        standing: *standing,
        priority,
        requirements: pool
            .selector
            .as_ref()
            .map_or(0, |selector| selector.specificity()),
        ranges,
        kept_back,
        busy,
        pool,
    })
}

/// The addresses that the files do not let a pool give.
fn withheld(wanted: &WantedAddressPool, ranges: &[Range]) -> Vec<Range> {
    let manifest = &wanted.manifest;
    if manifest.spec.disabled {
        return ranges.to_vec();
    }
    let given = merge(manifest.spec.ranges());
    let missing = ranges.iter().flat_map(|range| gaps(range, &given));
    // An annotation that cannot be read is an error of the files.
    missing
        .chain(manifest.reserved().unwrap_or_default())
        .collect()
}

#[cfg(test)]
mod tests;
