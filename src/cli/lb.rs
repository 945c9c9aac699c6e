//! `lb freeze` and `lb thaw`: pins of LoadBalancer addresses as files, written and removed.

mod freeze;
mod report;
mod thaw;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

use super::failure::Failure;
use super::new_files::{NewFile, trial};
use super::target::read_valid;
use super::{Common, ExitStatus, Format, completions};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_cluster::{ClusterError, Extent};
use ipam_config::source::Location;
use ipam_controller::{Loaded, Scope};
use ipam_core::model::ServiceName;
use ipam_import::freeze::Frozen;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a pin for every LoadBalancer address that is held and not pinned yet.
    ///
    /// Writes one ServiceAssignment for each Service, of both families, as
    /// DIR/frozen/NAMESPACE/NAME.yaml. Plans the files before it writes them: if the plan changes
    /// anything but the annotations of these Services, or moves an address, nothing is written.
    /// Never overwrites a file. If a file is different, it prints the difference and exits with 1. If
    /// an address stays without a pin, it says why and exits with 2.
    Freeze(Flags),
    /// Remove the pins that `lb freeze` wrote.
    ///
    /// Removes the files below DIR/frozen that are as `lb freeze` wrote them. Services keep their
    /// addresses, and their annotations: prints the commands that remove those. If the plan would
    /// move an address, no file is removed.
    Thaw(Flags),
}

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// The directory of pools, pins and policy.
    #[arg(value_name = "DIR", default_value = "pools", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// Only this Service. For several Services, give it several times. Default: all.
    #[arg(long = "service", value_name = "NAMESPACE/NAME", add = completions::services())]
    services: Vec<ServiceName>,
    /// Print what would be written or removed, and change no file.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    match &arguments.command {
        Command::Freeze(flags) => freeze::run(flags, common).await,
        Command::Thaw(flags) => thaw::run(flags, common).await,
    }
}

impl Flags {
    fn frozen(&self) -> Frozen {
        match &self.services[..] {
            [] => Frozen::All,
            names => Frozen::These(names.iter().cloned().collect()),
        }
    }

    fn has(&self, service: &ServiceName) -> bool {
        self.services.is_empty() || self.services.contains(service)
    }

    /// The files, and the cluster with all its Services and pools.
    async fn read(&self, common: &Common) -> Result<(Loaded, Observed), Failure> {
        let location = Location::from(&*self.directory);
        let read = read_valid(location, common, Extent::Plan, Scope::Subnets).await;
        let (loaded, observed) = read.map_err(Failure::unwritten)?;
        for kind in [ObservedKind::Service, ObservedKind::LoadBalancerPool] {
            if let Some(spot) = observed.blind_spot(kind) {
                return Err(Failure::Cluster(ClusterError::Indispensable {
                    resource: kind.resource(),
                    message: spot.why.clone(),
                }));
            }
        }
        Ok((loaded, observed))
    }

    /// Fails if a Service is neither in the cluster nor in the files.
    fn refuse_unknown(&self, known: &BTreeSet<&ServiceName>) -> Result<(), Failure> {
        match self.services.iter().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(unknown) => Err(Failure::Failed(format!(
                "there is no LoadBalancer Service `{unknown}`; `cilium-ipam show lb` lists them"
            ))),
        }
    }
}

/// The loaded documents, with further files and without some.
fn changed(
    loaded: &Loaded,
    more: &[NewFile],
    without: &BTreeSet<String>,
    common: &Common,
) -> Result<Loaded, Failure> {
    let kept = loaded.documents.files.iter();
    let kept = kept.filter(|file| !without.contains(&*file.path)).cloned();
    let files = kept.chain(more.iter().map(NewFile::source));
    trial::loaded(files, common.detail())
}
