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
use ipam_core::model::{Labels, Selector, SelectorIndex};

/// Indexes of the pools that select a Service, shared by Services with equal labels.
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

    /// Indexes of all pools that select the request's Service.
    pub(super) fn selecting(&self) -> &BTreeSet<usize> {
        self.selecting
            .get_or_init(|| self.selection.of(&self.service.labels))
    }
}

/// All pools, with a cache of selected pools.
pub(super) struct Selection<'p> {
    pools: &'p [AddressPool],
    /// Indexes of pools without a selector: they select every Service.
    of_all: Vec<usize>,
    /// Indexes of the pools with a selector, each with its selector.
    of_some: Vec<(usize, &'p Selector)>,
    /// The selectors of the pools in `of_some`, in the same order.
    selectors: SelectorIndex,
    keys: BTreeSet<&'p str>,
    /// Indexes of the selecting pools, by the labels of a Service that pool selectors use.
    known: RefCell<HashMap<Vec<(&'p str, &'p str)>, Places>>,
}

impl<'p> Selection<'p> {
    pub(super) fn new(pools: &'p [AddressPool]) -> Selection<'p> {
        let (mut of_all, mut of_some) = (Vec::new(), Vec::new());
        for (place, pool) in pools.iter().enumerate() {
            match &pool.selector {
                Some(selector) => of_some.push((place, selector)),
                None => of_all.push(place),
            }
        }
        let selectors = of_some.iter().map(|(_, selector)| *selector);
        Selection {
            pools,
            keys: selectors.clone().flat_map(Selector::keys).collect(),
            selectors: SelectorIndex::new(selectors),
            of_all,
            of_some,
            known: RefCell::default(),
        }
    }

    /// Indexes of all pools that select a Service with these labels.
    pub(super) fn of(&self, labels: &'p Labels) -> Rc<BTreeSet<usize>> {
        let looked_at = |(key, value): (&'p String, &'p String)| {
            Some((*self.keys.get(key.as_str())?, value.as_str()))
        };
        let projection = labels.iter().filter_map(looked_at).collect();
        let selecting = || {
            let selector = |place: usize| self.of_some[place].1;
            let matching = self.selectors.matching(labels, selector);
            let places = matching.map(|place| self.of_some[place].0);
            Rc::new(self.of_all.iter().copied().chain(places).collect())
        };
        self.known
            .borrow_mut()
            .entry(projection)
            .or_insert_with(selecting)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_core::model::{Operator, Requirement};
    use proptest::prelude::*;

    /// For each of two keys, what a pool requires; a pool may have no selector at all.
    fn pool(requirements: Option<[u8; 2]>) -> AddressPool {
        let requirement = |(key, what): (&str, u8)| {
            let operator = match what {
                0 => return None,
                1 => Operator::Exists,
                2 => Operator::DoesNotExist,
                3 => Operator::NotIn(["v0".to_owned()].into()),
                _ => Operator::In([format!("v{}", what - 4)].into()),
            };
            Requirement::new(key, operator).ok()
        };
        let selector = requirements
            .map(|what| Selector::all_of(["a", "b"].into_iter().zip(what).filter_map(requirement)));
        AddressPool {
            name: String::new(),
            created: None,
            ranges: Vec::new(),
            selector,
            first_last: Default::default(),
            state: Default::default(),
            marking: Default::default(),
        }
    }

    fn labels(values: [Option<u8>; 3]) -> Labels {
        let all = ["a", "b", "c"].into_iter().zip(values);
        all.filter_map(|(key, value)| Some((key.to_owned(), format!("v{}", value?))))
            .collect()
    }

    proptest! {
        #[test]
        fn the_selected_pools_are_those_that_select(
            pools in prop::collection::vec(prop::option::of(any::<[u8; 2]>().prop_map(|both| both.map(|one| one % 6))), 0..12),
            services in prop::collection::vec(any::<[Option<u8>; 3]>().prop_map(|all| all.map(|one| one.map(|value| value % 3))), 0..12),
        ) {
            let pools: Vec<AddressPool> = pools.into_iter().map(pool).collect();
            let services: Vec<Labels> = services.into_iter().map(labels).collect();
            let selection = Selection::new(&pools);
            for labels in &services {
                let selects = |place: &usize| pools[*place].selects(labels);
                let expected: BTreeSet<usize> = (0..pools.len()).filter(selects).collect();
                prop_assert_eq!(&*selection.of(labels), &expected);
            }
        }
    }
}
