//! What a controller reports: to people, to metrics, and to statuses in the cluster.
//!
//! It only carries data; the reader decides what to show.

use std::time::Duration;

use crate::Loaded;
use crate::apply::Outcome;
use ipam_cilium::observed::Observed;
use ipam_cluster::{Rollback, Trouble};
use ipam_core::model::Hazard;
use ipam_desired::Activity;
use ipam_planner::plan::{Change, Plan, Refusal, Target, UnapprovedBlock, VersionRules};

/// One report.
#[derive(Debug)]
pub enum ControllerEvent<'n> {
    /// These files apply from now on.
    ConfigApplied(&'n Loaded),
    /// These files have errors; the last valid ones still apply.
    Invalid(&'n Loaded),
    /// Number of changes that are about to be sent; 0 at the end.
    Sending(usize),
    /// A change has its outcome.
    Finished {
        /// Which change.
        change: &'n Change,
        /// What became of it.
        outcome: &'n Outcome,
        /// Time since the event that caused it.
        waited: Duration,
    },
    /// A plan was made.
    Planned(&'n Planned<'n>),
    /// What is not done, each time that differs from the last report.
    Waiting(&'n Waiting),
    /// Another process was faster; the change is planned again.
    Conflict(&'n Target),
    /// Another process keeps undoing our write; the object is left alone for this long.
    Undone(&'n Target, Duration),
    /// The cluster went back in time, as after a restored backup. The blocks that it forgot are
    /// quarantined.
    RolledBack(&'n Rollback),
    /// The controller cannot work, and why.
    Unhealthy(&'n Trouble),
    /// It works again.
    Recovered,
    /// This process leads from now on.
    Leading,
    /// Another process leads, or may lead, and why.
    Standby(&'n str),
}

/// Called with each report.
pub type OnEvent<'n> = dyn FnMut(ControllerEvent<'_>) + Send + 'n;

/// A plan with its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Planned<'n> {
    /// The plan.
    pub plan: &'n Plan,
    /// The files.
    pub loaded: &'n Loaded,
    /// The cluster.
    pub observed: &'n Observed,
}

/// A change that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingChange {
    /// The object.
    pub target: Target,
    /// What the change means for workloads.
    pub hazard: Hazard,
    /// Its blocks that a person must approve.
    pub needs_approval: Vec<UnapprovedBlock>,
    /// Whether it waits because it depends on unknown rules.
    pub rules: VersionRules,
}

impl WaitingChange {
    /// A change that waits in a cluster whose release has these rules.
    pub fn new(change: &Change, rules: VersionRules) -> WaitingChange {
        let (target, hazard) = (change.target(), change.hazard());
        WaitingChange {
            target,
            hazard,
            needs_approval: change.needs_approval().to_vec(),
            rules: match rules.hold_back(change) {
                true => VersionRules::Unknown,
                false => VersionRules::Known,
            },
        }
    }
}

/// What is not done, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Number of nodes in the cluster.
    pub nodes: usize,
    /// Whether the Policy pauses all writes.
    pub activity: Activity,
    /// Changes that wait for a person because of their hazard.
    pub for_a_person: Vec<WaitingChange>,
    /// Limits and protections that refuse changes.
    pub refusals: Vec<Refusal>,
    /// Findings that tell how far the plan can be trusted: code and message.
    pub warnings: Vec<(&'static str, String)>,
    /// Blocked changes of the plan, with the reason.
    pub blocked: Vec<(Target, String)>,
}
