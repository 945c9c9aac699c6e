//! Our custom resources, kept in memory: the source of the configuration, and the objects that
//! statuses are written to.
//!
//! It writes nothing to the cluster.

mod follow;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::{Loaded, Source};
use ipam_config::custom_resources::StoredObject;
use ipam_desired::CustomKind;

type Key = (CustomKind, String);

/// The objects, and what changed in them.
#[derive(Debug)]
pub(super) struct Objects {
    state: Mutex<State>,
    /// The configuration in them has changed.
    config_changed: Notify,
    /// It was checked again.
    checked: Notify,
    /// Anything has changed.
    changed: Notify,
    /// How often the cluster went back in time: known objects may not exist.
    rollbacks: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Arc<StoredObject>>,
    /// Kinds that were read at least once.
    read: BTreeSet<CustomKind>,
    /// Why a kind cannot be read now.
    errors: BTreeMap<CustomKind, String>,
    /// Kinds whose objects vanished while their definition may be deleted, with the reason for that
    /// doubt.
    vanished: BTreeMap<CustomKind, String>,
    /// The last result of a check.
    newest: Option<Loaded>,
    /// The last result without errors; it stays after a lost leadership.
    good: Option<Loaded>,
    /// Specs of pools in that result.
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

    /// Whether it is a deleted pool that has errors and never applied.
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
