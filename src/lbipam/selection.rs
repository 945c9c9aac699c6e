//! Which pools select which Services, each selector evaluated once for each distinct set of the labels that selectors look at.
//!
//! Knows nothing of addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::pool::AddressPool;
use super::rules::LbRules;
use super::service::{LbService, Wish};
use crate::model::Labels;

/// Pools by their places.
type Places = Rc<BTreeSet<usize>>;

/// A Service with the pools that select it.
pub(super) struct Asking<'s> {
    /// The Service.
    pub(super) service: &'s LbService,
    /// What it wants.
    pub(super) wish: Wish,
    /// Places of the pools that select it.
    pub(super) pools: Places,
    /// The same among the pools that there were before.
    pub(super) pools_before: Places,
}

struct Selection<'p> {
    pools: &'p [AddressPool],
    keys: BTreeSet<&'p str>,
    known: BTreeMap<Vec<Option<&'p str>>, Places>,
}

impl<'p> Selection<'p> {
    fn new(pools: &'p [AddressPool]) -> Selection<'p> {
        let selectors = pools.iter().filter_map(|pool| pool.selector.as_ref());
        Selection { pools, keys: selectors.flat_map(|selector| selector.keys()).collect(), known: BTreeMap::new() }
    }

    fn of(&mut self, labels: &'p Labels) -> Places {
        let projection = self.keys.iter().map(|key| labels.get(*key).map(String::as_str)).collect();
        let pools = self.pools;
        let selecting = || Rc::new((0..pools.len()).filter(|place| pools[*place].selects(labels)).collect());
        self.known.entry(projection).or_insert_with(selecting).clone()
    }
}

/// Every Service with the pools that select it, and with those that did.
pub(super) fn asking<'s>(
    services: &[&'s LbService],
    pools: &'s [AddressPool],
    pools_before: &'s [AddressPool],
    rules: &LbRules,
) -> Vec<Asking<'s>> {
    let (mut now, mut before) = (Selection::new(pools), Selection::new(pools_before));
    let asking = |service: &&'s LbService| Asking {
        service,
        wish: service.wish(rules),
        pools: now.of(&service.labels),
        pools_before: before.of(&service.labels),
    };
    services.iter().map(asking).collect()
}
