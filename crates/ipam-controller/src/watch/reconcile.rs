//! One round: what the mirror shows and the files ask for becomes a plan, and of that is applied
//! what needs no person.
//!
//! New nodes get their blocks from what the mirror shows: claims keep blocks unique. Everything
//! else is rare, and what it would do to others is judged by a fresh look at the cluster itself,
//! under the lock.

use std::time::Duration;

use tokio::time::Instant;

use super::fast_path::Known;
use super::{ControllerEvent, OnEvent, Planned, Waiting, WaitingChange, Work};
use crate::apply::{Event, Outcome};
use crate::{
    Applied, BATCH, Job, LockRequest, LostRaces, Sending, apply_until_settled, hold,
    observe_and_plan, take,
};
use ipam_cilium::observed::Observed;
use ipam_cluster::{Cluster, ClusterError, Follow, Snapshot};
use ipam_planner::plan::{BlockedReason, Change, Plan, Sequence, Unattended, unattended};

/// A pause from which on it is worth telling that somebody undoes what we write.
const WORTH_TELLING: Duration = Duration::from_secs(8);

/// How long a lock that somebody holds is left alone.
const LOCKED: Duration = Duration::from_secs(2);

/// How long it is until Neutron is asked again that did not tell of a subnet, for which nodes wait.
const UNTOLD: Duration = Duration::from_secs(15);

/// What came of changes.
pub(super) struct Tried {
    pub(super) applied: Vec<Change>,
    /// The pause after which to try the others.
    pub(super) again: Option<Duration>,
    /// Whether the server said yes or no to each of them.
    pub(super) is_certain: bool,
}

/// The shortest of these, as far as they are known.
fn earliest(times: impl IntoIterator<Item = Option<Duration>>) -> Option<Duration> {
    times.into_iter().flatten().min()
}

fn waits_for_neutron(plan: &Plan) -> bool {
    plan.blocked
        .iter()
        .any(|blocked| matches!(blocked.reason, BlockedReason::NeutronUnknown(_)))
}

impl<C: Follow> Work<'_, C> {
    /// Gives the time after which there is more to do, if that is known.
    pub(super) async fn plan_and_apply(
        &mut self,
        snapshot: &Snapshot<'_, C>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let loaded = self.files.in_force();
        let openstack = self.openstack.clone();
        let job = Job {
            loaded: &loaded,
            undo: None,
            waivers: self.waivers,
            openstack: Some(&openstack),
        };
        let (observed, plan) = observe_and_plan(snapshot, &job).await?;
        on_event(ControllerEvent::Planned(&Planned {
            plan: &plan,
            loaded: &loaded,
            observed: &observed,
        }));
        let parted = unattended(&plan, &loaded.desired, &observed, self.waivers);
        self.tell_of_waiting(&plan, &parted, &observed, on_event);
        self.write_backoff.prune(Instant::now());
        let known = Known::after(&plan, &loaded, &observed, self.interval);
        let (ready, due) = self.restrained(parted.applied);
        let due = earliest([due, waits_for_neutron(&plan).then_some(UNTOLD)]);
        let (new, others): (Vec<Change>, Vec<Change>) =
            ready.into_iter().partition(Change::gives_to_a_new_node);
        // With nothing to write it still puts claims to rest that nobody has any more.
        let tried = self
            .apply(snapshot, &job, observed, new, LostRaces::Left, on_event)
            .await?;
        if !others.is_empty() {
            // What it finds and does is not in what is known.
            let after_others = self.others(&job, on_event).await?;
            return Ok(earliest([due, tried.again, after_others]));
        }
        let due = earliest([due, tried.again]);
        if let Some(mut known) = known.filter(|_| tried.is_certain) {
            known.note(&tried.applied);
            known.within(due.unwrap_or(self.interval));
            self.known = Some(known);
        }
        Ok(due)
    }

    /// What does more than give blocks to new nodes.
    async fn others(
        &mut self,
        job: &Job<'_>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let cache = self.cache;
        let direct = cache.direct();
        let wish = LockRequest {
            holder: self.holder.clone(),
            operation: "watch".to_owned(),
            timeout: jiff::SignedDuration::ZERO,
        };
        let lock = match take(&direct, &wish, &mut |_| {}).await {
            Ok(lock) => lock,
            Err(ClusterError::Held { .. }) => return Ok(Some(LOCKED)),
            Err(error) => return Err(error),
        };
        let work = async {
            let (observed, plan) = observe_and_plan(&direct, job).await?;
            let parted = unattended(&plan, &job.loaded.desired, &observed, self.waivers);
            let (ready, due) = self.restrained(parted.applied);
            let tried = self
                .apply(
                    &direct,
                    job,
                    observed,
                    ready,
                    LostRaces::PlannedAgain,
                    on_event,
                )
                .await?;
            Ok(earliest([due, tried.again]))
        };
        hold(&direct, &wish, lock, work).await
    }

    /// Without those that must pause; what stands behind one of them in order pauses with it.
    pub(super) fn restrained(&self, changes: Vec<Change>) -> (Vec<Change>, Option<Duration>) {
        let now = Instant::now();
        let mut due: Option<Duration> = None;
        let mut ready = Vec::new();
        let mut is_held_back = false;
        for change in changes {
            let in_order = change.sequence() == Sequence::AfterThoseBefore;
            let pause = self.write_backoff.of(&change, now);
            due = earliest([due, pause]);
            if pause.is_some() || (in_order && is_held_back) {
                is_held_back |= in_order;
            } else {
                ready.push(change);
            }
        }
        (ready, due)
    }

    pub(super) async fn apply<T: Cluster>(
        &mut self,
        cluster: &T,
        job: &Job<'_>,
        observed: Observed,
        changes: Vec<Change>,
        lost_races: LostRaces,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Tried, ClusterError> {
        on_event(ControllerEvent::Sending(changes.len()));
        let heard = self.heard;
        let mut on_write = |event: Event<'_>| {
            let Event::Finished { change, outcome } = event;
            if *outcome == Outcome::Applied {
                on_event(ControllerEvent::Finished {
                    change,
                    outcome,
                    waited: heard.elapsed(),
                });
            }
        };
        let (parallelism, stop) = (self.parallelism, self.stop.clone());
        let mut sending = Sending {
            batch: BATCH,
            parallelism,
            lost_races,
            stop: &stop,
            on_event: &mut on_write,
        };
        let (applied, failure) =
            apply_until_settled(cluster, job, observed, changes, &mut sending).await;
        let tried = self.note(applied, on_event);
        on_event(ControllerEvent::Sending(0));
        match failure {
            Some(error) => Err(error),
            None if tried.is_certain => Ok(tried),
            // A heartbeat moves a Node, and another applier the claims: neither lasts. A server
            // that stops us does.
            None => Ok(Tried {
                again: Some(self.next_pause()),
                ..tried
            }),
        }
    }

    fn note(&mut self, outcomes: Applied, on_event: &mut OnEvent<'_>) -> Tried {
        let now = Instant::now();
        let mut tried = Tried {
            applied: Vec::new(),
            again: None,
            is_certain: true,
        };
        for (change, outcome) in outcomes.outcomes {
            if matches!(outcome, Outcome::NotTried | Outcome::Superseded(_)) {
                if matches!(outcome, Outcome::Superseded(_)) {
                    on_event(ControllerEvent::Conflict(&change.target()));
                }
                tried.is_certain = false;
                continue;
            }
            let pause = self.write_backoff.note(&change, now);
            if outcome == Outcome::Applied {
                if pause >= WORTH_TELLING {
                    on_event(ControllerEvent::Undone(&change.target(), pause));
                }
                tried.applied.push(change);
            } else {
                on_event(ControllerEvent::Finished {
                    change: &change,
                    outcome: &outcome,
                    waited: self.heard.elapsed(),
                });
                tried.again = earliest([tried.again, Some(pause)]);
                tried.is_certain &= !matches!(outcome, Outcome::Unknown(_));
            }
        }
        tried
    }

    fn tell_of_waiting(
        &mut self,
        plan: &Plan,
        parted: &Unattended,
        observed: &Observed,
        on_event: &mut OnEvent<'_>,
    ) {
        let waiting = Waiting {
            nodes: observed.nodes.len(),
            activity: self.files.in_force().desired.policy.activity,
            for_a_person: parted.waiting.iter().map(WaitingChange::from).collect(),
            refusals: parted.refusals.clone(),
            blocked: plan
                .blocked
                .iter()
                .map(|one| (one.target.clone(), one.reason.to_string()))
                .collect(),
        };
        if self.told.waiting.as_ref() != Some(&waiting) {
            on_event(ControllerEvent::Waiting(&waiting));
            self.told.waiting = Some(waiting);
        }
    }
}
