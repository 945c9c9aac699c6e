//! `explain`: why a node has its block, what a pool has left, which object has an address, which
//! pool a Service can use, whether two Services share an address.

use super::completions;
use super::failure::Failure;
use super::files::Files;
use super::target::read_valid;
use super::{Common, ExitStatus, Format, output};
use crate::render::{diagnostics, explanation};
use ipam_cluster::Extent;
use ipam_config::source::Location;
use ipam_controller::{Job, Loaded, Scope};
use ipam_core::model::{Finding, ServiceName};
use ipam_doctor::explain::{Explanation, explain, explain_sharing};
use ipam_plan::check::{about_blocks, about_services};
use ipam_plan::plan::Selected;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A node or a pool by its name, also as `node/NAME` or `pool/NAME`; an address; a CIDR; or a
    /// Service as NAMESPACE/NAME.
    #[arg(value_name = "NODE|POOL|ADDRESS|CIDR|SERVICE", add = completions::objects())]
    subject: String,
    /// Explain whether the Service shares an address with this one, and why not.
    #[arg(long, value_name = "NAMESPACE/NAME", add = completions::services())]
    with: Option<ServiceName>,
    #[command(flatten)]
    files: Files,
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let location = arguments.files.location();
    let explained = explained(
        &arguments.subject,
        arguments.with.as_ref(),
        location,
        common,
    )
    .await?;
    match arguments.output {
        Format::Json => output::json(&explained)?,
        _ => output::data(&explanation(&explained))?,
    }
    Ok(ExitStatus::Done)
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
