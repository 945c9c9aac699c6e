//! Makes a plan of a directory, for the commands that only show it.

use std::path::Path;

use super::Common;
use super::base::BaseArguments;
use super::failure::Failure;
use super::files::Files;
use super::reading::read;
use super::safety_arguments::SafetyArguments;
use super::selection::{SelectionArguments, check_objects};
use crate::render::Detail;
use ipam_cilium::observed::Observed;
use ipam_cluster::Extent;
use ipam_controller::{Job, Loaded, Scope};
use ipam_planner::plan::{Plan, PlanDocument};

/// What is planned, and what the plan may do.
pub(super) struct Planning<'a> {
    pub(super) files: &'a Files,
    pub(super) selection: &'a SelectionArguments,
    pub(super) safety_arguments: &'a SafetyArguments,
    pub(super) base: Option<&'a BaseArguments>,
}

/// The outcome of planning.
pub(super) enum Made {
    Plan(Box<MadePlan>),
    /// The files have errors, so there is no plan.
    Invalid(Box<Loaded>),
}

/// A plan, with the files that it is made from.
pub(super) struct MadePlan {
    pub(super) document: PlanDocument,
    pub(super) plan: Plan,
    pub(super) loaded: Loaded,
    pub(super) observed: Observed,
}

impl Planning<'_> {
    /// Reads the files and the cluster, and plans.
    pub(super) async fn make(&self, common: &Common) -> Result<Made, Failure> {
        let location = self.files.location();
        let base = match self.base {
            Some(base) => base.read(&location)?,
            None => None,
        };
        let (mut loaded, observed) =
            read(location.clone(), common, Extent::Plan, Scope::Ports).await?;
        let Some(observed) = observed else {
            return Ok(Made::Invalid(Box::new(loaded)));
        };
        self.safety_arguments.amend(&mut loaded.desired.policy);
        let waivers = self.safety_arguments.waivers();
        let selection = self.selection.of_plan(None)?;
        let job = Job::saved(&loaded, None, &waivers).limited_to(&selection);
        let (plan, document) = planned(&job, &observed, &location.directory)?;
        let document = match &base {
            Some(base) => {
                let judged = base.judge(document, &plan, &loaded, &observed, &waivers);
                judged.await
            }
            None => document,
        };
        let document = match common.detail() {
            Detail::Short => document.cut(),
            Detail::Full => document,
        };
        Ok(Made::Plan(Box::new(MadePlan {
            document,
            plan,
            loaded,
            observed,
        })))
    }
}

/// Plans the selected objects from the files.
pub(super) fn planned(
    job: &Job<'_>,
    observed: &Observed,
    directory: &Path,
) -> Result<(Plan, PlanDocument), Failure> {
    let desired = &job.loaded.desired;
    check_objects(job.selection, desired, observed)?;
    let plan = job.plan(observed);
    let document = PlanDocument::new(&plan, &directory.to_string_lossy())
        .of_revision(job.loaded.revision.clone())
        .with_failure_domains(&desired.policy.failure_domain, observed);
    Ok((plan, document))
}
