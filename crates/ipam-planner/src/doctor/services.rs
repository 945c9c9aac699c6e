//! LoadBalancer addresses without an announcement.

use std::net::IpAddr;

use super::announcements::announcements;
use super::{finding, ineffective};
use ipam_cilium::lbipam::{ClassUse, LbService};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Severity};
use ipam_core::net::Range;

/// Services with an address that neither BGP nor L2 announces. A cluster with neither routes such
/// addresses in another way, so it gets no finding.
pub(super) fn unannounced(observed: &Observed) -> Vec<Finding> {
    let Some(announcements) = announcements(observed) else {
        return Vec::new();
    };
    let keys = ["enable-bgp-control-plane", "enable-l2-announcements"];
    if !keys.iter().any(|key| observed.is_on_somewhere(key)) {
        return Vec::new();
    }
    // Policies that no agent reads have their own finding, which names these Services.
    let is_told = |service: &LbService| {
        ineffective::unread_policies(observed).any(|policy| {
            policy
                .services
                .iter()
                .any(|selector| selector.matches(&service.labels))
        })
    };
    let is_announced = |service: &LbService| {
        announcements.by_bgp(service) || announcements.by_l2(service) || is_told(service)
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
            match announcements.lacks_local_backend(service) {
                true => format!(
                    "{} L2 policies, and externalTrafficPolicy: Local without a local backend",
                    announcements.l2.len()
                ),
                false => format!(
                    "{} L2 policies, none of which selects it",
                    announcements.l2.len()
                ),
            },
        ];
        let finding = finding
            .seen(evidence)
            .causes("clients outside the cluster cannot reach it");
        if announcements.lacks_local_backend(service) {
            return finding.help("set `externalTrafficPolicy: Cluster` for the Gateway or Ingress, or announce the address by BGP: agents of this release answer only for Services with a local backend (cilium#48799)");
        }
        finding.help("label the Service so that a CiliumBGPAdvertisement or CiliumL2AnnouncementPolicy selects it, or widen one of their selectors")
    };
    unannounced_services.map(finding).collect()
}
