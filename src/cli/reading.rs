//! Reads the files and the cluster at the same time, and then the subnets of Neutron that the files
//! name.

use super::Common;
use super::failure::Failure;
use super::target::{Place, Target};
use ipam_cilium::observed::Observed;
use ipam_cluster::{Extent, Opening, observe, observe_file};
use ipam_config::source::Location;
use ipam_controller::{Loaded, Scope, load};

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
        Place::File(path) => {
            Ok(observe_file(path, extent, common.cilium_namespace.as_deref()).await?)
        }
        place @ (Place::Sysdump(_) | Place::Live) => {
            let cluster = Target::at(place, common, Opening::Read).await?;
            Ok(observe(&cluster, extent).await?)
        }
    }
}
