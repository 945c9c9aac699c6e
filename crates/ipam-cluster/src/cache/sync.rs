//! Keeps a cache up to date: lists everything, follows each kind, compares with the server now and
//! then, and lists again when a watch cannot tell what happened or stays behind what plans need.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::ClusterCache;
use super::cached_kind::{WITH_BLOCKS, claims_version};
use super::record::{self, Recorder};
use super::state::{CacheEffect, Role};
use crate::{
    ClusterError, Extent, Follow, Following, ObjectEvent, Seen, Stored, Trouble, TroubleKind,
    observe,
};
use ipam_cilium::observed::ObservedKind;
use retry::Backoff;

/// First pause after something went wrong.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest pause after something went wrong.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pauses after something went wrong.
const BACKOFF: Backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);

/// Pauses before a requested re-list.
const RELIST_PAUSES: Backoff = Backoff::new(FIRST_PAUSE, Duration::from_secs(1));

/// A leader spends at most about a tenth of the time on re-lists that were requested.
const RELIST_COST_FACTOR: u32 = 10;

/// Longest pause for the sake of that share. Plans wait while a re-list is due.
const LONGEST_RELIST_PAUSE: Duration = Duration::from_secs(10);

/// How often the server's newest resourceVersion is compared with the newest reported one. A server
/// that went back in time reports nothing to its watchers.
const COMPARE: Duration = Duration::from_secs(10);

/// How long a comparison may take. Dropped packets show only as a missing answer.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(15);

/// Failed comparisons, or silent watches of a kind, in a row that count as trouble. One may be due
/// to a connection that was lost on the way.
const FAILURES_OF_TROUBLE: u32 = 2;

/// How often a kind that is hidden or not served is looked for.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Ends the watch of a kind, so that the next one begins after a list of this kind.
type Restarts = BTreeMap<ObservedKind, Notify>;

/// Why everything must be listed again.
enum End {
    RelistRequested,
    Trouble(Option<ObservedKind>, Trouble),
}

/// When the last re-list ended, and how long a requested re-list must wait after that end.
struct LastList {
    ended: Instant,
    gap: Duration,
}

impl LastList {
    /// A list that was made as a standby holds up nothing: a new leader begins at once.
    fn new(began: Instant, role: Role) -> LastList {
        let ended = Instant::now();
        let gap = match role {
            Role::Leader => ended.duration_since(began) * RELIST_COST_FACTOR,
            Role::Standby => Duration::ZERO,
        };
        LastList {
            ended,
            gap: gap.min(LONGEST_RELIST_PAUSE),
        }
    }

    fn remaining(&self) -> Duration {
        self.gap.saturating_sub(self.ended.elapsed())
    }
}

impl<C: Follow> ClusterCache<C> {
    /// Keeps the cache up to date for as long as the future is polled.
    pub async fn keep(&self) -> Infallible {
        let mut retry = BACKOFF.retry(fastrand::Rng::new());
        let mut between = RELIST_PAUSES.retry(fastrand::Rng::new());
        loop {
            let (began, role) = (Instant::now(), self.lock().role());
            let mut last_list = None;
            let end = match self.list_all().await {
                Ok(()) => {
                    last_list = Some(LastList::new(began, role));
                    self.follow_all().await
                }
                Err(error) => End::Trouble(None, Trouble::from(&error)),
            };
            if began.elapsed() >= LONGEST_PAUSE {
                retry.reset();
                between.reset();
            }
            let pause = match end {
                End::Trouble(kind, why) => {
                    self.report_trouble(kind, why);
                    retry.pause()
                }
                // Lists are dear: writes of other processes must not make us list all the time.
                End::RelistRequested => {
                    let remaining = last_list.as_ref().map(LastList::remaining);
                    between.pause().max(remaining.unwrap_or_default())
                }
            };
            sleep(pause).await;
        }
    }

    fn report_trouble(&self, kind: Option<ObservedKind>, trouble: Trouble) {
        self.lock().has_trouble(kind, trouble);
        self.moved.notify_one();
    }

    /// Lists everything in the order that plans read in, with the same checks.
    async fn list_all(&self) -> Result<(), ClusterError> {
        // This list answers a request that came before it.
        let _ = self.relist.notified().now_or_never();
        let epoch = self.lock().begin_relist();
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
        let (effect, has_gone_back) = {
            let mut state = self.lock();
            let before = state.rollback_at();
            let effect = state.replace(kinds, epoch);
            let at = state.rollback_at();
            (effect, at.is_some_and(|at| Some(at) != before))
        };
        if has_gone_back {
            self.went_back.notify_one();
        }
        self.moved.notify_one();
        if effect == CacheEffect::Resync {
            self.relist.notify_one();
        }
        Ok(())
    }

    /// Follows every kind until everything must be listed again.
    async fn follow_all(&self) -> End {
        let restarts: Restarts = ObservedKind::OF_PLANS
            .into_iter()
            .map(|kind| (kind, Notify::new()))
            .collect();
        let mut followers: FuturesUnordered<_> = restarts
            .iter()
            .map(|(kind, restart)| self.follow_kind(*kind, restart))
            .collect();
        tokio::select! {
            biased;
            end = followers.next() => end.unwrap_or(End::RelistRequested),
            () = self.relist_requested() => End::RelistRequested,
            end = self.catch_up(&restarts) => end,
            end = self.compare_versions() => end,
        }
    }

    /// Waits until a leader requests a re-list.
    async fn relist_requested(&self) {
        loop {
            self.relist.notified().await;
            if self.lock().is_leader() {
                return;
            }
        }
    }

    /// Compares with the server until it is at an earlier moment than what it reported.
    async fn compare_versions(&self) -> End {
        loop {
            sleep(COMPARE).await;
            let why = match timeout(COMPARE_TIMEOUT, self.compare_once()).await {
                Ok(Ok(None)) => {
                    if self.lock().server_answers() {
                        self.moved.notify_one();
                    }
                    continue;
                }
                Ok(Ok(Some(why))) => return End::Trouble(None, why),
                Ok(Err(error)) => Trouble::from(&error),
                Err(_) => Trouble::new(
                    TroubleKind::Unreachable,
                    format!(
                        "the API server does not answer within {} s",
                        COMPARE_TIMEOUT.as_secs()
                    ),
                ),
            };
            let failures = self.lock().comparison_failed();
            if failures >= FAILURES_OF_TROUBLE {
                self.report_trouble(None, why);
            }
        }
    }

    /// In which way the server went back in time, if it did.
    async fn compare_once(&self) -> Result<Option<Trouble>, ClusterError> {
        let (reached, claims, moment) = {
            let state = self.lock();
            let moment = state
                .position(ObservedKind::Claims)
                .map_or(0, |(.., reached)| reached);
            (state.newest(), state.claims_known(), moment)
        };
        let Some(newest) = record::newest_version(&self.cluster).await? else {
            return Ok(None);
        };
        if newest < reached {
            let why = format!(
                "the API server went back from resourceVersion {reached} to {newest}: was a backup restored?"
            );
            return Ok(Some(Trouble::new(TroubleKind::WentBack, why)));
        }
        let is_outdated = self.store_has_others(claims, moment).await?;
        Ok(is_outdated.then(|| Trouble::from(&ClusterError::Outdated { listed: claims })))
    }

    /// Whether the server's store has other claims than `known` at this moment. A list that is as
    /// new as the store would show them.
    async fn store_has_others(&self, known: u64, moment: u64) -> Result<bool, ClusterError> {
        Ok(match self.cluster.stored_claims().await? {
            Stored::At(stored) => stored < known || (known < stored && stored <= moment),
            Stored::Absent => known > 0,
            Stored::Hidden => false,
        })
    }

    async fn follow_kind(&self, kind: ObservedKind, restart: &Notify) -> End {
        let mut retry = BACKOFF.retry(fastrand::Rng::new());
        let mut silences = 0;
        loop {
            let Some((seen, namespace, from)) = self.lock().position(kind) else {
                return End::RelistRequested;
            };
            if seen != Seen::All {
                sleep(ASK_AGAIN).await;
                if matches!(record::look(&self.cluster, kind, &namespace).await, Ok(now) if now != seen)
                {
                    return End::RelistRequested;
                }
                continue;
            }
            let began = Instant::now();
            let mut on_event = |object_event: ObjectEvent<'_>| self.on_event(kind, object_event);
            let follow = self.cluster.follow(kind, &namespace, from, &mut on_event);
            let end = tokio::select! {
                biased;
                () = restart.notified() => continue,
                end = follow => end,
            };
            if began.elapsed() >= LONGEST_PAUSE {
                retry.reset();
            }
            match end {
                Ok(Following::Closed) => {
                    silences = 0;
                    self.lock().watch_answers(kind);
                    if began.elapsed() < LONGEST_PAUSE {
                        sleep(retry.pause()).await;
                    }
                }
                Ok(Following::Silent) => {
                    silences += 1;
                    // A server that answers nothing shows in the comparisons.
                    if silences >= FAILURES_OF_TROUBLE && !self.lock().is_server_silent() {
                        let resource = kind.resource();
                        let why = format!("the API server does not answer the watch of {resource}");
                        let trouble = Trouble::new(TroubleKind::Unreachable, why);
                        self.report_trouble(Some(kind), trouble);
                    }
                }
                Ok(Following::Lost(why)) => {
                    let why = format!("{} cannot be watched: {why}", kind.resource());
                    return End::Trouble(Some(kind), Trouble::new(TroubleKind::WatchLost, why));
                }
                // A server that was away may have come back at an earlier moment, so nothing that
                // it reported counts any more.
                Err(error) => return End::Trouble(Some(kind), Trouble::from(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;

/// How long the watches may lag. They usually catch up at once, because a process that writes
/// claims writes Nodes next.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);

/// Whether the lists were enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Lagging,
    EverythingIsNeeded,
}

impl<C: Follow> ClusterCache<C> {
    /// Lists what lags, for a leader, until everything must be listed again.
    async fn catch_up(&self, restarts: &Restarts) -> End {
        let mut last_list: Option<LastList> = None;
        loop {
            if self.lag_of_leader().is_none() {
                self.lagging.notified().await;
            }
            let Some(lag) = self.lag_of_leader() else {
                continue;
            };
            let remaining = last_list.as_ref().map(LastList::remaining);
            let due = Instant::now() + PATIENCE.max(remaining.unwrap_or_default());
            match self.look_until(due, restarts).await {
                Ok(Listed::Lagging) => {}
                Ok(Listed::EverythingIsNeeded) | Err(_) => return End::RelistRequested,
            }
            if self.lag_of_leader() != Some(lag) {
                continue;
            }
            let began = Instant::now();
            match self.list_lagging(&Seen::All, restarts).await {
                Ok(Listed::Lagging) => last_list = Some(LastList::new(began, Role::Leader)),
                Ok(Listed::EverythingIsNeeded) | Err(_) => return End::RelistRequested,
            }
        }
    }

    /// Looks for the kinds that are not served, now and after further claims: no watch reports that
    /// one is served by now.
    async fn look_until(&self, due: Instant, restarts: &Restarts) -> Result<Listed, ClusterError> {
        loop {
            let listed = self.list_lagging(&Seen::NotServed, restarts).await?;
            if listed == Listed::EverythingIsNeeded {
                return Ok(listed);
            }
            tokio::select! {
                biased;
                () = sleep_until(due) => return Ok(listed),
                () = self.lagging.notified() => {}
            }
        }
    }

    fn lag_of_leader(&self) -> Option<u64> {
        let state = self.lock();
        state.lag().filter(|_| state.is_leader())
    }

    /// Lists the kinds that lag now, one after the other.
    async fn list_lagging(&self, seen: &Seen, restarts: &Restarts) -> Result<Listed, ClusterError> {
        for kind in WITH_BLOCKS {
            let Some(lagging) = self.lock().lagging(kind, seen) else {
                continue;
            };
            let moment = lagging.moment();
            let listed = record::read(&self.cluster, kind, &lagging.namespace, &moment).await?;
            let effect = self.lock().take_list(&lagging, listed);
            if effect == CacheEffect::Resync {
                return Ok(Listed::EverythingIsNeeded);
            }
            if let Some(restart) = restarts.get(&kind) {
                restart.notify_one();
            }
            self.react(effect);
        }
        Ok(Listed::Lagging)
    }
}
