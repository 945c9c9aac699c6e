//! `plan`: shows what would change, and why.

use std::path::PathBuf;

use clap::ValueEnum;

use super::fail_on::{Conditions, FailOn, FailOnArguments};
use super::failure::Failure;
use super::files::{Files, output_file};
use super::reading::read;
use super::safety_arguments::SafetyArguments;
use super::selection::{SelectionArguments, check_objects};
use super::validate::Report;
use super::{Common, ExitStatus, output};
use crate::render::{
    Detail, count, diagnostics, finding_documents, human, markdown, markdown_findings,
};
use ipam_cluster::{Extent, replace_private_file};
use ipam_controller::{Job, Loaded, Scope};
use ipam_planner::plan::PlanDocument;

/// Show what would change, and why.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Save the plan, for `apply FILE`. `-o json` prints the same.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    out: Option<PathBuf>,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "human")]
    output: PlanFormat,
    /// Exit with 2 if there are changes, with 1 if there are none but errors, and otherwise with 0,
    /// unless --fail-on names more.
    #[arg(long)]
    detailed_exitcode: bool,
    #[command(flatten)]
    fail_on: FailOnArguments,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PlanFormat {
    Human,
    Json,
    Markdown,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let location = arguments.files.location();
    let (mut loaded, observed) = read(location.clone(), common, Extent::Plan, Scope::Ports).await?;
    let Some(observed) = observed else {
        return Err(invalid(arguments, common, &loaded)?);
    };
    arguments.safety_arguments.amend(&mut loaded.desired.policy);
    let waivers = arguments.safety_arguments.waivers();
    let selection = arguments.selection.of_plan(None)?;
    check_objects(&selection, &loaded.desired, &observed)?;
    let plan = Job::saved(&loaded, None, &waivers)
        .limited_to(&selection)
        .plan(&observed);
    let document = PlanDocument::new(&plan, &location.directory.to_string_lossy())
        .of_revision(loaded.revision.clone());
    let document = match common.detail() {
        Detail::Short => document.cut(),
        Detail::Full => document,
    };
    if let Some(file) = &arguments.out {
        replace_private_file(file, &output::json_text(&document)?).map_err(|error| {
            Failure::Failed(format!(
                "the plan cannot be saved to {}: {error}",
                file.display()
            ))
        })?;
    }
    match arguments.output {
        PlanFormat::Json => output::json(&document)?,
        PlanFormat::Markdown => output::data(&markdown(&document, common.detail()))?,
        PlanFormat::Human => {
            output::talk(&diagnostics(
                &plan.findings,
                &loaded.documents,
                common.detail(),
            ));
            output::data(&human(&document, common.detail()))?;
        }
    }
    if let Some(file) = &arguments.out {
        let next = if document.refusals.is_empty() {
            format!(
                "To do exactly this: cilium-ipam apply {}{}",
                file.display(),
                common.flags()
            )
        } else {
            "The plan is refused, so `apply` will not accept it.".to_owned()
        };
        output::warn(&format!("\nSaved. {next}\ndigest: {}", document.digest));
    }
    arguments.outcome(&document)
}

impl Arguments {
    /// The exit status by --detailed-exitcode and --fail-on. With --detailed-exitcode, 2 means
    /// changes only, so errors without changes are a failure.
    fn outcome(&self, plan: &PlanDocument) -> Result<ExitStatus, Failure> {
        let by_default: &[FailOn] = if self.detailed_exitcode {
            &[FailOn::Changes]
        } else {
            &[FailOn::Error]
        };
        let pending = self.detailed_exitcode && plan.has(FailOn::Changes);
        if pending || self.fail_on.names(plan, by_default) {
            return Ok(ExitStatus::ChangesPending);
        }
        if self.detailed_exitcode && !self.fail_on.is_given() && plan.has(FailOn::Error) {
            let errors = count(plan.summary.errors, "error");
            return Err(Failure::Failed(format!(
                "there is nothing to change, but the checks found {errors}"
            )));
        }
        Ok(ExitStatus::Done)
    }
}

/// Prints the findings to stdout in the requested format. Returns the failure.
fn invalid(arguments: &Arguments, common: &Common, loaded: &Loaded) -> Result<Failure, Failure> {
    let detail = common.detail();
    match arguments.output {
        PlanFormat::Json => output::json(&Report::new(loaded, detail))?,
        PlanFormat::Markdown => {
            let findings = finding_documents(&loaded.findings, &loaded.documents, detail);
            output::data(&markdown_findings(&findings.findings, detail))?
        }
        PlanFormat::Human => return Ok(Failure::Invalid(output::diagnostics(loaded, detail))),
    }
    Ok(Failure::Invalid(String::new()))
}
