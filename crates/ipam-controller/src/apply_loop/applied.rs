//! Changes with their outcomes, and which outcomes are reported when.
//!
//! An outcome that could still be lost is reported only once it is durable. It knows no cluster.

use ipam_cluster::{ClusterError, Durability};
use ipam_planner::plan::Change;

use crate::apply::{Event, Outcome};

/// Every change with its outcome.
#[derive(Debug, Default)]
pub struct Applied {
    /// In the order of the plan.
    pub outcomes: Vec<(Change, Outcome)>,
    /// Indexes of changes that are applied, not durable yet, and not reported.
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

    /// Stores outcomes by index. Those that are not durable yet wait for
    /// [`Applied::report_saved`].
    pub(super) fn record(
        &mut self,
        outcomes: impl Iterator<Item = (usize, Change, Outcome)>,
        durability: Durability,
    ) {
        for (index, change, outcome) in outcomes {
            if is_unsaved(durability, &change, &outcome) {
                self.unsaved.push(index);
            }
            self.outcomes[index] = (change, outcome);
        }
    }

    pub(super) fn report_saved(&mut self, on_event: &mut (dyn FnMut(Event<'_>) + Send)) {
        for index in self.unsaved.drain(..) {
            let (change, outcome) = &self.outcomes[index];
            on_event(Event::Finished { change, outcome });
        }
    }

    pub(super) fn fail_unsaved(&mut self, error: &ClusterError) {
        for index in self.unsaved.drain(..) {
            self.outcomes[index].1 = Outcome::Refused(format!("it was not saved: {error}"));
        }
    }
}

/// Whether a change is applied and may still be lost. Neutron keeps what it has answered.
pub(super) fn is_unsaved(durability: Durability, change: &Change, outcome: &Outcome) -> bool {
    durability == Durability::Saved
        && *outcome == Outcome::Applied
        && !matches!(change, Change::Port(_))
}
