//! `doctor`: reports problems of the cluster, their impact and how to fix them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::failure::Failure;
use super::files::Revision;
use super::target::read_cluster;
use super::{Common, ExitStatus, Format, output};
use crate::render::{ExaminationDocument, examination, examination_markdown, junit, sarif};
use ipam_cilium::observed::{Evidence, Observed};
use ipam_cluster::Extent;
use ipam_controller::{Loaded, Scope, load};
use ipam_core::model::{CiliumVersion, Finding, IpamMode, Severity};
use ipam_desired::Desired;
use ipam_doctor::doctor::{RouteDump, conclusions, examine};
use ipam_plan::check::files_in_cluster;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy. Default: `pools` if it exists; otherwise only the
    /// cluster is examined.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Examine only the cluster, even if `pools` exists.
    #[arg(long, conflicts_with_all = ["directory", "revision"])]
    no_pools: bool,
    #[command(flatten)]
    revision: Revision,
    /// Output format.
    #[arg(long, short, value_parser = Format::among(&[Format::Human, Format::Json, Format::Sarif, Format::Junit, Format::Markdown, Format::Html]), default_value = "human")]
    output: Format,
    /// Exit with 2 if there is a finding of at least this severity.
    #[arg(long, value_enum, default_value = "error")]
    fail_on: FailOn,
    /// Routes of an FRR router, as `vtysh -c 'show bgp ipv4 unicast json'` prints them. Repeatable.
    #[arg(long = "rib", value_name = "FILE")]
    route_dump: Vec<PathBuf>,
    /// Version of the running Cilium, such as `1.15.19`. Default: detected.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    cilium_version: Option<CiliumVersion>,
    /// IPAM mode of the running Cilium. Default: detected.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    ipam: Option<IpamMode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Error,
    Warning,
    Info,
    Never,
}

fn version(text: &str) -> Result<CiliumVersion, String> {
    text.parse()
        .map_err(|()| "not a version, such as 1.15.19".to_owned())
}

fn mode(text: &str) -> Result<IpamMode, String> {
    text.parse().map_err(|()| {
        "not an IPAM mode of Cilium, such as kubernetes, cluster-pool or multi-pool".to_owned()
    })
}

impl FailOn {
    /// The lowest severity that fails.
    fn severity(self) -> Option<Severity> {
        match self {
            FailOn::Error => Some(Severity::Error),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::Info => Some(Severity::Info),
            FailOn::Never => None,
        }
    }
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let ribs = arguments
        .route_dump
        .iter()
        .map(|path| route_dump(path))
        .collect::<Result<Vec<RouteDump>, Failure>>()?;
    let directory = arguments.revision.usual(arguments.directory.as_deref());
    let directory = directory.filter(|_| !arguments.no_pools);
    let loaded = directory.map(|directory| load(&arguments.revision.of(directory)));
    let overrides = |observed: &mut Observed| arguments.override_conclusions(observed);
    let (observed, findings) = examined(loaded.as_ref(), &ribs, overrides, common).await?;
    let place = directory
        .or(common.cluster_files.first().map(PathBuf::as_path))
        .unwrap_or(Path::new("pools"));
    arguments.report(&observed, &findings, place, common)?;
    let fails = |finding: &Finding| {
        arguments
            .fail_on
            .severity()
            .is_some_and(|least| finding.severity <= least)
    };
    Ok(if findings.iter().any(fails) {
        ExitStatus::Findings
    } else {
        ExitStatus::Done
    })
}

/// Reads the cluster, and examines it beside the files. Files with errors are reported, and the
/// cluster is examined without them.
pub(super) async fn examined(
    loaded: Option<&Loaded>,
    ribs: &[RouteDump],
    overrides: impl FnOnce(&mut Observed),
    common: &Common,
) -> Result<(Observed, Vec<Finding>), Failure> {
    let mut observed = read_cluster(common, Extent::Examination).await?;
    overrides(&mut observed);
    let desired: Option<&Desired> = loaded
        .filter(|loaded| !loaded.has_errors())
        .map(|loaded| &loaded.desired);
    if let Some(desired) = desired {
        common
            .openstack(Scope::Ports)
            .observe_into(desired, &mut observed)
            .await;
    }
    let mut findings = examine(desired, &observed, ribs);
    let of_files = loaded.map_or_else(Vec::new, |loaded| loaded.findings.clone());
    findings.extend(match desired {
        Some(desired) => files_in_cluster(of_files, desired, &observed),
        None => of_files,
    });
    findings.sort();
    findings.dedup();
    Ok((observed, findings))
}

fn route_dump(path: &Path) -> Result<RouteDump, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("{name} cannot be read: {error}")))?;
    RouteDump::parse(&name, &text).map_err(|error| Failure::Failed(error.to_string()))
}

impl Arguments {
    fn override_conclusions(&self, observed: &mut Observed) {
        if let Some(version) = self.cilium_version {
            observed.cilium.version = Some((version, Evidence::Flag));
            observed.cilium.operator_versions = BTreeSet::from([Some(version)]);
        }
        observed.cilium.mode_override = self.ipam;
    }

    fn report(
        &self,
        observed: &Observed,
        findings: &[Finding],
        place: &Path,
        common: &Common,
    ) -> Result<(), Failure> {
        let detail = common.detail();
        let conclusions = conclusions(observed);
        match self.output {
            Format::Markdown | Format::Html => {
                let header = common.report_header(Some(observed));
                output::page(self.output, "Doctor", &header, detail, |detail, limit| {
                    examination_markdown(&conclusions, findings, detail, limit)
                })?;
            }
            Format::Json => {
                output::json(&ExaminationDocument::new(&conclusions, findings, detail))?
            }
            Format::Sarif => output::json(&sarif(findings, &place.display().to_string(), detail))?,
            Format::Junit => {
                output::data(&junit("doctor", findings, self.fail_on.severity(), detail))?;
            }
            _ => output::human(&examination(&conclusions, findings, detail))?,
        }
        Ok(())
    }
}
