//! Ranges of all pools, and whether the operator gives or recognises their addresses.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::{Certainty, conflicts};
use super::pool::{AddressPool, AddressRange, OperatorState, ServingState, by_name};
use super::rules::LbRules;
use super::service_outcome::LossReason;

/// A range with its pool and its use.
pub(super) struct ActiveRange<'p> {
    pub(super) pool: &'p AddressPool,
    /// Index of the pool.
    pub(super) of_pool: usize,
    pub(super) range: AddressRange,
    /// Whether the operator gives addresses from it.
    pub(super) use_of: Result<(), LossReason>,
    /// Whether the operator recognises an address that a Service already shows.
    pub(super) imports: Result<(), LossReason>,
    /// Whether the operator uses its pool is left to chance: it starts, and the pool overlaps
    /// another one.
    pub(super) certainty: Certainty,
    /// Number of given and reserved addresses.
    pub(super) taken: u128,
}

impl ActiveRange<'_> {
    /// Whether it gives addresses. A running operator also gives them from an unused pool that was
    /// just edited.
    pub(super) fn gives(&self) -> bool {
        self.use_of.is_ok() || self.imports.is_ok()
    }

    /// Whether all its addresses are given or reserved.
    pub(super) fn is_full(&self) -> bool {
        self.taken > self.range.range.width()
    }
}

/// All ranges, in the order of the pools.
pub(super) fn active_ranges<'p>(
    pools: &'p [AddressPool],
    rules: &LbRules,
    state: OperatorState<'p>,
) -> Vec<ActiveRange<'p>> {
    let losers = conflicts(pools, state);
    let is_out = |pool: &AddressPool| {
        losers
            .get(pool.name.as_str())
            .is_some_and(|conflict| conflict.certainty == Certainty::Certain)
    };
    let certainty = |pool: &AddressPool| match (state, losers.get(pool.name.as_str())) {
        (OperatorState::Restarted, Some(conflict)) => conflict.certainty,
        _ => Certainty::Certain,
    };
    let use_of = |pool: &AddressPool| match pool.state {
        _ if is_out(pool) => Err(LossReason::PoolConflicting),
        ServingState::Disabled => Err(LossReason::PoolDisabled),
        ServingState::Enabled => Ok(()),
    };
    let out_before: BTreeSet<&str> = match state {
        OperatorState::Running(before) => conflicts(before, state).into_keys().collect(),
        OperatorState::Restarted => BTreeSet::new(),
    };
    let known: BTreeMap<&str, &AddressPool> = match state {
        OperatorState::Running(before) => by_name(before),
        OperatorState::Restarted => BTreeMap::new(),
    };
    let active = |(of_pool, pool): (usize, &'p AddressPool)| {
        let (use_of, certainty) = (use_of(pool), certainty(pool));
        let imports = match state {
            OperatorState::Running(_) => {
                imports_of(pool, known.get(pool.name.as_str()).copied(), &out_before)
            }
            OperatorState::Restarted => use_of,
        };
        pool.ranges.iter().map(move |range| {
            let taken = if rules.reserves_first_and_last(pool.first_last, range) {
                2
            } else {
                0
            };
            ActiveRange {
                pool,
                of_pool,
                range: *range,
                use_of,
                imports,
                certainty,
                taken,
            }
        })
    };
    pools.iter().enumerate().flat_map(active).collect()
}

/// Whether a running operator recognises addresses of a pool. It checks only known pools, and only
/// when one is edited. It detects a conflict made by an edit later.
fn imports_of(
    pool: &AddressPool,
    known: Option<&AddressPool>,
    out_before: &BTreeSet<&str>,
) -> Result<(), LossReason> {
    let Some(known) = known else {
        return Err(LossReason::NoPool);
    };
    match pool.state {
        ServingState::Disabled => Err(LossReason::PoolDisabled),
        ServingState::Enabled
            if pool.has_spec_of(known) && out_before.contains(pool.name.as_str()) =>
        {
            Err(LossReason::PoolConflicting)
        }
        ServingState::Enabled => Ok(()),
    }
}
