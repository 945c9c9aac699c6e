//! Undo of `CiliumPodIPPool`s and of the `CiliumNodeConfig`s that choose among them.
//!
//! A pool is deleted or cut only where no node has or requests its addresses.

mod cidrs;
mod obstacles;
mod planned;
mod record;
mod seen;

use std::collections::{BTreeMap, BTreeSet};

use self::cidrs::Cidrs;
use self::planned::{Phase, Planned};
use self::seen::{Seen, Wanted, wanted};
use super::choices::{PREFIX, place};
use super::pools::{ClusterPools, hidden};
use super::{PodPoolCause, PodPoolChange, PodPoolObject, PodPoolSpec};
use crate::openstack::SubnetPools;
use crate::plan::blocked::{Blocked, BlockedReason, PodPoolObstacle};
use crate::plan::change::{Change, Target};
use crate::plan::document::{ChangeDocument, EditDocument, PlanDocument};
use crate::plan::foreign_ranges;
use crate::plan::lb::PoolAction;
use ipam_cilium::observed::{CiliumNode, NodeConfig, Observed};
use ipam_core::model::{Hazard, NodeName, PoolName, Selector};
use ipam_core::net::{Range, merge};
use ipam_desired::Desired;

pub(in crate::plan) use record::inverted;

/// The hazard when the undo is saved and when it is applied: agents in between do not change it.
fn hazard(before: &Option<PodPoolSpec>, after: &Option<PodPoolSpec>) -> Hazard {
    match (before, after) {
        (Some(PodPoolSpec::Choice { .. }), _) | (_, Some(PodPoolSpec::Choice { .. })) => {
            Hazard::Disruptive
        }
        (Some(PodPoolSpec::Pool(before)), after) => {
            let left = after.as_ref().and_then(PodPoolSpec::as_pool);
            match Cidrs::new(left).have_all(before) {
                true => Hazard::None,
                false => Hazard::Disruptive,
            }
        }
        (None, _) => Hazard::None,
    }
}

fn disturbed(
    before: &Option<PodPoolSpec>,
    after: &Option<PodPoolSpec>,
    of: impl Fn(&Selector) -> BTreeSet<NodeName>,
) -> BTreeSet<NodeName> {
    let specs = [before, after].into_iter().flatten();
    let selectors = specs.filter_map(|spec| match spec {
        PodPoolSpec::Choice { nodes, .. } => Some(nodes),
        PodPoolSpec::Pool(_) => None,
    });
    selectors.flat_map(of).collect()
}

/// The objects of an undo plan that still show the applied values.
///
/// A blocked object does not hold up the others, unless they depend on it. A choice depends on its
/// pool, the deletion of a choice on the choices that replace it, and the deletion of a pool on the
/// choices that let go of it.
pub(in crate::plan) fn undone(
    saved: &PlanDocument,
    desired: &Desired,
    observed: &Observed,
) -> (Vec<Change>, Vec<Blocked>) {
    let documents = || {
        let is_of_pod_pool =
            |wanted: &&ChangeDocument| matches!(wanted.edit, EditDocument::PodPool(_));
        saved.changes.iter().filter(is_of_pod_pool)
    };
    if documents().next().is_none() {
        return (Vec::new(), Vec::new());
    }
    let planner = UndoPlanner::new(documents(), desired, observed);
    let mut planned = Planned::default();
    for phase in Phase::ALL {
        for document in documents().filter(|document| Phase::of(document) == phase) {
            if let Some(outcome) = planner.change(document, &planned) {
                planned.add(outcome);
            }
        }
        planned.refuse_overlapping();
    }
    planned.finish()
}

fn is_pool(document: &ChangeDocument) -> bool {
    document.kind == Target::PodPool(String::new()).kind()
}

struct UndoPlanner<'u> {
    cluster: ClusterPools<'u>,
    subnets: SubnetPools<'u>,
    /// Addresses that no pool of Pods may have, merged.
    taken: Vec<Range>,
    /// The pools of the undo, each with whether it exists afterwards.
    pools: BTreeMap<&'u str, Existence>,
    /// The `CiliumNodeConfig`s that choose each pool now.
    choosing: BTreeMap<&'u str, Vec<&'u NodeConfig>>,
    /// The CiliumNodes that request addresses of each pool.
    requesting: BTreeMap<&'u str, Vec<&'u CiliumNode>>,
}

/// Whether a pool exists after the undo.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existence {
    Exists,
    Deleted,
}

type Outcome = Option<Result<PodPoolChange, (Target, BlockedReason)>>;

impl<'u> UndoPlanner<'u> {
    fn new(
        documents: impl Iterator<Item = &'u ChangeDocument>,
        desired: &'u Desired,
        observed: &'u Observed,
    ) -> UndoPlanner<'u> {
        let reserved = desired.pools.values();
        let reserved = reserved.flat_map(|pool| pool.reserved.iter().copied());
        let foreign = foreign_ranges(desired, observed).into_iter();
        let mut choosing: BTreeMap<&str, Vec<&NodeConfig>> = BTreeMap::new();
        for config in observed.node_configs.iter() {
            if let Some(pool) = config.default_pool() {
                choosing.entry(pool).or_default().push(config);
            }
        }
        let mut requesting: BTreeMap<&str, Vec<&CiliumNode>> = BTreeMap::new();
        for node in observed.cilium_nodes.values() {
            for (pool, _) in &node.requested {
                requesting.entry(pool).or_default().push(node);
            }
        }
        let existence = |document: &'u ChangeDocument| match document.edit {
            EditDocument::PodPool(None) => (document.name.as_str(), Existence::Deleted),
            _ => (document.name.as_str(), Existence::Exists),
        };
        UndoPlanner {
            cluster: ClusterPools::new(observed),
            subnets: SubnetPools::resolve(desired, observed),
            taken: merge(foreign.chain(reserved)),
            pools: documents
                .filter(|one| is_pool(one))
                .map(existence)
                .collect(),
            choosing,
            requesting,
        }
    }

    /// `None` if there is nothing to undo, or the object shows something else.
    fn change(&self, document: &ChangeDocument, planned: &Planned) -> Outcome {
        let observed = self.cluster.observed;
        let is_pool = is_pool(document);
        let wanted = wanted(document, is_pool)?;
        let target = match is_pool {
            true => Target::PodPool(document.name.clone()),
            false => Target::NodeConfig(document.name.clone()),
        };
        if let Some(spot) = hidden(observed) {
            let reason = PodPoolObstacle::Hidden(spot.why.clone());
            return Some(Err((target, reason.into())));
        }
        let seen = match is_pool {
            true => observed.pod_pools.get(&document.name).map(Seen::from),
            false => observed.node_config(&document.name).map(Seen::from),
        };
        let has_wanted_owner = |seen: &Seen| match wanted.action {
            PoolAction::Adopt => seen.owner.is_none(),
            _ => seen.is_ours,
        };
        if seen.as_ref().map(|seen| &seen.spec) != wanted.from.as_ref()
            || !seen.as_ref().is_none_or(has_wanted_owner)
        {
            return None;
        }
        let object = match self.object(document, is_pool)? {
            Ok(object) => object,
            Err(reason) => return Some(Err((target, reason))),
        };
        let obstacle = match is_pool {
            true => self.obstacle_to_pool(&document.name, &wanted, planned),
            false => self.obstacle_to_choice(&wanted, planned),
        };
        if let Some(reason) = obstacle.or_else(|| seen.as_ref().and_then(Seen::obstacle)) {
            return Some(Err((target, reason)));
        }
        Some(Ok(self.written(object, wanted, seen)))
    }

    fn written(&self, object: PodPoolObject, wanted: Wanted, seen: Option<Seen>) -> PodPoolChange {
        let Wanted {
            action,
            pool,
            from: before,
            to: after,
        } = wanted;
        let (guard, lost_fields) = match seen {
            Some(seen) if after.is_none() => (seen.version, seen.lost_fields),
            Some(seen) => (seen.version, Vec::new()),
            None => Default::default(),
        };
        PodPoolChange {
            action,
            object,
            pool,
            hazard: hazard(&before, &after),
            disturbed: disturbed(&before, &after, |nodes| self.running(nodes)),
            before,
            after,
            guard,
            origin: None,
            cause: PodPoolCause::Undo,
            lost_fields,
        }
    }

    /// Nodes of a selector with running agents.
    fn running(&self, nodes: &Selector) -> BTreeSet<NodeName> {
        let observed = self.cluster.observed;
        let runs = |node: &NodeName| {
            let cilium_node = observed.cilium_nodes.get(node);
            cilium_node.is_some_and(|node| !node.allocated.is_empty())
        };
        let selected = observed
            .nodes
            .values()
            .filter(|node| nodes.matches(&node.labels));
        let names = selected.map(|node| &node.name);
        names.filter(|name| runs(name)).cloned().collect()
    }

    /// `None` for a name that no plan gives.
    fn object(
        &self,
        document: &ChangeDocument,
        is_pool: bool,
    ) -> Option<Result<PodPoolObject, BlockedReason>> {
        if is_pool {
            let name: PoolName = document.name.parse().ok()?;
            let api = self.cluster.observed.pod_pool_api();
            return Some(Ok(PodPoolObject::Pool(api, name.to_string())));
        }
        let name = document.name.clone();
        let place = place(self.cluster.observed);
        name.starts_with(PREFIX)
            .then(|| place.map(|(api, namespace)| PodPoolObject::Choice(api, namespace, name)))
    }
}
