//! `import --from calico` and `--from metallb`: writes files from exported objects of another
//! address manager. Every remark is a comment in the files.

mod objects;
mod report;
mod yaml;

use std::path::Path;

use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterError, Extent};
use ipam_controller::Job;
use ipam_planner::import::foreign::{ForeignPools, calico, metallb};
use ipam_planner::plan::PlanDocument;

use self::report::Report;
use super::Arguments;
use super::existing::{self, Existing};
use super::settle;
use crate::cli::failure::Failure;
use crate::cli::init::new_files::{NewFile, write_all};
use crate::cli::output;
use crate::cli::reading::read_cluster;
use crate::cli::{Common, ExitStatus};
use crate::render::{Detail, printable};

/// Another program that gives addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manager {
    Calico,
    MetalLb,
}

impl Manager {
    /// Its name for people.
    fn name(self) -> &'static str {
        match self {
            Manager::Calico => "Calico",
            Manager::MetalLb => "MetalLB",
        }
    }

    /// The command that exports its objects.
    fn export(self) -> &'static str {
        match self {
            Manager::Calico => {
                "kubectl get ippools.crd.projectcalico.org,blockaffinities.crd.projectcalico.org,ipamblocks.crd.projectcalico.org,ipreservations.crd.projectcalico.org,ipamconfigs.crd.projectcalico.org -o yaml > calico.yaml"
            }
            Manager::MetalLb => {
                "kubectl get ipaddresspools.metallb.io,l2advertisements.metallb.io,bgpadvertisements.metallb.io,bgppeers.metallb.io,communities.metallb.io,services --all-namespaces -o yaml > metallb.yaml"
            }
        }
    }
}

/// The plan of the files for the cluster.
struct Trial {
    document: PlanDocument,
    /// Errors and warnings of the plan.
    diagnostics: String,
    /// Why nodes cannot get a block, each with the way out.
    blocked: Vec<String>,
}

pub(super) async fn run(
    manager: Manager,
    arguments: &Arguments,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let objects = objects::read(&arguments.objects)?;
    let found = match manager {
        Manager::Calico => calico(&objects),
        Manager::MetalLb => metallb(&objects),
    };
    refuse_nothing(manager, &found)?;
    let observed = observe(common).await?;
    let files = yaml::files(&arguments.directory, manager, &found, observed.as_ref())?;
    let trial = trial(arguments, &files, observed.as_ref(), common.detail())?;
    let existing = existing::compare(&arguments.directory, &files)?;
    if existing.allows(arguments) {
        write_all(&files)?;
    }
    let report = Report {
        manager,
        arguments,
        found: &found,
        files: &files,
        trial: trial.as_ref(),
        existing: &existing,
        common,
    };
    report.show()?;
    match existing {
        Existing::Different(_) => Err(Failure::Failed(format!(
            "{} differs from the import; nothing was written. Name another directory, such as a new one below it",
            arguments.directory.display()
        ))),
        Existing::None | Existing::Equal => {
            let errors = trial.map_or(0, |trial| trial.document.summary.errors);
            Ok(match errors {
                0 => ExitStatus::Done,
                _ => ExitStatus::Findings,
            })
        }
    }
}

fn refuse_nothing(manager: Manager, found: &ForeignPools) -> Result<(), Failure> {
    if !found.pools.is_empty() || !found.address_pools.is_empty() {
        return Ok(());
    }
    let mut text = format!(
        "no pool of {} can be imported from these files; nothing was written. To export them, run `{}`",
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

/// Validates the files, and plans them if there is a cluster.
fn trial(
    arguments: &Arguments,
    files: &[NewFile],
    observed: Option<&Observed>,
    detail: Detail,
) -> Result<Option<Trial>, Failure> {
    let is_planned = |file: &&NewFile| !is_hidden(&arguments.directory, &file.path);
    let loaded = settle::loaded(files.iter().filter(is_planned), detail)?;
    let Some(observed) = observed else {
        return Ok(None);
    };
    let plan = Job::files(&loaded).plan(observed);
    Ok(Some(Trial {
        document: settle::document(&arguments.directory, &plan, detail),
        diagnostics: settle::told(&plan, &loaded, detail),
        blocked: settle::blocked(&plan),
    }))
}

/// Whether a plan of the directory does not read the file.
fn is_hidden(directory: &Path, path: &Path) -> bool {
    let inside = path.strip_prefix(directory).unwrap_or(path);
    let mut parts = inside.iter();
    parts.any(|part| part.to_string_lossy().starts_with('.'))
}
