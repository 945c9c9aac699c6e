//! How the operator meets a change of a pool: it decides so for all Services at once. Must know nothing
//! of the addresses that it then gives.

use super::fatal::frees_held;
use super::pool::{AddressPool, by_name};
use super::rules::LbRules;
use super::service::LbService;
use crate::behaviours;

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
