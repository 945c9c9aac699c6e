//! `version`: prints the version of `cilium-ipam` and of its formats.

use serde::Serialize;

use super::failure::Failure;
use super::{ExitStatus, Format, output};
use ipam_plan::plan;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

/// Versions of everything that this program writes and another one may read.
#[derive(Serialize)]
struct Versions {
    version: &'static str,
    /// Saved plans, and the JSON of `plan`.
    plan_format: &'static str,
    /// Claims in the cluster.
    claims_format: &'static str,
    /// Files and custom resources.
    api_version: &'static str,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let versions = Versions {
        version: env!("CARGO_PKG_VERSION"),
        plan_format: plan::FORMAT_VERSION,
        claims_format: ipam_core::claims::FORMAT_VERSION,
        api_version: ipam_config::documents::API_VERSION,
    };
    match arguments.output {
        Format::Json => output::json(&versions)?,
        _ => {
            let Versions {
                version,
                plan_format,
                claims_format,
                api_version,
            } = versions;
            output::human(&format!(
                "cilium-ipam {version}\nplan format {plan_format}\nclaims format {claims_format}\nAPI version {api_version}\n"
            ))?;
        }
    }
    Ok(ExitStatus::Done)
}
