//! The pools in which Services may change places. Must never know why an address is lost.
//!
//! [`Waiting`] counts all Services, even if the rest covers a part of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conflict::{Certainty, conflicts};
use super::pool::{AddressPool, OperatorState};
use super::service_outcome::{Evaluated, GainedAddress, Pending, ServiceOutcome};
use ipam_core::model::PerFamily;
use ipam_core::net::{Family, Range};

/// The pools in which Services may change places.
#[derive(Default)]
pub struct Rivalry {
    /// Pools with an address that another Service may take first, and pools that an overlap may put
    /// out of use.
    contested: BTreeSet<String>,
    /// Pools that may have too few addresses of the family for the Services that lack one, and
    /// pools that an overlap may put out of use.
    scarce: BTreeSet<(String, Family)>,
    /// The addresses that one Service gets, and for which another one waits.
    disputed: BTreeSet<IpAddr>,
}

/// The outcomes that an evaluation of a part of the pools and Services leaves to chance.
#[derive(Debug, Default)]
pub struct PartRivalry {
    /// Pools with an address that another Service may take first.
    contested: BTreeSet<String>,
    /// Pools that an overlap may put out of use.
    by_chance: BTreeSet<String>,
    disputed: BTreeSet<IpAddr>,
    demands: Vec<Demand>,
    unrest: BTreeMap<Family, Unrest>,
}

/// The demand for addresses of one family of a pool.
#[derive(Debug)]
struct Demand {
    pool: String,
    family: Family,
    free: u128,
    /// Addresses that Services get, and those that a Service waits for and another may lose.
    wanted: u128,
    /// Addresses that a Service waits for and another Service may lose.
    rivals: u128,
}

/// Numbers of Services, of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrest {
    /// Services that wait because no address is free.
    pub waiting: u128,
    /// Services that lose an address, or may: a busy operator serves them, and the waiting ones, in
    /// any order.
    pub moving: u128,
}

/// The most Services that wait at a time; no value if there was no such time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub most: PerFamily<u128>,
    /// The most Services that wait while others move.
    pub most_while_moving: PerFamily<u128>,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting {
            most: PerFamily::NONE,
            most_while_moving: PerFamily::NONE,
        }
    }
}

impl Waiting {
    /// The numbers if only the Services of this part wait.
    fn alone(part: &PartRivalry) -> Waiting {
        let mut alone = Waiting::default();
        for family in Family::BOTH {
            let Unrest { waiting, moving } = part.unrest(family);
            *alone.most.get_mut(family) = Some(waiting);
            *alone.most_while_moving.get_mut(family) = (moving > 0).then_some(waiting);
        }
        alone
    }
}

impl Demand {
    /// Whether fewer addresses may be free than Services want or wait for.
    fn is_scarce(&self, waiting: &Waiting) -> bool {
        let is_short = |most: &PerFamily<u128>| {
            let most = most.get(self.family);
            most.is_some_and(|waiting| self.free < self.wanted.saturating_add(*waiting))
        };
        self.rivals > 0 && is_short(&waiting.most) || is_short(&waiting.most_while_moving)
    }
}

impl PartRivalry {
    /// `evaluated` in the usual order, with the pools and the operator of that evaluation.
    pub fn new(
        evaluated: &Evaluated,
        pools: &[AddressPool],
        state: OperatorState<'_>,
    ) -> PartRivalry {
        let contested = evaluated.outcomes.values().flat_map(|one| &one.contested);
        let contested: BTreeSet<IpAddr> = contested.map(|(address, _)| *address).collect();
        let has_contested = |pool: &&AddressPool| {
            let mut ranges = pool.ranges.iter().map(|range| range.range);
            ranges.any(|range| {
                let mut inside = contested.range(range.first()..=range.last());
                inside.next().is_some()
            })
        };
        let gained = evaluated.outcomes.values().flat_map(|one| &one.gains);
        let gained: BTreeSet<IpAddr> = gained.filter_map(exactly).collect();
        let awaited = awaited(evaluated);
        let rivals: BTreeSet<IpAddr> = awaited.intersection(&contested).copied().collect();
        let those = pools.iter().filter(has_contested);
        PartRivalry {
            contested: those.map(|pool| pool.name.clone()).collect(),
            by_chance: by_chance(pools, state),
            disputed: awaited.intersection(&gained).copied().collect(),
            demands: demands(evaluated, pools, &rivals),
            unrest: Family::BOTH
                .map(|family| (family, Unrest::of(evaluated, family, state)))
                .into(),
        }
    }

    /// How many Services of this part wait and move.
    pub fn unrest(&self, family: Family) -> Unrest {
        self.unrest.get(&family).copied().unwrap_or_default()
    }
}

impl Unrest {
    /// The sum of both numbers of Services.
    #[must_use]
    pub fn with(self, other: Unrest) -> Unrest {
        Unrest {
            waiting: self.waiting + other.waiting,
            moving: self.moving + other.moving,
        }
    }

    /// The numbers of Services without those of `part`, which are included.
    #[must_use]
    pub fn without(self, part: Unrest) -> Unrest {
        Unrest {
            waiting: self.waiting - part.waiting,
            moving: self.moving - part.moving,
        }
    }

    fn of(evaluated: &Evaluated, family: Family, state: OperatorState<'_>) -> Unrest {
        let outcomes = || evaluated.outcomes.values();
        let pending = outcomes().flat_map(|one| &one.pending);
        let families = pending.filter_map(Pending::family_without_room);
        let moves = |one: &&ServiceOutcome| {
            let addresses = one.loses.iter().chain(&one.contested);
            let mut families = addresses.map(|(address, _)| Family::of(*address));
            families.any(|of| of == family)
        };
        Unrest {
            waiting: families.filter(|of| *of == family).count() as u128,
            moving: match state {
                OperatorState::Running(_) => outcomes().filter(moves).count() as u128,
                OperatorState::Restarted => 0,
            },
        }
    }
}

impl Rivalry {
    /// `evaluated` in the usual order, with the pools and the operator of that evaluation.
    pub fn new(evaluated: &Evaluated, pools: &[AddressPool], state: OperatorState<'_>) -> Rivalry {
        let part = PartRivalry::new(evaluated, pools, state);
        let mut rivalry = Rivalry::default();
        rivalry.add(&part, &Waiting::alone(&part));
        rivalry
    }

    /// Adds the rivalry of a part of the pools and Services. `waiting` counts all Services.
    pub fn add(&mut self, part: &PartRivalry, waiting: &Waiting) {
        let scarce = part
            .demands
            .iter()
            .filter(|demand| demand.is_scarce(waiting) || part.by_chance.contains(&demand.pool));
        self.scarce
            .extend(scarce.map(|demand| (demand.pool.clone(), demand.family)));
        self.contested.extend(part.contested.iter().cloned());
        self.contested.extend(part.by_chance.iter().cloned());
        self.disputed.extend(&part.disputed);
    }

    /// Whether a Service waits for the address, and another one gets it.
    pub fn is_disputed(&self, address: IpAddr) -> bool {
        self.disputed.contains(&address)
    }

    /// Whether a Service that may move could take the gained address.
    pub fn is_doubtful(&self, gain: &GainedAddress, pools: &[AddressPool]) -> bool {
        match gain {
            GainedAddress::OneOf { family, pools } => {
                let scarce = |name: &String| self.scarce.contains(&(name.clone(), *family));
                pools.iter().all(scarce)
            }
            GainedAddress::Exactly(address) => {
                self.disputed.contains(address)
                    || pools
                        .iter()
                        .any(|pool| has(pool, *address) && self.contested.contains(&pool.name))
            }
        }
    }
}

/// Pools of overlaps in which chance decides which pool loses.
fn by_chance(pools: &[AddressPool], state: OperatorState<'_>) -> BTreeSet<String> {
    let overlaps = conflicts(pools, state).into_iter();
    let open = overlaps.filter(|(_, conflict)| conflict.certainty == Certainty::LeftToChance);
    open.flat_map(|(name, conflict)| [name.to_owned(), conflict.with])
        .collect()
}

fn demands(evaluated: &Evaluated, pools: &[AddressPool], rivals: &BTreeSet<IpAddr>) -> Vec<Demand> {
    let wanted = wanted(evaluated);
    let of_family = |(pool, family): (&AddressPool, Family)| {
        let rivals = rivals
            .iter()
            .filter(|address| Family::of(**address) == family && has(pool, **address))
            .count() as u128;
        let wanted = wanted.get(&(&*pool.name, family)).copied();
        let counts = evaluated.counts.get(&pool.name);
        Demand {
            pool: pool.name.clone(),
            family,
            free: counts.map_or(0, |counts| counts.available_of(family)),
            wanted: wanted.unwrap_or_default().saturating_add(rivals),
            rivals,
        }
    };
    let in_families = |pool| Family::BOTH.map(|family| (pool, family));
    pools.iter().flat_map(in_families).map(of_family).collect()
}

fn has(pool: &AddressPool, address: IpAddr) -> bool {
    let part = Range::from(address);
    pool.ranges.iter().any(|range| range.range.contains(&part))
}

/// The addresses for which Services wait: one gets it when its holder moves on.
fn awaited(evaluated: &Evaluated) -> BTreeSet<IpAddr> {
    let pending = evaluated.outcomes.values().flat_map(|one| &one.pending);
    pending.filter_map(Pending::awaits).collect()
}

fn exactly(gain: &GainedAddress) -> Option<IpAddr> {
    match gain {
        GainedAddress::Exactly(address) => Some(*address),
        GainedAddress::OneOf { .. } => None,
    }
}

/// Services that get any address of a family of a pool.
fn wanted(evaluated: &Evaluated) -> BTreeMap<(&str, Family), u128> {
    let mut wanted: BTreeMap<(&str, Family), u128> = BTreeMap::new();
    for gain in evaluated.outcomes.values().flat_map(|one| &one.gains) {
        if let GainedAddress::OneOf { family, pools } = gain {
            for name in pools {
                *wanted.entry((name, *family)).or_default() += 1;
            }
        }
    }
    wanted
}
