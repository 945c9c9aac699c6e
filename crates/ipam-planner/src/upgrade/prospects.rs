//! What a Service that lacks an address can expect at the operator's start: what is sure, and what
//! another Service may take first. Must never know why an address is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::addresses::Starts;
use super::change::listed;
use ipam_cilium::lbipam::{AddressPool, Certainty, Evaluated, GainedAddress, Pending};
use ipam_core::model::ServiceName;
use ipam_core::net::{Family, Range};

/// One address more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prospect {
    /// It is one of these.
    pub(super) any_of: Vec<GainedAddress>,
    certainty: Certainty,
}

/// All that a Service can expect.
#[derive(Clone, Debug, Default)]
pub(super) struct Prospects {
    pub(super) gains: Vec<Prospect>,
    /// Reasons for which it may wait.
    waits: BTreeSet<&'static str>,
}

/// Compares what the Service gets in every order.
pub(super) fn prospects(starts: &Starts, name: &ServiceName) -> Prospects {
    let orders = [&starts.next, &starts.adverse[0], &starts.adverse[1]];
    let outcomes = orders.map(|evaluated| evaluated.outcomes.get(name));
    let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
    let all: Vec<&[GainedAddress]> = outcomes.iter().map(|one| &one.gains[..]).collect();
    let of_family = |family| prospects_of(&all, family, &|gain| is_doubtful(starts, gain));
    let mut gains: Vec<Prospect> = Family::BOTH.into_iter().flat_map(of_family).collect();
    let disputed = &starts.rivalry.disputed;
    let pending = outcomes.iter().take(1).flat_map(|one| &one.pending);
    for address in pending
        .filter_map(awaited_by)
        .filter(|one| disputed.contains(one))
    {
        let any_of = vec![GainedAddress::Exactly(address)];
        if !gains.iter().any(|known| known.any_of == any_of) {
            gains.push(Prospect {
                any_of,
                certainty: Certainty::LeftToChance,
            });
        }
    }
    let is_sure = gains.iter().all(Prospect::is_sure);
    let pending = outcomes.iter().take(if is_sure { 1 } else { orders.len() });
    let pending = pending.flat_map(|outcome| &outcome.pending);
    Prospects {
        waits: pending.map(Pending::reason).collect(),
        gains,
    }
}

fn prospects_of(
    orders: &[&[GainedAddress]],
    family: Family,
    is_doubtful: &dyn Fn(&GainedAddress) -> bool,
) -> Vec<Prospect> {
    let of_family = |gains: &&[GainedAddress]| -> BTreeSet<GainedAddress> {
        let gains = gains.iter().filter(|gain| gain.family() == family);
        gains.cloned().collect()
    };
    let orders: Vec<BTreeSet<GainedAddress>> = orders.iter().map(of_family).collect();
    let distinct: BTreeSet<&GainedAddress> = orders.iter().flatten().collect();
    // It requests several, and gets each of them or not.
    let is_several = orders.iter().any(|gains| gains.len() > 1);
    let prospect = |any_of: Vec<GainedAddress>| {
        let is_in = |gains: &BTreeSet<_>| any_of.iter().any(|gain| gains.contains(gain));
        let is_sure = orders.iter().all(is_in) && !any_of.iter().any(is_doubtful);
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
pub(super) struct Rivalry {
    /// Those with an address that another Service may take first.
    contested: BTreeSet<String>,
    /// Those that may have no address left for each Service that lacks one.
    scarce: BTreeSet<String>,
    /// The addresses that one Service gets, and for which another one waits.
    disputed: BTreeSet<IpAddr>,
}

impl Rivalry {
    pub(super) fn new(evaluated: &Evaluated, pools: &[AddressPool]) -> Rivalry {
        let contested = evaluated.outcomes.values().flat_map(|one| &one.contested);
        let contested: BTreeSet<IpAddr> = contested.map(|(address, _)| *address).collect();
        let (awaited, wanted) = (awaited(evaluated), wanted(evaluated));
        let gained = evaluated.outcomes.values().flat_map(|one| &one.gains);
        let gained: BTreeSet<IpAddr> = gained.filter_map(exactly).collect();
        let waiting = evaluated.outcomes.values().flat_map(|one| &one.pending);
        let waiting = waiting.filter(|why| matches!(why, Pending::OutOfAddresses(_)));
        let waiting = waiting.count();
        let has_contested = |pool: &&AddressPool| {
            let mut ranges = pool.ranges.iter().map(|range| range.range);
            ranges.any(|range| {
                contested
                    .range(range.first()..=range.last())
                    .next()
                    .is_some()
            })
        };
        let is_scarce = |pool: &&AddressPool| {
            let rivals = awaited.intersection(&contested);
            let rivals = rivals.filter(|address| has(pool, **address));
            let rivals = (rivals.count() + waiting) as u128;
            let wanted = wanted.get(&*pool.name).copied().unwrap_or_default();
            let counts = evaluated.counts.get(&pool.name);
            let free = counts.map_or(0, |counts| counts.available);
            rivals > 0 && free < wanted.saturating_add(rivals)
        };
        let name = |pool: &AddressPool| pool.name.clone();
        Rivalry {
            contested: pools.iter().filter(has_contested).map(name).collect(),
            scarce: pools.iter().filter(is_scarce).map(name).collect(),
            disputed: awaited.intersection(&gained).copied().collect(),
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
    pending.filter_map(awaited_by).collect()
}

fn awaited_by(pending: &Pending) -> Option<IpAddr> {
    match pending {
        Pending::AlreadyAllocated(address) | Pending::Incompatible { address, .. } => {
            Some(*address)
        }
        Pending::NoPool(_)
        | Pending::SelectorMismatch(_)
        | Pending::Reserved(_)
        | Pending::OutOfAddresses(_) => None,
    }
}

fn exactly(gain: &GainedAddress) -> Option<IpAddr> {
    match gain {
        GainedAddress::Exactly(address) => Some(*address),
        GainedAddress::OneOf { .. } => None,
    }
}

/// Services that get any address of a pool.
fn wanted(evaluated: &Evaluated) -> BTreeMap<&str, u128> {
    let mut wanted: BTreeMap<&str, u128> = BTreeMap::new();
    for gain in evaluated.outcomes.values().flat_map(|one| &one.gains) {
        if let GainedAddress::OneOf { pools, .. } = gain {
            for name in pools {
                *wanted.entry(name).or_default() += 1;
            }
        }
    }
    wanted
}

/// Whether a Service that may move could take it.
fn is_doubtful(starts: &Starts, gain: &GainedAddress) -> bool {
    let Rivalry {
        contested,
        scarce,
        disputed,
    } = &starts.rivalry;
    match gain {
        GainedAddress::OneOf { pools, .. } => pools.iter().all(|name| scarce.contains(name)),
        GainedAddress::Exactly(address) => {
            let mut pools = starts.next_pools.iter();
            disputed.contains(address)
                || pools.any(|pool| has(pool, *address) && contested.contains(&pool.name))
        }
    }
}

impl Prospect {
    fn is_sure(&self) -> bool {
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

impl Prospects {
    /// Whether chance decides nothing.
    pub(super) fn are_sure(&self) -> bool {
        self.gains.iter().all(Prospect::is_sure)
    }

    /// `, then gets …`, or why it waits.
    pub(super) fn then(&self) -> String {
        let gains = self.gains.iter().map(ToString::to_string);
        let waits = self
            .waits
            .iter()
            .map(|reason| format!("waits (`{reason}`)"));
        let all: BTreeSet<String> = gains.chain(waits).collect();
        match (all.is_empty(), self.are_sure()) {
            (true, _) => String::new(),
            (false, true) => format!(", then {}", listed(all)),
            (false, false) => {
                let all: Vec<String> = all.into_iter().collect();
                format!(", then {}", all.join(" or "))
            }
        }
    }
}
