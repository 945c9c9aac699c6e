//! The releases of Cilium that are known: minor and patch releases, and their faults. Each entry has
//! its source. It knows no objects.

use std::ops::RangeInclusive;

use ipam_core::model::{CiliumVersion, Stage};

/// Minor releases, each with its latest known patch release (tags of github.com/cilium/cilium,
/// November 2026).
const LATEST: [(u16, u16); 10] = [
    (11, 20),
    (12, 19),
    (13, 18),
    (14, 19),
    (15, 19),
    (16, 19),
    (17, 17),
    (18, 11),
    (19, 8),
    (20, 2),
];

/// The first minor release whose rules are known.
pub const OLDEST: CiliumVersion = CiliumVersion::minor(LATEST[0].0);

/// The newest release whose rules are known.
pub const NEWEST: CiliumVersion = release(LATEST[LATEST.len() - 1].0, LATEST[LATEST.len() - 1].1);

const fn release(minor: u16, patch: u16) -> CiliumVersion {
    CiliumVersion {
        patch: Some(patch),
        ..CiliumVersion::minor(minor)
    }
}

/// Whether the rules of a release are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    Known,
    /// The minor release is older than the oldest known one.
    TooOld,
    /// The minor release is newer than the newest known one.
    NewerMinor,
    /// The minor release is known, and the patch release is not.
    UnknownPatch,
    /// The version is a pre-release.
    PreRelease,
}

/// Whether the rules of a release are known. A minor release stands for its known patch releases.
pub fn knowledge(version: CiliumVersion) -> Knowledge {
    let minor = (version.major, version.minor);
    if minor > (NEWEST.major, NEWEST.minor) {
        return Knowledge::NewerMinor;
    }
    if version.stage != Stage::Release {
        return Knowledge::PreRelease;
    }
    match latest_patch(version) {
        None => Knowledge::TooOld,
        Some(latest) if version.patch > Some(latest) => Knowledge::UnknownPatch,
        Some(_) => Knowledge::Known,
    }
}

/// The latest known patch release of a minor release.
pub fn latest_patch(version: CiliumVersion) -> Option<u16> {
    let mut all = LATEST.iter().filter(|_| version.major == NEWEST.major);
    all.find(|(minor, _)| *minor == version.minor)
        .map(|(_, patch)| *patch)
}

/// Why it is unknown what a release does; `None` for a known release.
pub fn why_unknown(version: CiliumVersion) -> Option<String> {
    match knowledge(version) {
        Knowledge::Known | Knowledge::TooOld => None,
        Knowledge::NewerMinor => Some(format!(
            "Cilium {version} is newer than {NEWEST}, the newest release that this cilium-ipam knows"
        )),
        Knowledge::UnknownPatch => Some(format!(
            "this cilium-ipam does not know Cilium {version}: the latest patch release of {} that it knows is {}",
            CiliumVersion::minor(version.minor),
            release(version.minor, latest_patch(version).unwrap_or_default())
        )),
        Knowledge::PreRelease => Some(format!(
            "Cilium {version} is a pre-release, which no cilium-ipam knows"
        )),
    }
}

/// What triggers a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Services that share an address trigger the fault.
    SharedAddress,
    /// Services that have an address which waiting Services could get.
    BesideWaiting,
    /// Services of a sharing key with several addresses trigger the fault.
    SeveralAddressesOfAKey,
    /// Services with a sharing key that request an address which their pool reserves.
    ReservedAndShared,
    /// Services of a Gateway or an Ingress with `externalTrafficPolicy: Local` that only L2
    /// announces.
    LocalGateway,
    /// Services with an address, in a cluster without an enabled pool.
    AddressWithoutPool,
}

/// When a fault shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// When the operator or the agents of the release start, and while they run.
    Running,
    /// When the operator of the release ends: also at the upgrade to another release.
    Shutdown,
}

/// A fault of some patch releases of one minor release.
#[derive(Clone, Debug)]
pub struct Fault {
    pub minor: u16,
    pub patches: RangeInclusive<u16>,
    pub occasion: Occasion,
    pub trigger: Trigger,
    /// A sentence without a full stop.
    pub why: &'static str,
    pub source: &'static str,
    /// What to do before the release runs.
    pub before: &'static str,
}

const UNSHARES: &str = "the operator of this release unshares addresses when it starts";
const MOVES: &str = "with several addresses for one sharing key, a starting operator of this release moves Services";
const PIN: &str = "use another patch release, or pin the Services with `cilium-ipam lb freeze`";

/// Known faults of Cilium releases.
pub const FAULTS: [Fault; 8] = [
    Fault {
        minor: 15,
        patches: 0..=0,
        occasion: Occasion::Running,
        trigger: Trigger::SharedAddress,
        why: UNSHARES,
        source: "cilium#30700, fixed by cilium#34783",
        before: "use 1.15.1 or later",
    },
    Fault {
        minor: 16,
        patches: 0..=1,
        occasion: Occasion::Running,
        trigger: Trigger::SharedAddress,
        why: UNSHARES,
        source: "cilium#30700, fixed by cilium#34783",
        before: "use 1.16.2 or later",
    },
    Fault {
        minor: 16,
        patches: 7..=7,
        occasion: Occasion::Shutdown,
        trigger: Trigger::AddressWithoutPool,
        why: "when the operator of this release ends, it may empty the status of Services that it does not serve, even without a pool",
        source: "cilium#37965",
        before: "scale the operator to 0 at a moment when the loss is harmless, look at the status of the Services, then start the operator of another release",
    },
    Fault {
        minor: 18,
        patches: 0..=1,
        occasion: Occasion::Running,
        trigger: Trigger::BesideWaiting,
        why: "while Services wait, a starting operator of this release may give them addresses that others have",
        source: "cilium#43131, cilium#39033, fixed by cilium#41147",
        before: "use 1.18.2 or later",
    },
    Fault {
        minor: 18,
        patches: 8..=8,
        occasion: Occasion::Running,
        trigger: Trigger::SeveralAddressesOfAKey,
        why: MOVES,
        source: "cilium#46262",
        before: PIN,
    },
    Fault {
        minor: 19,
        patches: 4..=4,
        occasion: Occasion::Running,
        trigger: Trigger::SeveralAddressesOfAKey,
        why: MOVES,
        source: "cilium#46262",
        before: PIN,
    },
    Fault {
        minor: 20,
        patches: 0..=2,
        occasion: Occasion::Running,
        trigger: Trigger::ReservedAndShared,
        why: "the operator panics when a Service with a sharing key requests an address that its pool reserves, and LB-IPAM stops for all Services",
        source: "cilium#48779, fix proposed in cilium#48804; the same code is in 1.20.0 to 1.20.2",
        before: "remove the request or the sharing key, or set `allowFirstLastIPs: \"Yes\"` in the pool",
    },
    Fault {
        minor: 20,
        patches: 2..=2,
        occasion: Occasion::Running,
        trigger: Trigger::LocalGateway,
        why: "no agent of this release answers ARP for the Service of a Gateway or an Ingress with `externalTrafficPolicy: Local`, because the Service has no backend on a node",
        source: "cilium#48799",
        before: "set `externalTrafficPolicy: Cluster` for the Gateway or Ingress, announce the address by BGP, or stay on 1.20.1",
    },
];

impl Fault {
    /// Whether a release has it. A minor release without a patch has none.
    pub fn is_in(&self, version: CiliumVersion) -> bool {
        let patch = version
            .patch
            .filter(|_| (version.major, version.minor) == (1, self.minor));
        patch.is_some_and(|patch| self.patches.contains(&patch))
    }

    /// Like [`Fault::is_in`], but a minor release without a patch number may have the fault.
    pub fn may_be_in(&self, version: CiliumVersion) -> bool {
        let is_minor = version.patch.is_none() && (version.major, version.minor) == (1, self.minor);
        is_minor || self.is_in(version)
    }

    /// The releases that have the fault.
    pub fn releases(&self) -> impl Iterator<Item = CiliumVersion> + use<> {
        let minor = self.minor;
        self.patches.clone().map(move |patch| release(minor, patch))
    }
}

/// Whether agents of a version announce Services without a local backend by L2, if their traffic
/// policy is `Local` (cilium#48799).
pub(crate) fn announces_without_backend(version: CiliumVersion) -> bool {
    let of_l2 = FAULTS
        .iter()
        .filter(|fault| fault.trigger == Trigger::LocalGateway);
    !of_l2.into_iter().any(|fault| fault.is_in(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> CiliumVersion {
        text.parse().unwrap()
    }

    #[test]
    fn the_table_has_no_gaps() {
        let minors = LATEST.map(|(minor, _)| minor);
        let all: Vec<u16> = (minors[0]..=NEWEST.minor).collect();
        assert_eq!(minors.to_vec(), all);
        for fault in &FAULTS {
            for version in fault.releases() {
                assert_eq!(knowledge(version), Knowledge::Known, "{version}");
            }
            assert!(fault.source.contains("cilium#"), "{fault:?}");
        }
    }

    #[test]
    fn what_is_known() {
        for (version, expected) in [
            ("1.20.2", Knowledge::Known),
            ("1.20", Knowledge::Known),
            ("1.11.0", Knowledge::Known),
            ("1.15.19-vendor.2", Knowledge::Known),
            ("1.20.3", Knowledge::UnknownPatch),
            ("1.15.20", Knowledge::UnknownPatch),
            ("1.21.0", Knowledge::NewerMinor),
            ("1.30", Knowledge::NewerMinor),
            ("2.0.0", Knowledge::NewerMinor),
            ("1.21.0-pre.1", Knowledge::NewerMinor),
            ("1.18.0-rc.1", Knowledge::PreRelease),
            ("1.10.20", Knowledge::TooOld),
        ] {
            assert_eq!(knowledge(v(version)), expected, "{version}");
            let is_known = matches!(expected, Knowledge::Known | Knowledge::TooOld);
            assert_eq!(why_unknown(v(version)).is_none(), is_known, "{version}");
        }
    }
}
