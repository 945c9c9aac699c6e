//! Applies until nothing is left that may be applied: a write that lost a race is planned again, and sent again only when
//! the new plan asks for exactly what was approved.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::{Loaded, observe_and_plan};
use crate::apply::{Event, Outcome, Stop, apply};
use crate::cluster::{Cluster, ClusterError};
use crate::model::NodeName;
use crate::plan::{Change, ChangeDocument, shows};

/// Losing a race is normal, losing it this often is not: a heartbeat moves a Node every few seconds at most.
const ROUNDS: usize = 5;

/// Every change with its outcome.
#[derive(Debug, Default)]
pub struct Applied {
    /// In the order of the plan.
    pub outcomes: Vec<(Change, Outcome)>,
}

impl Applied {
    /// How many were applied.
    pub fn applied(&self) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Applied).count()
    }

    /// Those that were not.
    pub fn remaining(&self) -> impl Iterator<Item = &(Change, Outcome)> {
        self.outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::Applied)
    }
}

/// Applies approved changes. An error is that the cluster could not be read again after a lost race, or that its writes could not be
/// made durable; the outcomes say what is applied all the same.
pub async fn apply_until_settled<C: Cluster>(
    cluster: &C,
    loaded: &Loaded,
    approved: Vec<Change>,
    parallelism: NonZeroUsize,
    stop: &Stop,
    on_event: &mut (dyn FnMut(Event<'_>) + Send),
) -> (Applied, Option<ClusterError>) {
    let outcomes = apply(cluster, &approved, parallelism, stop, on_event).await;
    let mut applied = Applied { outcomes: approved.into_iter().zip(outcomes).collect() };
    let mut failure = None;
    for _ in 1..ROUNDS {
        let again = match look_again(cluster, loaded, &mut applied).await {
            Ok(again) if again.is_empty() => break,
            Ok(again) => again,
            Err(error) => {
                failure = Some(error);
                break;
            }
        };
        let changes: Vec<Change> = again.iter().map(|(_, change)| change.clone()).collect();
        let outcomes = apply(cluster, &changes, parallelism, stop, on_event).await;
        for ((index, change), outcome) in again.into_iter().zip(outcomes) {
            applied.outcomes[index] = (change, outcome);
        }
    }
    if let Err(error) = cluster.finish().await {
        applied.forget(&error);
        failure = Some(error);
    }
    (applied, failure)
}

impl Applied {
    /// Nothing of it was made durable.
    fn forget(&mut self, error: &ClusterError) {
        for (_, outcome) in self.outcomes.iter_mut().filter(|(_, outcome)| *outcome == Outcome::Applied) {
            *outcome = Outcome::Refused(format!("it was not saved: {error}"));
        }
    }
}

/// Observes again when writes were superseded. One that the node shows by now, because an answer got lost on the way, counts as applied;
/// those that a fresh plan asks for exactly as approved are given, with their places.
async fn look_again<C: Cluster>(
    cluster: &C,
    loaded: &Loaded,
    applied: &mut Applied,
) -> Result<Vec<(usize, Change)>, ClusterError> {
    if !applied.outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Superseded(_))) {
        return Ok(Vec::new());
    }
    let (observed, plan) = observe_and_plan(cluster, loaded).await?;
    let fresh: BTreeMap<&NodeName, &Change> = plan.changes.iter().map(|change| (&change.node, change)).collect();
    let identity = |change: &Change| ChangeDocument::from(change).identity();
    let mut again = Vec::new();
    for (index, (approved, outcome)) in applied.outcomes.iter_mut().enumerate() {
        if !matches!(outcome, Outcome::Superseded(_)) {
            continue;
        }
        match fresh.get(&approved.node) {
            Some(change) if identity(change) == identity(approved) => again.push((index, (*change).clone())),
            _ if shows(&observed, &ChangeDocument::from(&*approved)) => *outcome = Outcome::Applied,
            _ => {}
        }
    }
    Ok(again)
}
