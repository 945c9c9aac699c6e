//! Nodes that join, served from what the last whole plan left: what that costs follows the nodes,
//! not the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{ControllerEvent, OnEvent, Work};
use crate::{Job, Loaded, LostRaces};
use ipam_cilium::observed::{Node, ObjectVersion, Observed, Reader};
use ipam_cluster::{Cluster, ClusterError, Follow, Touched};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_planner::plan::{Change, Newcomers, Plan, PlannedState, node_changes};

/// How soon all is planned again when something has changed that is not urgent, such as a node that
/// is gone.
const SOON: Duration = Duration::from_secs(5);

/// What is known since the last whole plan.
#[derive(Debug)]
pub(super) struct Known {
    planned_state: PlannedState,
    /// The files that it was made from.
    loaded: Arc<Loaded>,
    /// What each node shows.
    blocks: BTreeMap<NodeName, BTreeSet<Block>>,
    /// Nodes that were served, as they and their CiliumNodes were before: that their block shows is
    /// no news.
    served: BTreeMap<NodeName, (Arc<Node>, Option<ObjectVersion>)>,
    /// When all must be planned again.
    due: Instant,
}

impl Known {
    /// What a whole plan leaves, if nodes can be served from it, for so long.
    pub(super) fn after(
        plan: &Plan,
        loaded: &Arc<Loaded>,
        observed: &Observed,
        interval: Duration,
    ) -> Option<Known> {
        let planned_state = PlannedState::after(plan, &loaded.desired, observed)?;
        let mut blocks = shown(observed);
        for name in observed.nodes.keys() {
            blocks.entry(name.clone()).or_default();
        }
        // What rests is free at some time, and nothing tells of it.
        let rest = loaded.desired.policy.quarantine;
        let freed = observed
            .claims_in_force(rest)
            .quarantined
            .into_values()
            .map(|quarantined| quarantined.free_at)
            .min();
        let freed = freed.and_then(|at| Duration::try_from(at.duration_since(observed.at)).ok());
        let due =
            Instant::now() + freed.map_or(interval, |freed| freed.clamp(SOON, interval.max(SOON)));
        let mut known = Known {
            planned_state,
            loaded: loaded.clone(),
            blocks,
            served: BTreeMap::new(),
            due,
        };
        let new = node_changes(
            plan.changes
                .iter()
                .filter(|change| change.gives_to_a_new_node()),
        );
        let new = new.filter_map(|change| observed.nodes.get(&change.node));
        known.serve(new.map(|node| {
            (
                node,
                observed
                    .cilium_nodes
                    .get(&node.name)
                    .map(|other| &other.version),
            )
        }));
        Some(known)
    }

    /// All is planned again after this time at the latest.
    pub(super) fn within(&mut self, time: Duration) {
        self.due = self.due.min(Instant::now() + time);
    }

    /// The newcomers among these; `None` where it takes a whole plan.
    fn newcomers(&mut self, touched: &Touched, seen: Observed) -> Option<Newcomers> {
        let shown = shown(&seen);
        touched
            .lingering
            .iter()
            .for_each(|block| self.planned_state.take(&block.range()));
        seen.nodes
            .values()
            .for_each(|node| self.planned_state.take_machine(node));
        let mut joined = Vec::new();
        for name in &touched.names {
            let name: NodeName = name.parse().ok()?;
            let (now, before) = (shown.get(&name), self.blocks.get(&name));
            let had_none = before.is_none_or(BTreeSet::is_empty);
            match seen.nodes.get(&name) {
                Some(node) if now.is_none() && had_none => {
                    joined.push((node.clone(), seen.cilium_nodes.get(&name).cloned()));
                }
                Some(node) if now.is_some() && now == before => {
                    let other = seen.cilium_nodes.get(&name).map(|other| &other.version);
                    let is_told = |(before, other_before): (Arc<Node>, Option<ObjectVersion>)| {
                        differs_by_its_block(&before, node) && other_before.as_ref() == other
                    };
                    if !self.served.remove(&name).is_some_and(is_told) {
                        // Something else of it has changed.
                        self.within(SOON);
                    }
                }
                // What it had stays taken until then.
                None if now.is_none() => self.within(SOON),
                Some(_) | None => return None,
            }
        }
        self.serve(
            joined
                .iter()
                .map(|(node, other)| (node, other.as_ref().map(|other| &other.version))),
        );
        let Observed { claims, at, .. } = seen;
        let newcomers = self
            .planned_state
            .newcomers(&self.loaded.desired, claims, at, joined)?;
        let are_served = newcomers.blocked.is_empty()
            && newcomers.changes.iter().all(Change::gives_to_a_new_node);
        are_served.then_some(newcomers)
    }

    /// These nodes are given a block.
    fn serve<'n>(
        &mut self,
        nodes: impl Iterator<Item = (&'n Arc<Node>, Option<&'n ObjectVersion>)>,
    ) {
        for (node, other) in nodes {
            self.served
                .insert(node.name.clone(), (node.clone(), other.cloned()));
        }
    }

    /// These nodes have their blocks.
    pub(super) fn note(&mut self, applied: &[Change]) {
        for node in node_changes(applied) {
            self.blocks
                .insert(node.node.clone(), node.after.iter().copied().collect());
        }
    }

    fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }
}

/// Whether nothing else than what tells of its block differs between two versions of a Node.
fn differs_by_its_block(one: &Node, other: &Node) -> bool {
    // Every field is named, so that a new one cannot be forgotten here.
    let Node {
        name,
        uid,
        resource_version: _,
        created,
        labels,
        spec: _,
        annotation: _,
        old_annotation: _,
        shown: _,
        unreadable_spec,
        unreadable_annotation,
        attention,
        protection,
        addresses,
        provider_id,
        authors: _,
    } = one;
    (name, uid, created, labels) == (&other.name, &other.uid, &other.created, &other.labels)
        && (unreadable_spec, unreadable_annotation)
            == (&other.unreadable_spec, &other.unreadable_annotation)
        && (attention, protection) == (&other.attention, &other.protection)
        && (addresses, provider_id) == (&other.addresses, &other.provider_id)
}

fn shown(observed: &Observed) -> BTreeMap<NodeName, BTreeSet<Block>> {
    let mut blocks: BTreeMap<NodeName, BTreeSet<Block>> = BTreeMap::new();
    for (node, block) in observed.shown_blocks() {
        blocks.entry(node.clone()).or_default().insert(block);
    }
    blocks
}

impl<C: Follow> Work<'_, C> {
    /// Serves nodes that joined; `None` where it takes a whole plan. Gives the time after which
    /// there is more to do.
    pub(super) async fn join(
        &mut self,
        on_event: &mut OnEvent<'_>,
    ) -> Option<Result<Duration, ClusterError>> {
        // What goes wrong on the way leaves nothing that could be relied on.
        let mut known = self.known.take()?;
        let loaded = self.files.in_force();
        if known.is_due() || !Arc::ptr_eq(&known.loaded, &loaded) {
            return None;
        }
        let touched = self.cache.touched()?;
        let mut reader = Reader::default();
        for (kind, json) in &touched.objects {
            reader.object(*kind, json).ok()?;
        }
        let cache = self.cache;
        let direct = cache.direct();
        let Newcomers {
            observed,
            changes,
            blocked: _,
        } = known.newcomers(&touched, reader.finish(direct.now()))?;
        let (changes, pause) = self.restrained(changes);
        if pause.is_some() {
            return None;
        }
        if !changes.is_empty() {
            let openstack = self.openstack.clone();
            let job = Job {
                loaded: &loaded,
                undo: None,
                waivers: self.waivers,
                openstack: Some(&openstack),
            };
            let tried = match self
                .apply(&direct, &job, observed, changes, LostRaces::Left, on_event)
                .await
            {
                Ok(tried) => tried,
                Err(error) => return Some(Err(error)),
            };
            if let Some(after) = tried.again {
                return Some(Ok(after));
            }
            known.note(&tried.applied);
            if let Some(told) = &mut self.told.waiting {
                told.nodes = told.nodes.max(known.blocks.len());
            }
            on_event(ControllerEvent::Nodes(known.blocks.len()));
        }
        let due = known.due.saturating_duration_since(Instant::now());
        self.known = Some(known);
        Some(Ok(due))
    }
}
