//! Lists the kinds whose watches stay behind what plans need. A kind without events gets there only
//! with the next bookmark, which a server may send once a minute.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::super::ClusterCache;
use super::super::cached_kind::WITH_BLOCKS;
use super::super::record;
use super::super::state::{CacheEffect, Role};
use super::{End, LastList, Restarts};
use crate::{ClusterError, Follow, Seen};

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
    pub(super) async fn catch_up(&self, restarts: &Restarts) -> End {
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
