//! Predicts the effects of a Cilium upgrade, hop by hop over the minor releases: what changes for
//! Services and nodes, why, and how to avoid it.
//!
//! Each hop starts the operator and the agents of the next release on the resulting state of the
//! hop before. All rules for addresses are the rules by version of `ipam-cilium`. Never writes. An
//! unreadable part of the cluster is reported as a blind spot, and never counts as unchanged.
//!
//! The hops of an upgrade: Cilium supports one minor release at a time.
//!
//! One hop: the cluster as the release before reads it, and as the next one does.

mod addresses;
mod announcing;
mod change;
mod document;
mod loss;
mod manifests;
mod nodes;
mod patches;
mod pools;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use addresses::Told;
use change::Changes;

use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{Evidence, ModeSeen, Observed};
use ipam_cilium::releases::{Fault, NEWEST, OLDEST, latest_patch, why_unknown};
use ipam_core::model::{CiliumVersion, IpamMode, NodeName, ServiceName};
use ipam_core::net::Block;
use ipam_desired::{CiliumManifest, Desired};

pub use announcing::Unjudged;
pub use change::{Cause, FileEdit, UpgradeChange, UpgradeCode};
pub use document::{
    FORMAT_VERSION, FileEditDocument, HopDocument, ObjectDocument, UpgradeChangeDocument,
    UpgradeDocument, UpgradeSummary,
};

/// The content of the directory, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'d> {
    pub desired: Option<&'d Desired>,
    /// Objects of Cilium's kinds.
    pub manifests: &'d [CiliumManifest],
}

/// What an upgrade changes.
#[derive(Clone, Debug)]
pub struct Upgrade {
    pub from: CiliumVersion,
    /// How the running version is known.
    pub evidence: Evidence,
    pub to: CiliumVersion,
    pub hops: Vec<Hop>,
    /// Parts of the cluster that could not be checked.
    pub unjudged: Vec<Unjudged>,
}

/// One hop.
#[derive(Clone, Debug)]
pub struct Hop {
    pub from: CiliumVersion,
    pub to: CiliumVersion,
    /// The worst first.
    pub changes: Vec<UpgradeChange>,
}

impl Upgrade {
    /// Whether something would change.
    pub fn changes_something(&self) -> bool {
        self.hops.iter().any(|hop| !hop.changes.is_empty())
    }
}

/// Faults of the running release that objects of the cluster meet.
pub(crate) fn faults_of_running(observed: &Observed) -> Vec<UpgradeChange> {
    let Some((version, _)) = observed.cilium.version else {
        return Vec::new();
    };
    let view = HopView::new(
        (Files::default(), &observed.services),
        observed.clone(),
        version,
        version,
    );
    let mut changes = change::Changes::default();
    patches::of_running(&view, &mut changes);
    manifests::of_running(&view, &mut changes);
    changes.finish()
}

/// Everything that changes between the running version and `to`. The files tell which lines to
/// change.
///
/// # Errors
/// Fails if a version is unknown, or `to` is older.
pub fn upgrade(
    files: Files<'_>,
    observed: &Observed,
    to: CiliumVersion,
) -> Result<Upgrade, Refused> {
    let (from, evidence) = observed.cilium.version.ok_or(Refused::UnknownStart)?;
    let mut hops = Vec::new();
    let mut state = observed.clone();
    let mut last = from;
    let mut told = addresses::Told::default();
    for next in self::hops(from, to)? {
        let view = HopView::new((files, &observed.services), state, last, next);
        let (changes, after) = view.judge(&mut told);
        hops.push(Hop {
            from: last,
            to: next,
            changes,
        });
        state = after;
        last = next;
    }
    let unjudged = match hops.is_empty() && why_unknown(to).is_none() {
        true => Vec::new(),
        false => announcing::unjudged(observed, to, &hops),
    };
    Ok(Upgrade {
        from,
        evidence,
        to,
        hops,
        unjudged,
    })
}

/// Why an upgrade cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the version of the running Cilium could not be detected: pass --from VERSION, such as --from 1.15.19"
    )]
    UnknownStart,
    #[error("Cilium {0} is newer than the newest known release, {NEWEST}: use a newer cilium-ipam")]
    TooNew(CiliumVersion),
    #[error("Cilium {0} is older than the oldest known release, {OLDEST}")]
    TooOld(CiliumVersion),
    #[error(
        "Cilium {0} runs, and {1} is older: Cilium supports a rollback by one minor release at most, and the \
         CustomResourceDefinitions stay those of {0}, so it is unknown what the older release reads"
    )]
    Downgrade(CiliumVersion, CiliumVersion),
}

/// The versions after the start, one for each minor release and `to` last. A minor release stands
/// for its latest patch release, also for the one that runs. Empty if `to` runs already.
///
/// # Errors
/// Fails if a version is unknown, or `to` is of an older minor release.
pub(super) fn hops(from: CiliumVersion, to: CiliumVersion) -> Result<Vec<CiliumVersion>, Refused> {
    for version in [from, to] {
        let minor = (version.major, version.minor);
        if minor > (NEWEST.major, NEWEST.minor) {
            return Err(Refused::TooNew(version));
        }
        if minor < (OLDEST.major, OLDEST.minor) {
            return Err(Refused::TooOld(version));
        }
    }
    if to.minor < from.minor {
        return Err(Refused::Downgrade(from, to));
    }
    if to.minor == from.minor {
        return Ok((to != from).then_some(to).into_iter().collect());
    }
    let between = (from.minor + 1..to.minor).map(CiliumVersion::minor);
    Ok(between.chain([to]).collect())
}

/// The version whose rules apply where only the minor release is given: that of its latest patch
/// releases. Patches with other rules are named as such.
pub(super) fn with_latest_patch(version: CiliumVersion) -> CiliumVersion {
    CiliumVersion {
        patch: version.patch.or(Some(u16::MAX)),
        ..version
    }
}

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
    fn judge(self, told: &mut Told) -> (Vec<UpgradeChange>, Observed) {
        let mut changes = Changes::default();
        let addresses = addresses::judge(&self, told, &mut changes);
        let blocks = nodes::judge(&self, told, &mut changes);
        pools::judge(&self, &mut changes);
        announcing::judge(&self, &mut changes);
        settings::judge_management(&self, told, &mut changes);
        settings::judge(&self, &mut changes);
        patches::judge(&self, &mut changes);
        manifests::judge_definitions(&self, &mut changes);
        manifests::judge(&self, &mut changes);
        settings::judge_write_path(&self, &mut changes);
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

#[cfg(test)]
mod path_tests {
    use super::*;

    fn v(text: &str) -> CiliumVersion {
        text.parse().unwrap()
    }

    #[test]
    fn one_minor_at_a_time() {
        let cases = [
            ("1.15.19", "1.19", "1.16 1.17 1.18 1.19"),
            ("1.15.19", "1.16.3", "1.16.3"),
            ("1.19.1", "1.19.3", "1.19.3"),
            ("1.19.3", "1.19.1", "1.19.1"),
            ("1.19", "1.19.3", "1.19.3"),
            ("1.19.3", "1.19", "1.19"),
            ("1.19", "1.19", ""),
            ("1.19.3", "1.19.3", ""),
        ];
        for (from, to, expected) in cases {
            let hops = hops(v(from), v(to)).unwrap();
            let hops: Vec<String> = hops.iter().map(ToString::to_string).collect();
            assert_eq!(hops.join(" "), expected, "{from} to {to}");
        }
    }

    #[test]
    fn what_is_refused() {
        assert_eq!(hops(v("1.19"), v("1.21")), Err(Refused::TooNew(v("1.21"))));
        assert_eq!(hops(v("1.21"), v("1.21")), Err(Refused::TooNew(v("1.21"))));
        assert_eq!(hops(v("1.19"), v("2.0")), Err(Refused::TooNew(v("2.0"))));
        assert_eq!(hops(v("1.10"), v("1.12")), Err(Refused::TooOld(v("1.10"))));
        let down = Refused::Downgrade(v("1.19.3"), v("1.18"));
        assert_eq!(hops(v("1.19.3"), v("1.18")), Err(down));
    }
}
