//! What is told in the cluster: statuses and finalizers of our objects, and Events. One process tells, the one that leads; what it could not
//! write is written with the next change.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::objects::Objects;
use crate::apply::Outcome;
use crate::cluster::live::LiveCluster;
use crate::cluster::{Cluster, Operation, Target, Write};
use crate::custom::{CustomKind, EventKind, EventSubject, EventText, ObjectState, StoredObject, Told};
use crate::desired::Documents;
use crate::model::{Finding, NodeName, Severity};
use crate::plan::{Overview, PoolOverview, Target as Planned};
use crate::run::{Loaded, News, Telemetry};

/// Statuses are written no more often than this: a thousand nodes that join are one change of a pool.
const PAUSE: Duration = Duration::from_secs(1);

/// They are looked at again after this time without a sign, for what could not be written.
const AGAIN: Duration = Duration::from_secs(30);

/// Between two Events: they must not be in the way of blocks.
const BETWEEN_EVENTS: Duration = Duration::from_millis(20);

/// Events that wait; those beyond it are not written.
const EVENTS: usize = 2_048;

/// Writes of statuses at the same time.
const PARALLELISM: usize = 4;

/// Whether this process tells anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Speaks,
    IsSilent,
}

/// What is told, and who hears of the news for it.
#[derive(Debug)]
pub(super) struct Bulletin {
    objects: Arc<Objects>,
    telemetry: Arc<Telemetry>,
    identity: String,
    state: Mutex<State>,
    speaks: AtomicBool,
    stirred: Notify,
    events: mpsc::Sender<EventText>,
}

#[derive(Debug, Default)]
struct State {
    findings: Vec<Finding>,
    in_force: Documents,
    /// What the last whole plan was made from.
    planned: Documents,
    waiting: usize,
    /// Nodes that were told of as blocked, with the reason.
    blocked: BTreeMap<NodeName, String>,
    /// Pools that were told of as exhausted.
    exhausted: BTreeSet<String>,
}

impl Bulletin {
    pub(super) fn new(
        objects: Arc<Objects>,
        telemetry: Arc<Telemetry>,
        identity: String,
    ) -> (Bulletin, mpsc::Receiver<EventText>) {
        let (events, receiver) = mpsc::channel(EVENTS);
        let (state, speaks, stirred) = (Mutex::default(), AtomicBool::new(false), Notify::new());
        (Bulletin { objects, telemetry, identity, state, speaks, stirred, events }, receiver)
    }

    pub(super) fn give(&self, voice: Voice) {
        self.speaks.store(voice == Voice::Speaks, Ordering::Relaxed);
        self.stirred.notify_one();
    }

    /// Takes note of the news. Never waits.
    pub(super) fn hear(&self, news: &News<'_>) {
        match news {
            News::InForce(loaded) => {
                let mut state = self.lock();
                state.findings.clone_from(&loaded.findings);
                state.in_force = loaded.documents.clone();
            }
            News::Invalid(loaded) => self.invalid(loaded),
            News::Planned(planned) => {
                self.lock().planned = planned.loaded.documents.clone();
                self.blocked(planned.plan, planned.observed);
                self.exhausted();
            }
            News::Waiting(waiting) => self.lock().waiting = waiting.for_a_person.len(),
            News::Finished { change, outcome: Outcome::Applied, .. } => {
                if let Some(change) = change.as_node() {
                    let blocks: Vec<String> = change.after.iter().map(ToString::to_string).collect();
                    let pool = change.pool.as_ref().map(|pool| format!(" of pool {pool}")).unwrap_or_default();
                    let about = EventSubject::node(change.node.as_str(), &change.guard.uid);
                    self.event(about, EventKind::Normal, "PodCIDRAssigned", format!("{}{pool}", blocks.join(", ")));
                    self.lock().blocked.remove(&change.node);
                }
            }
            _ => return,
        }
        self.stirred.notify_one();
    }

    fn invalid(&self, loaded: &Loaded) {
        self.lock().findings.clone_from(&loaded.findings);
        let errors = loaded.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let objects = self.objects.all();
        for finding in errors {
            let file = finding.origin.as_ref().map(|origin| origin.file.clone());
            if let Some(object) = objects.iter().find(|object| Some(object.path()) == file) {
                let message = format!("{}: {}", finding.message, finding.help);
                self.event(subject(object), EventKind::Warning, "Invalid", message);
            }
        }
    }

    fn blocked(&self, plan: &crate::plan::Plan, observed: &crate::observed::Observed) {
        let mut now: BTreeMap<NodeName, String> = BTreeMap::new();
        for blocked in &plan.blocked {
            let Planned::Node(node) = &blocked.target else { continue };
            let Some(seen) = observed.nodes.get(node) else { continue };
            let reason = blocked.reason.to_string();
            if self.lock().blocked.get(node) != Some(&reason) {
                let message = format!("{reason}; {}", blocked.reason.unblock());
                let about = EventSubject::node(node.as_str(), &seen.uid);
                self.event(about, EventKind::Warning, "PodCIDRBlocked", message);
            }
            now.insert(node.clone(), reason);
        }
        self.lock().blocked = now;
    }

    fn exhausted(&self) {
        let Some(overview) = self.telemetry.overview() else { return };
        let mut now = BTreeSet::new();
        for (name, pool) in &overview.pools {
            let Some(why) = &pool.exhausted else { continue };
            now.insert(name.to_string());
            let is_told = self.lock().exhausted.contains(name.as_str());
            let of_pool = |one: &&StoredObject| one.kind == CustomKind::IpPool && one.name == name.as_str();
            if let Some(object) = self.objects.all().iter().find(of_pool).filter(|_| !is_told) {
                self.event(subject(object), EventKind::Warning, "Exhausted", why.clone());
            }
        }
        self.lock().exhausted = now;
    }

    fn event(&self, about: EventSubject, kind: EventKind, reason: &'static str, message: String) {
        // Events are a courtesy: with too many of them, some are not told.
        let _ = self.events.try_send(EventText { about, kind, reason, message });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn speaks(&self) -> bool {
        self.speaks.load(Ordering::Relaxed)
    }

    /// Writes Events, for as long as it is polled.
    pub(super) async fn keep_events(&self, cluster: &LiveCluster, mut events: mpsc::Receiver<EventText>) -> Infallible {
        loop {
            let Some(event) = events.recv().await else { return std::future::pending().await };
            if self.speaks() {
                let operation = Operation::Create(event.object(&self.identity, cluster.now()));
                let _ = cluster.write(&Write { target: Target::Event, operation }).await;
                sleep(BETWEEN_EVENTS).await;
            }
        }
    }

    /// Keeps statuses and finalizers, for as long as it is polled.
    pub(super) async fn keep_statuses(&self, cluster: &LiveCluster) -> Infallible {
        // What was written, by the version that it was written over.
        let mut written: BTreeMap<(CustomKind, String), String> = BTreeMap::new();
        loop {
            tokio::select! {
                () = self.objects.changed() => {}
                () = self.stirred.notified() => {}
                () = sleep(AGAIN) => {}
            }
            if self.objects.is_read() {
                self.telemetry.ready();
            }
            if self.speaks() {
                self.write_all(cluster, &mut written).await;
                sleep(PAUSE).await;
            }
        }
    }

    async fn write_all(&self, cluster: &LiveCluster, written: &mut BTreeMap<(CustomKind, String), String>) {
        let objects = self.objects.all();
        let overview = self.telemetry.overview();
        let mut writes: Vec<(StoredObject, Write)> = Vec::new();
        for object in objects {
            let key = (object.kind, object.name.clone());
            if written.get(&key) == Some(&object.version.resource_version) {
                // It is on its way back to us.
                continue;
            }
            if let Some(write) = self.due(&object, overview.as_ref(), cluster.now()) {
                writes.push((object, write));
            }
        }
        let mut waiting = writes.iter();
        let mut under_way = FuturesUnordered::new();
        loop {
            for (object, write) in waiting.by_ref().take(PARALLELISM.saturating_sub(under_way.len())) {
                under_way.push(async move { (object, cluster.write(write).await) });
            }
            let Some((object, answer)) = under_way.next().await else { return };
            if answer.is_ok() {
                written.insert((object.kind, object.name.clone()), object.version.resource_version.clone());
            }
        }
    }

    /// What is to be written of an object next.
    fn due(&self, object: &StoredObject, overview: Option<&Overview>, at: jiff::Timestamp) -> Option<Write> {
        let state = self.lock();
        let guard = json!({"uid": object.version.uid, "resourceVersion": object.version.resource_version});
        let finalizers = |finalizers: Vec<String>| {
            let mut metadata = guard.clone();
            metadata["finalizers"] = json!(finalizers);
            let target = Target::Custom(object.kind, object.name.clone());
            Write { target, operation: Operation::Patch(json!({"metadata": metadata})) }
        };
        if object.lacks_finalizer() {
            return Some(finalizers(object.finalizers_with_ours()));
        }
        if object.is_held_by_us() && overview.is_some_and(|overview| is_free(object, &state, overview)) {
            return Some(finalizers(object.finalizers_without_ours()));
        }
        let State { findings, in_force, waiting, .. } = &*state;
        let status = Told { findings, in_force, overview, waiting: *waiting, at }.new_status(object)?;
        let target = Target::Status(object.kind, object.name.clone());
        Some(Write { target, operation: Operation::Patch(json!({"metadata": guard, "status": status})) })
    }
}

/// Whether a pool that was deleted may go: a plan was made in which it gives nothing any more, and no block of it is held or pinned.
fn is_free(object: &StoredObject, state: &State, overview: &Overview) -> bool {
    if object.state == ObjectState::Present {
        return false;
    }
    let path = object.path();
    let planned = state.planned.files.iter().find(|file| file.path == path);
    let gives_nothing = planned.is_none_or(|file| Some(file) == object.document().as_ref());
    let pool = object.name.parse().ok().and_then(|name| overview.pools.get(&name));
    gives_nothing && pool.is_none_or(PoolOverview::is_unused)
}

fn subject(object: &StoredObject) -> EventSubject {
    EventSubject::custom(object.kind, &object.name, &object.version.uid)
}
