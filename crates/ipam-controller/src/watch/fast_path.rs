//! The fast path: serves new nodes from what the last whole plan left. Its cost grows with the
//! number of new nodes, not with the cluster.
//!
//! It must never serve anything else: whatever it cannot explain takes a whole plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{ControllerEvent, OnEvent, Worker};
use crate::{Job, Loaded, OnConflict};
use ipam_cilium::observed::{Node, ObjectVersion, Observed, Reader};
use ipam_cluster::{Cluster, ClusterError, DirtyNodes, Follow};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::AddressPairs;
use ipam_planner::plan::{Change, NewNodes, Plan, PlannedState, Selection, node_changes};

/// Time until the next whole plan after a change that can wait, such as a deleted node.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// What the last whole plan left.
#[derive(Debug)]
pub(super) struct Known {
    planned_state: PlannedState,
    /// The files of that plan.
    loaded: Arc<Loaded>,
    /// The blocks that each node shows.
    blocks: BTreeMap<NodeName, BTreeSet<Block>>,
    /// Served nodes, as they and their CiliumNodes were before. When one shows its block, that is
    /// no change.
    served: BTreeMap<NodeName, (Arc<Node>, Option<ObjectVersion>)>,
    /// When the next whole plan is due.
    due: Instant,
}

impl Known {
    /// What a whole plan leaves for at most `interval`; `None` if nodes cannot be served from it.
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
        // No event tells when the quarantine of a block ends.
        let quarantine_for = loaded.desired.policy.quarantine;
        let freed = observed
            .live_claims(quarantine_for)
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

    /// Makes the next whole plan due after `time` at the latest.
    pub(super) fn within(&mut self, time: Duration) {
        self.due = self.due.min(Instant::now() + time);
    }

    /// The new nodes among the changed ones; `None` if it takes a whole plan.
    fn new_nodes(&mut self, dirty: &DirtyNodes, seen: Observed) -> Option<NewNodes> {
        let shown = shown(&seen);
        dirty
            .tombstones
            .iter()
            .for_each(|block| self.planned_state.take(&block.range()));
        seen.nodes
            .values()
            .for_each(|node| self.planned_state.take_machine(node));
        let mut joined = Vec::new();
        for name in &dirty.names {
            let name: NodeName = name.parse().ok()?;
            let (now, before) = (shown.get(&name), self.blocks.get(&name));
            let had_none = before.is_none_or(BTreeSet::is_empty);
            match seen.nodes.get(&name) {
                Some(node) if now.is_none() && had_none => {
                    joined.push((node.clone(), seen.cilium_nodes.get(&name).cloned()));
                }
                Some(node) if now.is_some() && now == before => {
                    let other = seen.cilium_nodes.get(&name).map(|other| &other.version);
                    let is_expected =
                        |(before, other_before): (Arc<Node>, Option<ObjectVersion>)| {
                            differs_by_its_block(&before, node) && other_before.as_ref() == other
                        };
                    if !self.served.remove(&name).is_some_and(is_expected) {
                        // Something else changed too.
                        self.within(SOON);
                    }
                }
                // Its block stays taken until then.
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

    /// Notes that these nodes receive a block.
    fn serve<'n>(
        &mut self,
        nodes: impl Iterator<Item = (&'n Arc<Node>, Option<&'n ObjectVersion>)>,
    ) {
        for (node, other) in nodes {
            self.served
                .insert(node.name.clone(), (node.clone(), other.cloned()));
        }
    }

    /// Notes the blocks of applied changes.
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

/// Whether two versions of a Node differ only in the fields that show its block.
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
        migration,
        addresses,
        provider_id,
        authors: _,
    } = one;
    (name, uid, created, labels) == (&other.name, &other.uid, &other.created, &other.labels)
        && (unreadable_spec, unreadable_annotation)
            == (&other.unreadable_spec, &other.unreadable_annotation)
        && (attention, protection, migration)
            == (&other.attention, &other.protection, &other.migration)
        && (addresses, provider_id) == (&other.addresses, &other.provider_id)
}

fn shown(observed: &Observed) -> BTreeMap<NodeName, BTreeSet<Block>> {
    let mut blocks: BTreeMap<NodeName, BTreeSet<Block>> = BTreeMap::new();
    for (node, block) in observed.shown_blocks() {
        blocks.entry(node.clone()).or_default().insert(block);
    }
    blocks
}

impl<C: Follow> Worker<'_, C> {
    /// The new nodes among those that changed in the cache; `None` if it takes a whole plan.
    fn read_new_nodes(&self, known: &mut Known) -> Option<NewNodes> {
        let dirty = self.cache.take_dirty_nodes()?;
        let mut reader = Reader::default();
        for (kind, json) in &dirty.objects {
            reader.object(*kind, json).ok()?;
        }
        let now = self.cache.uncached().now();
        known.new_nodes(&dirty, reader.finish(now))
    }

    /// Serves new nodes and returns the time until the next reconcile is due; `None` if it takes a
    /// whole plan.
    pub(super) async fn try_fast_path(
        &mut self,
        on_event: &mut OnEvent<'_>,
    ) -> Option<Result<Duration, ClusterError>> {
        // After a failure on the way nothing of it can be trusted.
        let mut known = self.known.take()?;
        let loaded = self.files.applied_config();
        if known.is_due() || !Arc::ptr_eq(&known.loaded, &loaded) {
            return None;
        }
        let NewNodes {
            observed,
            changes,
            blocked: _,
        } = self.read_new_nodes(&mut known)?;
        let (changes, pause) = self.backed_off(changes);
        if pause.is_some() {
            return None;
        }
        if !changes.is_empty() {
            let cache = self.cache;
            let uncached = cache.uncached();
            let openstack = self.openstack.clone();
            let keeps_pairs = loaded.desired.policy.address_pairs == AddressPairs::PodCidrs;
            if keeps_pairs {
                openstack.read_ports_of(observed.nodes.values().map(AsRef::as_ref));
            }
            let job = Job {
                loaded: &loaded,
                undo: None,
                waivers: self.waivers,
                openstack: Some(&openstack),
                selection: Selection::EVERYTHING,
            };
            let tried = match self
                .apply(
                    &uncached,
                    &job,
                    observed,
                    changes,
                    OnConflict::Leave,
                    on_event,
                )
                .await
            {
                Ok(tried) => self.paused(tried),
                Err(error) => return Some(Err(error)),
            };
            if let Some(after) = tried.again {
                return Some(Ok(after));
            }
            known.note(&tried.applied);
            if keeps_pairs {
                // Their ports do not let these blocks through yet.
                known.within(SOON);
            }
            if let Some(reported) = &mut self.reported.waiting {
                reported.nodes = reported.nodes.max(known.blocks.len());
            }
            on_event(ControllerEvent::Nodes(known.blocks.len()));
        }
        let due = known.due.saturating_duration_since(Instant::now());
        self.known = Some(known);
        Some(Ok(due))
    }
}
