//! One round: what the mirror shows and the files ask for becomes a plan, and of that is applied what needs no person.

use std::time::Duration;

use jiff::SignedDuration;

use super::{News, OnNews, Waiting, Work};
use crate::apply::{Event, Outcome};
use crate::cluster::{Cluster, ClusterError, Follow, Snapshot};
use crate::observed::Observed;
use crate::plan::{Change, Plan, Sequence, Target, Unattended, unattended};
use crate::run::{
    Applied, BATCH, Job, Lock, LockWish, LostRaces, Sending, apply_until_settled, hold, observe_and_plan, take,
};

/// A pause from which on it is worth telling that somebody undoes what we write.
const WORTH_TELLING: SignedDuration = SignedDuration::from_secs(8);

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
        let (ready, mut due) = self.restrained(parted.applied, snapshot);
        let (lock, ready) = self.locked(snapshot, ready, &mut due).await?;
        let wish = self.wish();
        let sending = self.send(snapshot, &job, observed, ready, on_news);
        let (applied, failure) = hold(snapshot, &wish, lock, sending).await;
        self.note(&applied, snapshot, on_news);
        match failure {
            Some(error) => Err(error),
            None if applied.remaining().next().is_some() => Ok(Some(Duration::ZERO)),
            None => Ok(due),
        }
    }

    /// Without those that must pause; what stands behind one of them in order pauses with it.
    fn restrained(&self, changes: Vec<Change>, snapshot: &Snapshot<'_, C>) -> (Vec<Change>, Option<Duration>) {
        let now = snapshot.now();
        let mut due: Option<Duration> = None;
        let mut ready = Vec::new();
        let mut is_held_back = false;
        for change in changes {
            let in_order = change.sequence() == Sequence::AfterThoseBefore;
            let pause = self.restraint.of(&change.target(), now).map(|pause| pause.unsigned_abs());
            due = [due, pause].into_iter().flatten().min();
            if pause.is_some() || (in_order && is_held_back) {
                is_held_back |= in_order;
            } else {
                ready.push(change);
            }
        }
        (ready, due)
    }

    /// Nodes get their blocks whoever holds the lock: claims keep blocks unique. Everything else is done by one at a time.
    async fn locked(
        &self,
        snapshot: &Snapshot<'_, C>,
        mut ready: Vec<Change>,
        due: &mut Option<Duration>,
    ) -> Result<(Lock, Vec<Change>), ClusterError> {
        if ready.iter().all(|change| change.sequence() == Sequence::Any) {
            return Ok((Lock::None, ready));
        }
        match take(snapshot, &self.wish(), &mut |_| {}).await {
            Ok(lock) => Ok((lock, ready)),
            Err(ClusterError::Held { .. }) => {
                ready.retain(|change| change.sequence() == Sequence::Any);
                *due = Some(due.unwrap_or(LOCKED).min(LOCKED));
                Ok((Lock::None, ready))
            }
            Err(error) => Err(error),
        }
    }

    fn wish(&self) -> LockWish {
        LockWish { holder: self.holder.clone(), operation: "watch".to_owned(), timeout: SignedDuration::ZERO }
    }

    async fn send(
        &self,
        snapshot: &Snapshot<'_, C>,
        job: &Job<'_>,
        observed: Observed,
        ready: Vec<Change>,
        on_news: &mut OnNews<'_>,
    ) -> (Applied, Option<ClusterError>) {
        let mut on_event = |event: Event<'_>| {
            let Event::Finished { change, outcome } = event;
            on_news(News::Finished(change, outcome));
        };
        let mut sending = Sending {
            batch: BATCH,
            parallelism: self.parallelism,
            // The mirror must hear of what was faster before it is planned again.
            lost_races: LostRaces::Left,
            stop: &self.stop,
            on_event: &mut on_event,
        };
        // With nothing to write it still puts claims to rest that nobody has any more.
        apply_until_settled(snapshot, job, observed, ready, &mut sending).await
    }

    fn note(&mut self, applied: &Applied, snapshot: &Snapshot<'_, C>, on_news: &mut OnNews<'_>) {
        let now = snapshot.now();
        for (change, outcome) in applied.outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::NotTried) {
            let target = change.target();
            let pause = self.restraint.note(&target, now);
            if *outcome == Outcome::Applied && pause >= WORTH_TELLING {
                on_news(News::Undone(&target, pause));
            }
        }
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
