//! Our custom resources, kept in memory and followed: the source of what is asked for, and what statuses are written to.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::cluster::live::LiveCluster;
use crate::cluster::{ClusterError, Following, Notice, Seen};
use crate::custom::{CustomKind, ObjectState, StoredObject};
use crate::desired::Documents;
use crate::model::{Finding, Rule, Severity};
use crate::run::{Loaded, Source, understand};

/// First pause after something went wrong; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest such pause. A definition that is installed late must not be noticed late.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Objects are looked at when nothing has changed for so long: `kubectl apply` sends one after the other.
const QUIET: Duration = Duration::from_millis(50);

/// They are looked at all the same when it does not become quiet for so long.
const UNREST: Duration = Duration::from_secs(2);

type Key = (CustomKind, String);

/// What is known of them.
#[derive(Debug)]
pub(super) struct Objects {
    state: Mutex<State>,
    /// What is asked for has changed.
    asked: Notify,
    /// Anything has changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, StoredObject>,
    /// Kinds that were read at least once.
    read: BTreeSet<CustomKind>,
    /// Why a kind cannot be read at the moment.
    trouble: BTreeMap<CustomKind, String>,
}

impl Objects {
    pub(super) fn new() -> Objects {
        Objects { state: Mutex::default(), asked: Notify::new(), changed: Notify::new() }
    }

    /// Keeps them in step, for as long as it is polled.
    pub(super) async fn keep(&self, cluster: &LiveCluster) -> Infallible {
        let mut kinds: FuturesUnordered<_> =
            CustomKind::ALL.into_iter().map(|kind| self.keep_kind(cluster, kind)).collect();
        match kinds.next().await {
            Some(never) => match never {},
            None => std::future::pending().await,
        }
    }

    async fn keep_kind(&self, cluster: &LiveCluster, kind: CustomKind) -> Infallible {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            if let Err(why) = self.read_and_follow(cluster, kind).await {
                self.has_trouble(kind, why);
            }
            if began.elapsed() >= LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            sleep(pause.mul_f64(fastrand::f64() / 2.0 + 0.75)).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Until it must be listed again.
    async fn read_and_follow(&self, cluster: &LiveCluster, kind: CustomKind) -> Result<(), String> {
        let text = |error: ClusterError| error.to_string();
        let list = cluster.list_custom(kind).await.map_err(text)?;
        match list.seen {
            Seen::All => {}
            Seen::NotServed => {
                return Err(format!("{} are not served: their CustomResourceDefinition is missing", kind.resource()));
            }
            Seen::Hidden(why) => return Err(why),
        }
        let mut from = list.version;
        self.replace(kind, &list.objects);
        loop {
            let mut at = from;
            let mut hear = |notice: Notice<'_>| {
                let (Notice::Changed(object) | Notice::Gone(object)) = notice else {
                    if let Notice::Reached(version) = notice {
                        at = at.max(version.parse().unwrap_or(0));
                    }
                    return;
                };
                let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
                at = at.max(version.unwrap_or(0));
                self.hear(kind, notice);
            };
            let began = Instant::now();
            match cluster.follow_custom(kind, from, &mut hear).await.map_err(text)? {
                Following::Closed if began.elapsed() >= FIRST_PAUSE => {}
                Following::Closed => sleep(FIRST_PAUSE).await,
                // What was heard so far may be old, but it was true once: it stays in force until the next list.
                Following::Lost(_) => return Ok(()),
            }
            from = at;
        }
    }

    fn replace(&self, kind: CustomKind, objects: &[Value]) {
        let mut state = self.lock();
        state.trouble.remove(&kind);
        state.read.insert(kind);
        state.objects.retain(|(of, _), _| *of != kind);
        let read = objects.iter().filter_map(|object| StoredObject::read(kind, object).ok());
        state.objects.extend(read.map(|object| ((kind, object.name.clone()), object)));
        drop(state);
        self.asked.notify_one();
        self.changed.notify_one();
    }

    fn hear(&self, kind: CustomKind, notice: Notice<'_>) {
        let mut state = self.lock();
        let asks_for_something_else = match notice {
            Notice::Changed(object) => {
                let Ok(object) = StoredObject::read(kind, object) else { return };
                let document = object.document();
                let old = state.objects.insert((kind, object.name.clone()), object);
                old.and_then(|old| old.document()) != document
            }
            Notice::Gone(object) => {
                let Ok(object) = StoredObject::read(kind, object) else { return };
                state.objects.remove(&(kind, object.name)).is_some()
            }
            Notice::Reached(_) => return,
        };
        drop(state);
        if asks_for_something_else {
            self.asked.notify_one();
        }
        self.changed.notify_one();
    }

    fn has_trouble(&self, kind: CustomKind, why: String) {
        if self.lock().trouble.insert(kind, why.clone()).as_ref() != Some(&why) {
            self.asked.notify_one();
        }
    }

    /// Waits until anything has changed since the last time.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// All of them as they are now.
    pub(super) fn all(&self) -> Vec<StoredObject> {
        self.lock().objects.values().cloned().collect()
    }

    /// Whether everything was read at least once, or it is known why not.
    pub(super) fn is_read(&self) -> bool {
        let state = self.lock();
        CustomKind::ALL.iter().all(|kind| state.read.contains(kind) || state.trouble.contains_key(kind))
    }

    /// What they ask for, with everything that is wrong with it.
    pub(super) fn load(&self) -> Loaded {
        let state = self.lock();
        let unread = state.trouble.iter().map(|(kind, why)| {
            let message = format!("{} cannot be read: {why}", kind.resource());
            let help =
                "install the CustomResourceDefinitions and the rights of the chart; the last good ones stay in force";
            Finding::new(Severity::Error, Rule("objects-unread"), message).help(help)
        });
        let unread: Vec<Finding> = unread.collect();
        let objects: Vec<StoredObject> = state.objects.values().cloned().collect();
        drop(state);
        let documents = |left_out: &BTreeSet<Arc<str>>| Documents {
            files: objects
                .iter()
                .filter(|object| !left_out.contains(&object.path()))
                .filter_map(StoredObject::document)
                .collect(),
        };
        let loaded = understand(documents(&BTreeSet::new()), unread.clone());
        // One with faults that was deleted is in nobody's way.
        let going = objects.iter().filter(|object| object.state == ObjectState::Going).map(StoredObject::path);
        let is_faulty = |path: &Arc<str>| {
            let errors = loaded.findings.iter().filter(|finding| finding.severity == Severity::Error);
            errors.filter_map(|finding| finding.origin.as_ref()).any(|origin| origin.file == *path)
        };
        let left_out: BTreeSet<Arc<str>> = going.filter(is_faulty).collect();
        if left_out.is_empty() { loaded } else { understand(documents(&left_out), unread) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// They, as the source of what is asked for.
#[derive(Clone, Debug)]
pub(super) struct ObjectSource(pub(super) Arc<Objects>);

impl Source for ObjectSource {
    async fn next(&mut self) -> Loaded {
        loop {
            self.0.asked.notified().await;
            let began = Instant::now();
            while began.elapsed() < UNREST && timeout(QUIET, self.0.asked.notified()).await.is_ok() {}
            if self.0.is_read() {
                return self.0.load();
            }
        }
    }
}
