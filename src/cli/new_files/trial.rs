//! Validates new files and shows their plan before they are written.

use std::path::Path;

use crate::cli::failure::Failure;
use crate::render::{self, Detail, human};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::{Loaded, check_documents};
use ipam_core::model::{Finding, Severity};
use ipam_plan::plan::{Plan, PlanDocument};

/// Validates the files as if they were read from the directory.
///
/// # Errors
/// Fails if the files would be invalid, such as with a CIDR that no Pod can have.
pub(in crate::cli) fn loaded(
    files: impl IntoIterator<Item = SourceFile>,
    detail: Detail,
) -> Result<Loaded, Failure> {
    let documents = Documents {
        files: files.into_iter().collect(),
    };
    let loaded = check_documents(documents, Vec::new());
    match loaded.has_errors() {
        true => Err(Failure::invalid(&loaded, detail).unwritten()),
        false => Ok(loaded),
    }
}

/// The errors and warnings among the findings.
pub(in crate::cli) fn diagnostics(findings: &[Finding], loaded: &Loaded, detail: Detail) -> String {
    let is_told = |finding: &&Finding| finding.severity != Severity::Info;
    let findings: Vec<Finding> = findings.iter().filter(is_told).cloned().collect();
    render::diagnostics(&findings, &loaded.documents, detail)
}

pub(in crate::cli) fn document(directory: &Path, plan: &Plan, detail: Detail) -> PlanDocument {
    let document = PlanDocument::new(plan, &directory.to_string_lossy());
    match detail {
        Detail::Short => document.cut(),
        Detail::Full => document,
    }
}

/// The first lines of the plan, indented.
pub(in crate::cli) fn first_lines(document: &PlanDocument, detail: Detail) -> String {
    let plan = human(document, detail);
    let first = plan.lines().take_while(|line| !line.is_empty());
    first.map(|line| format!("  {line}\n")).collect()
}
