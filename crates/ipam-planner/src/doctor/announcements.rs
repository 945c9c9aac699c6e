//! Which Services BGP and L2 announce, by the selectors of Cilium's objects.

use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{L2Policy, Observed, ObservedKind, ServiceAnnouncements, setting_key};
use ipam_core::model::Selector;

const BGP_CLASS: &str = "io.cilium/bgp-control-plane";
const L2_CLASS: &str = "io.cilium/l2-announcer";

/// Selectors of the Services that BGP or L2 announces.
pub(super) struct Announcements<'o> {
    pub(super) bgp: Vec<&'o Selector>,
    pub(super) l2: Vec<&'o L2Policy>,
    by_rules: ServiceAnnouncements<'o>,
}

/// `None` if the objects could not be read, or if MetalLB announces every Service.
pub(super) fn announcements(observed: &Observed) -> Option<Announcements<'_>> {
    use ObservedKind::{
        BgpAdvertisement, BgpClusterConfig, BgpPeerConfig, BgpPeeringPolicy, L2AnnouncementPolicy,
    };
    let kinds = [
        BgpPeeringPolicy,
        BgpClusterConfig,
        BgpPeerConfig,
        BgpAdvertisement,
        L2AnnouncementPolicy,
    ];
    if observed.is_blind_to_any(&kinds) {
        return None;
    }
    // MetalLB's own configuration decides which ones. This program does not read it.
    if observed.is_on(setting_key::BGP_ANNOUNCE_LB_IP) {
        return None;
    }
    let (mut bgp, mut l2) = (Vec::new(), Vec::new());
    if observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE) {
        let policies = observed.announcing.policies.iter().filter(|policy| {
            observed.reads_peering_policies()
                && observed
                    .nodes
                    .values()
                    .any(|node| policy.nodes.matches(&node.labels))
        });
        bgp.extend(policies.flat_map(|policy| &policy.services));
        bgp.extend(
            observed
                .nodes
                .values()
                .flat_map(|node| observed.advertisements_of(node))
                .flat_map(|entry| &entry.services),
        );
        bgp.sort();
        bgp.dedup();
    }
    // A policy without nodes, or with L2 switched off, has its own finding.
    l2.extend(observed.announcing.l2_policies.iter());
    let by_rules = ServiceAnnouncements::new(observed);
    Some(Announcements { bgp, l2, by_rules })
}

impl Announcements<'_> {
    /// Whether a BGP advertisement selects the Service.
    pub(super) fn by_bgp(&self, service: &LbService) -> bool {
        let is_of_class = service.class.as_deref().is_none_or(|of| of == BGP_CLASS);
        is_of_class && self.bgp.iter().any(|one| one.matches(&service.labels))
    }

    /// Whether an L2 policy selects the Service, and agents of this release answer for it.
    pub(super) fn by_l2(&self, service: &LbService) -> bool {
        !self.lacks_local_backend(service)
            && self.l2.iter().any(|policy| by_policy(policy, service))
    }

    /// Whether L2 leaves out the Service, because no node has a local backend for it.
    pub(super) fn lacks_local_backend(&self, service: &LbService) -> bool {
        self.by_rules.lacks_local_backend(service)
    }
}

/// Whether this L2 policy selects the Service.
pub(super) fn by_policy(policy: &L2Policy, service: &LbService) -> bool {
    let is_of_class = service.class.as_deref().is_none_or(|of| of == L2_CLASS);
    is_of_class && policy.services.matches(&service.labels)
}
