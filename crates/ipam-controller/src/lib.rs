//! Joins the rooms: files to [`Desired`], cluster to a plan, plan to outcomes. One path for every
//! command.
#![forbid(unsafe_code)]

pub mod apply;
pub mod event;
pub mod status;

mod claim_store;
mod lock;
mod openstack;
mod operator;
mod prepare;
mod settle;
mod telemetry;
mod watch;

use std::collections::BTreeSet;

use ipam_cilium::observed::Observed;
use ipam_cluster::{Cluster, ClusterError, Extent, observe};
use ipam_config::documents::{Documents, lower};
use ipam_config::source::{Found, Location, read};
use ipam_core::model::{Finding, Severity, Waiver};
use ipam_desired::{Activity, Desired};
use ipam_planner::check;
use ipam_planner::plan::{
    Change, Intent, Plan, PlanDocument, Refusal, effects, plan, plan_undo, refusals,
};

pub use lock::{Lock, LockRequest, hold, take};
pub use openstack::{CloudsLocation, OpenStack, Reach, WithPorts};
pub use operator::{Operator, operate};
pub use settle::{Applied, BATCH, LostRaces, Sending, apply_until_settled};
pub use telemetry::{Server, Telemetry};
pub use watch::{
    ControllerEvent, Directory, OnEvent, Planned, Source, Waiting, WaitingChange, Watch, watch,
};

/// What a directory asks for, with everything that is wrong with it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The files, for diagnostics that show them.
    pub documents: Documents,
    /// What they ask for; incomplete when there are errors.
    pub desired: Desired,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The id of the commit that they are of, where they are read from Git.
    pub revision: Option<String>,
}

impl Loaded {
    /// Whether nothing may be planned from it.
    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Number of findings that are probably not what was meant.
    pub fn warnings(&self) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == Severity::Warning)
            .count()
    }

    /// These files, paused, where newer ones with faults say so: who pulls the brake is heard
    /// whatever else is wrong.
    pub fn paused_by(&self, newer: &Loaded) -> Option<Loaded> {
        if newer.desired.policy.activity == Activity::Active {
            return None;
        }
        let mut paused = self.clone();
        paused.desired.policy.activity = Activity::Paused;
        Some(paused)
    }
}

/// Reads and checks the files.
pub fn load(location: &Location) -> Loaded {
    let Found {
        documents,
        findings,
        commit,
    } = read(location);
    Loaded {
        revision: commit,
        ..understand(documents, findings)
    }
}

/// Checks documents, besides what was found while they were read.
pub fn understand(documents: Documents, mut findings: Vec<Finding>) -> Loaded {
    let (desired, lowering) = lower(&documents);
    findings.extend(lowering);
    findings.extend(check::files(&desired));
    findings.sort();
    findings.dedup();
    Loaded {
        documents,
        desired,
        findings,
        revision: None,
    }
}

/// What is planned: what the files ask for, or what an undo plan takes back. The policy of the
/// files holds for both.
#[derive(Clone, Copy)]
pub struct Job<'j> {
    /// The files, without errors.
    pub loaded: &'j Loaded,
    /// A saved plan that takes an apply back; any other saved plan is planned from the files.
    pub undo: Option<&'j PlanDocument>,
    /// Limits that may be exceeded, and what else may be done.
    pub waivers: &'j BTreeSet<Waiver>,
    /// Who is asked for subnets; without one nothing is known of them.
    pub openstack: Option<&'j OpenStack>,
}

impl<'j> Job<'j> {
    /// What the files ask for, within all limits.
    pub fn files(loaded: &'j Loaded) -> Job<'j> {
        const NONE: &BTreeSet<Waiver> = &BTreeSet::new();
        Job {
            loaded,
            undo: None,
            waivers: NONE,
            openstack: None,
        }
    }

    /// What a saved plan was made from, or else what the files ask for.
    pub fn saved(
        loaded: &'j Loaded,
        saved: Option<&'j PlanDocument>,
        waivers: &'j BTreeSet<Waiver>,
    ) -> Job<'j> {
        Job {
            loaded,
            undo: saved.filter(|saved| saved.intent == Intent::Undo),
            waivers,
            openstack: None,
        }
    }

    /// The same, with somebody who is asked for subnets.
    #[must_use]
    pub fn asking(self, openstack: &'j OpenStack) -> Job<'j> {
        Job {
            openstack: Some(openstack),
            ..self
        }
    }

    /// What speaks against these changes, and is not waived.
    pub fn refusals(&self, changes: &[Change], observed: &Observed) -> Vec<Refusal> {
        let mut refusals = refusals(
            changes,
            &effects(changes, observed),
            &self.loaded.desired,
            observed,
        );
        refusals.retain(|refusal| !refusal.is_waived(self.waivers));
        refusals
    }

    /// The plan for what was observed.
    pub fn plan(&self, observed: &Observed) -> Plan {
        let Job {
            loaded,
            undo,
            waivers,
            openstack: _,
        } = self;
        let plan = match undo {
            Some(saved) => plan_undo(saved, &loaded.desired, observed, loaded.findings.clone()),
            None => plan(&loaded.desired, observed, loaded.findings.clone()),
        };
        Plan {
            waivers: (*waivers).clone(),
            ..plan
        }
    }
}

/// Observes the cluster and plans.
///
/// # Errors
/// A cluster that cannot be read.
pub async fn observe_and_plan<C: Cluster>(
    cluster: &C,
    job: &Job<'_>,
) -> Result<(Observed, Plan), ClusterError> {
    let mut observed = observe(cluster, Extent::Plan).await?;
    if let Some(openstack) = job.openstack {
        openstack.see(&job.loaded.desired, &mut observed).await;
    }
    let plan = job.plan(&observed);
    Ok((observed, plan))
}
