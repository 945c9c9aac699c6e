//! Validates and plans the new files before they are written.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cli::failure::Failure;
use crate::cli::new_files::{NewFile, trial};
use crate::render::{Detail, human};
use ipam_cilium::observed::Observed;
use ipam_controller::Job;
use ipam_core::text::joined;
use ipam_plan::plan::{BlockedReason, OperatorObstacle, PlanDocument};

/// Limit of the reasons that `init` prints; the plan has all of them.
const TOLD: usize = 3;

/// What the files would do.
pub(super) struct Trial {
    /// The first line of the plan; `None` without a cluster.
    pub(super) headline: Option<String>,
    /// Errors and warnings of the plan.
    pub(super) diagnostics: String,
    /// Why nodes cannot get a block yet, each reason with its fix.
    pub(super) blocked: BTreeSet<String>,
    /// Conditions for `plan --fail-on` in CI: those that need a person, unless the first plan has
    /// them already.
    pub(super) fail_on: String,
}

/// The conditions that the first plan of the files must not have.
pub(super) fn fail_on(plan: Option<&PlanDocument>) -> String {
    let is_new = |is_in: fn(&PlanDocument) -> bool| !plan.is_some_and(is_in);
    let conditions = [
        ("error", true),
        ("refused", true),
        ("policy", true),
        ("blocked", is_new(|plan| !plan.blocked.is_empty())),
        ("misplaced", is_new(|plan| !plan.misplaced.is_empty())),
    ];
    let conditions = conditions.into_iter().filter(|(_, is_new)| *is_new);
    joined(conditions.map(|(name, _)| name), ",")
}

impl Trial {
    /// # Errors
    /// Fails if the files would be invalid, such as with a CIDR that no Pod can have.
    pub(super) fn of(
        directory: &Path,
        files: &[NewFile],
        observed: Option<&Observed>,
        detail: Detail,
    ) -> Result<Trial, Failure> {
        let yaml = files
            .iter()
            .filter(|file| file.path.extension().is_some_and(|end| end == "yaml"));
        let loaded = trial::loaded(yaml.map(NewFile::source), detail)?;
        let Some(observed) = observed else {
            return Ok(Trial {
                headline: None,
                diagnostics: trial::diagnostics(&loaded.findings, &loaded, detail),
                blocked: BTreeSet::new(),
                fail_on: fail_on(None),
            });
        };
        let plan = Job::files(&loaded).plan(observed);
        let document = PlanDocument::new(&plan, &directory.to_string_lossy());
        let reasons = plan.blocked.iter().map(|blocked| &blocked.reason);
        // A remark of the proposal explains that the operator assigns.
        let gives = BlockedReason::Operator(OperatorObstacle::Gives);
        let reasons = reasons.filter(|reason| **reason != gives);
        let distinct: BTreeSet<String> = reasons.map(told_reason).collect();
        Ok(Trial {
            headline: human(&document, detail).lines().next().map(str::to_owned),
            diagnostics: trial::diagnostics(&plan.findings, &loaded, detail),
            fail_on: fail_on(Some(&document)),
            blocked: distinct.into_iter().take(TOLD).collect(),
        })
    }
}

fn told_reason(reason: &BlockedReason) -> String {
    format!("{reason}; {}", reason.unblock())
}
