//! `upgrade`: what an upgrade of Cilium would change, hop by hop.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::files::Revision;
use super::target::read_cluster;
use super::{Common, ExitStatus, Format, output, valid};
use crate::render::{limit, upgrade as upgrade_text, upgrade_markdown};
use ipam_cilium::observed::{Evidence, Observed};
use ipam_cluster::Extent;
use ipam_config::documents::cilium_manifests;
use ipam_controller::load;
use ipam_core::model::CiliumVersion;
use ipam_doctor::upgrade::{Files, upgrade};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins, policy and other objects of Cilium: entries then name the lines
    /// to change. Default: `pools` if it exists.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Judge only the cluster, even if `pools` exists.
    #[arg(long, conflicts_with_all = ["directory", "revision"])]
    no_pools: bool,
    #[command(flatten)]
    revision: Revision,
    /// The version to upgrade to, such as `1.19.3`; or a minor release, such as `1.19`: then patch
    /// releases to avoid are named.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: CiliumVersion,
    /// The running version, if it cannot be detected.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    from: Option<CiliumVersion>,
    /// Output format.
    #[arg(long, short, value_parser = Format::report(), default_value = "human")]
    output: Format,
}

fn version(text: &str) -> Result<CiliumVersion, String> {
    text.parse()
        .map_err(|()| "not a version, such as 1.19.3 or 1.19".to_owned())
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let usual = Path::new("pools");
    let is_there = usual.is_dir() || arguments.revision.revision.is_some();
    let directory = arguments
        .directory
        .as_deref()
        .or_else(|| is_there.then_some(usual))
        .filter(|_| !arguments.no_pools);
    let loaded = match directory {
        Some(directory) => Some(valid(load(&arguments.revision.of(directory)), common)?),
        None => None,
    };
    let mut observed = read_cluster(common, Extent::Examination).await?;
    arguments.set_start(&mut observed)?;
    let manifests = loaded
        .as_ref()
        .map(|loaded| cilium_manifests(&loaded.documents))
        .unwrap_or_default();
    let files = Files {
        desired: loaded.as_ref().map(|loaded| &loaded.desired),
        manifests: &manifests,
    };
    let upgrade = upgrade(files, &observed, arguments.to)
        .map_err(|refused| Failure::Failed(refused.to_string()))?;
    let detail = common.detail();
    let document = |detail| upgrade.document(limit(detail));
    match arguments.output {
        Format::Json => output::json(&document(detail))?,
        Format::Markdown | Format::Html => {
            output::page(
                arguments.output,
                "Upgrade of Cilium",
                &common.report_header(Some(&observed)),
                detail,
                |detail, limit| upgrade_markdown(&document(detail), limit),
            )?;
        }
        _ => output::human(&upgrade_text(&document(detail)))?,
    }
    Ok(if upgrade.changes_something() {
        ExitStatus::ChangesPending
    } else if upgrade.unjudged.is_empty() {
        ExitStatus::Done
    } else {
        ExitStatus::Unreadable
    })
}

impl Arguments {
    /// Takes `--from` where the version is unknown, or where only its minor release is known.
    fn set_start(&self, observed: &mut Observed) -> Result<(), Failure> {
        let Some(from) = self.from else {
            return Ok(());
        };
        match observed.cilium.version {
            Some((seen, evidence)) if seen.patch.is_some() || seen.minor != from.minor => {
                Err(Failure::Failed(format!(
                    "Cilium {seen} runs, by the {evidence}: --from is only for a cluster whose version cannot be detected"
                )))
            }
            _ => {
                observed.cilium.version = Some((from, Evidence::Flag));
                Ok(())
            }
        }
    }
}
