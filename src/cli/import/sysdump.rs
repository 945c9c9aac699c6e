//! `import --sysdump`: an archive of `cilium sysdump` in place of a cluster. It has no objects of some
//! kinds, which no inference needs.

use std::path::Path;

use crate::cli::Common;
use crate::cli::failure::Failure;
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_cluster::Sysdump;
use ipam_planner::proposal::Remark;

/// The flags, with the archive as their cluster.
///
/// # Errors
/// Fails if the file is not an archive.
pub(super) fn selected(archive: Option<&Path>, common: &Common) -> Result<Common, Failure> {
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
        cluster_file: Some(archive.to_owned()),
        ..common.clone()
    })
}

/// Takes away the blind spots that every archive has, for a remark. Others remain.
pub(super) fn take_uncollected(common: &Common, observed: &mut Observed) -> Option<Remark> {
    let archive = common.cluster_file.as_deref()?;
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
        kind => kind.resource(),
    });
    Some(Remark::NotCollected(resources.collect()))
}
