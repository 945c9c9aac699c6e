//! Finds the pools that select a Service. Selectors are evaluated once per distinct set of the
//! labels they use.
//!
//! Knows nothing of addresses.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::pool::AddressPool;
use super::rules::LbRules;
use super::service::{AddressRequest, LbService};
use ipam_core::model::Labels;

/// Indexes of pools.
type Places = Rc<BTreeSet<usize>>;

/// A Service with its requested addresses and the pools that select it.
pub(super) struct Request<'a, 's> {
    pub(super) service: &'s LbService,
    pub(super) wanted: AddressRequest,
    selection: &'a Selection<'s>,
    selecting: OnceCell<Places>,
}

impl<'a, 's> Request<'a, 's> {
    pub(super) fn new(
        service: &'s LbService,
        rules: &LbRules,
        selection: &'a Selection<'s>,
    ) -> Request<'a, 's> {
        Request {
            service,
            wanted: service.address_request(rules),
            selection,
            selecting: OnceCell::new(),
        }
    }

    /// Whether the pool at this index selects it. Cheaper than [`Request::selecting`], and enough
    /// for most Services.
    pub(super) fn is_selected_by(&self, place: usize) -> bool {
        self.selection.pools[place].selects(&self.service.labels)
    }

    /// Indexes of all pools that select it.
    pub(super) fn selecting(&self) -> &BTreeSet<usize> {
        self.selecting
            .get_or_init(|| self.selection.of(&self.service.labels))
    }
}

/// All pools, with a cache of selected pools.
pub(super) struct Selection<'p> {
    pools: &'p [AddressPool],
    keys: BTreeSet<&'p str>,
    known: RefCell<HashMap<Vec<Option<&'p str>>, Places>>,
}

impl<'p> Selection<'p> {
    pub(super) fn new(pools: &'p [AddressPool]) -> Selection<'p> {
        let selectors = pools.iter().filter_map(|pool| pool.selector.as_ref());
        let keys = selectors.flat_map(|selector| selector.keys()).collect();
        Selection {
            pools,
            keys,
            known: RefCell::default(),
        }
    }

    fn of(&self, labels: &'p Labels) -> Places {
        let projection = self
            .keys
            .iter()
            .map(|key| labels.get(*key).map(String::as_str))
            .collect();
        let selecting = || {
            Rc::new(
                (0..self.pools.len())
                    .filter(|place| self.pools[*place].selects(labels))
                    .collect(),
            )
        };
        self.known
            .borrow_mut()
            .entry(projection)
            .or_insert_with(selecting)
            .clone()
    }
}
