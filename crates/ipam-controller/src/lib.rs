//! Connects files, cluster, plan and outcomes: one path for every command.
//!
//! It decides no addresses: the planner does. It knows no arguments and prints nothing.
#![forbid(unsafe_code)]

pub mod apply;
pub mod event;
pub mod status;

mod apply_loop;
mod blocking_task;
mod claim_store;
mod concurrency;
pub mod history;
mod lease;
pub mod migration;
mod openstack;
mod operator;
mod ports;
mod prepare;
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
use ipam_planner::plan::{Change, Intent, Plan, PlanDocument, Refusal, Selection, plan, plan_undo};

pub use apply_loop::{Applied, BATCH, OnConflict, Sending, apply_until_settled};
pub use concurrency::{ConcurrencyLimit, Parallelism};
pub use http_server::{Answer, Bytes, HttpServer, Site, Visit};
pub use lease::{Attempt, Held, Lease, Lock, OtherHolder, Timing};
pub use openstack::{CloudsLocation, OpenStack, Scope};
pub use operator::{Operator, operate};
pub use ports::{NoPorts, PortWriter};
pub use telemetry::Telemetry;
pub use watch::{
    ControllerEvent, Directory, OnEvent, Planned, Source, Waiting, WaitingChange, Watch, watch,
};

/// The configuration of a directory, with all findings about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The files, for diagnostics.
    pub documents: Documents,
    /// What they specify; incomplete if there are errors.
    pub desired: Desired,
    pub findings: Vec<Finding>,
    /// Their commit id, if they were read from Git.
    pub revision: Option<String>,
}

impl Loaded {
    /// Whether there are errors. If so, it must not be planned from.
    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Number of warnings.
    pub fn warnings(&self) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == Severity::Warning)
            .count()
    }

    /// These files with the pause of newer ones. A pause applies even if other files are invalid.
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
        ..check_documents(documents, findings)
    }
}

/// Checks documents; `findings` are those of reading them.
pub fn check_documents(documents: Documents, mut findings: Vec<Finding>) -> Loaded {
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

/// What is planned: the files, or the undo of an earlier apply. The policy of the files holds for
/// both.
#[derive(Clone, Copy)]
pub struct Job<'j> {
    /// The files, without errors.
    pub loaded: &'j Loaded,
    /// A saved undo plan. Any other saved plan is planned from the files.
    pub undo: Option<&'j PlanDocument>,
    /// Limits that may be exceeded, and other waivers.
    pub waivers: &'j BTreeSet<Waiver>,
    /// Where subnets and ports are read; without it they are unknown.
    pub openstack: Option<&'j OpenStack>,
    /// The objects to which the plan is limited.
    pub selection: &'j Selection,
}

impl<'j> Job<'j> {
    /// Plans from the files, within all limits.
    pub fn files(loaded: &'j Loaded) -> Job<'j> {
        const NONE: &BTreeSet<Waiver> = &BTreeSet::new();
        Job {
            loaded,
            undo: None,
            waivers: NONE,
            openstack: None,
            selection: Selection::EVERYTHING,
        }
    }

    /// Plans from the same input as a saved plan, or from the files.
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
            selection: Selection::EVERYTHING,
        }
    }

    /// The same job, which also reads from this OpenStack.
    #[must_use]
    pub fn with_openstack(self, openstack: &'j OpenStack) -> Job<'j> {
        Job {
            openstack: Some(openstack),
            ..self
        }
    }

    /// The same job, which plans only for these objects.
    #[must_use]
    pub fn limited_to(self, selection: &'j Selection) -> Job<'j> {
        Job { selection, ..self }
    }

    /// Limits, protections and rules that refuse these changes and are not waived.
    pub async fn refusals(&self, changes: &[Change], observed: &Observed) -> Vec<Refusal> {
        blocking_task::refused(self, changes, observed).await
    }

    /// Plans for an observed cluster.
    pub fn plan(&self, observed: &Observed) -> Plan {
        let Job {
            loaded,
            undo,
            waivers,
            openstack: _,
            selection,
        } = self;
        let plan = match undo {
            Some(saved) => plan_undo(saved, &loaded.desired, observed, loaded.findings.clone()),
            None => plan(&loaded.desired, observed, loaded.findings.clone()),
        };
        let plan = plan.limited_to(selection, &loaded.desired, observed);
        Plan {
            waivers: (*waivers).clone(),
            ..plan
        }
    }
}

/// Observes the cluster and plans.
///
/// # Errors
/// Fails if the cluster cannot be read.
pub async fn observe_and_plan<C: Cluster>(
    cluster: &C,
    job: &Job<'_>,
) -> Result<(Observed, Plan), ClusterError> {
    let mut observed = observe(cluster, Extent::Plan).await?;
    if let Some(openstack) = job.openstack {
        openstack
            .observe_into(&job.loaded.desired, &mut observed)
            .await;
    }
    Ok(blocking_task::plan(job, observed).await)
}
