//! What is told in the cluster: statuses and finalizers of our objects, and Events. One process
//! tells, the one that leads; what it could not write is written with the next change.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::objects::Objects;
use crate::apply::Outcome;
use crate::event::{EventKind, EventSubject, EventText};
use crate::status::{Faults, StatusInput, Texts};
use crate::{ControllerEvent, Loaded, Telemetry};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, Operation, Target, Write};
use ipam_config::custom_resources::{ObjectState, StoredObject};
use ipam_core::model::{NodeName, PoolName, Severity};
use ipam_desired::{CustomKind, PoolState};
use ipam_planner::plan::{Overview, Target as Planned};

/// Statuses are written no more often than this: a thousand nodes that join are one change of a
/// pool.
const PAUSE: Duration = Duration::from_secs(1);

/// They are looked at again after this time without a sign, for what could not be written.
const AGAIN: Duration = Duration::from_secs(30);

/// Between two Events.
const BETWEEN_EVENTS: Duration = Duration::from_millis(50);

/// They wait while blocks are written, and a moment longer: more nodes may join.
const LULL: Duration = Duration::from_millis(500);

/// No Event waits for longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

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

/// Whether an Event will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queued {
    Yes,
    No,
}

/// What is told, and who hears of the news for it.
#[derive(Debug)]
pub(super) struct StatusWriter {
    objects: Arc<Objects>,
    telemetry: Arc<Telemetry>,
    identity: String,
    state: Mutex<State>,
    speaks: AtomicBool,
    stirred: Notify,
    /// When blocks were written last.
    written: Mutex<Instant>,
    events: mpsc::Sender<EventText>,
}

#[derive(Debug, Default)]
struct State {
    /// What was read last, and what is wrong with it.
    read: Texts,
    faults: Faults,
    in_force: Texts,
    /// The pools of the last whole plan of this term.
    planned: Option<BTreeMap<PoolName, PoolState>>,
    waiting: usize,
    /// Nodes that were told of as blocked, with the reason.
    blocked: BTreeMap<NodeName, String>,
    /// Pools that were told of as exhausted.
    exhausted: BTreeSet<String>,
}

impl StatusWriter {
    pub(super) fn new(
        objects: Arc<Objects>,
        telemetry: Arc<Telemetry>,
        identity: String,
    ) -> (StatusWriter, mpsc::Receiver<EventText>) {
        let (events, receiver) = mpsc::channel(EVENTS);
        let (state, speaks, stirred) = (Mutex::default(), AtomicBool::new(false), Notify::new());
        let written = Mutex::new(Instant::now());
        (
            StatusWriter {
                objects,
                telemetry,
                identity,
                state,
                speaks,
                stirred,
                written,
                events,
            },
            receiver,
        )
    }

    /// What was known of another term may be old.
    pub(super) fn give(&self, voice: Voice) {
        *self.lock() = State::default();
        self.speaks.store(voice == Voice::Speaks, Ordering::Relaxed);
        self.stirred.notify_one();
    }

    /// Takes note of the news. Never waits.
    pub(super) fn on_event(&self, event: &ControllerEvent<'_>) {
        match event {
            ControllerEvent::InForce(loaded) => {
                let mut state = self.lock();
                state.faults = Faults::of(&loaded.findings);
                state.in_force = texts(loaded);
                state.read = state.in_force.clone();
            }
            ControllerEvent::Invalid(loaded) => self.invalid(loaded),
            ControllerEvent::Planned(planned) => {
                let pools = planned.loaded.desired.pools.values();
                self.lock().planned =
                    Some(pools.map(|pool| (pool.name.clone(), pool.state)).collect());
                self.blocked(planned.plan, planned.observed);
                self.exhausted();
            }
            ControllerEvent::Waiting(waiting) => self.lock().waiting = waiting.for_a_person.len(),
            ControllerEvent::Finished {
                change,
                outcome: Outcome::Applied,
                ..
            } => {
                *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                if let Some(change) = change.as_node() {
                    let blocks: Vec<String> =
                        change.after.iter().map(ToString::to_string).collect();
                    let pool = change
                        .pool
                        .as_ref()
                        .map(|pool| format!(" of pool {pool}"))
                        .unwrap_or_default();
                    let about = EventSubject::node(change.node.as_str(), &change.guard.uid);
                    self.event(
                        about,
                        EventKind::Normal,
                        "PodCIDRAssigned",
                        format!("{}{pool}", blocks.join(", ")),
                    );
                    self.lock().blocked.remove(&change.node);
                }
            }
            _ => return,
        }
        self.stirred.notify_one();
    }

    fn invalid(&self, loaded: &Loaded) {
        {
            let mut state = self.lock();
            state.faults = Faults::of(&loaded.findings);
            state.read = texts(loaded);
        }
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
                self.event(subject(object), EventKind::Warning, "Invalid", message);
            }
        }
    }

    fn blocked(&self, plan: &ipam_planner::plan::Plan, observed: &ipam_cilium::observed::Observed) {
        let mut now: BTreeMap<NodeName, String> = BTreeMap::new();
        for blocked in &plan.blocked {
            let Planned::Node(node) = &blocked.target else {
                continue;
            };
            let Some(seen) = observed.nodes.get(node) else {
                continue;
            };
            let reason = blocked.reason.to_string();
            let is_told = self.lock().blocked.get(node) == Some(&reason);
            let message = format!("{reason}; {}", blocked.reason.unblock());
            let about = EventSubject::node(node.as_str(), &seen.uid);
            if is_told
                || self.event(about, EventKind::Warning, "PodCIDRBlocked", message) == Queued::Yes
            {
                now.insert(node.clone(), reason);
            }
        }
        self.lock().blocked = now;
    }

    fn exhausted(&self) {
        let Some(overview) = self.telemetry.overview() else {
            return;
        };
        let mut now = BTreeSet::new();
        let told = self.lock().exhausted.clone();
        for (name, pool) in &overview.pools {
            let Some(why) = &pool.exhausted else { continue };
            let of_pool = |one: &&Arc<StoredObject>| {
                one.kind == CustomKind::IpPool && one.name == name.as_str()
            };
            let is_told = told.contains(name.as_str())
                || self
                    .objects
                    .all()
                    .iter()
                    .find(of_pool)
                    .is_some_and(|object| {
                        self.event(
                            subject(object),
                            EventKind::Warning,
                            "Exhausted",
                            why.clone(),
                        ) == Queued::Yes
                    });
            if is_told {
                now.insert(name.to_string());
            }
        }
        self.lock().exhausted = now;
    }

    /// Events are a courtesy: with too many of them, some are not told.
    fn event(
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn speaks(&self) -> bool {
        self.speaks.load(Ordering::Relaxed)
    }

    /// How long it must stay quiet before Events are written.
    fn lull(&self) -> Option<Duration> {
        let since = self
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed();
        LULL.checked_sub(since).filter(|left| !left.is_zero())
    }

    /// Writes Events, for as long as it is polled.
    pub(super) async fn keep_events(
        &self,
        cluster: &LiveCluster,
        mut events: mpsc::Receiver<EventText>,
    ) -> Infallible {
        loop {
            let Some(event) = events.recv().await else {
                return std::future::pending().await;
            };
            let began = Instant::now();
            while let Some(left) = self.lull().filter(|_| began.elapsed() < LONGEST_WAIT) {
                sleep(left).await;
            }
            if self.speaks() {
                let operation = Operation::Create(event.object(&self.identity, cluster.now()));
                let _ = cluster
                    .write(&Write {
                        target: Target::Event,
                        operation,
                    })
                    .await;
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
            if self.objects.are_read() {
                self.telemetry.ready();
            }
            if self.speaks() {
                self.write_all(cluster, &mut written).await;
                sleep(PAUSE).await;
            }
        }
    }

    async fn write_all(
        &self,
        cluster: &LiveCluster,
        written: &mut BTreeMap<(CustomKind, String), String>,
    ) {
        let objects = self.objects.all();
        let overview = self.telemetry.overview();
        let keys: BTreeSet<_> = objects
            .iter()
            .map(|object| (object.kind, object.name.clone()))
            .collect();
        written.retain(|key, _| keys.contains(key));
        let mut writes: Vec<(Arc<StoredObject>, Write)> = Vec::new();
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
            let free = if self.speaks() {
                PARALLELISM.saturating_sub(under_way.len())
            } else {
                0
            };
            for (object, write) in waiting.by_ref().take(free) {
                under_way.push(async move { (object, cluster.write(write).await) });
            }
            let Some((object, answer)) = under_way.next().await else {
                return;
            };
            // One that changed nothing does not come back.
            let is_new = |version: &str| version != object.version.resource_version;
            if answer.is_ok_and(|answer| is_new(&answer.version.resource_version)) {
                written.insert(
                    (object.kind, object.name.clone()),
                    object.version.resource_version.clone(),
                );
            }
        }
    }

    /// What is to be written of an object next.
    fn due(
        &self,
        object: &StoredObject,
        overview: Option<&Overview>,
        at: jiff::Timestamp,
    ) -> Option<Write> {
        let state = self.lock();
        let guard =
            json!({"uid": object.version.uid, "resourceVersion": object.version.resource_version});
        let finalizers = |finalizers: Vec<String>| {
            let mut metadata = guard.clone();
            metadata["finalizers"] = json!(finalizers);
            let target = Target::Custom(object.kind, object.name.clone());
            Write {
                target,
                operation: Operation::Patch(json!({"metadata": metadata})),
            }
        };
        if object.lacks_finalizer() {
            return Some(finalizers(object.finalizers_with_ours()));
        }
        if object.is_held_by_us()
            && overview.is_some_and(|overview| self.is_free(object, &state, overview))
        {
            return Some(finalizers(object.finalizers_without_ours()));
        }
        let State {
            read,
            faults,
            in_force,
            waiting,
            ..
        } = &*state;
        let status = StatusInput {
            read,
            faults,
            in_force,
            overview,
            waiting: *waiting,
            at,
        }
        .new_status(object)?;
        let target = Target::Status(object.kind, object.name.clone());
        Some(Write {
            target,
            operation: Operation::Patch(json!({"metadata": guard, "status": status})),
        })
    }

    /// Whether a pool that was deleted may go: a plan of this term was made in which it gives
    /// nothing any more, and no block of it is held or pinned. One that was never in force has
    /// given nothing.
    fn is_free(&self, object: &StoredObject, state: &State, overview: &Overview) -> bool {
        let Some(planned) = state
            .planned
            .as_ref()
            .filter(|_| object.state == ObjectState::Going)
        else {
            return false;
        };
        let Ok(name) = object.name.parse::<PoolName>() else {
            return true;
        };
        match (planned.get(&name), overview.pools.get(&name)) {
            (Some(PoolState::Disabled), Some(pool)) => pool.is_unused(),
            (None, None) => object.document.is_none() || self.objects.is_left_out(object),
            _ => false,
        }
    }
}

fn subject(object: &StoredObject) -> EventSubject {
    EventSubject::custom(object.kind, &object.name, &object.version.uid)
}

fn texts(loaded: &Loaded) -> Texts {
    loaded
        .documents
        .files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect()
}
