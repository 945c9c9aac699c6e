//! One reconcile: plans from the cache and the files, and applies what needs no person.
//!
//! New nodes receive their blocks from the cache: claims keep blocks unique. Every other change is
//! rare, so it is planned again from the cluster itself, under the lock.

use std::time::Duration;

use tokio::time::Instant;

use super::{ControllerEvent, OnEvent, Planned, Waiting, WaitingChange, Worker};
use crate::apply::{Event, Outcome};
use crate::lease::{Attempt, Lease, Timing};
use crate::{
    Applied, BATCH, Job, Loaded, OnConflict, Sending, apply_until_settled, observe_and_plan,
};
use ipam_cilium::observed::Observed;
use ipam_cluster::{Cluster, ClusterError, Follow, LeaseName, Snapshot};
use ipam_plan::check;
use ipam_plan::plan::{
    Change, Plan, Selection, Sequence, Unattended, VersionRules, without_awaited_pairs,
};

/// Shortest pause for which [`ControllerEvent::Undone`] is reported.
const REPORTED_PAUSE: Duration = Duration::from_secs(8);

/// Pause while another process holds the lock.
const LOCK_RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Shortest time from one plan to the next. Events that come meanwhile are planned together.
const SHORTEST_PERIOD: Duration = Duration::from_millis(250);

/// Shortest time from one plan to the next, in durations of the last plan, so that plans take at
/// most a quarter of the time.
const PERIOD_PER_PLAN: u32 = 4;

/// Upper limit of that shortest time: the last plan may have waited for Neutron.
const LONGEST_PERIOD: Duration = Duration::from_secs(5);

/// How long ports are written before new nodes have their turn.
const PORTS_FOR: Duration = Duration::from_secs(5);

/// Pause before Neutron is read again, if changes wait for a subnet that it did not answer for.
const NEUTRON_RETRY: Duration = Duration::from_secs(15);

/// Result of one apply.
struct Tried {
    /// Time until the other changes are due.
    again: Option<Duration>,
    /// Whether the server accepted or refused each change.
    is_certain: bool,
}

fn earliest(times: impl IntoIterator<Item = Option<Duration>>) -> Option<Duration> {
    times.into_iter().flatten().min()
}

/// The time until the first quarantine of a block ends: no event tells of it.
fn time_until_freed(loaded: &Loaded, observed: &Observed) -> Option<Duration> {
    let quarantined = observed
        .live_claims(loaded.desired.policy.quarantine)
        .quarantined;
    let free_at = quarantined
        .into_values()
        .map(|quarantined| quarantined.free_at)
        .min()?;
    Duration::try_from(free_at.duration_since(observed.at)).ok()
}

fn waits_for_neutron(plan: &Plan, observed: &Observed) -> bool {
    let is_blocked = plan
        .blocked
        .iter()
        .any(|blocked| blocked.reason.is_neutron_unknown());
    is_blocked || has_unread_ports(observed)
}

fn has_unread_ports(observed: &Observed) -> bool {
    let ports = observed.ports.iter().flat_map(|seen| seen.values());
    ports.into_iter().any(Result::is_err)
}

impl<C: Follow> Worker<'_, C> {
    /// Returns the time until the next reconcile is due, if that is known.
    pub(super) async fn plan_and_apply(
        &mut self,
        snapshot: &Snapshot<'_, C>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let loaded = self.files.applied_config();
        let openstack = self.openstack.clone();
        let job = Job {
            loaded: &loaded,
            undo: None,
            waivers: self.waivers,
            openstack: Some(&openstack),
            selection: Selection::EVERYTHING,
        };
        let began = Instant::now();
        let (observed, plan) = observe_and_plan(snapshot, &job).await?;
        let period = (began.elapsed() * PERIOD_PER_PLAN).clamp(SHORTEST_PERIOD, LONGEST_PERIOD);
        self.next_plan_at = began + period;
        on_event(ControllerEvent::Planned(&Planned {
            plan: &plan,
            loaded: &loaded,
            observed: &observed,
        }));
        let parted = crate::part_in_task(&plan, &loaded.desired, &observed, self.waivers).await;
        self.report_waiting(&plan, &parted, &observed, on_event);
        let departed = self.departed(&loaded, &observed);
        self.write_backoff.prune(Instant::now());
        let (ready, due) = self.backed_off(parted.applied);
        let freed = match plan.blocked.is_empty() {
            true => None,
            false => time_until_freed(&loaded, &observed),
        };
        let due = earliest([
            due,
            waits_for_neutron(&plan, &observed).then_some(NEUTRON_RETRY),
            freed,
        ]);
        let (new, others): (Vec<Change>, Vec<Change>) =
            ready.into_iter().partition(Change::gives_to_a_new_node);
        // Even without changes, this call quarantines the blocks of dead claims.
        let tried = self
            .apply(snapshot, &job, observed, new, OnConflict::Leave, on_event)
            .await?;
        let tried = self.paused(tried);
        let due = earliest([due, self.record_departed(snapshot, &departed).await]);
        let after_others = match others.is_empty() {
            true => None,
            false => self.others(&job, on_event).await?,
        };
        Ok(earliest([due, tried.again, after_others]))
    }

    /// Applies the changes that are not for new nodes.
    async fn others(
        &mut self,
        job: &Job<'_>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let cache = self.cache;
        let uncached = cache.uncached();
        let lease = Lease {
            cluster: &uncached,
            name: LeaseName::Apply,
            identity: self.holder.clone(),
            operation: "watch".to_owned(),
            timing: Timing::APPLY,
        };
        let lock = match lease.try_acquire(&mut self.lock_holder).await? {
            Attempt::Done(lock) => lock,
            Attempt::HeldByOther | Attempt::Overtaken => return Ok(Some(LOCK_RETRY_PAUSE)),
        };
        self.openstack.forget_subnets();
        let work = async {
            let (observed, plan) = observe_and_plan(&uncached, job).await?;
            let parted =
                crate::part_in_task(&plan, &job.loaded.desired, &observed, self.waivers).await;
            // These lists may be newer than the cache, which learns of deleted nodes: new nodes get
            // their blocks from the cache only.
            let mut applied = parted.applied;
            applied.retain(|change| !change.gives_to_a_new_node());
            let (ready, due) = self.backed_off(applied);
            let (ports, others): (Vec<Change>, Vec<Change>) = ready
                .into_iter()
                .partition(|change| change.as_port().is_some());
            let again = match others.is_empty() {
                true => self.ports(job, observed, ports, on_event).await?,
                false => {
                    // Ports follow in the next plan, when their nodes have their blocks.
                    let more = (!ports.is_empty()).then_some(Duration::ZERO);
                    let conflicts = OnConflict::Replan;
                    let tried = self
                        .apply(&uncached, job, observed, others, conflicts, on_event)
                        .await?;
                    earliest([self.paused(tried).again, more])
                }
            };
            Ok(earliest([due, again]))
        };
        lease.hold(lock, work).await
    }

    /// Writes ports for a few seconds: nodes that join must not wait for many of them, or for a
    /// Neutron that is slow. Returns the time until the rest is due.
    async fn ports(
        &mut self,
        job: &Job<'_>,
        observed: Observed,
        ports: Vec<Change>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let (stop, uncached) = (self.stop.clone(), self.cache.uncached());
        let tried = {
            let conflicts = OnConflict::Replan;
            let writing = self.apply(&uncached, job, observed, ports, conflicts, on_event);
            let mut writing = std::pin::pin!(writing);
            tokio::select! {
                biased;
                tried = &mut writing => tried?,
                () = tokio::time::sleep(PORTS_FOR) => {
                    stop.request();
                    let tried = writing.await?;
                    return Ok(Some(tried.again.unwrap_or_default()));
                }
            }
        };
        Ok(self.paused(tried).again)
    }

    /// Drops the changes that must pause, and what depends on them. Returns the shortest pause with
    /// the rest.
    fn backed_off(&self, changes: Vec<Change>) -> (Vec<Change>, Option<Duration>) {
        let now = Instant::now();
        let mut due: Option<Duration> = None;
        let mut ready = Vec::new();
        let mut is_sequence_blocked = false;
        for change in changes {
            let in_order = change.sequence() == Sequence::AfterThoseBefore;
            let pause = self.write_backoff.pause_left(&change, now);
            due = earliest([due, pause]);
            if pause.is_some() || (in_order && is_sequence_blocked) {
                is_sequence_blocked |= in_order;
            } else {
                ready.push(change);
            }
        }
        (without_awaited_pairs(ready), due)
    }

    async fn apply<T: Cluster>(
        &mut self,
        cluster: &T,
        job: &Job<'_>,
        observed: Observed,
        changes: Vec<Change>,
        on_conflict: OnConflict,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Tried, ClusterError> {
        on_event(ControllerEvent::Sending(changes.len()));
        let first_event_at = self.first_event_at;
        let mut on_write = |event: Event<'_>| {
            let Event::Finished { change, outcome } = event;
            if *outcome == Outcome::Applied {
                on_event(ControllerEvent::Finished {
                    change,
                    outcome,
                    waited: first_event_at.elapsed(),
                });
            }
        };
        let stop = self.stop.clone();
        let ports = self.openstack.clone();
        let mut sending = Sending {
            batch: BATCH,
            limit: self.limit.clone(),
            on_conflict,
            stop: &stop,
            on_event: &mut on_write,
        };
        let (applied, failure) =
            apply_until_settled(cluster, &ports, job, observed, changes, &mut sending).await;
        let limit = sending.limit;
        self.limit = limit;
        let tried = self.note(applied, on_event);
        on_event(ControllerEvent::Sending(0));
        match failure {
            Some(error) => Err(error),
            None => Ok(tried),
        }
    }

    /// Pauses after changes that were not written. A conflict with a heartbeat or another apply is
    /// over soon. A server that denies all access is not.
    fn paused(&mut self, tried: Tried) -> Tried {
        match tried.is_certain {
            true => tried,
            false => Tried {
                again: Some(self.next_pause()),
                ..tried
            },
        }
    }

    fn note(&mut self, outcomes: Applied, on_event: &mut OnEvent<'_>) -> Tried {
        let now = Instant::now();
        let mut tried = Tried {
            again: None,
            is_certain: true,
        };
        for (change, outcome) in outcomes.outcomes {
            let was_sent = !matches!(
                outcome,
                Outcome::NotTried | Outcome::NotSent(_) | Outcome::Superseded(_)
            );
            if !was_sent {
                if matches!(outcome, Outcome::Superseded(_)) {
                    on_event(ControllerEvent::Conflict(&change.target()));
                }
                tried.is_certain = false;
                continue;
            }
            let pause = self.write_backoff.note(&change, now);
            if outcome == Outcome::Applied {
                if pause >= REPORTED_PAUSE {
                    on_event(ControllerEvent::Undone(&change.target(), pause));
                }
            } else {
                on_event(ControllerEvent::Finished {
                    change: &change,
                    outcome: &outcome,
                    waited: self.first_event_at.elapsed(),
                });
                tried.again = earliest([tried.again, Some(pause)]);
                tried.is_certain &= !matches!(outcome, Outcome::Unknown(_));
            }
        }
        tried
    }

    fn report_waiting(
        &mut self,
        plan: &Plan,
        parted: &Unattended,
        observed: &Observed,
        on_event: &mut OnEvent<'_>,
    ) {
        let rules = VersionRules::of(observed);
        let desired = &self.files.applied_config().desired;
        let waiting = Waiting {
            nodes: observed.nodes.len(),
            activity: desired.policy.activity,
            for_a_person: parted
                .waiting
                .iter()
                .map(|change| WaitingChange::new(change, rules))
                .collect(),
            warnings: check::about_blocks(desired, observed)
                .into_iter()
                .map(|finding| (finding.rule.0, finding.message))
                .collect(),
            refusals: parted.refusals.clone(),
            blocked: plan
                .blocked
                .iter()
                .map(|one| (one.target.clone(), one.reason.to_string()))
                .collect(),
        };
        if self.reported.waiting.as_ref() != Some(&waiting) {
            on_event(ControllerEvent::Waiting(&waiting));
            self.reported.waiting = Some(waiting);
        }
    }
}
