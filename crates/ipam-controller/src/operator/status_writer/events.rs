//! Events: which reports become one, and writing them when no blocks are being written.
//!
//! Events are a courtesy: some are dropped if there are too many.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::StatusWriter;
use crate::{EVENT_NAMESPACE, EventKind, EventSubject, EventText, Loaded};
use ipam_cilium::observed::{Node, Observed};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, Operation, Target, Write};
use ipam_config::custom_resources::StoredObject;
use ipam_core::model::{NodeName, Severity};
use ipam_core::text::joined;
use ipam_desired::CustomKind;
use ipam_plan::plan::{BlockedReason, NodeChange, Plan, Target as Planned};

/// Pause between two Events.
const BETWEEN_EVENTS: Duration = Duration::from_millis(50);

/// Time without a written block before Events are written: more nodes may join.
const QUIET: Duration = Duration::from_millis(500);

/// An Event waits for at most this time.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Whether an Event waits to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queued {
    Yes,
    No,
}

impl StatusWriter {
    pub(super) fn report_invalid(&self, loaded: &Loaded) {
        let errors = loaded
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let objects: BTreeMap<Arc<str>, Arc<StoredObject>> = self
            .objects
            .all()
            .into_iter()
            .map(|object| (object.path(), object))
            .collect();
        for finding in errors {
            if let Some(object) = finding
                .origin
                .as_ref()
                .and_then(|origin| objects.get(&origin.file))
            {
                let message = format!("{}: {}", finding.message, finding.help);
                self.queue(subject(object), EventKind::Warning, "Invalid", message);
            }
        }
    }

    pub(super) fn report_assigned(&self, change: &NodeChange) {
        let pool = change
            .pool
            .as_ref()
            .map(|pool| format!(" of pool {pool}"))
            .unwrap_or_default();
        let about = EventSubject::node(change.node.as_str(), &change.guard.uid);
        let message = format!("{}{pool}", joined(&change.after, ", "));
        self.queue(about, EventKind::Normal, "PodCIDRAssigned", message);
        self.lock().blocked.remove(&change.node);
    }

    pub(super) fn report_blocked(&self, plan: &Plan, observed: &Observed) {
        let mut now: BTreeMap<NodeName, String> = BTreeMap::new();
        for blocked in &plan.blocked {
            let Planned::Node(node) = &blocked.target else {
                continue;
            };
            let Some(seen) = observed.nodes.get(node) else {
                continue;
            };
            now.extend(self.report_blocked_node(seen, &blocked.reason));
        }
        self.lock().blocked = now;
    }

    /// The node and the reason, if that is reported.
    fn report_blocked_node(&self, node: &Node, why: &BlockedReason) -> Option<(NodeName, String)> {
        let reason = why.to_string();
        let is_reported = self.lock().blocked.get(&node.name) == Some(&reason);
        let message = format!("{reason}; {}", why.unblock());
        let about = EventSubject::node(node.name.as_str(), &node.uid);
        let is_reported = is_reported
            || self.queue(about, EventKind::Warning, "PodCIDRBlocked", message) == Queued::Yes;
        is_reported.then(|| (node.name.clone(), reason))
    }

    pub(super) fn report_exhausted(&self) {
        let Some(overview) = self.telemetry.overview() else {
            return;
        };
        let mut now = BTreeSet::new();
        let reported = self.lock().exhausted.clone();
        for (name, pool) in &overview.pools {
            let Some(why) = &pool.exhausted else { continue };
            let of_pool = |one: &&Arc<StoredObject>| {
                one.kind == CustomKind::IpPool && one.name == name.as_str()
            };
            let is_reported = reported.contains(name.as_str())
                || self
                    .objects
                    .all()
                    .iter()
                    .find(of_pool)
                    .is_some_and(|object| {
                        self.queue(
                            subject(object),
                            EventKind::Warning,
                            "Exhausted",
                            why.clone(),
                        ) == Queued::Yes
                    });
            if is_reported {
                now.insert(name.to_string());
            }
        }
        self.lock().exhausted = now;
    }

    fn queue(
        &self,
        about: EventSubject,
        kind: EventKind,
        reason: &'static str,
        message: String,
    ) -> Queued {
        match self.events.try_send(EventText {
            about,
            kind,
            reason,
            message,
        }) {
            Ok(()) => Queued::Yes,
            Err(_) => Queued::No,
        }
    }

    /// Time that must still pass without a written block before Events are written.
    fn quiet_for(&self) -> Option<Duration> {
        let since = self
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed();
        QUIET.checked_sub(since).filter(|left| !left.is_zero())
    }

    /// Writes Events while the future is polled.
    pub(in crate::operator) async fn keep_events(
        &self,
        cluster: &LiveCluster,
        mut events: mpsc::Receiver<EventText>,
    ) -> Infallible {
        loop {
            let Some(event) = events.recv().await else {
                return std::future::pending().await;
            };
            let began = Instant::now();
            while let Some(left) = self.quiet_for().filter(|_| began.elapsed() < LONGEST_WAIT) {
                sleep(left).await;
            }
            if self.is_active() {
                let operation = Operation::Create(event.object(&self.identity, cluster.now()));
                let _ = cluster
                    .write(&Write {
                        target: Target::Event {
                            namespace: EVENT_NAMESPACE,
                        },
                        operation,
                    })
                    .await;
                sleep(BETWEEN_EVENTS).await;
            }
        }
    }
}

fn subject(object: &StoredObject) -> EventSubject {
    EventSubject::custom(object.kind, &object.name, &object.version.uid)
}
