//! Undo of `CiliumPodIPPool`s and of the `CiliumNodeConfig`s that choose among them.
//!
//! A pool is deleted or cut only where no node has or requests its addresses.

mod obstacles;

use std::collections::{BTreeMap, BTreeSet};

use super::choices::{PREFIX, other_settings, place};
use super::pools::{ClusterPools, hidden};
use super::{PodPoolCause, PodPoolChange, PodPoolObject, PodPoolSpec, order, saved};
use crate::openstack::SubnetPools;
use crate::plan::blocked::{Blocked, BlockedReason, PodPoolObstacle, UndoObstacle};
use crate::plan::change::{Change, Target};
use crate::plan::document::{ChangeDocument, EditDocument, PlanDocument};
use crate::plan::foreign_ranges;
use crate::plan::lb::PoolAction;
use ipam_cilium::observed::{NodeConfig, Observed, PodRanges, SeenPodPool};
use ipam_core::model::{
    Hazard, NodeName, OWNER_LABEL, ObjectVersion, PerFamily, PoolName, Selector,
};
use ipam_core::net::{Block, Range, merge, overlapping_pairs};
use ipam_desired::Desired;

/// The changes that undo these, in the order in which they are sent, and those that would lose
/// fields.
pub(in crate::plan) fn inverted(
    changes: &[&Change],
    observed: &Observed,
) -> (Vec<Change>, Vec<Blocked>) {
    let (mut undone, mut blocked) = (Vec::new(), Vec::new());
    for change in changes {
        let Change::PodPool(change) = change else {
            continue;
        };
        if !change.lost_fields.is_empty() {
            blocked.push(Blocked {
                target: change.object.target(),
                reason: UndoObstacle::LosesFields(change.lost_fields.clone()).into(),
                origin: None,
            });
            continue;
        }
        // Agents may start before the plan is used.
        let disturbed = disturbed(&change.before, &change.after, |nodes| {
            let nodes = observed
                .nodes
                .values()
                .filter(|node| nodes.matches(&node.labels));
            nodes.map(|node| node.name.clone()).collect()
        });
        undone.push(PodPoolChange {
            action: inverse(change.action),
            before: change.after.clone(),
            after: change.before.clone(),
            hazard: hazard(&change.after, &change.before),
            disturbed,
            origin: None,
            cause: PodPoolCause::Undo,
            ..(**change).clone()
        });
    }
    undone.sort_by_key(order);
    (undone.into_iter().map(Change::from).collect(), blocked)
}

fn inverse(action: PoolAction) -> PoolAction {
    match action {
        PoolAction::Create => PoolAction::Delete,
        PoolAction::Delete => PoolAction::Create,
        PoolAction::Update | PoolAction::Restore => PoolAction::Restore,
        PoolAction::Adopt => PoolAction::Disown,
        PoolAction::Disown => PoolAction::Adopt,
    }
}

/// The hazard when the undo is saved and when it is applied: agents in between do not change it.
fn hazard(before: &Option<PodPoolSpec>, after: &Option<PodPoolSpec>) -> Hazard {
    match (before, after) {
        (Some(PodPoolSpec::Choice { .. }), _) | (_, Some(PodPoolSpec::Choice { .. })) => {
            Hazard::Disruptive
        }
        (Some(PodPoolSpec::Pool(before)), after) => match removed(before, after.as_ref()).next() {
            Some(_) => Hazard::Disruptive,
            None => Hazard::None,
        },
        (None, _) => Hazard::None,
    }
}

/// The CIDRs that do not stay whole.
fn removed<'b>(
    before: &'b PerFamily<PodRanges>,
    after: Option<&'b PodPoolSpec>,
) -> impl Iterator<Item = Block> + 'b {
    let left = after.and_then(PodPoolSpec::as_pool);
    let cidrs = before
        .iter()
        .flat_map(|ranges| ranges.cidrs.iter().copied());
    cidrs.filter(move |cidr| !left.is_some_and(|left| has(left, *cidr)))
}

/// Whether one CIDR has the whole block.
fn has(ranges: &PerFamily<PodRanges>, block: Block) -> bool {
    let of_family = ranges.get(block.family());
    of_family.is_some_and(|ranges| ranges.cidrs.iter().any(|cidr| cidr.contains(block)))
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
pub(in crate::plan) fn undone(
    saved: &PlanDocument,
    desired: &Desired,
    observed: &Observed,
) -> (Vec<Change>, Vec<Blocked>) {
    let wanted = || {
        let is_of_pod_pool =
            |wanted: &&ChangeDocument| matches!(wanted.edit, EditDocument::PodPool(_));
        saved.changes.iter().filter(is_of_pod_pool)
    };
    if wanted().next().is_none() {
        return (Vec::new(), Vec::new());
    }
    let reserved = desired.pools.values();
    let reserved = reserved.flat_map(|pool| pool.reserved.iter().copied());
    let planner = UndoPlanner {
        saved,
        cluster: ClusterPools::new(observed),
        subnets: SubnetPools::resolve(desired, observed),
        taken: merge(
            foreign_ranges(desired, observed)
                .into_iter()
                .chain(reserved),
        ),
    };
    let (mut changes, mut blocked) = (Vec::new(), Vec::new());
    for wanted in wanted() {
        match planner.change(wanted) {
            Some(Ok(change)) => changes.push(change),
            Some(Err((target, reason))) => blocked.push(Blocked {
                target,
                reason,
                origin: None,
            }),
            None => {}
        }
    }
    let refusals = overlapping_each_other(&changes);
    let (kept, refused): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .enumerate()
        .partition(|(index, _)| !refusals.contains_key(index));
    blocked.extend(refused.iter().filter_map(|(index, change)| {
        Some(Blocked {
            target: change.object.target(),
            reason: refusals.get(index)?.clone().into(),
            origin: None,
        })
    }));
    let mut changes: Vec<PodPoolChange> = kept.into_iter().map(|(_, change)| change).collect();
    changes.sort_by_key(order);
    (changes.into_iter().map(Change::from).collect(), blocked)
}

/// Pools that would get addresses which another change of the same plan gives to its pool, by index.
/// Cilium does not compare pools.
fn overlapping_each_other(changes: &[PodPoolChange]) -> BTreeMap<usize, PodPoolObstacle> {
    let cidrs = changes.iter().enumerate().flat_map(|(index, change)| {
        let pool = change.after.as_ref().and_then(PodPoolSpec::as_pool);
        let ranges = pool.into_iter().flat_map(PerFamily::iter);
        ranges
            .flat_map(|ranges| ranges.cidrs.iter().copied())
            .map(move |cidr| (cidr, index))
    });
    let cidrs: Vec<(Block, usize)> = cidrs.collect();
    let places = cidrs.iter().enumerate();
    let pairs = overlapping_pairs(places.map(|(place, (cidr, _))| (cidr.range(), place)));
    let mut refused = BTreeMap::new();
    for (one, other) in pairs {
        let (one, other) = (cidrs[one], cidrs[other]);
        let (first, second) = (one.1.min(other.1), one.1.max(other.1));
        if first != second {
            let name = changes[first].pool.to_string();
            let obstacle = PodPoolObstacle::Overlaps(Box::new((one.0, name)));
            refused.entry(second).or_insert(obstacle);
        }
    }
    refused
}

struct UndoPlanner<'u> {
    saved: &'u PlanDocument,
    cluster: ClusterPools<'u>,
    subnets: SubnetPools<'u>,
    /// Addresses that no pool of Pods may have, merged.
    taken: Vec<Range>,
}

/// A saved change that a plan can have.
struct Wanted {
    action: PoolAction,
    pool: PoolName,
    from: Option<PodPoolSpec>,
    to: Option<PodPoolSpec>,
}

/// The object as it is now.
struct Seen {
    spec: PodPoolSpec,
    version: ObjectVersion,
    is_ours: bool,
    owner: Option<String>,
    unreadable: Option<String>,
    lost_fields: Vec<String>,
}

type Outcome = Option<Result<PodPoolChange, (Target, BlockedReason)>>;

impl UndoPlanner<'_> {
    /// `None` if there is nothing to undo, or the object shows something else.
    fn change(&self, document: &ChangeDocument) -> Outcome {
        let observed = self.cluster.observed;
        let is_pool = document.kind == Target::PodPool(String::new()).kind();
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
            true => self.obstacle_to_pool(&document.name, &wanted),
            false => self.obstacle_to_choice(&wanted),
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
            return Some(Ok(PodPoolObject::Pool(name.to_string())));
        }
        let name = document.name.clone();
        let place = place(self.cluster.observed);
        name.starts_with(PREFIX)
            .then(|| place.map(|(api, namespace)| PodPoolObject::Choice(api, namespace, name)))
    }
}

fn wanted(document: &ChangeDocument, is_pool: bool) -> Option<Wanted> {
    let spec = |edit: &EditDocument| match edit {
        EditDocument::PodPool(None) => Some(None),
        EditDocument::PodPool(Some(spec)) if is_pool => saved::pool(spec).map(Some),
        EditDocument::PodPool(Some(spec)) => saved::choice(spec).map(Some),
        _ => None,
    };
    let (to, from) = (spec(&document.edit)?, spec(document.undo.as_ref()?)?);
    let action: PoolAction = document.action.parse().ok()?;
    let fits = match (&from, &to) {
        (None, None) => false,
        (None, Some(_)) => action == PoolAction::Create,
        (Some(_), None) => action == PoolAction::Delete,
        (Some(from), Some(to)) if from == to => {
            matches!(action, PoolAction::Adopt | PoolAction::Disown)
        }
        (Some(_), Some(_)) => matches!(
            action,
            PoolAction::Restore | PoolAction::Adopt | PoolAction::Disown
        ),
    };
    let is_known = fits && (is_pool || !matches!(action, PoolAction::Adopt | PoolAction::Disown));
    is_known.then_some(Wanted {
        action,
        pool: document.pool.as_ref()?.parse().ok()?,
        from,
        to,
    })
}

impl From<&SeenPodPool> for Seen {
    fn from(seen: &SeenPodPool) -> Seen {
        Seen {
            spec: seen.into(),
            version: seen.version.clone(),
            is_ours: seen.is_ours(),
            owner: seen.labels.get(OWNER_LABEL.0).cloned(),
            unreadable: seen.unreadable.first().cloned(),
            lost_fields: seen.other_fields.clone(),
        }
    }
}

impl From<&NodeConfig> for Seen {
    fn from(seen: &NodeConfig) -> Seen {
        Seen {
            spec: seen.into(),
            version: seen.version.clone(),
            is_ours: seen.is_ours(),
            owner: seen.labels.get(OWNER_LABEL.0).cloned(),
            unreadable: None,
            lost_fields: other_settings(seen),
        }
    }
}

impl Seen {
    fn obstacle(&self) -> Option<BlockedReason> {
        match &self.unreadable {
            Some(text) => Some(BlockedReason::Unreadable(text.clone())),
            None => (!self.version.is_known()).then_some(BlockedReason::NoIdentity),
        }
    }
}
