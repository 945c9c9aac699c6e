//! Changes with their outcomes, and, after a conflict, the changes that a fresh plan still asks for
//! exactly as approved. It must never widen an approval: it writes nothing and adds no change.

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::Outcome;
use crate::{Job, observe_and_plan};
use ipam_cilium::lbipam::ServedAddress;
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_cluster::{Cluster, ClusterError};
use ipam_core::model::ServiceName;
use ipam_plan::plan::{Change, ChangeDocument, Effects, Sequence, Target, effects, shows};

/// Every change with its outcome.
#[derive(Debug, Default)]
pub struct Applied {
    /// In the order of the plan.
    pub outcomes: Vec<(Change, Outcome)>,
}

impl From<Vec<Change>> for Applied {
    fn from(approved: Vec<Change>) -> Applied {
        let outcomes = approved
            .into_iter()
            .map(|change| (change, Outcome::NotTried))
            .collect();
        Applied { outcomes }
    }
}

impl Applied {
    /// Number of changes that were applied.
    pub fn applied(&self) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Applied)
            .count()
    }

    /// The changes that were not applied.
    pub fn remaining(&self) -> impl Iterator<Item = &(Change, Outcome)> {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| *outcome != Outcome::Applied)
    }

    pub(super) fn has_superseded(&self) -> bool {
        self.outcomes
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Superseded(_)))
    }

    pub(super) fn supersede(&mut self, index: usize, why: &str) {
        self.outcomes[index].1 = Outcome::Superseded(why.to_owned());
    }

    /// Marks superseded changes as unknown. A write that was sent twice, because the first answer
    /// was lost, supersedes itself; only observing again tells, and that failed.
    pub(super) fn mark_unknown(&mut self, error: &ClusterError) {
        for (_, outcome) in &mut self.outcomes {
            if let Outcome::Superseded(why) = outcome {
                *outcome = Outcome::Unknown(format!(
                    "{why}; and the cluster could not be observed again: {error}"
                ));
            }
        }
    }

    /// Marks applied changes as not saved, except those of ports: Neutron keeps what it has answered.
    pub fn fail_unsaved(&mut self, error: &ClusterError) {
        for (change, outcome) in &mut self.outcomes {
            if *outcome == Outcome::Applied && !matches!(change, Change::Port(_)) {
                *outcome = Outcome::Refused(format!("it was not saved: {error}"));
            }
        }
    }
}

/// Addresses and hostnames that Services lose, or may lose.
pub(super) type Lost = BTreeSet<(ServiceName, ServedAddress)>;

pub(super) fn lost(effects: &Effects) -> Lost {
    effects
        .lost()
        .map(|(service, lost)| (service.clone(), lost.address.clone()))
        .collect()
}

/// Fails if the claims are hidden: hidden claims are not the same as no claims.
pub(super) fn claims_hidden(observed: &Observed) -> Option<ClusterError> {
    let spot = observed.blind_spot(ObservedKind::Claims)?;
    Some(ClusterError::Indispensable {
        resource: spot.kind.resource(),
        message: spot.why.clone(),
    })
}

/// Observes again. A superseded change that the object shows by now counts as applied: an answer
/// was lost, or another apply wrote the same. Returns the changes to send, by index: those that were
/// superseded, and those that were not sent because they are `unconfirmed`.
pub(super) async fn reobserve<C: Cluster>(
    cluster: &C,
    job: &Job<'_>,
    approved_losses: &Lost,
    applied: &mut Applied,
    unconfirmed: &BTreeSet<usize>,
) -> Result<(Observed, Vec<(usize, Change)>), ClusterError> {
    let (observed, plan) = observe_and_plan(cluster, job).await?;
    if let Some(hidden) = claims_hidden(&observed) {
        return Err(hidden);
    }
    let fresh: BTreeMap<Target, &Change> = plan
        .changes
        .iter()
        .map(|change| (change.target(), change))
        .collect();
    let identity = |change: &Change| ChangeDocument::from(change).identity();
    let mut again: Vec<(usize, Change)> = Vec::new();
    let mut broken_sequence = Sequence::Any;
    for (index, (approved, outcome)) in applied.outcomes.iter_mut().enumerate() {
        let is_unconfirmed = unconfirmed.contains(&index);
        if !is_unconfirmed && !matches!(outcome, Outcome::Superseded(_)) {
            continue;
        }
        match fresh.get(&approved.target()) {
            // An earlier change of the sequence is no longer as approved.
            Some(change)
                if change.sequence() == Sequence::AfterThoseBefore
                    && broken_sequence == change.sequence() => {}
            Some(change) if identity(change) == identity(approved) => {
                again.push((index, (*change).clone()))
            }
            // What the object shows by now, another client has done.
            _ if is_unconfirmed => {
                *outcome = Outcome::Superseded("the cluster has changed since the plan".to_owned());
                broken_sequence = broken_sequence.max(approved.sequence());
            }
            _ if shows(&observed, &ChangeDocument::from(&*approved)) => *outcome = Outcome::Applied,
            _ => broken_sequence = broken_sequence.max(approved.sequence()),
        }
    }
    if let Some(why) = recheck(job, approved_losses, &again, &observed).await {
        for (index, _) in again.drain(..) {
            applied.outcomes[index].1 = Outcome::Refused(why.clone());
        }
    }
    Ok((observed, again))
}

/// Why changes must not be sent again: since they were planned, a user may have protected a node,
/// or a Service may have received an address.
async fn recheck(
    job: &Job<'_>,
    approved_losses: &Lost,
    again: &[(usize, Change)],
    observed: &Observed,
) -> Option<String> {
    let changes: Vec<Change> = again.iter().map(|(_, change)| change.clone()).collect();
    let refused = job.refusals(&changes, observed).await;
    if let Some(refusal) = refused.into_iter().next() {
        return Some(refusal.message);
    }
    let unapproved = lost(&effects(&changes, observed))
        .into_iter()
        .find(|lost| !approved_losses.contains(lost));
    unapproved.map(|(service, address)| {
        format!("Service {service} would lose {address}, which was not in the plan")
    })
}
