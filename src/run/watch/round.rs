//! One round: what the mirror shows and the files ask for becomes a plan, and of that is applied what needs no person.
//!
//! New nodes get their blocks from what the mirror shows: claims keep blocks unique. Everything else is rare, and what it would do to
//! others is judged by a fresh look at the cluster itself, under the lock.

use std::time::{Duration, Instant};

use super::{News, OnNews, Waiting, Work};
use crate::apply::{Event, Outcome};
use crate::cluster::{Cluster, ClusterError, Follow, Snapshot};
use crate::observed::Observed;
use crate::plan::{Change, Plan, Sequence, Target, Unattended, unattended};
use crate::run::{
    Applied, BATCH, Job, LockWish, LostRaces, Sending, apply_until_settled, hold, observe_and_plan, take,
};

/// A pause from which on it is worth telling that somebody undoes what we write.
const WORTH_TELLING: Duration = Duration::from_secs(8);

/// How long a lock that somebody holds is left alone.
const LOCKED: Duration = Duration::from_secs(2);

impl<C: Follow> Work<'_, C> {
    /// Gives the time after which there is more to do, if that is known.
    pub(super) async fn plan_and_apply(
        &mut self,
        snapshot: &Snapshot<'_, C>,
        on_news: &mut OnNews<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let loaded = self.files.in_force();
        let job = Job { loaded: &loaded, undo: None, waivers: self.waivers };
        let (observed, plan) = observe_and_plan(snapshot, &job).await?;
        let parted = unattended(&plan, &loaded.desired, &observed, self.waivers);
        self.tell_of_waiting(&plan, &parted, &observed, on_news);
        let (ready, due) = self.restrained(parted.applied);
        let (new, others): (Vec<Change>, Vec<Change>) = ready.into_iter().partition(Change::gives_to_a_new_node);
        // With nothing to write it still puts claims to rest that nobody has any more.
        let after_new = self.apply(snapshot, &job, observed, new, LostRaces::Left, on_news).await?;
        let after_others = if others.is_empty() { None } else { self.others(&job, on_news).await? };
        Ok([due, after_new, after_others].into_iter().flatten().min())
    }

    /// What does more than give blocks to new nodes.
    async fn others(&mut self, job: &Job<'_>, on_news: &mut OnNews<'_>) -> Result<Option<Duration>, ClusterError> {
        let mirror = self.mirror;
        let direct = mirror.direct();
        let wish = LockWish {
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
            let after = self.apply(&direct, job, observed, ready, LostRaces::PlannedAgain, on_news).await?;
            Ok([due, after].into_iter().flatten().min())
        };
        hold(&direct, &wish, lock, work).await
    }

    /// Without those that must pause; what stands behind one of them in order pauses with it.
    fn restrained(&self, changes: Vec<Change>) -> (Vec<Change>, Option<Duration>) {
        let now = Instant::now();
        let mut due: Option<Duration> = None;
        let mut ready = Vec::new();
        let mut is_held_back = false;
        for change in changes {
            let in_order = change.sequence() == Sequence::AfterThoseBefore;
            let pause = self.restraint.of(&change, now);
            due = [due, pause].into_iter().flatten().min();
            if pause.is_some() || (in_order && is_held_back) {
                is_held_back |= in_order;
            } else {
                ready.push(change);
            }
        }
        (ready, due)
    }

    /// Gives the pause after which to try what was not applied.
    async fn apply<T: Cluster>(
        &mut self,
        cluster: &T,
        job: &Job<'_>,
        observed: Observed,
        changes: Vec<Change>,
        lost_races: LostRaces,
        on_news: &mut OnNews<'_>,
    ) -> Result<Option<Duration>, ClusterError> {
        let mut on_event = |event: Event<'_>| {
            let Event::Finished { change, outcome } = event;
            if *outcome == Outcome::Applied {
                on_news(News::Finished(change, outcome));
            }
        };
        let (parallelism, stop) = (self.parallelism, self.stop.clone());
        let mut sending = Sending { batch: BATCH, parallelism, lost_races, stop: &stop, on_event: &mut on_event };
        let (applied, failure) = apply_until_settled(cluster, job, observed, changes, &mut sending).await;
        let after = self.note(&applied, on_news);
        failure.map_or(Ok(after), Err)
    }

    fn note(&mut self, applied: &Applied, on_news: &mut OnNews<'_>) -> Option<Duration> {
        let now = Instant::now();
        let mut after = None;
        let (mut lost, mut stopped) = (false, false);
        for (change, outcome) in &applied.outcomes {
            match outcome {
                Outcome::NotTried => stopped = true,
                Outcome::Superseded(_) => lost = true,
                Outcome::Applied | Outcome::Refused(_) | Outcome::Unknown(_) => {
                    let pause = self.restraint.note(change, now);
                    if *outcome != Outcome::Applied {
                        on_news(News::Finished(change, outcome));
                        after = [after, Some(pause)].into_iter().flatten().min();
                    } else if pause >= WORTH_TELLING {
                        on_news(News::Undone(&change.target(), pause));
                    }
                }
            }
        }
        // A heartbeat moves a Node, and another applier the claims: neither lasts. A server that stops us does.
        let again = (stopped || lost).then(|| self.next_pause());
        if stopped { again } else { [after, again].into_iter().flatten().min() }
    }

    fn tell_of_waiting(&mut self, plan: &Plan, parted: &Unattended, observed: &Observed, on_news: &mut OnNews<'_>) {
        let target_and_reason = |target: &Target, reason: String| (target.clone(), reason);
        let waiting = Waiting {
            nodes: observed.nodes.len(),
            for_a_person: parted.waiting.iter().map(|change| (change.target(), change.hazard())).collect(),
            refusals: parted.refusals.clone(),
            blocked: plan.blocked.iter().map(|one| target_and_reason(&one.target, one.reason.to_string())).collect(),
        };
        if self.told.waiting.as_ref() != Some(&waiting) {
            on_news(News::Waiting(&waiting));
            self.told.waiting = Some(waiting);
        }
    }
}
