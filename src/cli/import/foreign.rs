//! `import --from calico`, `--from metallb` and `--from node-ipam-controller`: writes files from the
//! objects of another address manager, in the cluster or exported. Every remark is a comment in the
//! files.

mod kinds;
mod yaml;

use std::path::Path;

use self::kinds::Listed;
use super::Arguments;
use super::report::{Imported, Report};
use super::settle::Trial;
use crate::cli::failure::Failure;
use crate::cli::new_files::{NewFile, trial};
use crate::cli::target::read_cluster;
use crate::cli::{Common, ExitStatus, output};
use crate::render::printable;
use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterError, Extent};
use ipam_controller::Job;
use ipam_import::import::foreign::{Amended, ForeignPools, calico, metallb, node_ipam_controller};

/// Another program that gives addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manager {
    Calico,
    MetalLb,
    NodeIpamController,
}

impl Manager {
    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Manager::Calico => "Calico",
            Manager::MetalLb => "MetalLB",
            Manager::NodeIpamController => "node-ipam-controller",
        }
    }

    /// The end of its API groups.
    fn group(self) -> &'static str {
        match self {
            Manager::Calico => "projectcalico.org",
            Manager::MetalLb => "metallb.io",
            Manager::NodeIpamController => "networking.x-k8s.io",
        }
    }

    /// The command that exports its objects. Callers put it into backticks, so a text with a second
    /// command closes and opens them in between.
    fn export(self) -> &'static str {
        match self {
            Manager::Calico => {
                "kubectl get ippools.crd.projectcalico.org,blockaffinities.crd.projectcalico.org,ipamblocks.crd.projectcalico.org,ipreservations.crd.projectcalico.org,ipamconfigs.crd.projectcalico.org,services --all-namespaces -o yaml > calico.yaml`, or the same with `projectcalico.org` instead of `crd.projectcalico.org` if the cluster serves only that group: `kubectl api-resources | grep projectcalico.org"
            }
            Manager::MetalLb => {
                "kubectl get ipaddresspools.metallb.io,l2advertisements.metallb.io,bgpadvertisements.metallb.io,bgppeers.metallb.io,communities.metallb.io,services --all-namespaces -o yaml > metallb.yaml"
            }
            Manager::NodeIpamController => {
                "kubectl get clustercidrs.networking.x-k8s.io -o yaml > clustercidrs.yaml"
            }
        }
    }
}

pub(super) async fn run(
    manager: Manager,
    arguments: &Arguments,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let (mut found, observed) = read(manager, arguments, common).await?;
    let (files, trial) = files(manager, arguments, common, &mut found, observed.as_ref())?;
    let report = Report {
        arguments,
        common,
        imported: Imported::Foreign(manager, &found),
        files: &files,
        trial: trial.as_ref(),
    };
    report.finish()
}

/// The pools of the other manager, and the cluster.
async fn read(
    manager: Manager,
    arguments: &Arguments,
    common: &Common,
) -> Result<(ForeignPools, Option<Observed>), Failure> {
    let listed = match (&arguments.objects[..], &common.cluster_files[..]) {
        ([], []) => kinds::list(manager, common).await?,
        // A cluster file may have the objects, too.
        ([], files) | (files, _) => Listed::from(kinds::read(files)?),
    };
    let mut found = match manager {
        Manager::Calico => calico(&listed.objects),
        Manager::MetalLb => metallb(&listed.objects),
        Manager::NodeIpamController => node_ipam_controller(&listed.objects),
    };
    if arguments.objects.is_empty() {
        found.omit_unread_of_others(manager.group());
    }
    for (resource, why) in &listed.unread {
        found.unread(resource, why);
    }
    refuse_nothing(manager, &found)?;
    Ok((found, observe(common).await?))
}

/// The files and their plan. Nodes that a plan would find misplaced are pinned, where the manager
/// records no blocks by itself.
fn files(
    manager: Manager,
    arguments: &Arguments,
    common: &Common,
    found: &mut ForeignPools,
    observed: Option<&Observed>,
) -> Result<(Vec<NewFile>, Option<Trial>), Failure> {
    let (directory, detail) = (&*arguments.directory, common.detail());
    loop {
        let files = yaml::files(directory, manager, found, observed)?;
        let is_planned = |file: &&NewFile| !is_hidden(directory, &file.path);
        let loaded = trial::loaded(files.iter().filter(is_planned).map(NewFile::source), detail)?;
        let Some(observed) = observed else {
            return Ok((files, None));
        };
        let plan = Job::files(&loaded).plan(observed);
        if manager == Manager::NodeIpamController
            && (found.pin_misplaced(&plan.misplaced, observed) == Amended::Yes
                || found.name_misplaced(&plan.misplaced) == Amended::Yes)
        {
            continue;
        }
        let trial = Trial::new(directory, &plan, &loaded, plan.blocked.iter(), detail);
        return Ok((files, Some(trial)));
    }
}

fn refuse_nothing(manager: Manager, found: &ForeignPools) -> Result<(), Failure> {
    if !found.pools.is_empty() || !found.address_pools.is_empty() {
        return Ok(());
    }
    let mut text = format!(
        "there is no pool of {} that can be imported; nothing was written. To export its objects for --objects, run `{}`",
        manager.name(),
        manager.export()
    );
    for remark in &found.remarks {
        text += &format!("\n  {remark}");
    }
    Err(Failure::Failed(text))
}

/// The cluster; `None` if no flag names one and there is no usable answer.
async fn observe(common: &Common) -> Result<Option<Observed>, Failure> {
    match read_cluster(common, Extent::Plan).await {
        Ok(observed) => {
            super::refuse_half_read(&observed)?;
            Ok(Some(observed))
        }
        Err(Failure::Cluster(
            error @ (ClusterError::Unreachable(_) | ClusterError::Credentials(_)),
        )) if !common.names_a_cluster() => {
            output::warn(&printable(&format!(
                "{error}; the files are validated, but not planned"
            )));
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// Whether a plan of the directory does not read the file.
fn is_hidden(directory: &Path, path: &Path) -> bool {
    let inside = path.strip_prefix(directory).unwrap_or(path);
    let mut parts = inside.iter();
    parts.any(|part| part.to_string_lossy().starts_with('.'))
}
