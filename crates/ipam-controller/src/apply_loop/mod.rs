//! Applies approved changes batch by batch, and plans again those that lost a race.
//!
//! It sends a change again only if the new plan asks for exactly what was approved.

mod applied;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use applied::{claims_hidden, lost, reobserve};
use futures_util::future::join;

use super::apply::{PortWriter, Prepared, prepare};
use crate::Job;
use crate::apply::{Event, Outcome, Stop, Unapplied, apply};
use crate::claim_store::{ClaimCapacity, ClaimStore};
use crate::concurrency::ConcurrencyLimit;
use ipam_cilium::observed::{Observed, OperatorRun};
use ipam_cluster::{Cluster, ClusterError, WriteError};
use ipam_plan::plan::{Change, effects, node_changes};

pub use applied::Applied;

/// Passes without any success before it stops. A lost race is normal: a heartbeat moves a Node
/// every few seconds at most. This many in a row are not.
const MAX_IDLE_PASSES: usize = 5;

/// Default number of changes whose blocks are claimed together. Fewer are claimed where the object
/// lacks the space. Two batches fit, at about 300 bytes for a node with two blocks.
pub const BATCH: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// What happens to changes that lost a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// They are planned again at once, and sent again if they are still as approved.
    Replan,
    /// They are left to the next plan.
    Leave,
}

/// How changes are sent.
pub struct Sending<'s> {
    /// Changes whose blocks are claimed together.
    pub batch: NonZeroUsize,
    /// Writes in flight at the same time.
    pub limit: ConcurrencyLimit,
    /// What happens to changes that lost a race.
    pub on_conflict: OnConflict,
    /// Requests an early end.
    pub stop: &'s Stop,
    /// Called with each outcome.
    pub on_event: &'s mut (dyn FnMut(Event<'_>) + Send),
}

/// Applies approved changes, which must have been planned from `observed`.
///
/// The outcomes are valid even if there is an error: the claims could not be kept, or the cluster
/// could not be observed again after a lost race.
pub async fn apply_until_settled<C: Cluster>(
    cluster: &C,
    ports: &impl PortWriter,
    job: &Job<'_>,
    mut observed: Observed,
    approved: Vec<Change>,
    sending: &mut Sending<'_>,
) -> (Applied, Option<ClusterError>) {
    if let Some(hidden) = claims_hidden(&observed) {
        return (Applied::from(approved), Some(hidden));
    }
    let approved_losses = lost(&effects(&approved, &observed));
    let due = approved.iter().cloned().enumerate();
    // A caller that plans again by itself looks at the cluster before each pass.
    let run = match sending.on_conflict {
        OnConflict::Replan => observed.operator_run(),
        OnConflict::Leave => OperatorRun::Assumed,
    };
    let (unconfirmed, mut due): (Vec<_>, Vec<_>) =
        due.partition(|(_, change)| is_unconfirmed(change, run));
    let mut unconfirmed: BTreeSet<usize> =
        unconfirmed.into_iter().map(|(index, _)| index).collect();
    let mut applied = Applied::from(approved);
    let mut failure = None;
    let mut idle_passes = 0;
    while idle_passes < MAX_IDLE_PASSES {
        let before = applied.applied();
        let mut pass = Pass {
            cluster,
            ports,
            unapplied: Unapplied::beside(&due, &applied.outcomes),
            applied: &mut applied,
            sending,
        };
        failure = pass.apply_once(job, &observed, due).await;
        let is_settled = !applied.has_superseded() && unconfirmed.is_empty();
        let stops = sending.stop.is_requested() || sending.on_conflict == OnConflict::Leave;
        if failure.is_some() || is_settled || stops {
            break;
        }
        let is_idle = applied.applied() == before && unconfirmed.is_empty();
        let unconfirmed = std::mem::take(&mut unconfirmed);
        let fresh = reobserve(cluster, job, &approved_losses, &mut applied, &unconfirmed).await;
        (observed, due) = match fresh {
            Ok((_, due)) if due.is_empty() || sending.stop.is_requested() => break,
            Ok(seen) => seen,
            Err(error) => {
                applied.mark_unknown(&error);
                failure = Some(error);
                break;
            }
        };
        idle_passes = if is_idle { idle_passes + 1 } else { 0 };
    }
    (applied, failure)
}

/// Whether a change depends on more than the object that it writes, so that only another look at the
/// cluster after the confirmation allows it.
fn is_unconfirmed(change: &Change, run: OperatorRun) -> bool {
    match change {
        // The list of Nodes may be older than the confirmation, and only the port has a revision.
        Change::Port(port) => !port.removed.is_empty(),
        // Cilium's operator may have started. It would take addresses away between two steps.
        Change::AddressPool(_) | Change::Service(_) => run == OperatorRun::Stopped,
        Change::PodPool(_) | Change::Node(_) => false,
    }
}

/// A batch whose blocks are claimed. Changes are with their index in the plan.
struct ClaimedBatch {
    writable: Vec<(usize, Change)>,
    /// Lost a race, and to whom.
    superseded: Vec<(usize, String)>,
    /// Refused by the server, and why.
    refused: Vec<(usize, String)>,
    /// The claims object lacks the space for these.
    left: Vec<(usize, Change)>,
}

/// One pass over the changes that are due.
struct Pass<'p, 's, C, P> {
    cluster: &'p C,
    ports: &'p P,
    applied: &'p mut Applied,
    sending: &'p mut Sending<'s>,
    unapplied: Unapplied,
}

impl<C: Cluster, P: PortWriter> Pass<'_, '_, C, P> {
    /// Claims and writes batch by batch; the next batch is claimed while one is written.
    async fn apply_once(
        &mut self,
        job: &Job<'_>,
        observed: &Observed,
        due: Vec<(usize, Change)>,
    ) -> Option<ClusterError> {
        let cluster = self.cluster;
        let mut claim_store = ClaimStore::new(cluster, observed, job.loaded);
        let mut due = VecDeque::from(due);
        let mut writable = Vec::new();
        loop {
            let size = if self.sending.stop.is_requested() {
                0
            } else {
                self.sending.batch.get().min(due.len())
            };
            let batch: Vec<(usize, Change)> = due.drain(..size).collect();
            let parallelism = self.sending.limit.now();
            let is_alone = writable.is_empty();
            let (done, outcome) = join(
                self.send(std::mem::take(&mut writable)),
                claim_any(cluster, &mut claim_store, &batch, parallelism),
            )
            .await;
            claim_store.record_applied(node_changes(done.iter()));
            match outcome {
                Some(Ok(ClaimedBatch { left, .. })) if is_alone && left.len() == batch.len() => {
                    let full = claim_store.full();
                    claim_store.close().await;
                    return Some(full);
                }
                Some(Ok(claimed)) => writable = self.sort_out(claimed, &mut due),
                Some(Err(WriteError::Superseded(_))) => {
                    let left = batch.iter().chain(&due);
                    left.for_each(|(index, _)| {
                        self.applied
                            .supersede(*index, "another apply was faster with its claims")
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

    /// Records the outcomes of a claimed batch, puts back what found no space, and returns the
    /// changes to write.
    fn sort_out(
        &mut self,
        claimed: ClaimedBatch,
        due: &mut VecDeque<(usize, Change)>,
    ) -> Vec<(usize, Change)> {
        let ClaimedBatch {
            writable,
            superseded,
            refused,
            left,
        } = claimed;
        let refused = refused
            .into_iter()
            .map(|(index, why)| (index, Outcome::Refused(why)));
        let superseded = superseded
            .into_iter()
            .map(|(index, why)| (index, Outcome::Superseded(why)));
        for (index, outcome) in refused.chain(superseded) {
            let (change, of_change) = &mut self.applied.outcomes[index];
            self.unapplied.note(change, &outcome);
            *of_change = outcome;
        }
        for change in left.into_iter().rev() {
            due.push_front(change);
        }
        writable
    }

    /// Writes claimed changes and records their outcomes. Returns the applied changes.
    async fn send(&mut self, claimed: Vec<(usize, Change)>) -> Vec<Change> {
        let (indexes, changes): (Vec<usize>, Vec<Change>) = claimed.into_iter().unzip();
        let outcomes = apply(
            (self.cluster, self.ports),
            &changes,
            &mut self.sending.limit,
            self.sending.stop,
            &mut self.unapplied,
            self.sending.on_event,
        )
        .await;
        let done = changes
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| **outcome == Outcome::Applied);
        let done = done.map(|(change, _)| change.clone()).collect();
        for ((index, change), outcome) in indexes.into_iter().zip(changes).zip(outcomes) {
            self.applied.outcomes[index] = (change, outcome);
        }
        done
    }
}

/// `None` if the batch is empty.
async fn claim_any<C: Cluster>(
    cluster: &C,
    claim_store: &mut ClaimStore<'_, C>,
    batch: &[(usize, Change)],
    parallelism: NonZeroUsize,
) -> Option<Result<ClaimedBatch, WriteError>> {
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
) -> Result<ClaimedBatch, WriteError> {
    let Prepared {
        mut ready,
        superseded,
        refused,
    } = prepare(cluster, batch, parallelism).await;
    let changes: Vec<Change> = ready.iter().map(|(_, change)| change.clone()).collect();
    let ClaimCapacity { count, conflicts } = claim_store.claim(&changes).await?;
    let left = ready.split_off(count);
    let mut claimed = ClaimedBatch {
        writable: Vec::new(),
        superseded,
        refused,
        left,
    };
    for (position, (index, change)) in ready.into_iter().enumerate() {
        match conflicts.get(&position) {
            Some(conflict) => claimed.superseded.push((index, conflict.to_string())),
            None => claimed.writable.push((index, change)),
        }
    }
    Ok(claimed)
}
