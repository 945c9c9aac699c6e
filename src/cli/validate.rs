//! `validate`: reports every fault of every file, without a cluster.

use serde::Serialize;

use super::failure::Failure;
use super::files::Files;
use super::{Common, ExitStatus, Format, output};
use crate::render::{
    Detail, FindingDocuments, annotations, count, finding_documents, junit, sarif,
};
use ipam_controller::{Loaded, load};
use ipam_core::model::{Rule, Severity};
use ipam_plan::check;

/// The finding of a folder without pools and pins.
const EMPTY: Rule = Rule("empty-directory");

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Output format. `github` prints annotations, which GitHub shows beside the lines of the files.
    #[arg(long, short, value_parser = Format::among(&[Format::Human, Format::Json, Format::Github, Format::Sarif, Format::Junit]), default_value = "human")]
    output: Format,
    /// Also fail on warnings, with exit code 3 as for errors.
    #[arg(long)]
    strict: bool,
}

/// Findings of the files as JSON.
#[derive(Serialize)]
pub(super) struct Report {
    format_version: &'static str,
    valid: bool,
    #[serde(flatten)]
    findings: FindingDocuments,
}

impl Report {
    pub(super) fn new(loaded: &Loaded, detail: Detail) -> Report {
        Report::of(
            loaded,
            if loaded.has_errors() {
                Verdict::Invalid
            } else {
                Verdict::Valid
            },
            detail,
        )
    }

    fn of(loaded: &Loaded, verdict: Verdict, detail: Detail) -> Report {
        let findings = finding_documents(&loaded.findings, &loaded.documents, detail);
        Report {
            format_version: "1.1",
            valid: verdict == Verdict::Valid,
            findings,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Valid,
    Invalid,
    /// The files have warnings, and `--strict` is set.
    WithWarnings,
}

impl Arguments {
    fn verdict(&self, loaded: &Loaded) -> Verdict {
        if loaded.has_errors() {
            Verdict::Invalid
        } else if self.strict && loaded.warnings() > 0 {
            Verdict::WithWarnings
        } else {
            Verdict::Valid
        }
    }
}

impl Arguments {
    /// Prints the findings, unless they are for people. Returns the text for people.
    fn print(&self, loaded: &Loaded, verdict: Verdict, detail: Detail) -> Result<String, Failure> {
        let findings = &loaded.findings;
        match self.output {
            Format::Github => {
                output::script(&annotations(findings, detail))?;
                return Ok(output::diagnostics(loaded, detail));
            }
            Format::Json => output::json(&Report::of(loaded, verdict, detail))?,
            Format::Sarif => {
                let location = self.files.location();
                let place = location.directory.to_string_lossy().into_owned();
                output::json(&sarif(findings, &place, detail))?;
            }
            Format::Junit => {
                let fails = match self.strict {
                    true => Severity::Warning,
                    false => Severity::Error,
                };
                output::data(&junit("validate", findings, Some(fails), detail))?;
            }
            _ => return Ok(output::diagnostics(loaded, detail)),
        }
        Ok(String::new())
    }
}

pub(super) fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let mut loaded = load(&arguments.files.location());
    // A folder of policy tests is for `policy test` alone: a plan of it is refused.
    let has_cases = !loaded.desired.rule_cases.is_empty();
    loaded
        .findings
        .retain(|finding| !has_cases || finding.rule != EMPTY);
    if !loaded.has_errors() {
        loaded.findings.extend(check::advice(&loaded.desired));
        loaded.findings.sort();
    }
    let verdict = arguments.verdict(&loaded);
    let diagnostics = arguments.print(&loaded, verdict, common.detail())?;
    match verdict {
        Verdict::Invalid => return Err(Failure::Invalid(diagnostics)),
        Verdict::WithWarnings => {
            return Err(Failure::WithWarnings(
                diagnostics,
                count(loaded.warnings(), "warning"),
            ));
        }
        Verdict::Valid if arguments.output != Format::Human => {
            output::talk(&diagnostics);
            return Ok(ExitStatus::Done);
        }
        Verdict::Valid => output::talk(&diagnostics),
    }
    let (pools, pins) = (
        count(loaded.desired.pools.len(), "pool"),
        count(loaded.desired.pins.len(), "pin"),
    );
    let mut counts = vec![pools, pins];
    let (balancers, services) = (
        loaded.desired.address_pools.len(),
        loaded.desired.service_pins.len(),
    );
    if balancers + services > 0 {
        counts.push(count(balancers, "LoadBalancer pool"));
        counts.push(count(services, "Service pin"));
    }
    let cases = loaded.desired.rule_cases.len();
    if cases > 0 {
        counts.push(count(cases, "rule case"));
    }
    let subnets = loaded.desired.neutron_pools.len();
    if subnets > 0 {
        counts.push(count(subnets, "Neutron subnet"));
        output::talk(
            "Neutron was not read: run `plan` to check whether other pools overlap a subnet.\n",
        );
    }
    output::human(&format!(
        "valid: {}, {}\n",
        counts.join(", "),
        count(loaded.warnings(), "warning")
    ))?;
    Ok(ExitStatus::Done)
}
