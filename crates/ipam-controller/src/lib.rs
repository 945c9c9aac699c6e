//! Connects files, cluster, plan and outcomes: one path for every command.
//!
//! It decides no addresses: the planner does. It knows no arguments and prints nothing. Plans are
//! judged on a thread of their own: rules may take seconds, and the task renews its Lease
//! meanwhile. Events, which people read with `kubectl describe`, are only built here, not written.

#![forbid(unsafe_code)]

pub mod apply;
pub mod status;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use ipam_cilium::observed::Observed;
use ipam_cluster::{Cluster, ClusterError, Extent, observe};
use ipam_config::documents::{Documents, lower};
use ipam_config::source::{Found, Location, read};
use ipam_core::model::{Finding, Severity, Waiver};
use ipam_desired::{Activity, CustomKind, Desired, GROUP, VERSION};
use ipam_plan::check;
use ipam_plan::plan::{
    Change, Intent, Plan, PlanDocument, Refusal, Selection, Unattended, effects, plan, plan_undo,
    refusals, unattended,
};

pub use apply::{NoPorts, PortWriter};
pub use apply_loop::{Applied, BATCH, OnConflict, Sending, apply_until_settled};
pub use concurrency::{ConcurrencyLimit, Parallelism};
pub use http_server::{Answer, Bytes, HttpServer, Site, Visit};
pub use lease::{Attempt, Held, Lease, Lock, OtherHolder, Timing};
pub use openstack::{CloudsLocation, OpenStack, Scope};
pub use operator::{Operator, operate};
pub use telemetry::Telemetry;
pub use watch::{
    ControllerEvent, Directory, OnEvent, Planned, Source, Waiting, WaitingChange, Watch, watch,
};
pub use watch_capacity::watch_capacity;

mod apply_loop;
mod claim_store;
mod concurrency;
mod departures;
pub mod history;
mod lease;
pub mod migration;
mod openstack;
mod operator;
mod telemetry;
mod watch;
mod watch_capacity;

/// The configuration of a directory, with all findings about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Texts of the files, which findings quote.
    pub documents: Documents,
    /// The desired state by the documents; incomplete if there are errors.
    pub desired: Desired,
    pub findings: Vec<Finding>,
    /// Id of the commit, if the documents were read from Git.
    pub revision: Option<String>,
}

impl Loaded {
    /// Whether the findings have errors. If so, the configuration must not be planned from.
    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Number of warnings among the findings.
    pub fn warnings(&self) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == Severity::Warning)
            .count()
    }

    /// The same files with the pause of newer files, if those are paused. A pause applies even if
    /// other files are invalid.
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

/// Checks documents. `findings` are the findings of reading them.
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

    /// Returns the same job, which also reads from this OpenStack.
    #[must_use]
    pub fn with_openstack(self, openstack: &'j OpenStack) -> Job<'j> {
        Job {
            openstack: Some(openstack),
            ..self
        }
    }

    /// Returns the same job, which plans only for the selected objects.
    #[must_use]
    pub fn limited_to(self, selection: &'j Selection) -> Job<'j> {
        Job { selection, ..self }
    }

    /// Limits, protections and rules that refuse these changes and are not waived.
    pub async fn refusals(&self, changes: &[Change], observed: &Observed) -> Vec<Refusal> {
        refused_in_task(self, changes, observed).await
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
    Ok(plan_in_task(job, observed).await)
}

/// Plans for an observed cluster, and returns the cluster with the plan.
pub(crate) async fn plan_in_task(job: &Job<'_>, observed: Observed) -> (Observed, Plan) {
    if !is_slow(&job.loaded.desired) {
        let plan = job.plan(&observed);
        return (observed, plan);
    }
    let (loaded, undo) = (job.loaded.clone(), job.undo.cloned());
    let (waivers, selection) = (job.waivers.clone(), job.selection.clone());
    in_blocking_task(move || {
        let job = Job {
            loaded: &loaded,
            undo: undo.as_ref(),
            waivers: &waivers,
            openstack: None,
            selection: &selection,
        };
        let plan = job.plan(&observed);
        (observed, plan)
    })
    .await
}

/// The parts of a plan that need a person, and that need none.
pub(crate) async fn part_in_task(
    plan: &Plan,
    desired: &Desired,
    observed: &Observed,
    waivers: &BTreeSet<Waiver>,
) -> Unattended {
    if !is_slow(desired) {
        return unattended(plan, desired, observed, waivers);
    }
    let (plan, desired) = (plan.clone(), desired.clone());
    let (observed, waivers) = (observed.clone(), waivers.clone());
    in_blocking_task(move || unattended(&plan, &desired, &observed, &waivers)).await
}

/// Limits, protections and rules that refuse these changes and are not waived.
pub(crate) async fn refused_in_task(
    job: &Job<'_>,
    changes: &[Change],
    observed: &Observed,
) -> Vec<Refusal> {
    let desired = &job.loaded.desired;
    let mut refused = match is_slow(desired) {
        false => refusals(changes, &effects(changes, observed), desired, observed),
        true => {
            let (changes, desired) = (changes.to_vec(), desired.clone());
            let observed = observed.clone();
            let judging =
                move || refusals(&changes, &effects(&changes, &observed), &desired, &observed);
            in_blocking_task(judging).await
        }
    };
    refused.retain(|refusal| !refusal.is_waived(job.waivers));
    refused
}

/// Only rules take long, and another thread needs copies.
fn is_slow(desired: &Desired) -> bool {
    !desired.policy.rules.is_empty()
}

async fn in_blocking_task<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The task was cancelled, because the runtime ends.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The namespace of Events about objects without a namespace (client-go `tools/record`).
pub(crate) const EVENT_NAMESPACE: &str = "default";

/// Longest message that the server accepts, in bytes (core/v1 validation of Kubernetes 1.36).
const LONGEST_MESSAGE: usize = 1024;

ipam_core::text_enum! {
    /// Severity of an Event (core/v1 of Kubernetes).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EventKind {
        /// For information only.
        Normal = "Normal",
        /// A user should look at the Event.
        Warning = "Warning",
    }
}

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSubject {
    api_version: String,
    kind: &'static str,
    name: String,
    uid: String,
}

impl EventSubject {
    /// A Node as the subject of an Event.
    pub fn node(name: &str, uid: &str) -> EventSubject {
        EventSubject {
            api_version: "v1".to_owned(),
            kind: "Node",
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// A custom resource of `cilium-ipam` as the subject of an Event.
    pub fn custom(kind: CustomKind, name: &str, uid: &str) -> EventSubject {
        let api_version = format!("{GROUP}/{VERSION}");
        EventSubject {
            api_version,
            kind: kind.as_str(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

/// The text of an Event before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// The object that the Event is about.
    pub about: EventSubject,
    pub kind: EventKind,
    /// Reason of the Event: one word in CamelCase.
    pub reason: &'static str,
    /// Message of the Event, for people; longer messages are cut when it is written.
    pub message: String,
}

impl EventText {
    /// The Event as an object of the API server.
    pub fn object(&self, reporter: &str, at: Timestamp) -> Value {
        let EventText {
            about,
            kind,
            reason,
            message,
        } = self;
        let time = format!("{at:.0}");
        let mut message = message.clone();
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "cilium-ipam.", "namespace": EVENT_NAMESPACE},
            "involvedObject": {
                "apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid,
            },
            "type": kind.as_str(),
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": {"component": "cilium-ipam"},
            "reportingComponent": "cilium-ipam.io/operator",
            "reportingInstance": reporter,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::sync::Arc;

    use super::check_documents;
    use super::*;
    use ipam_config::documents::{Documents, SourceFile};

    const POLICY: &str = "apiVersion: cilium-ipam.io/v1alpha1
kind: IPAMPolicy
metadata: {name: default}
spec: {rules: [{name: never, expression: \"false\"}]}
";

    /// No thread is free, so nothing is judged until the test lets one go.
    #[test]
    fn rules_are_judged_on_another_thread() {
        let file = SourceFile {
            path: Arc::from("policy.yaml"),
            text: Arc::from(POLICY),
        };
        let loaded = check_documents(Documents { files: vec![file] }, Vec::new());
        assert!(!loaded.has_errors(), "{:?}", loaded.findings);
        let job = Job::files(&loaded);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, held) = std::sync::mpsc::channel::<()>();
            let occupied = spawn_blocking(move || held.recv());
            let mut planning = pin!(plan_in_task(&job, Observed::default()));
            tokio::select! {
                biased;
                _ = &mut planning => panic!("the task judged"),
                () = ready(()) => {}
            }
            drop(release);
            assert!(occupied.await.unwrap().is_err());
            let (observed, plan) = planning.await;
            assert!(plan.findings.iter().any(|one| one.rule.0 == "policy-rule"));
            let desired = &loaded.desired;
            let parted = part_in_task(&plan, desired, &observed, job.waivers).await;
            assert!(parted.applied.is_empty());
            assert!(
                refused_in_task(&job, &plan.changes, &observed)
                    .await
                    .is_empty()
            );
        });
    }
}
