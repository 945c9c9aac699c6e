//! The fast path: plans for changed nodes from what the last whole plan left. Its cost grows with
//! the number of these nodes, not with the cluster.
//!
//! It must never write anything but blocks of new nodes: every other change takes a whole plan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{ChangedNodesReport, ControllerEvent, OnEvent, Worker};
use crate::{Job, Loaded, OnConflict};
use ipam_cilium::observed::{Observed, Reader};
use ipam_cluster::{Cluster, ClusterError, Follow};
use ipam_core::model::NodeName;
use ipam_desired::AddressPairs;
use ipam_planner::plan::{
    Change, ChangedNodes, ChangedNodesPlan, NextWholePlan, Plan, PlannedState, Selection, Target,
    VersionRules, node_changes,
};

/// Time until the next whole plan after a change for which others may wait.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// What the last whole plan left.
#[derive(Debug)]
pub(super) struct Known {
    planned_state: PlannedState,
    /// The files of that plan.
    loaded: Arc<Loaded>,
    /// When the next whole plan is due.
    due: Instant,
}

impl Known {
    /// What a whole plan leaves for at most `interval`; `None` if each change takes a whole plan.
    pub(super) fn after(
        plan: &Plan,
        loaded: &Arc<Loaded>,
        observed: &Observed,
        interval: Duration,
    ) -> Option<Known> {
        // Only a whole plan holds back what depends on unknown rules.
        if VersionRules::of(observed) == VersionRules::Unknown {
            return None;
        }
        let planned_state = PlannedState::after(plan, &loaded.desired, observed)?;
        let mut known = Known {
            planned_state,
            loaded: loaded.clone(),
            due: Instant::now() + interval,
        };
        // No event tells when the quarantine of a block ends.
        let freed = time_until_freed(loaded, observed);
        if let Some(freed) = freed.filter(|_| known.planned_state.may_wait_for_addresses()) {
            known.within(freed.max(SOON));
        }
        Some(known)
    }

    /// Notes changes of the whole plan that are written.
    pub(super) fn written(&mut self, applied: &[Change]) {
        self.planned_state.written(node_changes(applied));
    }

    /// Makes the next whole plan due after `time` at the latest.
    pub(super) fn within(&mut self, time: Duration) {
        self.due = self.due.min(Instant::now() + time);
    }

    pub(super) fn time_left(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }
}

/// Whether ports of VMs follow the blocks of nodes.
fn keeps_pairs(loaded: &Loaded) -> bool {
    loaded.desired.policy.address_pairs == AddressPairs::PodCidrs
}

/// The time until the first quarantine of a block ends.
fn time_until_freed(loaded: &Loaded, observed: &Observed) -> Option<Duration> {
    let quarantined = observed
        .live_claims(loaded.desired.policy.quarantine)
        .quarantined;
    let free_at = quarantined
        .into_values()
        .map(|quarantined| quarantined.free_at)
        .min()?;
    Duration::try_from(free_at.duration_since(observed.at)).ok()
}

impl<C: Follow> Worker<'_, C> {
    /// The plan for the nodes that changed in the cache; `None` if it takes a whole plan.
    fn plan_changed(&self, known: &mut Known) -> Option<ChangedNodesPlan> {
        let dirty = self.cache.take_dirty_nodes()?;
        let mut reader = Reader::default();
        for (kind, json) in &dirty.objects {
            reader.object(*kind, json).ok()?;
        }
        for block in &dirty.tombstones {
            reader.tombstone(*block);
        }
        let names: Option<BTreeSet<NodeName>> =
            dirty.names.iter().map(|name| name.parse().ok()).collect();
        let plan = known.planned_state.plan_changed(ChangedNodes {
            names: names?,
            seen: reader.finish(self.cache.uncached().now()),
        })?;
        let has_ports = keeps_pairs(&known.loaded) && !dirty.names.is_empty();
        if plan.next == NextWholePlan::Soon || has_ports {
            known.within(SOON);
        }
        Some(plan)
    }

    /// Plans and applies for changed nodes, and returns the time until the next reconcile is due;
    /// `None` if it takes a whole plan.
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
        let ChangedNodesPlan {
            observed,
            changes,
            blocked,
            update,
            next: _,
        } = self.plan_changed(&mut known)?;
        let (changes, pause) = self.backed_off(changes);
        if pause.is_some() {
            return None;
        }
        if !changes.is_empty() {
            match self
                .apply_to_new_nodes(&loaded, observed, changes, on_event)
                .await
            {
                Ok(None) => {}
                Ok(Some(after)) => return Some(Ok(after)),
                Err(error) => return Some(Err(error)),
            }
        }
        self.report_changed(&ChangedNodesReport { update, blocked }, on_event);
        let due = known.time_left();
        self.known = Some(known);
        Some(Ok(due))
    }

    /// Returns the time until another try, if it takes one.
    async fn apply_to_new_nodes(
        &mut self,
        loaded: &Arc<Loaded>,
        observed: Observed,
        changes: Vec<Change>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let cache = self.cache;
        let uncached = cache.uncached();
        let openstack = self.openstack.clone();
        if keeps_pairs(loaded) {
            openstack.read_ports_of(observed.nodes.values().map(AsRef::as_ref));
        }
        let job = Job {
            loaded,
            undo: None,
            waivers: self.waivers,
            openstack: Some(&openstack),
            selection: Selection::EVERYTHING,
        };
        let conflicts = OnConflict::Leave;
        let tried = self
            .apply(&uncached, &job, observed, changes, conflicts, on_event)
            .await?;
        Ok(self.paused(tried).again)
    }

    fn report_changed(&mut self, changed: &ChangedNodesReport, on_event: &mut OnEvent<'_>) {
        let ChangedNodesReport { update, blocked: _ } = changed;
        if let Some(waiting) = &mut self.reported.waiting {
            waiting.nodes = update.nodes;
            for (node, reason) in &update.blocked {
                let target = Target::Node(node.clone());
                waiting.blocked.retain(|(other, _)| *other != target);
                let place = waiting
                    .blocked
                    .partition_point(|(other, _)| *other < target);
                let reason = reason.clone().map(|reason| (target, reason));
                waiting.blocked.splice(place..place, reason);
            }
            if !update.blocked.is_empty() {
                on_event(ControllerEvent::Waiting(waiting));
            }
        }
        on_event(ControllerEvent::NodesChanged(changed));
    }
}
