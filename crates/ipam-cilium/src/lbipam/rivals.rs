//! Services that compete for the last addresses: who of one rank gets one is left to chance. Must
//! know nothing of addresses that one Service requests.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::Certainty;
use super::pool::AddressPool;
use super::selection::Request;
use super::service_outcome::{GainedAddress, Pending, ServiceOutcome};
use super::serving_order::Rank;
use ipam_core::net::Family;

/// Pools by name, for Services of a rank that want an address of a family.
type ByRank<'p> = BTreeMap<(Rank, Family), BTreeSet<&'p str>>;

fn names<'p>(request: &Request<'_, '_>, pools: &'p [AddressPool]) -> BTreeSet<&'p str> {
    let selecting = request.selecting().iter();
    selecting.map(|pool| pools[*pool].name.as_str()).collect()
}

fn families_without_room(outcome: &ServiceOutcome) -> Vec<Family> {
    let pending = outcome.pending.iter();
    pending.filter_map(Pending::family_without_room).collect()
}

/// Records for each Service whether another one of its rank may get its address, and which addresses
/// it may get instead of waiting.
pub(super) fn mark_rivals(
    requests: &[Request<'_, '_>],
    ranks: &[Rank],
    pools: &[AddressPool],
    outcomes: &mut [ServiceOutcome],
) {
    let (mut short, mut gained) = (ByRank::new(), BTreeMap::new());
    for ((request, rank), outcome) in requests.iter().zip(ranks).zip(&*outcomes) {
        for family in families_without_room(outcome) {
            let known = short.entry((*rank, family)).or_default();
            known.extend(names(request, pools));
        }
        for gain in &outcome.gains {
            let known: &mut BTreeSet<String> = gained.entry((*rank, gain.family())).or_default();
            known.extend(gain.pools());
        }
    }
    if short.is_empty() {
        return;
    }
    for ((request, rank), outcome) in requests.iter().zip(ranks).zip(outcomes) {
        let is_short = |gain: &GainedAddress| match gain {
            GainedAddress::Exactly(_) => false,
            // One of several addresses of a sharing key has no pool.
            GainedAddress::OneOf { pools, .. } if pools.is_empty() => false,
            GainedAddress::OneOf { family, pools } => short
                .get(&(*rank, *family))
                .is_some_and(|short| pools.iter().all(|pool| short.contains(pool.as_str()))),
        };
        if outcome.gains.iter().any(is_short) {
            outcome.certainty = Certainty::LeftToChance;
        }
        for family in families_without_room(outcome) {
            let of_others = gained.get(&(*rank, family)).into_iter().flatten();
            let its = names(request, pools);
            let pools: BTreeSet<String> = of_others
                .filter(|pool| its.contains(pool.as_str()))
                .cloned()
                .collect();
            if !pools.is_empty() {
                let chance = GainedAddress::OneOf { family, pools };
                outcome.chances.push(chance);
            }
        }
    }
}
