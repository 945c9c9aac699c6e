//! Statuses and finalizers: what is due for each object, and writing it a few at a time.
//!
//! [`crate::status`] decides what a status says.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{State, StatusWriter};
use crate::status::StatusInput;
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, Operation, Target, Write};
use ipam_config::custom_resources::{ObjectState, StoredObject};
use ipam_core::model::PoolName;
use ipam_desired::{CustomKind, PoolState};
use ipam_plan::overview::Overview;

/// Shortest time between two writes of all statuses: a thousand new nodes are one change of a pool.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest time until failed writes are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Longest wait for the watch to deliver a write. After a restored backup it never does, and a
/// second write with the same guard is refused.
const LONGEST_DELIVERY: Duration = Duration::from_secs(5);

/// Number of writes of statuses in flight at the same time.
const PARALLELISM: usize = 4;

/// Writes that the watch has not delivered yet, by object.
type Undelivered = BTreeMap<(CustomKind, String), StatusWrite>;

/// A write that the server accepted.
struct StatusWrite {
    /// Version of the object before the write.
    before: String,
    at: Instant,
}

impl StatusWriter {
    /// Writes statuses and finalizers while the future is polled.
    pub(in crate::operator) async fn keep_statuses(&self, cluster: &LiveCluster) -> Infallible {
        let mut written = Undelivered::new();
        loop {
            tokio::select! {
                () = self.objects.changed() => {}
                () = self.wake.notified() => {}
                () = sleep(RETRY_INTERVAL) => {}
            }
            if self.objects.are_read() {
                self.telemetry.set_ready();
            }
            if self.is_active() {
                self.write_all(cluster, &mut written).await;
                sleep(PAUSE).await;
            }
        }
    }

    async fn write_all(&self, cluster: &LiveCluster, written: &mut Undelivered) {
        let objects = self.objects.all();
        let overview = self.telemetry.overview();
        let keys: BTreeSet<_> = objects
            .iter()
            .map(|object| (object.kind, object.name.clone()))
            .collect();
        written.retain(|key, write| keys.contains(key) && write.at.elapsed() < LONGEST_DELIVERY);
        let mut writes: Vec<(Arc<StoredObject>, Write)> = Vec::new();
        for object in objects {
            let key = (object.kind, object.name.clone());
            let before = written.get(&key).map(|write| &write.before);
            if before == Some(&object.version.resource_version) {
                continue;
            }
            if let Some(write) = self.due(&object, overview.as_ref(), cluster.now()) {
                writes.push((object, write));
            }
        }
        let mut waiting = writes.iter();
        let mut in_flight = FuturesUnordered::new();
        loop {
            let free = if self.is_active() {
                PARALLELISM.saturating_sub(in_flight.len())
            } else {
                0
            };
            for (object, write) in waiting.by_ref().take(free) {
                in_flight.push(async move { (object, cluster.write(write).await) });
            }
            let Some((object, answer)) = in_flight.next().await else {
                return;
            };
            // A write without an effect sends no event.
            let is_new = |version: &str| version != object.version.resource_version;
            if answer.is_ok_and(|answer| is_new(&answer.version.resource_version)) {
                let before = object.version.resource_version.clone();
                let at = Instant::now();
                written.insert(
                    (object.kind, object.name.clone()),
                    StatusWrite { before, at },
                );
            }
        }
    }

    /// The next write for an object, if one is due.
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
            applied,
            waiting,
            ..
        } = &*state;
        let status = StatusInput {
            read,
            faults,
            applied,
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

    /// Whether a deleted pool may be removed: a plan of this term gave no new block of it, and no
    /// block of it is held or pinned. A pool that never applied has given none.
    fn is_free(&self, object: &StoredObject, state: &State, overview: &Overview) -> bool {
        let Some(planned) = state
            .planned
            .as_ref()
            .filter(|_| object.state == ObjectState::Deleting)
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
