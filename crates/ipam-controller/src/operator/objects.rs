//! Our custom resources, kept in memory and followed: the source of what is asked for, and what
//! statuses are written to.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::{Loaded, Source, understand};
use ipam_cluster::live::{Defined, LiveCluster};
use ipam_cluster::{ClusterError, Following, ObjectEvent, Seen};
use ipam_config::custom_resources::{ObjectState, StoredObject};
use ipam_config::documents::Documents;
use ipam_core::model::{Finding, Rule, Severity};
use ipam_desired::{AddressPoolsAsked, CustomKind};
use retry::Backoff;

/// First pause after something went wrong.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest such pause. A definition that is installed late must not be noticed late.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Objects are looked at when nothing has changed for so long: `kubectl apply` sends one after the
/// other.
const QUIET: Duration = Duration::from_millis(50);

/// They are looked at all the same when it does not become quiet for so long.
const UNREST: Duration = Duration::from_secs(2);

/// Without a sign nothing is read.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

type Key = (CustomKind, String);

/// What is known of them.
#[derive(Debug)]
pub(super) struct Objects {
    state: Mutex<State>,
    /// What is asked for has changed.
    asked: Notify,
    /// It was read and checked anew.
    read: Notify,
    /// Anything has changed.
    changed: Notify,
    /// The cluster went back in time: what was heard of may never have been.
    went_back: Notify,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Arc<StoredObject>>,
    /// Kinds that were read at least once.
    read: BTreeSet<CustomKind>,
    /// Why a kind cannot be read at the moment.
    trouble: BTreeMap<CustomKind, String>,
    /// Kinds of which objects vanished, and of which it is not known that their definition stays,
    /// with the reason why not.
    vanished: BTreeMap<CustomKind, String>,
    /// What was read last.
    newest: Option<Loaded>,
    /// The last that had no faults; it outlives leadership.
    good: Option<Loaded>,
    /// Specs of pools as they were in force last.
    good_specs: BTreeMap<String, Value>,
    /// Pools that were deleted with faults and were never in force.
    left_out: BTreeSet<String>,
}

impl Objects {
    pub(super) fn new() -> Objects {
        let [asked, read, changed, went_back] = [(); 4].map(|()| Notify::new());
        Objects {
            state: Mutex::default(),
            asked,
            read,
            changed,
            went_back,
        }
    }

    /// Lists all of them anew. A server whose store went back in time tells nothing to those who
    /// follow it from a later moment.
    pub(super) fn read_anew(&self) {
        self.went_back.notify_waiters();
    }

    /// Keeps them in step, for as long as it is polled.
    pub(super) async fn keep(&self, cluster: &LiveCluster) -> Infallible {
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
        let mut retry = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).retry(fastrand::Rng::new());
        loop {
            let began = Instant::now();
            if let Err(why) = self.read_and_follow(cluster, kind).await {
                self.has_trouble(kind, why);
            }
            if began.elapsed() >= LONGEST_PAUSE {
                retry.reset();
            }
            sleep(retry.pause()).await;
        }
    }

    /// Until it must be listed again.
    async fn read_and_follow(&self, cluster: &LiveCluster, kind: CustomKind) -> Result<(), String> {
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
                () = self.went_back.notified() => return Ok(()),
            };
            if let Some(why) = unreadable {
                return Err(why);
            }
            match following {
                Following::Closed if began.elapsed() >= FIRST_PAUSE => {}
                Following::Closed => sleep(FIRST_PAUSE).await,
                // What was heard so far may be old, but it was true once: it stays in force until
                // the next list.
                Following::Lost(_) => return Ok(()),
            }
            from = at;
        }
    }

    fn replace(&self, kind: CustomKind, objects: &[Value]) -> Result<(), String> {
        let read = |object| StoredObject::read(kind, object).map_err(|error| error.to_string());
        let objects: Vec<StoredObject> = objects.iter().map(read).collect::<Result<_, String>>()?;
        let mut state = self.lock();
        state.trouble.remove(&kind);
        state.read.insert(kind);
        state.objects.retain(|(of, _), _| *of != kind);
        state.objects.extend(
            objects
                .into_iter()
                .map(|object| ((kind, object.name.clone()), Arc::new(object))),
        );
        drop(state);
        self.asked.notify_one();
        self.changed.notify_one();
        Ok(())
    }

    /// What cannot be read is an error: it is there all the same.
    fn on_event(&self, kind: CustomKind, object_event: ObjectEvent<'_>) -> Result<(), String> {
        let (ObjectEvent::Changed(object) | ObjectEvent::Deleted(object)) = object_event else {
            return Ok(());
        };
        let object = StoredObject::read(kind, object).map_err(|error| error.to_string())?;
        let key = (kind, object.name.clone());
        let mut state = self.lock();
        let asks_for_something_else = if matches!(object_event, ObjectEvent::Deleted(_)) {
            state.vanished.entry(kind).or_default();
            state.objects.remove(&key).is_some()
        } else {
            let object = Arc::new(object);
            let old = state.objects.insert(key, object.clone());
            old.is_none_or(|old| old.document != object.document)
        };
        drop(state);
        if asks_for_something_else {
            self.asked.notify_one();
        }
        self.changed.notify_one();
        Ok(())
    }

    fn has_trouble(&self, kind: CustomKind, why: String) {
        if self.lock().trouble.insert(kind, why.clone()).as_ref() != Some(&why) {
            self.asked.notify_one();
            self.changed.notify_one();
        }
    }

    /// Waits until anything has changed since the last time.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// All of them as they are now.
    pub(super) fn all(&self) -> Vec<Arc<StoredObject>> {
        self.lock().objects.values().cloned().collect()
    }

    /// Whether every kind was read at least once.
    pub(super) fn are_read(&self) -> bool {
        let state = self.lock();
        CustomKind::ALL.iter().all(|kind| state.read.contains(kind))
    }

    /// The last that were good, and whether newer ones have faults.
    pub(super) fn good(&self) -> (Option<Loaded>, Option<Loaded>) {
        let state = self.lock();
        let faulty = state.newest.clone().filter(Loaded::has_errors);
        (state.good.clone(), faulty)
    }

    /// Gives what was read last to the source once more.
    pub(super) fn tell_again(&self) {
        self.read.notify_one();
    }

    /// Whether it is a pool that was deleted with faults and was never in force.
    pub(super) fn is_left_out(&self, object: &StoredObject) -> bool {
        object.kind == CustomKind::IpPool && self.lock().left_out.contains(&object.name)
    }

    /// Reads and checks them whenever they have changed and are at rest, for as long as it is
    /// polled.
    pub(super) async fn keep_reading(&self, cluster: &LiveCluster) -> Infallible {
        loop {
            let is_in_doubt = !self.lock().vanished.is_empty();
            // A definition that was going may be there again.
            let again = if is_in_doubt { LONGEST_PAUSE } else { FOREVER };
            let _ = timeout(again, self.asked.notified()).await;
            let began = Instant::now();
            while began.elapsed() < UNREST && timeout(QUIET, self.asked.notified()).await.is_ok() {}
            self.look_for_definitions(cluster).await;
            let is_known = {
                let state = self.lock();
                CustomKind::ALL
                    .iter()
                    .all(|kind| state.read.contains(kind) || state.trouble.contains_key(kind))
            };
            if is_known {
                self.load().await;
                self.read.notify_one();
            }
        }
    }

    /// Where objects vanished, their definition may be going, which takes one after the other away.
    /// That is nobody's wish for less.
    async fn look_for_definitions(&self, cluster: &LiveCluster) {
        let vanished: Vec<CustomKind> = self.lock().vanished.keys().copied().collect();
        for kind in vanished {
            let doubt = match cluster.defined(kind).await {
                Ok(Defined::Yes) => {
                    self.lock().vanished.remove(&kind);
                    continue;
                }
                Ok(Defined::No) => "their CustomResourceDefinition goes, or is gone".to_owned(),
                Err(error) => error.to_string(),
            };
            self.lock().vanished.insert(kind, doubt);
        }
    }

    /// Reads them beside everything else: many faults take their time, and nodes do not wait for
    /// it.
    async fn load(&self) {
        let reading = {
            let state = self.lock();
            let trouble: BTreeMap<&CustomKind, &String> =
                state.vanished.iter().chain(&state.trouble).collect();
            let unread = trouble
                .into_iter()
                .map(|(kind, why)| unread(*kind, why))
                .collect();
            let objects = state.objects.values().cloned().collect();
            Reading {
                objects,
                unread,
                good_specs: state.good_specs.clone(),
            }
        };
        let Ok(understood) = tokio::task::spawn_blocking(move || reading.understood()).await else {
            return;
        };
        let Understood {
            loaded,
            left_out,
            good_specs,
        } = understood;
        let mut state = self.lock();
        state.left_out = left_out;
        if let Some(specs) = good_specs {
            state.good_specs = specs;
            state.good = Some(loaded.clone());
        }
        state.newest = Some(loaded);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is read, as it was at one moment.
struct Reading {
    objects: Vec<Arc<StoredObject>>,
    /// Kinds that could not be read.
    unread: Vec<Finding>,
    good_specs: BTreeMap<String, Value>,
}

/// What came of it.
struct Understood {
    loaded: Loaded,
    left_out: BTreeSet<String>,
    /// Where there are no faults.
    good_specs: Option<BTreeMap<String, Value>>,
}

impl Reading {
    /// What they ask for, with everything that is wrong with it.
    fn understood(self) -> Understood {
        let Reading {
            objects,
            unread,
            good_specs,
        } = self;
        let documents = objects
            .iter()
            .filter_map(|object| object.document.clone())
            .collect();
        let mut loaded = understand(Documents { files: documents }, unread.clone());
        let faulty = faulty_and_going(&objects, &loaded);
        let left_out = faulty
            .iter()
            .filter(|name| !good_specs.contains_key(*name))
            .cloned()
            .collect();
        if !faulty.is_empty() {
            // One with faults that was deleted is in nobody's way; what it asked for before stays,
            // and gives nothing new.
            let document = |object: &Arc<StoredObject>| {
                if object.kind == CustomKind::IpPool && faulty.contains(&object.name) {
                    object.document_with(good_specs.get(&object.name)?)
                } else {
                    object.document.clone()
                }
            };
            loaded = understand(
                Documents {
                    files: objects.iter().filter_map(document).collect(),
                },
                unread,
            );
        }
        loaded.desired.address_pools_asked = AddressPoolsAsked::Elsewhere;
        let good_specs = (!loaded.has_errors()).then(|| {
            let pools = objects
                .iter()
                .filter(|object| object.kind == CustomKind::IpPool);
            let read = pools.filter(|object| !faulty.contains(&object.name));
            let read = read.map(|object| (object.name.clone(), object.spec.clone()));
            read.chain(
                good_specs
                    .into_iter()
                    .filter(|(name, _)| faulty.contains(name)),
            )
            .collect()
        });
        Understood {
            loaded,
            left_out,
            good_specs,
        }
    }
}

fn unread(kind: CustomKind, why: &str) -> Finding {
    let message = format!("{} cannot be read: {why}", kind.resource());
    let help = "install the CustomResourceDefinitions and the rights of the chart; the last good ones stay in force";
    Finding::new(Severity::Error, Rule("objects-unread"), message).help(help)
}

/// Pools that were deleted and have faults, by name.
fn faulty_and_going(objects: &[Arc<StoredObject>], loaded: &Loaded) -> BTreeSet<String> {
    let errors = loaded
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let places: BTreeSet<&Arc<str>> = errors
        .filter_map(|finding| finding.origin.as_ref())
        .map(|origin| &origin.file)
        .collect();
    let going = objects
        .iter()
        .filter(|object| object.state == ObjectState::Going);
    going
        .filter(|object| places.contains(&object.path()))
        .map(|object| object.name.clone())
        .collect()
}

/// They, as the source of what is asked for.
#[derive(Clone, Debug)]
pub(super) struct ObjectSource(pub(super) Arc<Objects>);

impl Source for ObjectSource {
    async fn next(&mut self) -> Loaded {
        loop {
            self.0.read.notified().await;
            if let Some(newest) = self.0.lock().newest.clone() {
                return newest;
            }
        }
    }
}
