//! Which pools a node may use, best first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipam_cilium::observed::Node;
use ipam_core::alloc::{PoolId, Supply};
use ipam_core::model::{
    Finding, Labels, NodeName, ObjectRef, PoolName, Rule, SelectorIndex, Severity,
};
use ipam_desired::{Desired, Pool};

/// Evaluates selectors once for each distinct set of the labels that selectors look at.
pub(super) struct Candidates<'d> {
    /// Best first: priority, then number of requirements, then name.
    ranked: Vec<(&'d Pool, PoolId)>,
    /// The selectors of these pools, in this order.
    selectors: SelectorIndex,
    keys: BTreeSet<&'d str>,
    /// By those of a node's labels that selectors look at.
    known: BTreeMap<Vec<(&'d str, String)>, Arc<[PoolId]>>,
    ties: BTreeMap<(&'d PoolName, &'d PoolName), NodeName>,
}

impl<'d> Candidates<'d> {
    pub(super) fn new(desired: &'d Desired, supply: &Supply) -> Candidates<'d> {
        let mut ranked: Vec<(&Pool, PoolId)> = desired
            .pools
            .values()
            .filter_map(|pool| Some((pool, supply.id(&pool.name)?)))
            .collect();
        ranked.sort_by(|(a, _), (b, _)| Pool::best_first(a, b));
        let keys = desired
            .pools
            .values()
            .flat_map(|pool| pool.selector.keys())
            .collect();
        Candidates {
            selectors: SelectorIndex::new(ranked.iter().map(|(pool, _)| &pool.selector)),
            ranked,
            keys,
            known: BTreeMap::new(),
            ties: BTreeMap::new(),
        }
    }

    /// The pools for a node, best first.
    pub(super) fn of(&mut self, node: &Node) -> Arc<[PoolId]> {
        let looked_at =
            |(key, value): (&String, &String)| Some((*self.keys.get(key.as_str())?, value.clone()));
        let projection: Vec<(&str, String)> = node.labels.iter().filter_map(looked_at).collect();
        if let Some(known) = self.known.get(&projection) {
            return known.clone();
        }
        let matching = self.matching(&node.labels);
        if let [(first, _), (second, _), ..] = matching[..]
            && first.rank() == second.rank()
        {
            self.ties
                .entry((&first.name, &second.name))
                .or_insert_with(|| node.name.clone());
        }
        let ids: Arc<[PoolId]> = matching.into_iter().map(|(_, id)| id).collect();
        self.known.insert(projection, ids.clone());
        ids
    }

    fn matching(&self, labels: &Labels) -> Vec<(&'d Pool, PoolId)> {
        let selector = |place: usize| &self.ranked[place].0.selector;
        let places = self.selectors.matching(labels, selector);
        places.map(|place| self.ranked[place]).collect()
    }

    /// A warning for each pair of pools between which only the name decided, for some node.
    pub(super) fn ties(&self, desired: &Desired) -> Vec<Finding> {
        let finding = |(&(first, second), node): (&(&PoolName, &PoolName), &NodeName)| {
            let (first, second) = (desired.pools.get(first)?, desired.pools.get(second)?);
            if first.selector == second.selector {
                // The checks of the files report this one.
                return None;
            }
            let message = format!(
                "node `{node}` matches pools `{}` and `{}` equally well (priority {}, requirements: {}): only the name decides for `{}`",
                first.name,
                second.name,
                first.priority,
                first.selector.specificity(),
                first.name
            );
            let finding = Finding::new(Severity::Warning, Rule("selector-tie"), message)
                .about(ObjectRef::pool(&second.name));
            Some(
                finding
                    .at(&second.origin, "tied")
                    .and(&first.origin, "first by name")
                    .help("give one of them a higher `priority`"),
            )
        };
        self.ties.iter().filter_map(finding).collect()
    }
}
