//! Checks our custom resources once they no longer change, and keeps the last valid ones.
//!
//! It writes nothing to the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::timeout;

use super::Objects;
use crate::{Loaded, check_documents};
use ipam_cluster::live::{Defined, LiveCluster};
use ipam_config::custom_resources::{ObjectState, StoredObject};
use ipam_config::documents::Documents;
use ipam_core::model::{Finding, Rule, Severity};
use ipam_desired::{AddressPoolsAsked, CustomKind};

/// Objects are checked when nothing has changed for this time: `kubectl apply` sends them one after
/// the other.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Longest delay of a check while objects still change.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);

/// Interval between looks at a definition that may be deleted.
const DEFINITION_INTERVAL: Duration = Duration::from_secs(5);

/// A period that is longer than any process runs.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl Objects {
    /// Checks the objects after each change, once they no longer change, while it is polled.
    pub(in crate::operator) async fn keep_checked(&self, cluster: &LiveCluster) -> Infallible {
        loop {
            let is_in_doubt = !self.lock().vanished.is_empty();
            // A definition that was being deleted may exist again.
            let again = if is_in_doubt {
                DEFINITION_INTERVAL
            } else {
                NEVER
            };
            let _ = timeout(again, self.config_changed.notified()).await;
            let began = Instant::now();
            while began.elapsed() < MAX_DEBOUNCE
                && timeout(DEBOUNCE, self.config_changed.notified())
                    .await
                    .is_ok()
            {}
            self.check_definitions(cluster).await;
            let is_known = {
                let state = self.lock();
                CustomKind::ALL
                    .iter()
                    .all(|kind| state.read.contains(kind) || state.errors.contains_key(kind))
            };
            if is_known {
                self.load().await;
                self.checked.notify_one();
            }
        }
    }

    /// If objects vanished, their definition may be being deleted, which deletes all objects one by
    /// one. That is no request to remove them.
    async fn check_definitions(&self, cluster: &LiveCluster) {
        let vanished: Vec<CustomKind> = self.lock().vanished.keys().copied().collect();
        for kind in vanished {
            let doubt = match cluster.defined(kind).await {
                Ok(Defined::Yes) => {
                    self.lock().vanished.remove(&kind);
                    continue;
                }
                Ok(Defined::No) => {
                    "their CustomResourceDefinition is being deleted, or is gone".to_owned()
                }
                Err(error) => error.to_string(),
            };
            self.lock().vanished.insert(kind, doubt);
        }
    }

    /// Checks in a thread of its own: many errors take a while, and nodes must not wait for it.
    async fn load(&self) {
        let reading = {
            let state = self.lock();
            let errors: BTreeMap<&CustomKind, &String> =
                state.vanished.iter().chain(&state.errors).collect();
            let unread = errors
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
        let Ok(checked) = tokio::task::spawn_blocking(move || reading.checked()).await else {
            return;
        };
        let Checked {
            loaded,
            left_out,
            good_specs,
        } = checked;
        let mut state = self.lock();
        state.left_out = left_out;
        if let Some(specs) = good_specs {
            state.good_specs = specs;
            state.good = Some(loaded.clone());
        }
        state.newest = Some(loaded);
    }
}

/// The objects at one moment.
struct Reading {
    objects: Vec<Arc<StoredObject>>,
    /// Kinds that could not be read.
    unread: Vec<Finding>,
    good_specs: BTreeMap<String, Value>,
}

/// The result of a check.
struct Checked {
    loaded: Loaded,
    left_out: BTreeSet<String>,
    /// `None` if there are errors.
    good_specs: Option<BTreeMap<String, Value>>,
}

impl Reading {
    fn checked(self) -> Checked {
        let Reading {
            objects,
            unread,
            good_specs,
        } = self;
        let documents = objects
            .iter()
            .filter_map(|object| object.document.clone())
            .collect();
        let mut loaded = check_documents(Documents { files: documents }, unread.clone());
        let faulty = faulty_and_deleting(&objects, &loaded);
        let left_out = faulty
            .iter()
            .filter(|name| !good_specs.contains_key(*name))
            .cloned()
            .collect();
        if !faulty.is_empty() {
            // A deleted pool with errors blocks no other object. Its last valid spec stays, and
            // gives no new blocks.
            let document = |object: &Arc<StoredObject>| {
                if object.kind == CustomKind::IpPool && faulty.contains(&object.name) {
                    object.document_with(good_specs.get(&object.name)?)
                } else {
                    object.document.clone()
                }
            };
            loaded = check_documents(
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
        Checked {
            loaded,
            left_out,
            good_specs,
        }
    }
}

fn unread(kind: CustomKind, why: &str) -> Finding {
    let message = format!("{} cannot be read: {why}", kind.resource());
    let help = "install the CustomResourceDefinitions and the rights of the chart; the last valid ones still apply";
    Finding::new(Severity::Error, Rule("objects-unread"), message).help(help)
}

/// Names of deleted pools that have errors.
fn faulty_and_deleting(objects: &[Arc<StoredObject>], loaded: &Loaded) -> BTreeSet<String> {
    let errors = loaded
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let paths: BTreeSet<&Arc<str>> = errors
        .filter_map(|finding| finding.origin.as_ref())
        .map(|origin| &origin.file)
        .collect();
    let deleting = objects
        .iter()
        .filter(|object| object.state == ObjectState::Deleting);
    deleting
        .filter(|object| paths.contains(&object.path()))
        .map(|object| object.name.clone())
        .collect()
}
