//! `explain`: why a node has its block, what a pool has left, which object has an address, which
//! pool a Service can use, whether two Services share an address, what a code means.

use super::failure::Failure;
use super::files::Files;
use super::target::read_valid;
use super::{Common, ExitStatus, Format, completions, explain_code, output};
use crate::render::{diagnostics, explanation, printable};
use ipam_cluster::Extent;
use ipam_config::source::Location;
use ipam_controller::{Job, Loaded, Scope};
use ipam_core::model::{Finding, ServiceName};
use ipam_core::rules;
use ipam_doctor::explain::{Explanation, explain, explain_sharing};
use ipam_plan::check::{about_blocks, about_services};
use ipam_plan::plan::Selected;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A node or a pool by its name, also as `node/NAME` or `pool/NAME`; an address; a CIDR; a
    /// Service as NAMESPACE/NAME; or a code. Default: list all codes.
    #[arg(value_name = "NODE|POOL|ADDRESS|CIDR|SERVICE|CODE", add = completions::explained())]
    subject: Option<String>,
    /// Explain whether the Service shares an address with this one, and why not.
    #[arg(long, value_name = "NAMESPACE/NAME", add = completions::services())]
    with: Option<ServiceName>,
    #[command(flatten)]
    files: Files,
    /// Output format. `markdown` is for codes. Without a code, `json` and `markdown` have every page.
    #[arg(long, short, value_parser = Format::among(&[Format::Human, Format::Json, Format::Markdown]), default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let Arguments {
        subject,
        with,
        files,
        output,
    } = arguments;
    let Some(subject) = subject else {
        return explain_code::print_all(*output);
    };
    if let (Some(page), None) = (explain_code::page(subject), with) {
        return explain_code::print(page, *output);
    }
    if *output == Format::Markdown {
        return Err(Failure::Failed(format!(
            "`{}` is not a code, and `-o markdown` is for codes; `cilium-ipam explain` lists all",
            printable(subject)
        )));
    }
    let explained = explained(subject, with.as_ref(), files.location(), common).await;
    let explained = explained.inspect_err(|_| suggest_code(subject))?;
    match output {
        Format::Json => output::json(&explained)?,
        _ => output::human(&explanation(&explained))?,
    }
    Ok(ExitStatus::Done)
}

/// Names the code that a subject probably means, also if no cluster can be read.
fn suggest_code(subject: &str) {
    if let Some(code) = rules::nearest(subject) {
        output::warn(&format!(
            "a code has a similar name: `cilium-ipam explain {code}` shows its page"
        ));
    }
}

/// Reads the files and the cluster, and explains. `with` is another Service.
pub(super) async fn explained(
    subject: &str,
    with: Option<&ServiceName>,
    location: Location,
    common: &Common,
) -> Result<Explanation, Failure> {
    let (loaded, observed) =
        read_valid(location, common, Extent::Examination, Scope::Subnets).await?;
    let explained = match with {
        None => {
            let plan = Job::files(&loaded).plan(&observed);
            explain(subject, &loaded.desired, &observed, &plan)
        }
        Some(other) => explain_sharing(&service(subject)?, other, &loaded.desired, &observed),
    };
    let findings = match explained {
        Ok(ref explanation) if explanation.is_about_services() => {
            about_services(&loaded.desired, &observed)
        }
        _ => about_blocks(&loaded.desired, &observed),
    };
    warn(&findings, &loaded, common);
    explained.map_err(|error| Failure::Failed(error.to_string()))
}

/// Tells on stderr what makes the answer uncertain.
pub(super) fn warn(findings: &[Finding], loaded: &Loaded, common: &Common) {
    if !findings.is_empty() {
        output::talk(&diagnostics(findings, &loaded.documents, common.detail()));
    }
}

fn service(subject: &str) -> Result<ServiceName, Failure> {
    let selected = match subject.parse() {
        Ok(Selected::Service(name)) => Some(name),
        _ => None,
    };
    selected.or_else(|| subject.parse().ok()).ok_or_else(|| {
        Failure::Failed(
            "--with compares two Services: name the first one as NAMESPACE/NAME".to_owned(),
        )
    })
}
