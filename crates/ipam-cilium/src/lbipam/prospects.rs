//! The addresses that a Service which lacks one gets for sure, and those that another Service may
//! take first. Must never know why an address is lost.

use std::collections::BTreeSet;
use std::fmt;

use super::conflict::Certainty;
use super::service_outcome::{GainedAddress, ServiceOutcome};
use ipam_core::net::Family;

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
