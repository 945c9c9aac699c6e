//! The loop of `watch`: waits for a reason to reconcile, reconciles, and reports what changed since
//! the last report.
//!
//! It runs one reconcile at a time, and never plans or writes itself: [`super::reconcile`] does. The
//! first event is planned at once, those that follow soon together.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::write_backoff::WriteBackoff;
use super::{ControllerEvent, Files, OnEvent, Waiting};
use crate::apply::Stop;
use crate::claim_store::quarantine_forgotten;
use crate::departures;
use crate::lease::OtherHolder;
use crate::{ConcurrencyLimit, OpenStack, Parallelism};
use ipam_cluster::{ClusterCache, Follow, Rollback, Settled, Trouble, TroubleKind};
use ipam_core::model::Waiver;
use ipam_desired::Activity;
use retry::{Backoff, Retry};

/// Pauses after a reconcile that failed.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// The cache shows our writes within milliseconds. After this time without one, it lists anew.
const WRITE_VISIBILITY_TIMEOUT: Duration = Duration::from_secs(10);

/// Time until a plan after ports of VMs were read: more of them follow.
const AFTER_PORTS: Duration = Duration::from_secs(5);

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct LastReported {
    pub(super) waiting: Option<Waiting>,
    error: Option<Trouble>,
}

/// The state of the loop.
pub(super) struct Worker<'w, C> {
    pub(super) cache: &'w ClusterCache<C>,
    pub(super) files: &'w Files,
    pub(super) waivers: &'w BTreeSet<Waiver>,
    pub(super) interval: Duration,
    pub(super) limit: ConcurrencyLimit,
    pub(super) holder: String,
    pub(super) openstack: OpenStack,
    /// Signal that ends the current reconcile early.
    pub(super) stop: Arc<Stop>,
    pub(super) write_backoff: WriteBackoff,
    pub(super) reported: LastReported,
    /// Pauses after failures; reset by a reconcile without one.
    retry: Retry,
    /// Whether this reconcile failed, so that the next one waits for the pause.
    must_pause: bool,
    /// Why blocks of deleted nodes could not be recorded the last time.
    pub(super) unrecorded: Option<Trouble>,
    /// Pauses after such failures. Nothing else waits for them.
    pub(super) record_retry: Retry,
    pub(super) record_not_before: Instant,
    /// No plan is made before this time.
    pub(super) next_plan_at: Instant,
    /// When the first event that led to this reconcile arrived.
    pub(super) first_event_at: Instant,
    /// Since when the cache lacks a write of this process.
    lagging_since: Option<Instant>,
    /// Another holder of the apply lock, as seen by earlier reconciles.
    pub(super) lock_holder: Option<OtherHolder>,
}

impl<'w, C: Follow> Worker<'w, C> {
    pub(super) fn new(
        cache: &'w ClusterCache<C>,
        files: &'w Files,
        waivers: &'w BTreeSet<Waiver>,
        (interval, parallelism): (Duration, Parallelism),
        holder: String,
        openstack: OpenStack,
    ) -> Worker<'w, C> {
        Worker {
            cache,
            files,
            waivers,
            interval,
            limit: parallelism.into(),
            holder,
            // At half the interval, ports and subnets that are older than the plan before are read
            // again for each plan.
            openstack: openstack.for_many_plans(interval / 2),
            stop: Arc::default(),
            write_backoff: WriteBackoff::default(),
            reported: LastReported::default(),
            retry: BACKOFF.retry(fastrand::Rng::new()),
            must_pause: false,
            unrecorded: None,
            record_retry: BACKOFF.retry(fastrand::Rng::new()),
            record_not_before: Instant::now(),
            next_plan_at: Instant::now(),
            first_event_at: Instant::now(),
            lagging_since: None,
            lock_holder: None,
        }
    }

    pub(super) async fn run_until(
        mut self,
        ending: impl Future<Output = ()> + Send,
        on_event: &mut OnEvent<'_>,
    ) {
        let mut ending = std::pin::pin!(ending);
        on_event(ControllerEvent::ConfigApplied(&self.files.applied_config()));
        let mut due_at = Instant::now();
        loop {
            // Our own writes must not end a pause.
            let not_before = match std::mem::take(&mut self.must_pause) {
                true => due_at.max(self.next_plan_at),
                false => self.next_plan_at,
            };
            tokio::select! {
                biased;
                () = &mut ending => return,
                () = tokio::time::sleep_until(not_before) => {}
            }
            tokio::select! {
                biased;
                () = &mut ending => return,
                () = self.cache.moved() => {}
                () = self.files.changed() => {}
                () = self.openstack.ports_changed() => {
                    due_at = due_at.min(Instant::now() + AFTER_PORTS);
                    continue;
                }
                () = tokio::time::sleep_until(due_at) => {}
            }
            self.report_files(on_event);
            self.stop = Arc::default();
            let Some(after) = self.reconcile_until(ending.as_mut(), on_event).await else {
                return;
            };
            due_at = Instant::now() + after;
        }
    }

    /// Reconciles once; `None` if `ending` is ready. If files change meanwhile, the next reconcile
    /// follows at once. A pause ends this one after its writes in flight.
    async fn reconcile_until(
        &mut self,
        mut ending: Pin<&mut (impl Future<Output = ()> + Send)>,
        on_event: &mut OnEvent<'_>,
    ) -> Option<Duration> {
        let (files, stop) = (self.files, self.stop.clone());
        let mut has_changed = false;
        let due = {
            let mut reconcile = std::pin::pin!(self.reconcile(on_event));
            loop {
                tokio::select! {
                    biased;
                    due = &mut reconcile => break due,
                    () = files.changed() => {
                        has_changed = true;
                        if files.applied_config().desired.policy.activity == Activity::Paused {
                            stop.request();
                        }
                    }
                    () = &mut ending => {
                        stop.request();
                        reconcile.await;
                        return None;
                    }
                }
            }
        };
        Some(if has_changed && !self.must_pause {
            Duration::ZERO
        } else {
            due
        })
    }

    fn report_files(&mut self, on_event: &mut OnEvent<'_>) {
        if self.files.take_is_new() {
            on_event(ControllerEvent::ConfigApplied(&self.files.applied_config()));
        }
        if let Some(invalid) = self.files.take_invalid() {
            on_event(ControllerEvent::Invalid(&invalid));
        }
    }

    /// Plans and applies once; returns the time until the next reconcile is due.
    async fn reconcile(&mut self, on_event: &mut OnEvent<'_>) -> Duration {
        if let Some(rollback) = self.cache.rollback()
            && let Err(why) = self.quarantine_forgotten(&rollback, on_event).await
        {
            self.report_health(Some(why), on_event);
            return self.next_pause();
        }
        if !self.cache.is_in_step() {
            return self.not_in_step(on_event);
        }
        self.lagging_since = None;
        self.first_event_at = self.cache.first_event_at().unwrap_or_else(Instant::now);
        let loaded = self.files.applied_config();
        let desired = &loaded.desired;
        self.cache
            .retain_departed(|block, _| departures::is_quarantined(desired, block));
        let Some(snapshot) = self.cache.snapshot() else {
            return self.not_in_step(on_event);
        };
        match self.plan_and_apply(&snapshot, on_event).await {
            Ok(due) => {
                if !self.must_pause {
                    self.retry.reset();
                }
                let error = self.cache.trouble().or_else(|| self.unrecorded.clone());
                self.report_health(error, on_event);
                due.unwrap_or(self.interval).min(self.interval)
            }
            Err(error) => {
                self.report_health(Some(Trouble::from(&error)), on_event);
                self.next_pause()
            }
        }
    }

    /// Runs before any plan: blocks that the cluster forgot look free.
    async fn quarantine_forgotten(
        &self,
        rollback: &Rollback,
        on_event: &mut OnEvent<'_>,
    ) -> Result<(), Trouble> {
        let loaded = self.files.applied_config();
        if loaded.desired.policy.activity == Activity::Paused {
            let Rollback { from, to, .. } = rollback;
            let why = format!(
                "the cluster went back from resourceVersion {from} to {to}; the blocks that it \
                 forgot will be quarantined as soon as the Policy is no longer paused"
            );
            return Err(Trouble::new(TroubleKind::WentBack, why));
        }
        if !rollback.forgotten.is_empty() {
            let quarantined =
                quarantine_forgotten(&self.cache.uncached(), &rollback.forgotten, &loaded).await;
            quarantined.map_err(|error| Trouble::from(&error))?;
        }
        match self.cache.settle_rollback(rollback) {
            Settled::Yes => on_event(ControllerEvent::RolledBack(rollback)),
            Settled::NotYet => {}
        }
        Ok(())
    }

    /// The pause after a failure. Pauses grow until a reconcile has no failure.
    pub(super) fn next_pause(&mut self) -> Duration {
        self.must_pause = true;
        self.retry.pause()
    }

    fn not_in_step(&mut self, on_event: &mut OnEvent<'_>) -> Duration {
        // Only a reconcile can tell that an earlier failure is over.
        if let Some(why) = self.cache.trouble() {
            self.report_health(Some(why), on_event);
        }
        if !self.cache.is_read() {
            return WRITE_VISIBILITY_TIMEOUT;
        }
        let since = *self.lagging_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= WRITE_VISIBILITY_TIMEOUT {
            self.lagging_since = None;
            self.cache.request_relist();
        }
        WRITE_VISIBILITY_TIMEOUT
    }

    fn report_health(&mut self, error: Option<Trouble>, on_event: &mut OnEvent<'_>) {
        match &error {
            Some(why) if self.reported.error.as_ref() != Some(why) => {
                on_event(ControllerEvent::Unhealthy(why))
            }
            None if self.reported.error.is_some() => on_event(ControllerEvent::Recovered),
            Some(_) | None => {}
        }
        self.reported.error = error;
    }
}
