//! The addresses that a Service which lacks one gets for sure, and those that another Service may
//! take first. Must never know why an address is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::conflict::{Certainty, conflicts};
use super::pool::{AddressPool, OperatorState};
use super::service_outcome::{Evaluated, GainedAddress, Pending, ServiceOutcome};
use ipam_core::net::{Family, Range};

/// One address more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prospect {
    /// It is one of these.
    pub any_of: Vec<GainedAddress>,
    /// Whether another Service may get it instead.
    pub certainty: Certainty,
}

/// What a Service gets in one order of serving.
#[derive(Clone, Copy, Debug)]
pub struct InOrder<'o> {
    /// The addresses.
    pub gains: &'o [GainedAddress],
    /// As in [`ServiceOutcome`].
    pub certainty: Certainty,
    /// As in [`ServiceOutcome`].
    pub chances: &'o [GainedAddress],
}

impl<'o> From<&'o ServiceOutcome> for InOrder<'o> {
    fn from(outcome: &'o ServiceOutcome) -> InOrder<'o> {
        InOrder {
            gains: &outcome.gains,
            certainty: outcome.certainty,
            chances: &outcome.chances,
        }
    }
}

/// Compares what a Service gets in each order of serving.
pub fn prospects(
    orders: &[InOrder<'_>],
    is_doubtful: &dyn Fn(&GainedAddress) -> bool,
) -> Vec<Prospect> {
    let of_family = |family| {
        let prospects = prospects_of(orders, family, is_doubtful);
        match prospects.is_empty() {
            true => chance_of(orders, family).into_iter().collect(),
            false => prospects,
        }
    };
    Family::BOTH.into_iter().flat_map(of_family).collect()
}

/// What it may get of a family instead of waiting.
fn chance_of(orders: &[InOrder<'_>], family: Family) -> Option<Prospect> {
    let chances = orders.iter().flat_map(|one| one.chances);
    let chances = chances.filter(|chance| chance.family() == family);
    let any_of: BTreeSet<&GainedAddress> = chances.collect();
    (!any_of.is_empty()).then(|| Prospect {
        any_of: any_of.into_iter().cloned().collect(),
        certainty: Certainty::LeftToChance,
    })
}

fn prospects_of(
    orders: &[InOrder<'_>],
    family: Family,
    is_doubtful: &dyn Fn(&GainedAddress) -> bool,
) -> Vec<Prospect> {
    let certainty = orders.iter().map(|one| one.certainty).max();
    let of_family = |one: &InOrder<'_>| -> BTreeSet<GainedAddress> {
        let gains = one.gains.iter().filter(|gain| gain.family() == family);
        gains.cloned().collect()
    };
    let orders: Vec<BTreeSet<GainedAddress>> = orders.iter().map(of_family).collect();
    let distinct: BTreeSet<&GainedAddress> = orders.iter().flatten().collect();
    // It requests several, and gets each of them or not.
    let is_several = orders.iter().any(|gains| gains.len() > 1);
    let may_be_beaten = |gain: &GainedAddress| {
        let is_any = matches!(gain, GainedAddress::OneOf { .. });
        is_doubtful(gain) || is_any && certainty == Some(Certainty::LeftToChance)
    };
    let prospect = |any_of: Vec<GainedAddress>| {
        let is_in = |gains: &BTreeSet<_>| any_of.iter().any(|gain| gains.contains(gain));
        let is_sure = orders.iter().all(is_in) && !any_of.iter().any(may_be_beaten);
        let certainty = match is_sure {
            true => Certainty::Certain,
            false => Certainty::LeftToChance,
        };
        Prospect { any_of, certainty }
    };
    match (distinct.is_empty(), is_several) {
        (true, _) => Vec::new(),
        (false, true) => distinct
            .into_iter()
            .map(|gain| prospect(vec![gain.clone()]))
            .collect(),
        (false, false) => vec![prospect(distinct.into_iter().cloned().collect())],
    }
}

/// The pools in which Services may change places.
#[derive(Default)]
pub struct Rivalry {
    /// Those with an address that another Service may take first, and those that an overlap may put
    /// out of use.
    contested: BTreeSet<String>,
    /// Those that may have no address of the family left for each Service that lacks one, and those
    /// that an overlap may put out of use.
    scarce: BTreeSet<(String, Family)>,
    /// The addresses that one Service gets, and for which another one waits.
    disputed: BTreeSet<IpAddr>,
}

impl Rivalry {
    /// `evaluated` in the usual order, with the pools and the operator of that evaluation.
    pub fn new(evaluated: &Evaluated, pools: &[AddressPool], state: OperatorState<'_>) -> Rivalry {
        let contested = evaluated.outcomes.values().flat_map(|one| &one.contested);
        let contested: BTreeSet<IpAddr> = contested.map(|(address, _)| *address).collect();
        let (awaited, wanted) = (awaited(evaluated), wanted(evaluated));
        let gained = evaluated.outcomes.values().flat_map(|one| &one.gains);
        let gained: BTreeSet<IpAddr> = gained.filter_map(exactly).collect();
        let waiting = |family: Family| {
            let pending = evaluated.outcomes.values().flat_map(|one| &one.pending);
            let families = pending.filter_map(Pending::family_without_room);
            families.filter(|of| *of == family).count() as u128
        };
        let waiting = Family::BOTH.map(|family| (family, waiting(family)));
        let has_contested = |pool: &&AddressPool| {
            let mut ranges = pool.ranges.iter().map(|range| range.range);
            ranges.any(|range| {
                let mut inside = contested.range(range.first()..=range.last());
                inside.next().is_some()
            })
        };
        // A busy operator serves those that lose an address, and those that wait, in any order.
        let moves = |family: Family| {
            let loses = |one: &ServiceOutcome| {
                let addresses = one.loses.iter().chain(&one.contested);
                let mut families = addresses.map(|(address, _)| Family::of(*address));
                families.any(|of| of == family)
            };
            matches!(state, OperatorState::Running(_)) && evaluated.outcomes.values().any(loses)
        };
        let moves = Family::BOTH.map(|family| (family, moves(family)));
        let is_given_anew = |family: Family| moves.contains(&(family, true));
        let is_scarce = |pool: &AddressPool, family: Family, waiting: u128| {
            let rivals = awaited.intersection(&contested);
            let rivals = rivals.filter(|address| Family::of(**address) == family);
            let rivals = rivals.filter(|address| has(pool, **address));
            let rivals = rivals.count() as u128;
            let wanted = wanted.get(&(&*pool.name, family));
            let wanted = wanted.copied().unwrap_or_default();
            let counts = evaluated.counts.get(&pool.name);
            let free = counts.map_or(0, |counts| counts.available_of(family));
            (rivals > 0 || is_given_anew(family))
                && free < wanted.saturating_add(rivals).saturating_add(waiting)
        };
        let overlaps = conflicts(pools, state);
        let is_by_chance = |pool: &&AddressPool| {
            overlaps.iter().any(|(name, conflict)| {
                conflict.certainty == Certainty::LeftToChance
                    && (*name == pool.name || conflict.with == pool.name)
            })
        };
        let those = pools
            .iter()
            .filter(|pool| has_contested(pool) || is_by_chance(pool));
        let in_families = |pool| waiting.map(|(family, waiting)| (pool, family, waiting));
        let scarce = pools.iter().flat_map(in_families);
        let scarce = scarce.filter(|(pool, family, waiting)| {
            is_scarce(pool, *family, *waiting) || is_by_chance(pool)
        });
        let scarce = scarce.map(|(pool, family, _)| (pool.name.clone(), family));
        Rivalry {
            contested: those.map(|pool| pool.name.clone()).collect(),
            scarce: scarce.collect(),
            disputed: awaited.intersection(&gained).copied().collect(),
        }
    }

    /// Adds what another change leaves to chance.
    pub fn extend(&mut self, other: Rivalry) {
        let Rivalry {
            contested,
            scarce,
            disputed,
        } = other;
        self.contested.extend(contested);
        self.scarce.extend(scarce);
        self.disputed.extend(disputed);
    }

    /// Whether a Service waits for the address, and another one gets it.
    pub fn is_disputed(&self, address: IpAddr) -> bool {
        self.disputed.contains(&address)
    }

    /// Whether a Service that may move could take it.
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

impl Prospect {
    /// Whether no other Service may take it.
    pub fn is_sure(&self) -> bool {
        self.certainty == Certainty::Certain
    }
}

impl fmt::Display for Prospect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.certainty {
            Certainty::Certain => "gets",
            Certainty::LeftToChance => "may get",
        };
        let addresses: Vec<String> = self.any_of.iter().map(GainedAddress::address).collect();
        write!(f, "{verb} {}", addresses.join(" or "))
    }
}
