//! A copy of the cluster in memory: listed once, then kept up to date by watches.
//!
//! It gives the guarantees that the claims protocol requires from a list. Each kind is watched from
//! the same resourceVersion on, at its own pace. So a block that disappears from one object stays
//! in use, as a tombstone, until all kinds have reached that moment. The cache serves no plan until
//! it shows the writes of this process. After another process changed the claims, the cache serves
//! no plan until the kinds that show blocks are as new as these claims. The same holds for lists
//! that a plan reads in addition to the cache. It must never know which plans use it.

/// The methods that a wrapper of a followed cluster passes on to it.
macro_rules! delegate_others {
    ($self:ident => $cluster:expr) => {
        fn cilium_namespace(&$self) -> Option<&str> {
            $cluster.cilium_namespace()
        }

        async fn lock(&$self, name: crate::LeaseName) -> Result<crate::LockSeen, ClusterError> {
            $cluster.lock(name).await
        }

        fn now(&$self) -> jiff::Timestamp {
            $cluster.now()
        }
    };
}

mod cached_kind;
mod record;
mod rollback;
mod snapshot;
mod state;
mod sync;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use self::state::{CacheEffect, State};
use super::{Follow, ObjectEvent, Trouble, Write, WriteError, Written};
use ipam_cilium::observed::ObservedKind;
use ipam_core::claims::Departure;
use ipam_core::net::Block;

pub use self::rollback::Rollback;
pub use self::snapshot::Snapshot;
pub use self::state::{Role, Settled};
pub use snapshot::Uncached;

/// A copy of a cluster in memory, see the module.
#[derive(Debug)]
pub struct ClusterCache<C> {
    cluster: C,
    state: Mutex<State>,
    /// Notified when something that plans depend on has changed.
    moved: Notify,
    /// When the first change that is not planned yet was reported.
    first_event_at: Mutex<Option<Instant>>,
    /// Notified when a re-list was requested.
    relist: Notify,
    /// Notified when a kind that shows blocks is behind what plans need.
    lagging: Notify,
    /// The cluster went back in time.
    went_back: Notify,
}

impl<C: Follow> ClusterCache<C> {
    /// An empty cache; [`keep`](ClusterCache::keep) fills it.
    pub fn new(cluster: C) -> ClusterCache<C> {
        let [moved, relist, lagging, went_back] = [(); 4].map(|()| Notify::new());
        ClusterCache {
            cluster,
            state: Mutex::default(),
            moved,
            first_event_at: Mutex::default(),
            relist,
            lagging,
            went_back,
        }
    }

    /// Sets the role of the process that uses the cache. A new leader lists everything again. A
    /// standby only follows the watches, to know which state a restore removes from the cluster. It
    /// delays re-lists until it leads.
    pub fn set_role(&self, role: Role) {
        if self.lock().set_role(role) == CacheEffect::Resync {
            self.relist.notify_one();
        }
    }

    /// Waits until something that plans depend on has changed since the last time.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    /// Waits until the cluster goes back in time.
    pub async fn went_back(&self) {
        self.went_back.notified().await;
    }

    /// When the first change since the last call was reported.
    pub fn first_event_at(&self) -> Option<Instant> {
        self.first_event_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Why the cache cannot be kept up to date now; `None` if it can.
    pub fn trouble(&self) -> Option<Trouble> {
        self.lock().trouble()
    }

    /// The cached objects as they are now; `None` while the cache may serve no plan.
    pub fn snapshot(&self) -> Option<Snapshot<'_, C>> {
        let state = self.lock();
        state.is_complete().then(|| Snapshot::new(self, &state))
    }

    /// The cluster itself. Lists come from the server; the cache waits for writes made here.
    pub fn uncached(&self) -> Uncached<'_, C> {
        Uncached::new(self)
    }

    /// Whether the cache may serve a plan.
    pub fn is_in_step(&self) -> bool {
        self.lock().is_complete()
    }

    /// Whether everything was listed at least once.
    pub fn is_read(&self) -> bool {
        self.lock().is_read()
    }

    /// A rollback of the cluster whose forgotten blocks are not quarantined yet.
    pub fn rollback(&self) -> Option<Rollback> {
        self.lock().rollback()
    }

    /// The blocks that this rollback forgot are quarantined. Returns whether that counts.
    pub fn settle_rollback(&self, rollback: &Rollback) -> Settled {
        let settled = self.lock().settle_rollback(rollback);
        match settled {
            Settled::Yes => self.moved.notify_one(),
            // The end of the re-list wakes the loop.
            Settled::NotYet => {}
        }
        settled
    }

    /// Forgets blocks of deleted nodes that are not recorded, unless `is_kept`.
    pub fn retain_departed(&self, is_kept: impl Fn(Block, &Departure) -> bool) {
        if self.lock().retain_departed(is_kept) == CacheEffect::Changed {
            self.moved.notify_one();
        }
    }

    /// Asks for everything to be listed anew.
    pub fn request_relist(&self) {
        self.relist.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = self.cluster.now();
        state
    }

    fn on_event(&self, kind: ObservedKind, object_event: ObjectEvent<'_>) {
        let effect = self.lock().on_event(kind, object_event);
        self.react(effect);
    }

    fn read_uncached(&self, version: u64) {
        let effect = self.lock().read_uncached(version);
        self.react(effect);
    }

    fn react(&self, effect: CacheEffect) {
        match effect {
            CacheEffect::None => {}
            CacheEffect::Changed => {
                self.first_event_at
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert_with(Instant::now);
                self.moved.notify_one();
            }
            CacheEffect::Lagging => self.lagging.notify_one(),
            CacheEffect::Resync => self.relist.notify_one(),
        }
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.lock().writing(write);
        let answer = self.cluster.write(write).await;
        let effect = self.lock().written(write, &answer);
        match effect {
            CacheEffect::None => {}
            CacheEffect::Changed => self.moved.notify_one(),
            CacheEffect::Lagging => self.lagging.notify_one(),
            CacheEffect::Resync => self.relist.notify_one(),
        }
        answer
    }
}
