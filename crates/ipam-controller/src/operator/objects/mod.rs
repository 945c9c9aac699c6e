//! Our custom resources, listed, watched and kept in memory: the source of the configuration, and
//! the objects that statuses are written to. It checks no documents, and writes nothing to the
//! cluster.

mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use crate::{Loaded, Source};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{ClusterError, Following, ObjectEvent, Seen};
use ipam_config::custom_resources::StoredObject;
use ipam_desired::CustomKind;
use retry::{Backoff, Retry};

type Key = (CustomKind, String);

/// The custom resources that the operator reads, and what changed in them.
#[derive(Debug)]
pub(super) struct Objects {
    state: Mutex<State>,
    /// Notified when the configuration in the objects has changed.
    config_changed: Notify,
    /// Notified when the configuration was checked again.
    checked: Notify,
    /// Notified when any object has changed.
    changed: Notify,
    /// How often the cluster went back in time: known objects may not exist.
    rollbacks: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Arc<StoredObject>>,
    /// Kinds that were read at least once.
    read: BTreeSet<CustomKind>,
    /// Why a kind cannot be read now, by kind.
    errors: BTreeMap<CustomKind, String>,
    /// Kinds whose objects vanished while their definition may be deleted, with the reason for that
    /// doubt.
    vanished: BTreeMap<CustomKind, String>,
    /// The last result of a check.
    newest: Option<Loaded>,
    /// The last result without errors; it stays after a lost leadership.
    good: Option<Loaded>,
    /// Specs of the pools in `good`, by name.
    good_specs: BTreeMap<String, Value>,
    /// Deleted pools that have errors and never applied.
    left_out: BTreeSet<String>,
}

impl Objects {
    pub(super) fn new() -> Objects {
        let [config_changed, checked, changed] = [(); 3].map(|()| Notify::new());
        Objects {
            state: Mutex::default(),
            config_changed,
            checked,
            changed,
            rollbacks: watch::Sender::default(),
        }
    }

    /// Lists every kind again. A server whose store went back in time sends no events to a watch
    /// from a later version.
    pub(super) fn relist(&self) {
        self.rollbacks.send_modify(|rollbacks| *rollbacks += 1);
    }

    /// Waits until anything has changed since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn all(&self) -> Vec<Arc<StoredObject>> {
        self.lock().objects.values().cloned().collect()
    }

    pub(super) fn are_read(&self) -> bool {
        let state = self.lock();
        CustomKind::ALL.iter().all(|kind| state.read.contains(kind))
    }

    /// The last valid configuration, and the newest one if it has errors.
    pub(super) fn good(&self) -> (Option<Loaded>, Option<Loaded>) {
        let state = self.lock();
        let invalid = state.newest.clone().filter(Loaded::has_errors);
        (state.good.clone(), invalid)
    }

    /// Makes the source return the last result once more.
    pub(super) fn repeat_last(&self) {
        self.checked.notify_one();
    }

    /// Whether the object is a deleted pool that has errors and never applied.
    pub(super) fn is_left_out(&self, object: &StoredObject) -> bool {
        object.kind == CustomKind::IpPool && self.lock().left_out.contains(&object.name)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The objects as the source of the configuration.
#[derive(Clone, Debug)]
pub(super) struct ObjectSource(pub(super) Arc<Objects>);

impl Source for ObjectSource {
    async fn next(&mut self) -> Loaded {
        loop {
            self.0.checked.notified().await;
            if let Some(newest) = self.0.lock().newest.clone() {
                return newest;
            }
        }
    }
}

/// Pauses after a failure. A definition that is installed late must be noticed soon.
const BACKOFF: Backoff = Backoff::new(SHORT, LONG);

/// First pause. A watch that ends sooner than this counts as a failure.
const SHORT: Duration = Duration::from_millis(250);

/// Longest pause. After a watch of this length the pauses are short again.
const LONG: Duration = Duration::from_secs(5);

impl Objects {
    /// Keeps the objects up to date while the future is polled.
    pub(in crate::operator) async fn keep(&self, cluster: &LiveCluster) -> Infallible {
        let mut kinds: FuturesUnordered<_> = CustomKind::ALL
            .into_iter()
            .map(|kind| self.keep_kind(cluster, kind))
            .collect();
        match kinds.next().await {
            Some(never) => match never {},
            None => std::future::pending().await,
        }
    }

    async fn keep_kind(&self, cluster: &LiveCluster, kind: CustomKind) -> Infallible {
        let mut retry = BACKOFF.retry(fastrand::Rng::new());
        let mut rollbacks = self.rollbacks.subscribe();
        loop {
            let began = Instant::now();
            // A rollback that is noticed after this line may be later than the list.
            rollbacks.mark_unchanged();
            let end = self.read_and_follow(cluster, kind, &mut rollbacks, &mut retry);
            if let Err(why) = end.await {
                self.note_error(kind, why);
            }
            if began.elapsed() >= LONG {
                retry.reset();
            }
            sleep(retry.pause()).await;
        }
    }

    /// Returns when the kind must be listed again.
    async fn read_and_follow(
        &self,
        cluster: &LiveCluster,
        kind: CustomKind,
        rollbacks: &mut watch::Receiver<u64>,
        retry: &mut Retry,
    ) -> Result<(), String> {
        let text = |error: ClusterError| error.to_string();
        let list = cluster.list_custom(kind).await.map_err(text)?;
        match list.seen {
            Seen::All => {}
            Seen::NotServed => {
                return Err(format!(
                    "{} are not served: their CustomResourceDefinition is missing",
                    kind.resource()
                ));
            }
            Seen::Hidden(why) => return Err(why),
        }
        let mut from = list.version;
        self.replace(kind, &list.objects)?;
        loop {
            let mut at = from;
            let mut unreadable = None;
            let mut on_event = |object_event: ObjectEvent<'_>| {
                let (ObjectEvent::Changed(object) | ObjectEvent::Deleted(object)) = object_event
                else {
                    if let ObjectEvent::Bookmark(version) = object_event {
                        at = at.max(version.parse().unwrap_or(0));
                    }
                    return;
                };
                let version = object["metadata"]["resourceVersion"]
                    .as_str()
                    .and_then(|text| text.parse().ok());
                at = at.max(version.unwrap_or(0));
                if let Err(why) = self.on_event(kind, object_event) {
                    unreadable = Some(why);
                }
            };
            let began = Instant::now();
            let following = tokio::select! {
                following = cluster.follow_custom(kind, from, &mut on_event) => following.map_err(text)?,
                _ = rollbacks.changed() => return Ok(()),
            };
            if let Some(why) = unreadable {
                return Err(why);
            }
            match following {
                Following::Closed | Following::Silent if began.elapsed() < SHORT => {
                    sleep(retry.pause()).await;
                }
                Following::Closed | Following::Silent if began.elapsed() < LONG => {}
                Following::Closed | Following::Silent => retry.reset(),
                // The known objects may be old, but they apply until the next list.
                Following::Lost(_) => return Ok(()),
            }
            from = at;
        }
    }

    fn replace(&self, kind: CustomKind, objects: &[Value]) -> Result<(), String> {
        let read = |object| StoredObject::read(kind, object).map_err(|error| error.to_string());
        let objects: Vec<StoredObject> = objects.iter().map(read).collect::<Result<_, String>>()?;
        let mut state = self.lock();
        state.errors.remove(&kind);
        state.read.insert(kind);
        state.objects.retain(|(of, _), _| *of != kind);
        state.objects.extend(
            objects
                .into_iter()
                .map(|object| ((kind, object.name.clone()), Arc::new(object))),
        );
        drop(state);
        self.config_changed.notify_one();
        self.changed.notify_one();
        Ok(())
    }

    /// Handles an event. An unreadable object counts as an error, because it exists all the same.
    fn on_event(&self, kind: CustomKind, object_event: ObjectEvent<'_>) -> Result<(), String> {
        let (ObjectEvent::Changed(object) | ObjectEvent::Deleted(object)) = object_event else {
            return Ok(());
        };
        let object = StoredObject::read(kind, object).map_err(|error| error.to_string())?;
        let key = (kind, object.name.clone());
        let mut state = self.lock();
        let has_changed_config = if matches!(object_event, ObjectEvent::Deleted(_)) {
            state.vanished.entry(kind).or_default();
            state.objects.remove(&key).is_some()
        } else {
            let object = Arc::new(object);
            let old = state.objects.insert(key, object.clone());
            old.is_none_or(|old| old.document != object.document)
        };
        drop(state);
        if has_changed_config {
            self.config_changed.notify_one();
        }
        self.changed.notify_one();
        Ok(())
    }

    fn note_error(&self, kind: CustomKind, why: String) {
        if self.lock().errors.insert(kind, why.clone()).as_ref() != Some(&why) {
            self.config_changed.notify_one();
            self.changed.notify_one();
        }
    }
}
