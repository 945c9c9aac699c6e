//! The cluster that the flags select, read at the same time as the files, and then the subnets of
//! Neutron that the files name.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::failure::Failure;
use super::{Common, output};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_cluster::live::{LiveCluster, SentRequest, kubeconfig_has_cluster};
use ipam_cluster::{
    Cluster, ClusterError, Extent, FileCluster, LeaseName, ListVisitor, LockSeen, Moment, Opening,
    Seen, Sysdump, Write, WriteError, Written, observe, observe_files,
};
use ipam_config::source::Location;
use ipam_controller::{Loaded, Scope, load};

/// Where the flags say that the cluster is.
pub(super) enum Place<'c> {
    /// One cluster in one or more files.
    Files(&'c [PathBuf]),
    Sysdump(&'c Path),
    Live,
}

impl Place<'_> {
    pub(super) fn of(common: &Common) -> Result<Place<'_>, Failure> {
        let paths = &common.cluster_files[..];
        let mut names = paths.iter().filter_map(|path| path.to_str());
        if let Some(name) = names.find(|name| is_name_of_kubeconfig(name)) {
            return Err(Failure::Failed(format!(
                "there is no file `{name}`, but the kubeconfig has a cluster of this name: --cluster-file takes a file; select a live cluster with --context"
            )));
        }
        let archive = paths.iter().find(|path| Sysdump::is_archive(path));
        match (paths, archive) {
            ([], _) => Ok(Place::Live),
            (_, None) => Ok(Place::Files(paths)),
            ([_], Some(archive)) => Ok(Place::Sysdump(archive)),
            (_, Some(archive)) => Err(Failure::Failed(format!(
                "{} is a zip archive, and a sysdump is a whole cluster: name no other file with --cluster-file",
                archive.display()
            ))),
        }
    }
}

pub(super) enum Target {
    File(Box<FileCluster>),
    Sysdump(Box<Sysdump>),
    Live(LiveCluster),
}

impl Target {
    pub(super) async fn open(common: &Common, opening: Opening) -> Result<Target, Failure> {
        Target::at(Place::of(common)?, common, opening).await
    }

    pub(super) async fn at(
        place: Place<'_>,
        common: &Common,
        opening: Opening,
    ) -> Result<Target, Failure> {
        Ok(match place {
            Place::Files(paths) => {
                let cluster = match (opening, paths) {
                    (Opening::Read, _) => FileCluster::union(paths)?,
                    (Opening::Write, [path]) => FileCluster::open(path, opening)?,
                    (Opening::Write, _) => return Err(several(common)),
                };
                Target::File(Box::new(
                    cluster.with_cilium_in(common.cilium_namespace.clone()),
                ))
            }
            Place::Sysdump(path) => sysdump(path, opening, common)?,
            Place::Live => Target::Live(live(common, common.retry_timeout).await?),
        })
    }
}

/// A write has one file: no rule says which of several files gets a new object.
fn several(common: &Common) -> Failure {
    Failure::Failed(format!(
        "apply writes one cluster file, and --cluster-file names {}; nothing was written: join them with `cilium-ipam snapshot{} --out cluster.json`, then apply to that file",
        common.cluster_files.len(),
        common.flags()
    ))
}

/// The cluster of an archive. No command writes to it.
fn sysdump(path: &Path, opening: Opening, common: &Common) -> Result<Target, Failure> {
    match opening {
        Opening::Read => {
            let cluster = Sysdump::open(path)?;
            let cluster = cluster.with_cilium_in(common.cilium_namespace.clone());
            Ok(Target::Sysdump(Box::new(cluster)))
        }
        Opening::Write => Err(Failure::Failed(format!(
            "{} is a zip archive, and a sysdump is read-only: apply to the cluster itself",
            path.display()
        ))),
    }
}

/// Whether a user of kubectl's `--cluster` means this name.
fn is_name_of_kubeconfig(name: &str) -> bool {
    !Path::new(name).exists() && kubeconfig_has_cluster(name)
}

/// The live cluster that the flags select.
pub(super) async fn live(
    common: &Common,
    patience: SignedDuration,
) -> Result<LiveCluster, Failure> {
    let cluster = LiveCluster::connect(common.connection(patience)).await?;
    Ok(match common.verbose {
        true => cluster.reporting(print_request),
        false => cluster,
    })
}

fn print_request(request: &SentRequest<'_>) {
    let SentRequest {
        method,
        path,
        outcome,
        took,
    } = request;
    output::request(method, path, outcome, *took);
}

/// The answer of the cluster, of whatever kind it is.
macro_rules! each {
    ($target:expr, $cluster:ident => $answer:expr) => {
        match $target {
            Target::File($cluster) => $answer,
            Target::Sysdump($cluster) => $answer,
            Target::Live($cluster) => $answer,
        }
    };
}

impl Cluster for Target {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        each!(self, cluster => cluster.list(kind, namespace, moment, visitor).await)
    }

    fn cilium_namespace(&self) -> Option<&str> {
        each!(self, cluster => cluster.cilium_namespace())
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        each!(self, cluster => cluster.write(write).await)
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        each!(self, cluster => cluster.lock(name).await)
    }

    fn now(&self) -> Timestamp {
        each!(self, cluster => cluster.now())
    }
}

/// Reads the files, and the cluster. The cluster is `None` if the files have errors: those are
/// reported first.
pub(super) async fn read(
    location: Location,
    common: &Common,
    extent: Extent,
    scope: Scope,
) -> Result<(Loaded, Option<Observed>), Failure> {
    read_beside(move || load(&location), common, extent, scope).await
}

/// As [`read`]. Fails with the diagnostics if the files have errors.
pub(super) async fn read_valid(
    location: Location,
    common: &Common,
    extent: Extent,
    scope: Scope,
) -> Result<(Loaded, Observed), Failure> {
    match read(location, common, extent, scope).await? {
        (loaded, Some(observed)) => Ok((loaded, observed)),
        (loaded, None) => Err(Failure::invalid(&loaded, common.detail())),
    }
}

/// As [`read`], with another way to read the files.
pub(super) async fn read_beside(
    load: impl FnOnce() -> Loaded + Send + 'static,
    common: &Common,
    extent: Extent,
    scope: Scope,
) -> Result<(Loaded, Option<Observed>), Failure> {
    let mut loading = tokio::task::spawn_blocking(load);
    let mut observing = std::pin::pin!(read_cluster(common, extent));
    let (loaded, observed) = tokio::select! {
        loaded = &mut loading => (loaded, None),
        observed = &mut observing => (loading.await, Some(observed)),
    };
    let loaded = loaded.or_else(Failure::from_panic)?;
    if loaded.has_errors() {
        return Ok((loaded, None));
    }
    let observed = match observed {
        Some(observed) => observed,
        None => observing.await,
    };
    let mut observed = observed?;
    let openstack = common.openstack_for(&loaded.desired, scope).await?;
    openstack.observe_into(&loaded.desired, &mut observed).await;
    Ok((loaded, Some(observed)))
}

/// Reads the cluster that the flags select.
pub(super) async fn read_cluster(common: &Common, extent: Extent) -> Result<Observed, Failure> {
    match Place::of(common)? {
        Place::Files(paths) => {
            Ok(observe_files(paths, extent, common.cilium_namespace.as_deref()).await?)
        }
        place @ (Place::Sysdump(_) | Place::Live) => {
            let cluster = Target::at(place, common, Opening::Read).await?;
            Ok(observe(&cluster, extent).await?)
        }
    }
}
