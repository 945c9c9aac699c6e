//! The API versions of Cilium's kinds by release, and the fields that a version has lost. It knows no
//! objects.
//!
//! Source of all rows: `pkg/k8s/apis/cilium.io/client/crds/{v2,v2alpha1}` @ 1.15.19, 1.16.6, 1.17.15,
//! 1.18.8, 1.19.3, 1.20.0 and 1.20.2.

use crate::behaviours;
use ipam_core::model::CiliumVersion;

/// A kind that has had more than one version, or has none any more.
#[derive(Debug)]
pub struct CiliumApi {
    pub kind: &'static str,
    /// The name in requests, without the group.
    pub plural: &'static str,
    history: &'static [Since],
    /// Kinds that take the place of a kind that is gone.
    pub successors: &'static str,
    pub source: &'static str,
}

/// From a minor release on, until the next entry.
#[derive(Debug)]
struct Since {
    minor: u16,
    served: Served,
}

/// The versions that the API server serves, the stored one first.
#[derive(Clone, Copy, Debug)]
enum Served {
    V2alpha1,
    /// `v2alpha1` is not deprecated.
    Both,
    /// Both versions are served, and `v2alpha1` is marked as deprecated.
    V2AndDeprecated,
    V2,
    /// Only one version is served, and it is marked as deprecated.
    OnlyDeprecated,
    Nothing,
}

const V2ALPHA1: &str = "v2alpha1";
const V2: &str = "v2";

impl Served {
    fn versions(self) -> &'static [&'static str] {
        match self {
            Served::V2alpha1 | Served::OnlyDeprecated => &[V2ALPHA1],
            Served::Both | Served::V2AndDeprecated => &[V2, V2ALPHA1],
            Served::V2 => &[V2],
            Served::Nothing => &[],
        }
    }

    fn deprecated(self) -> Option<&'static str> {
        match self {
            Served::V2AndDeprecated | Served::OnlyDeprecated => Some(V2ALPHA1),
            Served::V2alpha1 | Served::Both | Served::V2 | Served::Nothing => None,
        }
    }
}

const fn since(minor: u16, served: Served) -> Since {
    Since { minor, served }
}

const V2_SINCE_1_18: &[Since] = &[
    since(15, Served::V2alpha1),
    since(18, Served::V2AndDeprecated),
];

const fn stable_since_1_18(
    kind: &'static str,
    plural: &'static str,
    source: &'static str,
) -> CiliumApi {
    CiliumApi {
        kind,
        plural,
        history: V2_SINCE_1_18,
        successors: "",
        source,
    }
}

const APIS: &[CiliumApi] = &[
    stable_since_1_18(
        "CiliumBGPAdvertisement",
        "ciliumbgpadvertisements",
        "client/crds/v2/ciliumbgpadvertisements.yaml @ Cilium 1.18.8",
    ),
    stable_since_1_18(
        "CiliumBGPClusterConfig",
        "ciliumbgpclusterconfigs",
        "client/crds/v2/ciliumbgpclusterconfigs.yaml @ Cilium 1.18.8",
    ),
    stable_since_1_18(
        "CiliumBGPNodeConfigOverride",
        "ciliumbgpnodeconfigoverrides",
        "client/crds/v2/ciliumbgpnodeconfigoverrides.yaml @ Cilium 1.18.8",
    ),
    stable_since_1_18(
        "CiliumBGPNodeConfig",
        "ciliumbgpnodeconfigs",
        "client/crds/v2/ciliumbgpnodeconfigs.yaml @ Cilium 1.18.8",
    ),
    stable_since_1_18(
        "CiliumBGPPeerConfig",
        "ciliumbgppeerconfigs",
        "client/crds/v2/ciliumbgppeerconfigs.yaml @ Cilium 1.18.8",
    ),
    CiliumApi {
        kind: "CiliumBGPPeeringPolicy",
        plural: "ciliumbgppeeringpolicies",
        history: &[
            since(15, Served::V2alpha1),
            since(18, Served::OnlyDeprecated),
            since(19, Served::Nothing),
        ],
        successors: "CiliumBGPClusterConfig, CiliumBGPPeerConfig and CiliumBGPAdvertisement",
        source: "client/crds/v2alpha1 @ Cilium 1.18.8 and 1.19.3",
    },
    stable_since_1_18(
        "CiliumCIDRGroup",
        "ciliumcidrgroups",
        "client/crds/v2/ciliumcidrgroups.yaml @ Cilium 1.18.8",
    ),
    CiliumApi {
        kind: "CiliumExternalWorkload",
        plural: "ciliumexternalworkloads",
        history: &[since(15, Served::V2), since(18, Served::Nothing)],
        successors: "",
        source: "client/crds/v2 @ Cilium 1.17.15 and 1.18.8",
    },
    CiliumApi {
        kind: "CiliumLoadBalancerIPPool",
        plural: "ciliumloadbalancerippools",
        history: &[
            since(15, Served::V2alpha1),
            since(18, Served::Both),
            since(19, Served::V2AndDeprecated),
        ],
        successors: "",
        source: "client/crds/v2/ciliumloadbalancerippools.yaml @ Cilium 1.18.8 and 1.19.3",
    },
    CiliumApi {
        kind: "CiliumNodeConfig",
        plural: NODE_CONFIGS,
        history: &[
            since(15, Served::V2alpha1),
            since(16, Served::V2AndDeprecated),
        ],
        successors: "",
        source: "client/crds/v2/ciliumnodeconfigs.yaml @ Cilium 1.16.6, 1.20.0 and 1.20.2; cilium#47774",
    },
    CiliumApi {
        kind: "CiliumPodIPPool",
        plural: "ciliumpodippools",
        history: &[since(15, Served::V2alpha1)],
        successors: "",
        source: "client/crds/v2alpha1/ciliumpodippools.yaml @ Cilium 1.20.2",
    },
];

const NODE_CONFIGS: &str = "ciliumnodeconfigs";

/// A field that a version of a kind does not have from a minor release on.
#[derive(Debug)]
pub struct LostField {
    pub kind: &'static str,
    pub version: &'static str,
    pub minor: u16,
    /// `[]` stands for every item of a list.
    pub path: &'static str,
    /// What to do without the field: a sentence in the imperative.
    pub instead: &'static str,
    pub source: &'static str,
}

/// Of `v2`, compared with `v2alpha1` of the same release; of `v2alpha1`, with the release before.
pub const LOST_FIELDS: &[LostField] = &[
    LostField {
        kind: "CiliumBGPAdvertisement",
        version: V2ALPHA1,
        minor: 16,
        path: "spec.advertisements[].attributes.community",
        instead: "rename `community` to `communities`",
        source: "client/crds/v2alpha1/ciliumbgpadvertisements.yaml @ Cilium 1.15.19 and 1.16.6",
    },
    LostField {
        kind: "CiliumBGPNodeConfigOverride",
        version: V2ALPHA1,
        minor: 16,
        path: "spec.nodeRef",
        instead: "remove `nodeRef`, and name the object like the node",
        source: "client/crds/v2alpha1/ciliumbgpnodeconfigoverrides.yaml @ Cilium 1.15.19 and 1.16.6",
    },
    LostField {
        kind: "CiliumLoadBalancerIPPool",
        version: V2ALPHA1,
        minor: 16,
        path: "spec.cidrs",
        instead: "rename `cidrs` to `blocks`",
        source: "client/crds/v2alpha1/ciliumloadbalancerippools.yaml @ Cilium 1.15.19 and 1.16.6",
    },
    LostField {
        kind: "CiliumBGPClusterConfig",
        version: V2,
        minor: 18,
        path: "spec.bgpInstances[].peers[].peerConfigRef.group",
        instead: "remove `peerConfigRef.group`",
        source: "client/crds/v2/ciliumbgpclusterconfigs.yaml @ Cilium 1.18.8",
    },
    LostField {
        kind: "CiliumBGPClusterConfig",
        version: V2,
        minor: 18,
        path: "spec.bgpInstances[].peers[].peerConfigRef.kind",
        instead: "remove `peerConfigRef.kind`",
        source: "client/crds/v2/ciliumbgpclusterconfigs.yaml @ Cilium 1.18.8",
    },
    LostField {
        kind: "CiliumBGPPeerConfig",
        version: V2,
        minor: 18,
        path: "spec.transport.localPort",
        instead: "remove `transport.localPort`",
        source: "client/crds/v2/ciliumbgppeerconfigs.yaml @ Cilium 1.18.8",
    },
];

impl CiliumApi {
    pub fn of_kind(kind: &str) -> Option<&'static CiliumApi> {
        APIS.iter().find(|api| api.kind == kind)
    }

    fn at(&self, release: CiliumVersion) -> Option<Served> {
        if self.plural == NODE_CONFIGS && behaviours::NODE_CONFIG_V2_ALONE.include(release) {
            return Some(Served::V2);
        }
        let mut reached = self
            .history
            .iter()
            .filter(|since| since.minor <= release.minor);
        reached.next_back().map(|since| since.served)
    }

    /// The versions that a release serves, the stored one first. `None` if they are unknown.
    pub fn served(&self, release: CiliumVersion) -> Option<&'static [&'static str]> {
        self.at(release).map(Served::versions)
    }

    /// The version that a release serves, and declares as deprecated.
    pub fn deprecated(&self, release: CiliumVersion) -> Option<&'static str> {
        self.at(release)?.deprecated()
    }
}

/// The versions that the CustomResourceDefinition of a release has. `None` if they are unknown, or
/// if the kind has no other version before.
pub fn versions_of(plural: &str, release: CiliumVersion) -> Option<&'static [&'static str]> {
    let api = APIS.iter().find(|api| api.plural == plural)?;
    api.served(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> CiliumVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_by_release() {
        let config = "ciliumnodeconfigs";
        let both: &[&str] = &["v2", "v2alpha1"];
        assert_eq!(versions_of(config, v("1.15.19")), Some(&["v2alpha1"][..]));
        assert_eq!(versions_of(config, v("1.19.3")), Some(both));
        assert_eq!(versions_of(config, v("1.20.1")), Some(&["v2"][..]));
        assert_eq!(versions_of(config, v("1.20.2")), Some(both));
        assert_eq!(versions_of(config, v("1.20")), Some(both));
        assert_eq!(
            versions_of("ciliumexternalworkloads", v("1.18.0")),
            Some(&[][..])
        );
        assert_eq!(versions_of("ciliumnodes", v("1.19.3")), None);
    }

    #[test]
    fn deprecated_versions_by_release() {
        let deprecated = |kind: &str, release| CiliumApi::of_kind(kind)?.deprecated(v(release));
        let pool = "CiliumLoadBalancerIPPool";
        assert_eq!(deprecated(pool, "1.18.8"), None);
        assert_eq!(deprecated(pool, "1.19.3"), Some("v2alpha1"));
        assert_eq!(
            deprecated("CiliumBGPPeerConfig", "1.18.8"),
            Some("v2alpha1")
        );
        assert_eq!(deprecated("CiliumNodeConfig", "1.20.0"), None);
    }

    #[test]
    fn every_lost_field_is_of_a_served_version() {
        for field in LOST_FIELDS {
            let api = CiliumApi::of_kind(field.kind).unwrap();
            let served = api.served(CiliumVersion::minor(field.minor)).unwrap();
            assert!(served.contains(&field.version), "{field:?}");
        }
    }
}
