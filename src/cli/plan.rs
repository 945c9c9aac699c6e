//! `plan`: shows what would change, and why.

use std::path::PathBuf;

use super::base::{BaseArguments, Made, MadePlan, Planning};
use super::comment::Beside;
use super::fail_on::{Conditions, FailOn, FailOnArguments};
use super::failure::Failure;
use super::files::{Files, SafetyArguments, SelectionArguments, output_file};
use super::forge_arguments::circumstances;
use super::plan_file::Inputs;
use super::validate::Report;
use super::{Common, ExitStatus, Format, output};
use crate::render::{
    Circumstances, Occasion, ReportHeader, count, diagnostics, finding_documents, human, markdown,
    markdown_findings, plan_report, printable,
};
use ipam_cilium::observed::Observed;
use ipam_cluster::replace_private_file;
use ipam_controller::Loaded;
use ipam_plan::plan::PlanDocument;

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
    #[arg(long, short, value_parser = Format::report(), default_value = "human")]
    output: Format,
    /// Exit with 2 if there are changes.
    ///
    /// Exits with 1 if there are no changes but errors, with 5 if the plan is refused, and otherwise
    /// with 0, unless --fail-on names more.
    #[arg(long)]
    detailed_exitcode: bool,
    #[command(flatten)]
    fail_on: FailOnArguments,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
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
    let made = match planning.make(common).await? {
        Made::Plan(made) => made,
        Made::Invalid(loaded) => return Err(invalid(arguments, common, &loaded)?),
    };
    let MadePlan {
        document,
        plan,
        loaded,
        observed,
    } = &*made;
    if let Some(file) = &arguments.out {
        replace_private_file(file, &output::json_text(document)?).map_err(|error| {
            Failure::Failed(format!(
                "the plan cannot be saved to {}: {error}",
                file.display()
            ))
        })?;
    }
    match arguments.output {
        Format::Json => output::json(document)?,
        Format::Markdown => page(Format::Markdown, document, None, None, common)?,
        Format::Html => {
            let beside = Beside::of(&made, &arguments.safety_arguments, common).await;
            page(
                Format::Html,
                document,
                Some(observed),
                beside.as_ref(),
                common,
            )?;
        }
        _ => {
            output::talk(&diagnostics(
                &plan.findings,
                &loaded.documents,
                common.detail(),
            ));
            output::human(&human(document, common.detail()))?;
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
        output::progress(&format!("\nSaved. {next}"));
        output::warn(&format!("digest: {}", document.digest));
    }
    arguments.outcome(document)
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

/// Prints the plan as Markdown or HTML. `beside` is what is written although the plan is refused.
pub(super) fn page(
    format: Format,
    plan: &PlanDocument,
    observed: Option<&Observed>,
    beside: Option<&Beside>,
    common: &Common,
) -> std::io::Result<()> {
    let title = format!("Plan of {}", printable(&plan.source.directory));
    let commit = plan.source.revision.clone();
    let header = ReportHeader {
        commit,
        ..common.report_header(observed)
    };
    let around = Circumstances {
        unattended: beside.map(Beside::shown),
        ..circumstances(None, None, common, &header.time, Occasion::Apply)
    };
    output::page(
        format,
        &title,
        &header,
        common.detail(),
        |detail, limit| match format {
            Format::Html => plan_report(plan, &around),
            _ => markdown(plan, detail, limit),
        },
    )
}

/// Prints the findings to stdout in the requested format. Returns the failure.
fn invalid(arguments: &Arguments, common: &Common, loaded: &Loaded) -> Result<Failure, Failure> {
    let detail = common.detail();
    match arguments.output {
        Format::Json => output::json(&Report::new(loaded, detail))?,
        Format::Markdown | Format::Html => {
            let header = common.report_header(None);
            output::page(
                arguments.output,
                "No plan",
                &header,
                detail,
                |detail, limit| {
                    let findings = finding_documents(&loaded.findings, &loaded.documents, detail);
                    markdown_findings(&findings.findings, detail, limit)
                },
            )?;
        }
        _ => return Ok(Failure::invalid(loaded, detail)),
    }
    Ok(Failure::Invalid(String::new()))
}
