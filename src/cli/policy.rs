//! `policy test`: evaluates the rules of the Policy on examples, without a cluster.

use clap::Subcommand;

use super::failure::Failure;
use super::files::Files;
use super::{Common, ExitStatus, Format, load_valid, output};
use crate::render::{PolicyTestDocument, diagnostics, policy_test, policy_test_junit};
use ipam_controller::Loaded;
use ipam_core::model::Severity;
use ipam_plan::plan::{TestedPolicy, test_policy};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Evaluate the rules of the Policy on the examples in the PolicyTest documents.
    ///
    /// Needs no cluster. Exits with 2 if a rule says something else of an example than its author
    /// expects. Warns about a rule without an example that it allows, or without one that it
    /// refuses.
    Test(Test),
}

#[derive(Debug, clap::Args)]
struct Test {
    #[command(flatten)]
    files: Files,
    /// Output format.
    #[arg(long, short, value_parser = Format::among(&[Format::Human, Format::Json, Format::Junit]), default_value = "human")]
    output: Format,
    /// Also exit with 2 on warnings, such as a rule without a case.
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    match &arguments.command {
        Command::Test(arguments) => test(arguments, common),
    }
}

fn test(arguments: &Test, common: &Common) -> Result<ExitStatus, Failure> {
    let location = arguments.files.location();
    let loaded = load_valid(&location, common)?;
    let tested = test_policy(&loaded.desired);
    print(arguments.output, &tested, &loaded, common)?;
    if tested.cases.is_empty() {
        return Err(Failure::Failed(format!(
            "`{}` has no PolicyTest, so nothing was tested; see `cilium-ipam schema PolicyTest`",
            location.directory.display()
        )));
    }
    let fails = match arguments.strict {
        true => Severity::Warning,
        false => Severity::Error,
    };
    match tested.findings.iter().any(|one| one.severity <= fails) {
        true => Ok(ExitStatus::Findings),
        false => Ok(ExitStatus::Done),
    }
}

fn print(
    format: Format,
    tested: &TestedPolicy<'_>,
    loaded: &Loaded,
    common: &Common,
) -> Result<(), Failure> {
    let detail = common.detail();
    let documents = &loaded.documents;
    match format {
        Format::Json => {
            output::json(&PolicyTestDocument::new(tested, documents, detail))?;
        }
        Format::Junit => output::data(&policy_test_junit(tested, detail))?,
        _ => output::human(&policy_test(tested))?,
    }
    output::talk(&diagnostics(&tested.findings, documents, detail));
    Ok(())
}
