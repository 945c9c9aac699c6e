//! Reads the files and the cluster at the same time, so that neither waits for the other; and then
//! what Neutron says of the subnets in the files.

use super::Common;
use super::failure::Failure;
use ipam_cilium::observed::Observed;
use ipam_cluster::{Extent, Opening, observe};
use ipam_config::source::Location;
use ipam_controller::{Loaded, Reach, load};

/// The files, and the cluster where the files have no errors. Of what is wrong with both, the files
/// are told about first.
pub(super) async fn read(
    location: Location,
    common: &Common,
    extent: Extent,
    reach: Reach,
) -> Result<(Loaded, Option<Observed>), Failure> {
    let mut loading = tokio::task::spawn_blocking(move || load(&location));
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
    let openstack = common.openstack_for(&loaded.desired, reach).await?;
    openstack.see(&loaded.desired, &mut observed).await;
    Ok((loaded, Some(observed)))
}

/// The cluster that the flags name.
pub(super) async fn read_cluster(common: &Common, extent: Extent) -> Result<Observed, Failure> {
    let cluster = common.target(Opening::Read).await?;
    Ok(observe(&cluster, extent).await?)
}
