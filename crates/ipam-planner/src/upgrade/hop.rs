//! One hop: the cluster as the release before reads it, and as the next one does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::addresses::{self, Told};
use super::change::{Changes, UpgradeChange, UpgradeCode};
use super::path::with_latest_patch;
use super::{
    Files, announcing, definitions, management, manifests, nodes, patches, pools, settings,
    write_path,
};
use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{Evidence, ModeSeen, Observed};
use ipam_cilium::releases::{Fault, latest_patch};
use ipam_core::model::{CiliumVersion, IpamMode, NodeName, ServiceName};
use ipam_core::net::Block;
use ipam_desired::{CiliumManifest, Desired};

pub(super) struct HopView<'d> {
    pub(super) desired: Option<&'d Desired>,
    pub(super) manifests: &'d [CiliumManifest],
    /// The Services as they were before the first hop. An address that is lost on the way may be
    /// kept by what the entry says, so later hops judge it as well.
    pub(super) original: &'d BTreeMap<ServiceName, LbService>,
    /// The version before; of a hop that is not the first, only the minor release counts.
    pub(super) from: CiliumVersion,
    /// As it was given, perhaps without a patch.
    pub(super) to: CiliumVersion,
    /// The cluster before the hop, read by the rules of the release before.
    pub(super) before: Observed,
    /// The same objects, read by the rules of the next release.
    pub(super) after: Observed,
}

/// Releases with one fault.
pub(super) struct BadReleases {
    pub(super) releases: Vec<CiliumVersion>,
    pub(super) last: CiliumVersion,
    is_latest: bool,
}

impl BadReleases {
    /// `code`, unless a later patch release has no such fault.
    pub(super) fn code(&self, code: UpgradeCode) -> UpgradeCode {
        match self.is_latest {
            true => code,
            false => UpgradeCode::PatchToAvoid,
        }
    }
}

/// The same objects under another release.
pub(super) fn at(observed: &Observed, version: CiliumVersion) -> Observed {
    let mut observed = observed.clone();
    observed.cilium.version = Some((version, Evidence::Flag));
    observed.cilium.operator_versions = BTreeSet::from([Some(version)]);
    observed
}

impl<'d> HopView<'d> {
    pub(super) fn new(
        (files, original): (Files<'d>, &'d BTreeMap<ServiceName, LbService>),
        before: Observed,
        from: CiliumVersion,
        to: CiliumVersion,
    ) -> HopView<'d> {
        let after = at(&before, with_latest_patch(to));
        let Files { desired, manifests } = files;
        HopView {
            desired,
            manifests,
            original,
            from,
            to,
            before,
            after,
        }
    }

    /// Whether an operator that ends in the hop may have a fault.
    pub(super) fn operator_before_may_have(&self, fault: &Fault) -> bool {
        let releases = self.before.operator_releases();
        let mut known = releases.into_iter().flatten();
        known.any(|release| fault.may_be_in(release))
    }

    /// Whether the hop ends at this minor release or a later one, and starts before it.
    pub(super) fn crosses(&self, minor: u16) -> bool {
        self.from.minor < minor && minor <= self.to.minor
    }

    /// The releases of this hop that are bad: the one that it ends at, or of a minor release its
    /// later patch releases.
    pub(super) fn bad_releases(
        &self,
        is_bad: impl Fn(CiliumVersion) -> bool,
    ) -> Option<BadReleases> {
        let at = |patch| CiliumVersion {
            patch: Some(patch),
            ..self.to
        };
        let (candidates, latest): (Vec<_>, _) = match self.to.patch {
            Some(patch) => (vec![self.to], patch),
            None => {
                let latest = latest_patch(self.to)?;
                let all = (0..=latest).map(at);
                (all.filter(|release| *release > self.from).collect(), latest)
            }
        };
        let releases: Vec<CiliumVersion> =
            candidates.into_iter().filter(|one| is_bad(*one)).collect();
        let last = *releases.last()?;
        Some(BadReleases {
            releases,
            last,
            is_latest: last.patch == Some(latest),
        })
    }

    pub(super) fn is_mode(&self, mode: IpamMode) -> bool {
        self.after.cilium.mode() == ModeSeen::Known(mode)
    }

    /// What changes, and the cluster after the hop.
    pub(super) fn judge(self, told: &mut Told) -> (Vec<UpgradeChange>, Observed) {
        let mut changes = Changes::default();
        let addresses = addresses::judge(&self, told, &mut changes);
        let blocks = nodes::judge(&self, told, &mut changes);
        pools::judge(&self, &mut changes);
        announcing::judge(&self, &mut changes);
        management::judge(&self, told, &mut changes);
        settings::judge(&self, &mut changes);
        patches::judge(&self, &mut changes);
        definitions::judge(&self, &mut changes);
        manifests::judge(&self, &mut changes);
        write_path::judge(&self, &mut changes);
        let mut after = self.after;
        move_addresses(&mut after, addresses);
        move_blocks(&mut after, blocks);
        (changes.finish(), after)
    }
}

fn move_addresses(observed: &mut Observed, addresses: BTreeMap<ServiceName, Vec<IpAddr>>) {
    // Without a pool, LB-IPAM is idle and keeps hostnames.
    let is_idle = observed.address_pools.is_empty();
    for (name, ingress) in addresses {
        if let Some(service) = observed.services.get_mut(&name) {
            let is_kept = |ip: &IpAddr| ingress.contains(ip);
            let hostnames = &mut service.hostnames;
            hostnames.retain(|one| one.ip.as_ref().map_or(is_idle, is_kept));
            service.ingress = ingress;
        }
    }
}

/// In ipam `kubernetes` the agent writes its blocks into the CiliumNode when it starts.
fn move_blocks(observed: &mut Observed, blocks: BTreeMap<NodeName, Vec<Block>>) {
    for (name, blocks) in blocks {
        if let Some(node) = observed.cilium_nodes.get_mut(&name) {
            Arc::make_mut(node).pod_cidrs = blocks;
        }
    }
}
