//! `explain`: why a node has its block, what a pool has left, which object has an address, which
//! pool a Service can use.

use super::failure::Failure;
use super::files::Files;
use super::reading::read;
use super::{Common, ExitStatus, Format, output};
use crate::render::explanation;
use ipam_cluster::Extent;
use ipam_controller::{Job, Scope};
use ipam_planner::explain::explain;

/// Explain a node, a pool, an address, a CIDR or a Service: every pool that was considered, and the
/// rule that decided.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A node or a pool by its name, also as `node/NAME` or `pool/NAME`; an address; a CIDR; or a
    /// Service as NAMESPACE/NAME.
    #[arg(value_name = "NODE|POOL|ADDRESS|CIDR|SERVICE")]
    subject: String,
    #[command(flatten)]
    files: Files,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let (loaded, observed) = read(
        arguments.files.location(),
        common,
        Extent::Examination,
        Scope::Subnets,
    )
    .await?;
    let Some(observed) = observed else {
        return Err(Failure::Invalid(output::diagnostics(
            &loaded,
            common.detail(),
        )));
    };
    let plan = Job::files(&loaded).plan(&observed);
    let explained = explain(&arguments.subject, &loaded.desired, &observed, &plan);
    let explained = explained.map_err(|error| Failure::Failed(error.to_string()))?;
    match arguments.output {
        Format::Json => output::json(&explained)?,
        Format::Human => output::data(&explanation(&explained))?,
    }
    Ok(ExitStatus::Done)
}
