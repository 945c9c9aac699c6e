//! `import`: writes files for a cluster that runs already, such that a plan of them is empty and no
//! block is misplaced.

mod comments;
mod existing;
mod foreign;
mod report;
mod settle;
mod yaml;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use self::foreign::Manager;
use self::report::{Imported, Report};
use self::settle::Settled;
use super::failure::Failure;
use super::init::refuse_unserved;
use super::target::read_cluster;
use super::{Common, ExitStatus, Format};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_cluster::{ClusterError, Extent, Sysdump};
use ipam_import::import::{ByLabel, Changes, ImportRequest, Objects, infer};
use ipam_import::proposal::Remark;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory to write.
    #[arg(value_name = "DIR", default_value = "pools", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// What to import.
    #[arg(long, value_enum, value_name = "SOURCE", default_value = "cluster")]
    from: Source,
    /// Import from this archive of `cilium sysdump`, instead of a live cluster.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cluster_files", "kubeconfig", "context", "objects"])]
    sysdump: Option<PathBuf>,
    /// Exported objects of the other address manager, as YAML or JSON. For several files, give it
    /// several times. Default: the objects of the cluster.
    #[arg(
        long = "objects",
        value_name = "FILE",
        conflicts_with_all = ["by_label", "adopt", "allow_changes"]
    )]
    objects: Vec<PathBuf>,
    /// The node label whose values get a pool each, such as `rack`; `none` for one pool. Default: a
    /// label whose values separate the held blocks.
    #[arg(long, value_name = "KEY", value_parser = by_label)]
    by_label: Option<ByLabel>,
    /// Adopt LoadBalancer pools and Pod pools that have no owner. The plan then writes their
    /// ownership label.
    #[arg(long)]
    adopt: bool,
    /// Write the files even if their plan has changes, such as blocks for nodes without one.
    #[arg(long)]
    allow_changes: bool,
    /// Print the files instead of writing them.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

/// What is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    /// Blocks, pools and settings of the cluster.
    Cluster,
    /// IPPools, block affinities and blocks of Calico.
    Calico,
    /// Pools, advertisements and Services of MetalLB.
    Metallb,
    /// ClusterCIDRs of node-ipam-controller.
    NodeIpamController,
}

fn by_label(text: &str) -> Result<ByLabel, String> {
    match text.trim() {
        "" => Err("name a label, such as `rack`, or `none`".to_owned()),
        "none" => Ok(ByLabel::None),
        key => Ok(ByLabel::Key(key.to_owned())),
    }
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    if let Some(manager) = arguments.manager()? {
        return foreign::run(manager, arguments, common).await;
    }
    let common = &selected(arguments.sysdump.as_deref(), common)?;
    let mut observed = read_cluster(common, Extent::Plan).await?;
    let uncollected = take_uncollected(common, &mut observed);
    refuse_half_read(&observed)?;
    if observed.address_pools.is_empty() {
        refuse_unserved(&observed)?;
    }
    let request = arguments.request();
    let mut inferred =
        infer(&observed, &request).map_err(|obstacle| Failure::Failed(obstacle.to_string()))?;
    inferred.remarks.extend(uncollected);
    let settled = Settled::of(arguments, inferred, &observed, &request, common.detail())?;
    let report = Report {
        arguments,
        common,
        imported: Imported::Cluster(&settled.inferred),
        files: &settled.files,
        trial: Some(&settled.trial),
    };
    report.finish()
}

/// Fails if a kind could not be read: the files would omit what it has.
fn refuse_half_read(observed: &Observed) -> Result<(), Failure> {
    match observed.hidden_users() {
        None => Ok(()),
        Some(spot) => Err(Failure::Cluster(ClusterError::Indispensable {
            resource: spot.kind.resource(),
            message: spot.why.clone(),
        })),
    }
}

/// The flags, with the archive as their cluster.
///
/// # Errors
/// Fails if the file is not an archive.
fn selected(archive: Option<&Path>, common: &Common) -> Result<Common, Failure> {
    let Some(archive) = archive else {
        return Ok(common.clone());
    };
    if archive.exists() && !Sysdump::is_archive(archive) {
        return Err(Failure::Failed(format!(
            "{} is not a zip archive as `cilium sysdump` writes it. For a List of objects, use --cluster-file",
            archive.display()
        )));
    }
    Ok(Common {
        cluster_files: vec![archive.to_owned()],
        ..common.clone()
    })
}

/// Takes away the blind spots that every archive has, for a remark. Others remain.
fn take_uncollected(common: &Common, observed: &mut Observed) -> Option<Remark> {
    let archive = common.cluster_files.first()?;
    if !Sysdump::is_archive(archive) {
        return None;
    }
    let spots = std::mem::take(&mut observed.blind_spots);
    let (collected, others): (Vec<_>, Vec<_>) = spots
        .into_iter()
        .partition(|spot| Sysdump::collects(spot.kind));
    observed.blind_spots = collected;
    let resources = others.iter().map(|spot| match spot.kind {
        ObservedKind::Claims => "claims of cilium-ipam",
        ObservedKind::Migration => "record of a migration",
        ObservedKind::Departed(_) => "blocks of deleted nodes",
        kind => kind.resource(),
    });
    Some(Remark::NotCollected(resources.collect()))
}

impl Arguments {
    /// The other address manager; `None` for the cluster itself.
    fn manager(&self) -> Result<Option<Manager>, Failure> {
        let manager = match self.from {
            Source::Cluster if self.objects.is_empty() => return Ok(None),
            Source::Cluster => {
                return Err(Failure::Failed(
                    "--objects needs --from with another address manager, such as `--from calico`"
                        .to_owned(),
                ));
            }
            Source::Calico => Manager::Calico,
            Source::Metallb => Manager::MetalLb,
            Source::NodeIpamController => Manager::NodeIpamController,
        };
        let only_for_a_cluster = [
            ("--sysdump", self.sysdump.is_some()),
            ("--by-label", self.by_label.is_some()),
            ("--adopt", self.adopt),
            ("--allow-changes", self.allow_changes),
        ];
        match only_for_a_cluster.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(Failure::Failed(format!(
                "{flag} is for the cluster itself, without --from"
            ))),
            None => Ok(Some(manager)),
        }
    }

    fn request(&self) -> ImportRequest {
        ImportRequest {
            by_label: self.by_label.clone().unwrap_or_default(),
            objects: match self.adopt {
                true => Objects::Adopted,
                false => Objects::Left,
            },
            changes: match self.allow_changes {
                true => Changes::Allowed,
                false => Changes::Refused,
            },
        }
    }
}
