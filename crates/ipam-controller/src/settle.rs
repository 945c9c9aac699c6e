//! Applies until nothing is left that may be applied: a write that lost a race is planned again,
//! and sent again only when the new plan asks for exactly what was approved.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::num::NonZeroUsize;

use futures_util::future::join;

use super::claim_store::{ClaimStore, Room};
use super::prepare::{Prepared, prepare};
use super::{Job, observe_and_plan};
use crate::apply::{Event, HeldBack, Outcome, Stop, apply};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_cluster::{Cluster, ClusterError, Durability, Saved, WriteError};
use ipam_core::model::ServiceName;
use ipam_planner::plan::{
    Change, ChangeDocument, Effects, Sequence, Target, effects, node_changes, shows,
};

/// Losing a race is normal, losing it this often without anything coming of it is not: a heartbeat
/// moves a Node every few seconds at most.
const IDLE_ROUNDS: usize = 5;

/// Changes whose blocks are claimed together unless there is a reason for another number, and as
/// far as they fit into the object: few replacements of the claims, of which two batches fit at
/// some 300 bytes for a node with two blocks.
pub const BATCH: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// Every change with its outcome.
#[derive(Debug, Default)]
pub struct Applied {
    /// In the order of the plan.
    pub outcomes: Vec<(Change, Outcome)>,
    /// Places of those that are applied and not durable yet. Of these, nobody has been told.
    unsaved: Vec<usize>,
}

impl From<Vec<Change>> for Applied {
    fn from(approved: Vec<Change>) -> Applied {
        let outcomes = approved
            .into_iter()
            .map(|change| (change, Outcome::NotTried))
            .collect();
        Applied {
            outcomes,
            unsaved: Vec::new(),
        }
    }
}

impl Applied {
    /// How many were applied.
    pub fn applied(&self) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Applied)
            .count()
    }

    /// Those that were not.
    pub fn remaining(&self) -> impl Iterator<Item = &(Change, Outcome)> {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| *outcome != Outcome::Applied)
    }

    fn has_superseded(&self) -> bool {
        self.outcomes
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Superseded(_)))
    }

    fn supersede(&mut self, place: usize, why: &str) {
        self.outcomes[place].1 = Outcome::Superseded(why.to_owned());
    }

    /// A write that was sent twice is superseded by itself when the first answer was lost, and only
    /// looking again tells.
    fn lose_sight(&mut self, error: &ClusterError) {
        for (_, outcome) in &mut self.outcomes {
            if let Outcome::Superseded(why) = outcome {
                *outcome = Outcome::Unknown(format!(
                    "{why}; and it could not be looked at again: {error}"
                ));
            }
        }
    }

    /// Notes outcomes of changes, by place. What is not durable yet waits for
    /// [`Applied::tell_of_saved`].
    fn note(
        &mut self,
        outcomes: impl Iterator<Item = (usize, Change, Outcome)>,
        durability: Durability,
    ) {
        for (place, change, outcome) in outcomes {
            if is_unsaved(durability, &change, &outcome) {
                self.unsaved.push(place);
            }
            self.outcomes[place] = (change, outcome);
        }
    }

    fn tell_of_saved(&mut self, on_event: &mut (dyn FnMut(Event<'_>) + Send)) {
        for place in self.unsaved.drain(..) {
            let (change, outcome) = &self.outcomes[place];
            on_event(Event::Finished { change, outcome });
        }
    }

    fn forget_unsaved(&mut self, error: &ClusterError) {
        for place in self.unsaved.drain(..) {
            self.outcomes[place].1 = Outcome::Refused(format!("it was not saved: {error}"));
        }
    }
}

/// Whether a change is applied and may still be lost. Neutron has what it was told.
fn is_unsaved(durability: Durability, change: &Change, outcome: &Outcome) -> bool {
    durability == Durability::Saved
        && *outcome == Outcome::Applied
        && !matches!(change, Change::Port(_))
}

/// What becomes of changes that lost a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRaces {
    /// They are planned again at once, and sent again if they are still what was approved.
    PlannedAgain,
    /// They are left to whoever plans next.
    Left,
}

/// How changes are sent.
pub struct Sending<'s> {
    /// Changes whose blocks are claimed together.
    pub batch: NonZeroUsize,
    /// Writes that are under way at the same time.
    pub parallelism: NonZeroUsize,
    /// Those that lose a race.
    pub lost_races: LostRaces,
    /// Asks for an end.
    pub stop: &'s Stop,
    /// Hears of each outcome.
    pub on_event: &'s mut (dyn FnMut(Event<'_>) + Send),
}

/// Applies approved changes, which must have been planned from `observed`. An error is that the
/// claims could not be kept, that the cluster could not be read again after a lost race, or that
/// its writes could not be made durable; the outcomes say what is applied all the same.
pub async fn apply_until_settled<C: Cluster>(
    cluster: &C,
    job: &Job<'_>,
    mut observed: Observed,
    approved: Vec<Change>,
    sending: &mut Sending<'_>,
) -> (Applied, Option<ClusterError>) {
    if let Some(blind) = blind_for_claims(&observed) {
        return (Applied::from(approved), Some(blind));
    }
    let named = lost(&effects(&approved, &observed));
    let mut due: Vec<(usize, Change)> = approved.iter().cloned().enumerate().collect();
    let mut applied = Applied::from(approved);
    let mut failure = None;
    let mut idle = 0;
    while idle < IDLE_ROUNDS {
        let before = applied.applied();
        failure = round(cluster, job, &observed, due, &mut applied, sending).await;
        if failure.is_some() || !applied.has_superseded() || sending.lost_races == LostRaces::Left {
            break;
        }
        (observed, due) = match look_again(cluster, job, &named, &mut applied).await {
            Ok((_, due)) if due.is_empty() || sending.stop.is_requested() => break,
            Ok(seen) => seen,
            Err(error) => {
                applied.lose_sight(&error);
                failure = Some(error);
                break;
            }
        };
        idle = if applied.applied() > before {
            0
        } else {
            idle + 1
        };
    }
    match cluster.finish().await {
        Ok(()) => applied.tell_of_saved(sending.on_event),
        Err(error) => {
            applied.forget_unsaved(&error);
            failure = Some(error);
        }
    }
    (applied, failure)
}

/// Addresses that go, or may go, with their Services.
type Lost = BTreeSet<(ServiceName, IpAddr)>;

fn lost(effects: &Effects) -> Lost {
    effects
        .lost()
        .map(|(service, lost)| (service.clone(), lost.address))
        .collect()
}

/// Claims that cannot be seen are not the same as no claims.
fn blind_for_claims(observed: &Observed) -> Option<ClusterError> {
    let spot = observed.blind_spot(ObservedKind::Claims)?;
    Some(ClusterError::Indispensable {
        resource: spot.kind.resource(),
        message: spot.why.clone(),
    })
}

/// A batch whose blocks are claimed.
struct Claimed {
    /// Places and changes that may be written.
    writable: Vec<(usize, Change)>,
    /// Those that may not, and why.
    beaten: Vec<(usize, String)>,
    /// Those that the server refuses, and why.
    refused: Vec<(usize, String)>,
    /// Those for which the object has no room yet.
    left: Vec<(usize, Change)>,
}

/// `None` where there is nothing to claim.
async fn claim_any<C: Cluster>(
    cluster: &C,
    claim_store: &mut ClaimStore<'_, C>,
    batch: &[(usize, Change)],
    parallelism: NonZeroUsize,
) -> Option<Result<Claimed, WriteError>> {
    if batch.is_empty() {
        None
    } else {
        Some(claim(cluster, claim_store, batch, parallelism).await)
    }
}

async fn claim<C: Cluster>(
    cluster: &C,
    claim_store: &mut ClaimStore<'_, C>,
    batch: &[(usize, Change)],
    parallelism: NonZeroUsize,
) -> Result<Claimed, WriteError> {
    let Prepared {
        mut ready,
        beaten,
        refused,
    } = prepare(cluster, batch, parallelism).await;
    let changes: Vec<Change> = ready.iter().map(|(_, change)| change.clone()).collect();
    let Room { count, conflicts } = claim_store.claim(&changes).await?;
    let left = ready.split_off(count);
    let mut claimed = Claimed {
        writable: Vec::new(),
        beaten,
        refused,
        left,
    };
    for (index, (place, change)) in ready.into_iter().enumerate() {
        match conflicts.get(&index) {
            Some(conflict) => claimed.beaten.push((place, conflict.to_string())),
            None => claimed.writable.push((place, change)),
        }
    }
    Ok(claimed)
}

/// Claims and writes batch by batch; the next batch is claimed while one is written.
async fn round<C: Cluster>(
    cluster: &C,
    job: &Job<'_>,
    observed: &Observed,
    due: Vec<(usize, Change)>,
    applied: &mut Applied,
    sending: &mut Sending<'_>,
) -> Option<ClusterError> {
    let mut claim_store = ClaimStore::new(cluster, observed, job.loaded);
    let mut due = VecDeque::from(due);
    let (mut claimed, mut held_back) = (Vec::new(), HeldBack::default());
    loop {
        let size = if sending.stop.is_requested() {
            0
        } else {
            sending.batch.get().min(due.len())
        };
        let batch: Vec<(usize, Change)> = due.drain(..size).collect();
        let (parallelism, writable) = (sending.parallelism, std::mem::take(&mut claimed));
        let is_alone = writable.is_empty();
        let writing = send(cluster, writable, applied, sending, &mut held_back);
        let (done, outcome) = join(
            writing,
            claim_any(cluster, &mut claim_store, &batch, parallelism),
        )
        .await;
        claim_store.settle(node_changes(done.iter()));
        if let Err(error) = save(cluster, applied, sending).await {
            return Some(error);
        }
        match outcome {
            Some(Ok(Claimed { left, .. })) if is_alone && left.len() == batch.len() => {
                let full = claim_store.full();
                claim_store.close().await;
                return Some(full);
            }
            Some(Ok(Claimed {
                writable,
                beaten,
                refused,
                left,
            })) => {
                refused
                    .into_iter()
                    .for_each(|(place, why)| applied.outcomes[place].1 = Outcome::Refused(why));
                beaten
                    .into_iter()
                    .for_each(|(place, why)| applied.supersede(place, &why));
                left.into_iter()
                    .rev()
                    .for_each(|change| due.push_front(change));
                claimed = writable;
            }
            Some(Err(WriteError::Superseded(_))) => {
                let left = batch.iter().chain(&due);
                left.for_each(|(place, _)| {
                    applied.supersede(*place, "another apply was faster with its claims")
                });
                return None;
            }
            Some(Err(error)) => return Some(ClusterError::Claims(error)),
            None => break,
        }
    }
    claim_store.close().await;
    None
}

/// Writes what is claimed and notes the outcomes. Gives the changes that were applied.
async fn send<C: Cluster>(
    cluster: &C,
    claimed: Vec<(usize, Change)>,
    applied: &mut Applied,
    sending: &mut Sending<'_>,
    held_back: &mut HeldBack,
) -> Vec<Change> {
    let (places, changes): (Vec<usize>, Vec<Change>) = claimed.into_iter().unzip();
    let durability = cluster.durability();
    let mut on_event = |event: Event<'_>| {
        let Event::Finished { change, outcome } = event;
        if !is_unsaved(durability, change, outcome) {
            (sending.on_event)(event);
        }
    };
    let outcomes = apply(
        cluster,
        &changes,
        sending.parallelism,
        sending.stop,
        held_back,
        &mut on_event,
    )
    .await;
    let done = changes
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| **outcome == Outcome::Applied);
    let done = done.map(|(change, _)| change.clone()).collect();
    let noted = places.into_iter().zip(changes).zip(outcomes);
    applied.note(
        noted.map(|((place, change), outcome)| (place, change, outcome)),
        durability,
    );
    done
}

/// Saves if that is worth it, and tells of what is durable then.
async fn save<C: Cluster>(
    cluster: &C,
    applied: &mut Applied,
    sending: &mut Sending<'_>,
) -> Result<(), ClusterError> {
    if cluster.save().await? == Saved::All {
        applied.tell_of_saved(sending.on_event);
    }
    Ok(())
}

/// Observes again when writes were superseded. One that the object shows by now, because an answer
/// got lost on the way or another apply wrote the same, counts as applied; those that a fresh plan
/// asks for exactly as approved are given, with their places.
async fn look_again<C: Cluster>(
    cluster: &C,
    job: &Job<'_>,
    named: &Lost,
    applied: &mut Applied,
) -> Result<(Observed, Vec<(usize, Change)>), ClusterError> {
    let (observed, plan) = observe_and_plan(cluster, job).await?;
    if let Some(blind) = blind_for_claims(&observed) {
        return Err(blind);
    }
    let fresh: BTreeMap<Target, &Change> = plan
        .changes
        .iter()
        .map(|change| (change.target(), change))
        .collect();
    let identity = |change: &Change| ChangeDocument::from(change).identity();
    let mut again: Vec<(usize, Change)> = Vec::new();
    let mut in_order = Sequence::Any;
    for (index, (approved, outcome)) in applied.outcomes.iter_mut().enumerate() {
        if !matches!(outcome, Outcome::Superseded(_)) {
            continue;
        }
        match fresh.get(&approved.target()) {
            // One before it is not as it was approved.
            Some(change)
                if change.sequence() == Sequence::AfterThoseBefore
                    && in_order == change.sequence() => {}
            Some(change) if identity(change) == identity(approved) => {
                again.push((index, (*change).clone()))
            }
            _ if shows(&observed, &ChangeDocument::from(&*approved)) => *outcome = Outcome::Applied,
            _ if approved.sequence() == Sequence::AfterThoseBefore => {
                in_order = Sequence::AfterThoseBefore
            }
            _ => {}
        }
    }
    if let Some(why) = objection(job, named, &again, &observed) {
        for (index, _) in again.drain(..) {
            applied.outcomes[index].1 = Outcome::Refused(why.clone());
        }
    }
    Ok((observed, again))
}

/// What speaks by now against sending these again: somebody may have protected a node meanwhile, or
/// a Service got an address.
fn objection(
    job: &Job<'_>,
    named: &Lost,
    again: &[(usize, Change)],
    observed: &Observed,
) -> Option<String> {
    let changes: Vec<Change> = again.iter().map(|(_, change)| change.clone()).collect();
    if let Some(refusal) = job.refusals(&changes, observed).into_iter().next() {
        return Some(refusal.message);
    }
    let unnamed = lost(&effects(&changes, observed))
        .into_iter()
        .find(|lost| !named.contains(lost));
    unnamed.map(|(service, address)| {
        format!("Service {service} would lose {address}, which was not in the plan")
    })
}
