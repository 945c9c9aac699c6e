//! What the releases of Cilium do differently: one row for each behaviour, with the releases that have
//! it. A new minor release needs a review of these rows.
//!
//! It knows no objects. Faults are in [`releases`](crate::releases), API versions in
//! [`api_versions`](crate::api_versions).

use ipam_core::model::CiliumVersion;

/// Minor and patch number of a release.
type Release = (u16, u16);

/// The releases that have a behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Releases {
    /// The first release of each minor release that got it; all later minor releases have it too.
    since: &'static [Release],
    /// The first release that no longer has the behaviour.
    before: Release,
}

const END: Release = (u16::MAX, u16::MAX);

impl Releases {
    pub(crate) const ALL: Releases = Releases::since(&[(0, 0)]);

    const fn since(since: &'static [Release]) -> Releases {
        Releases { since, before: END }
    }

    const fn before(before: Release) -> Releases {
        Releases {
            since: &[(0, 0)],
            before,
        }
    }

    /// Whether a release has the behaviour. `None` if its patch level decides and is unknown.
    pub fn has(self, version: CiliumVersion) -> Option<bool> {
        let at = |patch| self.has_at((minor_of(version), patch));
        match version.patch {
            Some(patch) => Some(at(patch)),
            None => (at(0) == at(u16::MAX)).then(|| at(0)),
        }
    }

    /// Whether a release certainly has the behaviour.
    pub fn include(self, version: CiliumVersion) -> bool {
        self.has(version) == Some(true)
    }

    /// Whether the release `from` has the behaviour, and the release `to` may lack it.
    pub fn end_between(self, from: CiliumVersion, to: CiliumVersion) -> bool {
        self.include(from) && !self.include(to)
    }

    fn has_at(self, release: Release) -> bool {
        let (minor, patch) = release;
        let is_later = self.since.last().is_some_and(|(last, _)| minor > *last);
        let has_begun = |(first, from): &Release| *first == minor && patch >= *from;
        (is_later || self.since.iter().any(has_begun)) && release < self.before
    }
}

/// A later major release counts as newer than each minor release.
fn minor_of(version: CiliumVersion) -> u16 {
    match version.major {
        0 | 1 => version.minor,
        _ => u16::MAX - 1,
    }
}

/// LB-IPAM reads `spec.cidrs` of a pool. Later API servers drop it without a word.
pub const POOL_CIDRS: Releases = Releases::before((16, 0));
/// LB-IPAM reads `spec.blocks` of a pool, with ranges from `start` to `stop`.
pub const POOL_BLOCKS: Releases = Releases::since(&[(15, 0)]);
/// LB-IPAM reads `allowFirstLastIPs`, and reserves no address of a range of one or two.
pub const FIRST_LAST_FIELD: Releases = Releases::since(&[(15, 0)]);
/// The first and the last address of a CIDR are given unless `allowFirstLastIPs` is `No`.
pub const FIRST_LAST_GIVEN: Releases = Releases::since(&[(16, 0)]);
/// `CiliumLoadBalancerIPPool`s are `cilium.io/v2`.
pub const POOL_V2: Releases = Releases::since(&[(18, 0)]);
/// LB-IPAM serves Services of class `io.cilium/l2-announcer`.
pub const L2_CLASS: Releases = Releases::since(&[(15, 0)]);
/// `enable-lb-ipam` and `default-lb-service-ipam` are read (`operator/pkg/lbipam/cell.go` @ 1.19).
pub const LB_IPAM_SETTINGS: Releases = Releases::since(&[(17, 0)]);
/// A Service that takes any address gets the lowest one of a run of free addresses (`HashAllocator`
/// in `pkg/ipalloc`). Before, chance decides.
pub const LOWEST_FREE_ADDRESS: Releases = Releases::since(&[(15, 0)]);
/// Services with addresses are served before those that wait. Before, a waiting Service may take an
/// address of a changed pool.
pub const HOLDERS_FIRST: Releases = Releases::since(&[(18, 2)]);
/// Every Service gets back the addresses that it shows, shared ones too, before any Service gets a
/// new one (`revalidateAllServices`, `stripOrImportIngresses`).
pub const ALL_IMPORTED_FIRST: Releases = Releases::since(&[(20, 0)]);
/// Services of a sharing key keep their address when its range is gone, until the operator restarts
/// (`deleteRangeAllocations` leaves it in `sharingIndex`).
pub const KEYS_KEEP_ADDRESSES: Releases = Releases::since(&[(20, 0)]);
/// The operator panics where a pool reserves an address of a Service.
pub const PANICS_AT_RESERVED: Releases = Releases {
    since: &[(20, 0)],
    before: (20, 3),
};
/// The annotations `lbipam.cilium.io/…` are read. They hide the older ones.
pub const NEWER_SERVICE_ANNOTATIONS: Releases = Releases::since(&[(16, 0)]);
/// Services of two namespaces may share an address.
pub const SHARING_ACROSS_NAMESPACES: Releases = Releases::since(&[(16, 0)]);
/// An edited block gives its addresses to the Services that had them. Before, these Services are
/// served anew before the new block is known (seen on 1.16.6; `handlePoolModified` of 1.15.16, 1.16.9
/// and 1.17.3 does that, that of 1.15.19, 1.16.19 and 1.17.6 does not).
pub const KEPT_THROUGH_EDITS: Releases = Releases::since(&[(15, 19), (16, 12), (17, 6)]);
/// A requested address that cannot be shared has the reason `already_allocated_incompatible_service`.
pub const INCOMPATIBLE_SERVICE_REASON: Releases = Releases::since(&[(17, 0)]);
/// Equal ports of two protocols may share an address if `bpf-lb-proto-diff` is `"true"` in
/// cilium-config; only the agent has a default for it.
pub const PROTOCOLS_BY_SETTING: Releases = Releases::since(&[(17, 0)]);
/// Equal ports of two protocols may share an address, unless `bpf-lb-proto-diff` says otherwise
/// (`operator/cmd/flags.go`).
pub const PROTOCOLS_BY_DEFAULT: Releases = Releases::since(&[(18, 0)]);
/// Equal ports of two protocols may share an address, whatever `bpf-lb-proto-diff` says.
pub const PROTOCOLS_ALWAYS: Releases = Releases::since(&[(19, 0)]);
/// All addresses of an IPv6 range are counted. Before, at most 65,536.
pub const LARGE_RANGES_COUNTED: Releases = Releases::since(&[(15, 0)]);
/// LB-IPAM has `CiliumBGPLoadBalancerIPPool`s.
pub const BGP_LOAD_BALANCER_POOLS: Releases = Releases {
    since: &[(12, 0)],
    before: (13, 0),
};

/// Agents answer ARP for the addresses of Services.
pub const L2_ANNOUNCEMENTS: Releases = Releases::since(&[(14, 0)]);
/// Agents also answer neighbour solicitations for IPv6 addresses of Services (cilium#39648).
pub const L2_IPV6: Releases = Releases::since(&[(19, 0)]);
/// Agents run the speakers of MetalLB.
pub const METAL_LB_SPEAKERS: Releases = Releases::before((17, 0));
/// In ipam `cluster-pool`, the speakers of MetalLB announce the blocks of the CiliumNode.
pub const METAL_LB_CILIUM_NODE: Releases = Releases::since(&[(12, 0)]);
/// Agents read `CiliumBGPPeeringPolicy`s. One that selects a node wins over the newer objects.
pub const PEERING_POLICIES: Releases = Releases::before((19, 0));
/// In ipam `kubernetes`, `CiliumBGPPeeringPolicy`s announce the blocks of the CiliumNode.
pub const PEERING_POLICIES_CILIUM_NODE: Releases = Releases::since(&[(15, 0)]);
/// Agents read `CiliumBGPClusterConfig`s.
pub const BGP_CLUSTER_CONFIGS: Releases = Releases::since(&[(16, 0)]);
/// Agents leave out the routes to nodes that they do not reach directly, if a setting says so.
pub const UNREACHABLE_SKIPPED: Releases = Releases::since(&[(16, 0)]);

/// Agents read the pod-CIDR annotations of a Node even if `annotate-k8s-node` is off.
pub const ANNOTATION_UNGATED: Releases = Releases::before((12, 5));
/// Agents read both keys of the pod-CIDR annotation.
pub const ANNOTATION_BOTH_KEYS: Releases = Releases::since(&[(13, 0)]);
/// `CiliumNodeConfig`s exist, as `cilium.io/v2alpha1`.
pub const NODE_CONFIGS: Releases = Releases::since(&[(13, 0)]);
/// `CiliumNodeConfig`s are served as `cilium.io/v2`.
pub const NODE_CONFIG_V2: Releases = Releases::since(&[(16, 0)]);
/// `CiliumNodeConfig`s are served as `cilium.io/v2` only (cilium#47774).
pub const NODE_CONFIG_V2_ALONE: Releases = Releases {
    since: &[(20, 0)],
    before: (20, 2),
};
/// Agents read `ipam-default-ip-pool`.
pub const DEFAULT_POOL: Releases = Releases::since(&[(15, 0)]);
/// `CiliumPodIPPool`s are `cilium.io/v2`.
pub const POD_POOL_V2: Releases = Releases::since(&[(21, 0)]);
/// In ipam `multi-pool`, Pods need routes of their own.
pub const MULTI_POOL_ENDPOINT_ROUTES: Releases = Releases::before((18, 0));
/// Without the setting `ipam`, the mode is `hostscope` (`pkg/option/config.go`).
pub const HOST_SCOPE_DEFAULT: Releases = Releases::before((9, 0));
/// The operator moves the blocks of ipam `cluster-pool` into the default pool if a setting says so
/// (cilium#46104).
pub const CLUSTER_POOL_CONVERSION: Releases = Releases::since(&[(20, 0)]);
/// The operator remembers the blocks that it gave from a CIDR that is cut. Before, it forgets them (pkg
/// `multipool` updateCIDRSets).
pub const GIVEN_REMEMBERED: Releases = Releases::since(&[(19, 0)]);
/// The operator skips a Node with the annotation `ipam.cilium.io/ignore`.
pub const IGNORED_NODES: Releases = Releases::since(&[(18, 0)]);
/// An operator reads an empty mask size of `cilium-config` as 0. Before, it does not start with it
/// (spf13/cast 1.6 and 1.7 against 1.9.2 and 1.10).
pub const EMPTY_MASK_IS_ZERO: Releases = Releases::since(&[(18, 0)]);
/// An operator reads commas in lists of `cilium-config`, spaces in those of arguments, and no decimal
/// point in numbers (`cell.Config` of cilium/hive).
pub const LISTS_BY_COMMA: Releases = Releases::since(&[(20, 0)]);
/// An operator reads its ranges with `netip.ParsePrefix`. Before, with `net.ParseCIDR`.
pub const RANGES_BY_NETIP: Releases = Releases::since(&[(20, 0)]);
/// An operator that starts removes a block whose slot is used, instead of setting an error.
pub const DUPLICATES_REMOVED: Releases = Releases::since(&[(17, 15), (18, 9), (19, 3)]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_patch_level_is_certain_only_where_all_agree() {
        for (releases, version, expected) in [
            (DUPLICATES_REMOVED, "1.16.19", Some(false)),
            (DUPLICATES_REMOVED, "1.17.14", Some(false)),
            (DUPLICATES_REMOVED, "1.17.15", Some(true)),
            (DUPLICATES_REMOVED, "1.18.8", Some(false)),
            (DUPLICATES_REMOVED, "1.19", None),
            (DUPLICATES_REMOVED, "1.20", Some(true)),
            (DUPLICATES_REMOVED, "2.0.0", Some(true)),
            (ANNOTATION_UNGATED, "1.11", Some(true)),
            (ANNOTATION_UNGATED, "1.12.4", Some(true)),
            (ANNOTATION_UNGATED, "1.12.5", Some(false)),
            (ANNOTATION_UNGATED, "1.12", None),
            (NODE_CONFIG_V2_ALONE, "1.20.1", Some(true)),
            (NODE_CONFIG_V2_ALONE, "1.20.2", Some(false)),
            (NODE_CONFIG_V2_ALONE, "1.19.8", Some(false)),
        ] {
            let version = version.parse().unwrap();
            assert_eq!(releases.has(version), expected, "{releases:?} {version}");
            assert_eq!(releases.include(version), expected == Some(true));
        }
    }
}
