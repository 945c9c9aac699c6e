//! `plan`: what would change, and why.

use std::path::PathBuf;

use clap::ValueEnum;

use super::failure::Failure;
use super::files::Files;
use super::rails::Rails;
use super::reading::read;
use super::validate::Report;
use super::{Common, Reached, output};
use crate::cluster::{Extent, replace_file};
use crate::plan::PlanDocument;
use crate::render::{Detail, diagnostics, finding_documents, human, markdown, markdown_findings};
use crate::run::{Job, Loaded, Reach};

/// Show what would change, and why.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Save the plan, for `apply FILE`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Form of the plan.
    #[arg(long, short, value_enum, default_value = "human")]
    output: PlanFormat,
    /// Exit with 2 when there are changes.
    #[arg(long)]
    detailed_exitcode: bool,
    /// Show every change, however many there are.
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    rails: Rails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    Human,
    Json,
    Markdown,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    let location = arguments.files.location();
    let (mut loaded, observed) = read(location.clone(), common, Extent::Plan, Reach::Ports).await?;
    let Some(observed) = observed else { return Err(invalid(arguments, &loaded)?) };
    arguments.rails.amend(&mut loaded.desired.policy);
    let waivers = arguments.rails.waivers();
    let plan = Job::saved(&loaded, None, &waivers).plan(&observed);
    let document = PlanDocument::new(&plan, &location.directory.to_string_lossy()).of_revision(loaded.revision.clone());
    if let Some(file) = &arguments.out {
        replace_file(file, &output::json_text(&document)?)
            .map_err(|error| Failure::Failed(format!("the plan cannot be saved to {}: {error}", file.display())))?;
    }
    match arguments.output {
        PlanFormat::Json => output::json(&document)?,
        PlanFormat::Markdown => output::data(&markdown(&document))?,
        PlanFormat::Human => {
            output::talk(&diagnostics(&plan.findings, &loaded.documents));
            output::data(&human(&document, if arguments.full { Detail::Full } else { Detail::Short }))?;
        }
    }
    if let Some(file) = &arguments.out {
        let next = if document.refusals.is_empty() {
            format!("To do exactly this: cilium-ipam apply {}{}", file.display(), common.flags())
        } else {
            "It is refused as it is, so `apply` will not take it.".to_owned()
        };
        output::warn(&format!("\nSaved. {next}"));
    }
    let pending = arguments.detailed_exitcode && !plan.changes.is_empty();
    Ok(if pending { Reached::ChangesPending } else { Reached::Done })
}

/// The findings in the form that was asked for, so that whoever reads stdout gets them.
fn invalid(arguments: &Arguments, loaded: &Loaded) -> Result<Failure, Failure> {
    match arguments.output {
        PlanFormat::Json => output::json(&Report::new(loaded))?,
        PlanFormat::Markdown => {
            output::data(&markdown_findings(&finding_documents(&loaded.findings, &loaded.documents)))?
        }
        PlanFormat::Human => return Ok(Failure::Invalid(output::diagnostics(loaded))),
    }
    Ok(Failure::Invalid(String::new()))
}
