//! `plan`: shows what would change, and why.

use std::path::PathBuf;

use clap::ValueEnum;

use super::base::{BaseArguments, Made, MadePlan, Planning};
use super::fail_on::{Conditions, FailOn, FailOnArguments};
use super::failure::Failure;
use super::files::{Files, SafetyArguments, SelectionArguments, output_file};
use super::plan_file::Inputs;
use super::validate::Report;
use super::{Common, ExitStatus, output};
use crate::render::{
    Detail, PageLimit, count, diagnostics, finding_documents, human, markdown, markdown_findings,
    printable, report,
};
use ipam_cluster::replace_private_file;
use ipam_controller::Loaded;
use ipam_plan::plan::PlanDocument;

/// Show what would change, and why.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    base: BaseArguments,
    /// Save the plan, for `apply FILE`. `-o json` prints the same.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    out: Option<PathBuf>,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "human")]
    output: PlanFormat,
    /// Exit with 2 if there are changes, with 1 if there are none but errors, with 5 if the plan is
    /// refused, and otherwise with 0, unless --fail-on names more.
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
    /// For a pull request.
    Markdown,
    /// One file with everything, for a change ticket.
    Html,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    arguments.fail_on.suits(Some(&arguments.base))?;
    Inputs::of(common)
        .with_directory(&arguments.files.location().directory)
        .check(&[("--out", arguments.out.as_deref())])?;
    let planning = Planning {
        files: &arguments.files,
        selection: &arguments.selection,
        safety_arguments: &arguments.safety_arguments,
        base: Some(&arguments.base),
    };
    let (document, plan, loaded) = match planning.make(common).await? {
        Made::Plan(made) => {
            let MadePlan {
                document,
                plan,
                loaded,
                observed: _,
            } = *made;
            (document, plan, loaded)
        }
        Made::Invalid(loaded) => return Err(invalid(arguments, common, &loaded)?),
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
        PlanFormat::Markdown => {
            output::data(&markdown(&document, common.detail(), PageLimit::COMMENT))?;
        }
        PlanFormat::Html => output::data(&plan_report(&document))?,
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
        let by_default: &[FailOn] = match self.detailed_exitcode {
            true => &[FailOn::Refused, FailOn::Changes],
            false => &[FailOn::Refused, FailOn::Error],
        };
        match self.fail_on.status(plan, by_default) {
            ExitStatus::Done => {}
            status => return Ok(status),
        }
        if self.detailed_exitcode && plan.has(FailOn::Changes) {
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

/// The plan as one HTML file.
pub(super) fn plan_report(plan: &PlanDocument) -> String {
    let title = format!("Plan of {}", printable(&plan.source.directory));
    report(&title, &markdown(plan, Detail::Full, PageLimit::REPORT))
}

/// Prints the findings to stdout in the requested format. Returns the failure.
fn invalid(arguments: &Arguments, common: &Common, loaded: &Loaded) -> Result<Failure, Failure> {
    let detail = common.detail();
    match arguments.output {
        PlanFormat::Json => output::json(&Report::new(loaded, detail))?,
        PlanFormat::Markdown => {
            let findings = finding_documents(&loaded.findings, &loaded.documents, detail);
            output::data(&markdown_findings(
                &findings.findings,
                detail,
                PageLimit::COMMENT,
            ))?
        }
        PlanFormat::Html => {
            let findings = finding_documents(&loaded.findings, &loaded.documents, Detail::Full);
            let text = markdown_findings(&findings.findings, Detail::Full, PageLimit::REPORT);
            output::data(&report("No plan", &text))?
        }
        PlanFormat::Human => return Ok(Failure::invalid(loaded, detail)),
    }
    Ok(Failure::Invalid(String::new()))
}
