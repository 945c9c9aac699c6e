//! A cluster kept in memory, in step with the one that it mirrors: read once, then followed.
//!
//! It keeps what the claims ask of a list. Kinds that tell who has a block are followed from one
//! moment on, each at its own pace; so a block that vanishes from one of them lingers, as nobody's,
//! until all of them have reached that moment: by then it is known whether another object shows it.
//! What we write ourselves must show before anything is read again. When somebody else changes the
//! claims, all is read anew.

mod direct;
mod kept;
mod record;
mod rollback;
mod snapshot;
mod state;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::kept::{claims_key, claims_version};
use self::record::Recorder;
use self::state::{Heard, State};
use super::{
    ClusterError, Extent, Follow, Following, ObjectEvent, Seen, Stored, Write, WriteError, Written,
    observe,
};
use ipam_cilium::observed::ObservedKind;
use ipam_core::net::Block;
use retry::Backoff;

pub use self::direct::Direct;
pub use self::rollback::Rollback;
pub use self::snapshot::Snapshot;

/// First pause after something went wrong.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pauses after something went wrong.
const BACKOFF: Backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);

/// Pauses before everything is read because somebody else changed the claims.
const BETWEEN_READINGS: Backoff = Backoff::new(FIRST_PAUSE, Duration::from_secs(1));

/// How often the server's newest resourceVersion is compared with what was reached. A server that
/// went back in time tells nothing to those who follow it.
const COMPARE: Duration = Duration::from_secs(10);

/// How often a kind that is not served or hidden is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Nodes that changed.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Nodes and CiliumNodes of these names, as far as they are there, and the claims; nothing else
    /// has changed.
    pub objects: Vec<(ObservedKind, Arc<str>)>,
    /// Blocks that vanished, and of which it is not known yet whether another object shows them.
    pub lingering: BTreeSet<Block>,
}

/// Why all is read anew.
enum End {
    Demanded,
    Trouble(Option<ObservedKind>, String),
}

/// A mirror.
#[derive(Debug)]
pub struct ClusterCache<C> {
    cluster: C,
    state: Mutex<State>,
    /// Something that matters has changed.
    moved: Notify,
    /// When the first of it was heard of.
    heard: Mutex<Option<Instant>>,
    /// All must be read anew.
    lost: Notify,
    /// The cluster went back in time.
    went_back: Notify,
}

impl<C: Follow> ClusterCache<C> {
    /// An empty one.
    pub fn new(cluster: C) -> ClusterCache<C> {
        let [moved, lost, went_back] = [(); 3].map(|()| Notify::new());
        ClusterCache {
            cluster,
            state: Mutex::default(),
            moved,
            heard: Mutex::default(),
            lost,
            went_back,
        }
    }

    /// Keeps it in step, for as long as it is polled.
    pub async fn keep(&self) -> Infallible {
        let mut retry = BACKOFF.retry(fastrand::Rng::new());
        let mut between = BETWEEN_READINGS.retry(fastrand::Rng::new());
        loop {
            let began = Instant::now();
            let end = match self.read_all().await {
                Ok(()) => self.follow_all().await,
                Err(error) => End::Trouble(None, error.to_string()),
            };
            if began.elapsed() >= LONGEST_PAUSE {
                retry.reset();
                between.reset();
            }
            let pause = match end {
                End::Trouble(kind, why) => {
                    self.tell(kind, why);
                    retry.pause()
                }
                // Reading everything is dear, so others who write all the time do not make us do it
                // all the time.
                End::Demanded => between.pause(),
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn tell(&self, kind: Option<ObservedKind>, trouble: String) {
        self.lock().has_trouble(kind, trouble);
        self.moved.notify_one();
    }

    /// From now on plans are made from it: all is read, and read anew whenever something demands
    /// it.
    pub fn begin_term(&self) {
        self.lock().begin_term();
        self.lost.notify_one();
    }

    /// From now on it is only followed, so that it is known what a cluster that goes back in time
    /// forgets. What demands that all is read anew waits for the next term.
    pub fn end_term(&self) {
        self.lock().end_term();
    }

    /// Waits until something that matters has changed since the last time.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    /// Waits until the cluster goes back in time.
    pub async fn went_back(&self) {
        self.went_back.notified().await;
    }

    /// When the first change was heard of since this was asked last.
    pub fn heard(&self) -> Option<Instant> {
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Why it cannot be kept in step at the moment.
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble()
    }

    /// Everything as it is now; `None` while it was not read yet, or does not show yet what we
    /// wrote.
    pub fn snapshot(&self) -> Option<Snapshot<'_, C>> {
        let mut state = self.lock();
        if !state.is_complete() {
            return None;
        }
        state.all_is_seen();
        Some(Snapshot::new(self, &state))
    }

    /// The nodes that changed since this or a snapshot was asked for last; `None` where more has
    /// changed, or where there is no snapshot.
    pub fn touched(&self) -> Option<Touched> {
        let mut state = self.lock();
        if !state.is_complete() {
            return None;
        }
        let names = state.take_touched()?;
        let json = |kind: ObservedKind, name: &str| Some((kind, state.json(kind, name)?));
        let of_node = |name: &String| {
            [ObservedKind::Node, ObservedKind::CiliumNode].map(|kind| json(kind, name))
        };
        let objects = names.iter().flat_map(of_node).flatten();
        let claims = json(ObservedKind::Claims, &claims_key());
        Some(Touched {
            objects: objects.chain(claims).collect(),
            names,
            lingering: state.lingering(),
        })
    }

    /// The cluster itself: what is read from it is not what the mirror shows, what is written to it
    /// the mirror must show.
    pub fn direct(&self) -> Direct<'_, C> {
        Direct::new(self)
    }

    /// Whether it can be planned from: all was read, and what we wrote shows.
    pub fn is_in_step(&self) -> bool {
        self.lock().is_complete()
    }

    /// Whether everything was read at least once.
    pub fn is_read(&self) -> bool {
        self.lock().is_read()
    }

    /// That the cluster went back in time, where what it forgot is not quarantined yet.
    pub fn rollback(&self) -> Option<Rollback> {
        self.lock().rollback()
    }

    /// What the cluster forgot then is quarantined.
    pub fn rollback_is_settled(&self, rollback: &Rollback) {
        self.lock().rollback_is_settled(rollback);
        self.moved.notify_one();
    }

    /// Asks for everything to be read anew.
    pub fn read_anew(&self) {
        self.lost.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In the order that plans read in, and held to the same.
    async fn read_all(&self) -> Result<(), ClusterError> {
        let begun = self.lock().begin();
        let recorder = Recorder::new(&self.cluster);
        observe(&recorder, Extent::Plan).await?;
        let kinds = recorder.kinds();
        let listed = claims_version(&kinds);
        let moment = kinds
            .get(&ObservedKind::Claims)
            .map_or(0, |claims| claims.listed_at);
        if self.store_has_others(listed, moment).await? {
            return Err(ClusterError::Outdated { listed });
        }
        let has_gone_back = {
            let mut state = self.lock();
            let before = state.rollback_at();
            state.replace(kinds, begun);
            state.rollback_at().is_some_and(|at| Some(at) != before)
        };
        if has_gone_back {
            self.went_back.notify_one();
        }
        self.moved.notify_one();
        Ok(())
    }

    /// Until something demands that all is read anew.
    async fn follow_all(&self) -> End {
        let mut followers: FuturesUnordered<_> = ObservedKind::OF_PLANS
            .into_iter()
            .map(|kind| self.follow_kind(kind))
            .collect();
        tokio::select! {
            biased;
            end = followers.next() => end.unwrap_or(End::Demanded),
            () = self.demanded() => End::Demanded,
            end = self.compare_versions() => end,
        }
    }

    async fn demanded(&self) {
        loop {
            self.lost.notified().await;
            if self.lock().is_planned_from() {
                return;
            }
        }
    }

    /// Until the server is at an earlier moment than what was heard of it.
    async fn compare_versions(&self) -> End {
        loop {
            tokio::time::sleep(COMPARE).await;
            let (reached, claims, moment) = {
                let state = self.lock();
                let moment = state
                    .position(ObservedKind::Claims)
                    .map_or(0, |(.., reached)| reached);
                (state.newest(), state.claims_known(), moment)
            };
            // A server that does not answer is noticed by those who follow it.
            let Ok(Some(newest)) = record::newest_version(&self.cluster).await else {
                continue;
            };
            if newest < reached {
                let why = format!(
                    "the API server went back from resourceVersion {reached} to {newest}: was a backup restored?"
                );
                return End::Trouble(None, why);
            }
            if matches!(self.store_has_others(claims, moment).await, Ok(true)) {
                return End::Trouble(None, ClusterError::Outdated { listed: claims }.to_string());
            }
        }
    }

    /// Whether the server's store has other claims than it had at this moment, of which these
    /// versions were heard: a list that is as new as those in the store shows them.
    async fn store_has_others(&self, known: u64, moment: u64) -> Result<bool, ClusterError> {
        Ok(match self.cluster.stored_claims().await? {
            Stored::At(stored) => stored < known || (known < stored && stored <= moment),
            Stored::Absent => known > 0,
            Stored::Hidden => false,
        })
    }

    async fn follow_kind(&self, kind: ObservedKind) -> End {
        let mut retry = BACKOFF.retry(fastrand::Rng::new());
        loop {
            let Some((seen, namespace, from)) = self.lock().position(kind) else {
                return End::Demanded;
            };
            if seen != Seen::All {
                tokio::time::sleep(ASK_AGAIN).await;
                if matches!(record::look(&self.cluster, kind, &namespace).await, Ok(now) if now != seen)
                {
                    return End::Demanded;
                }
                continue;
            }
            let began = Instant::now();
            let mut on_event = |object_event: ObjectEvent<'_>| self.on_event(kind, object_event);
            let end = self
                .cluster
                .follow(kind, &namespace, from, &mut on_event)
                .await;
            if began.elapsed() >= LONGEST_PAUSE {
                retry.reset();
            }
            match end {
                Ok(Following::Closed) if began.elapsed() >= LONGEST_PAUSE => {}
                Ok(Following::Closed) => tokio::time::sleep(retry.pause()).await,
                Ok(Following::Lost(why)) => {
                    return End::Trouble(
                        Some(kind),
                        format!("{} cannot be watched: {why}", kind.resource()),
                    );
                }
                // A server that was away may have come back as it was before: what was heard of it
                // counts no more.
                Err(error) => return End::Trouble(Some(kind), error.to_string()),
            }
        }
    }

    fn on_event(&self, kind: ObservedKind, object_event: ObjectEvent<'_>) {
        let heard = self.lock().on_event(kind, object_event);
        match heard {
            Heard::Nothing => {}
            Heard::Change => {
                self.heard
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert_with(Instant::now);
                self.moved.notify_one();
            }
            Heard::ReadAnew => self.lost.notify_one(),
        }
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.lock().writing(write);
        let answer = self.cluster.write(write).await;
        let heard = self.lock().written(write, &answer);
        match heard {
            Heard::Nothing | Heard::Change => {}
            Heard::ReadAnew => self.lost.notify_one(),
        }
        answer
    }
}
