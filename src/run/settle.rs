//! Applies until nothing is left that may be applied: a write that lost a race is planned again, and sent again only when
//! the new plan asks for exactly what was approved.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::{Loaded, observe_and_plan};
use crate::apply::{Event, Outcome, Stop, apply};
use crate::cluster::{Cluster, ClusterError};
use crate::model::NodeName;
use crate::plan::{Change, ChangeDocument};

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

/// Applies approved changes.
///
/// # Errors
/// The cluster could not be read again after a lost race, or its writes could not be made durable. What was applied
/// until then is applied.
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
    for _ in 1..ROUNDS {
        let again = match planned_again(cluster, loaded, &applied).await {
            Ok(again) if again.is_empty() => break,
            Ok(again) => again,
            Err(error) => return (applied, Some(error)),
        };
        let changes: Vec<Change> = again.iter().map(|(_, change)| change.clone()).collect();
        let outcomes = apply(cluster, &changes, parallelism, stop, on_event).await;
        for ((index, change), outcome) in again.into_iter().zip(outcomes) {
            applied.outcomes[index] = (change, outcome);
        }
    }
    let failure = cluster.finish().await.err();
    (applied, failure)
}

/// The superseded changes that a fresh plan asks for again, exactly as approved, with their places.
async fn planned_again<C: Cluster>(
    cluster: &C,
    loaded: &Loaded,
    applied: &Applied,
) -> Result<Vec<(usize, Change)>, ClusterError> {
    let superseded =
        applied.outcomes.iter().enumerate().filter(|(_, (_, outcome))| matches!(outcome, Outcome::Superseded(_)));
    let superseded: Vec<(usize, &Change)> = superseded.map(|(index, (change, _))| (index, change)).collect();
    if superseded.is_empty() {
        return Ok(Vec::new());
    }
    let (_, plan) = observe_and_plan(cluster, loaded).await?;
    let fresh: BTreeMap<&NodeName, &Change> = plan.changes.iter().map(|change| (&change.node, change)).collect();
    let identity = |change: &Change| ChangeDocument::from(change).identity();
    let equal = |(index, approved): (usize, &Change)| {
        let change = *fresh.get(&approved.node)?;
        (identity(change) == identity(approved)).then(|| (index, change.clone()))
    };
    Ok(superseded.into_iter().filter_map(equal).collect())
}
