//! LoadBalancer addresses without an announcement.

use std::net::IpAddr;

use super::finding;
use ipam_cilium::lbipam::{ClassUse, LbService};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::model::{Finding, ObjectRef, Selector, Severity};
use ipam_core::net::Range;

const BGP_CLASS: &str = "io.cilium/bgp-control-plane";
const L2_CLASS: &str = "io.cilium/l2-announcer";

/// Selectors of the Services that BGP or L2 announces.
struct Announcements<'o> {
    bgp: Vec<&'o Selector>,
    l2: Vec<&'o Selector>,
}

/// `None` if the objects could not be read, or if MetalLB announces every Service.
fn announcements(observed: &Observed) -> Option<Announcements<'_>> {
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
    if observed.is_on("bgp-announce-lb-ip") {
        return None;
    }
    let (mut bgp, mut l2) = (Vec::new(), Vec::new());
    if observed.is_on("enable-bgp-control-plane") {
        let policies = observed.announcing.policies.iter().filter(|policy| {
            observed
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
    if observed.is_on("enable-l2-announcements") {
        l2.extend(
            observed
                .announcing
                .l2_policies
                .iter()
                .map(|policy| &policy.services),
        );
    }
    Some(Announcements { bgp, l2 })
}

/// Services with an address that neither BGP nor L2 announces. A cluster with neither routes such
/// addresses in another way, so it gets no finding.
pub(super) fn unannounced(observed: &Observed) -> Vec<Finding> {
    let Some(announcements) = announcements(observed) else {
        return Vec::new();
    };
    if !observed.is_on("enable-bgp-control-plane") && !observed.is_on("enable-l2-announcements") {
        return Vec::new();
    }
    let selected = |selectors: &[&Selector], service: &LbService| {
        selectors
            .iter()
            .any(|selector| selector.matches(&service.labels))
    };
    let is_announced = |service: &LbService| {
        let by_bgp = service
            .class
            .as_deref()
            .is_none_or(|class| class == BGP_CLASS)
            && selected(&announcements.bgp, service);
        let by_l2 = service
            .class
            .as_deref()
            .is_none_or(|class| class == L2_CLASS)
            && selected(&announcements.l2, service);
        by_bgp || by_l2
    };
    // Addresses from another source, such as those of nodes, are not judged.
    let rules = observed.lb_rules();
    let is_ours =
        |service: &&LbService| rules.class_use(service.class.as_deref()) == ClassUse::Ours;
    let pools: Vec<Range> = observed
        .load_balancer_ranges()
        .map(|(_, range)| range)
        .collect();
    let is_of_pool = |address: &IpAddr| {
        pools
            .iter()
            .any(|range| range.contains(&Range::from(*address)))
    };
    let unannounced_services = observed.services.values().filter(is_ours);
    let unannounced_services = unannounced_services
        .filter(|service| service.ingress.iter().any(is_of_pool) && !is_announced(service));
    let finding = |service: &LbService| {
        let name = service.name.to_string();
        let message = format!(
            "Service `{}` has {}, which nothing announces",
            name.escape_debug(),
            super::spaced(&service.ingress)
        );
        let finding = finding(Severity::Warning, "address-not-announced", message)
            .about(ObjectRef::service(&service.name));
        let evidence = [
            format!(
                "{} BGP selectors, none of which selects it",
                announcements.bgp.len()
            ),
            format!(
                "{} L2 policies, none of which selects it",
                announcements.l2.len()
            ),
        ];
        let finding = finding
            .seen(evidence)
            .causes("clients outside the cluster cannot reach it");
        finding.help("label the Service so that a CiliumBGPAdvertisement or CiliumL2AnnouncementPolicy selects it, or widen one of their selectors")
    };
    unannounced_services.map(finding).collect()
}
