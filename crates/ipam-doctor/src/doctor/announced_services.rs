//! The Services that BGP and L2 announce by the selectors of Cilium's objects, and LoadBalancer
//! addresses without an announcement.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{finding, ineffective};
use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{
    L2Policy, Observed, ObservedKind, SelectorProblem, ServiceAnnouncements, setting_key,
};
use ipam_core::model::{Finding, ObjectRef, Severity, count};
use ipam_core::net::{Family, Range};
use ipam_core::text::joined;
use ipam_plan::check::second_controller;

/// Advertisements that no peer of any node receives, often because of a mistyped label.
pub(super) fn unused_advertisements(observed: &Observed) -> Vec<Finding> {
    use ipam_cilium::observed::ObservedKind::{BgpClusterConfig, BgpPeerConfig};
    let is_blind = observed.is_blind_to_any(&[BgpClusterConfig, BgpPeerConfig]);
    if is_blind
        || observed.nodes.is_empty()
        || !observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE)
    {
        return Vec::new();
    }
    let sent = observed.sent_advertisements();
    let unannounced = observed
        .announcing
        .advertisements
        .iter()
        .filter(|advertisement| !sent.contains(advertisement.name.as_str()));
    let finding = |advertisement: &ipam_cilium::observed::Advertisement| {
        let name = advertisement.name.escape_debug();
        let message = format!("no peer of any node receives CiliumBGPAdvertisement `{name}`");
        let labels = advertisement.labels.iter();
        let labels = labels.map(|(key, value)| format!("{key}={value}"));
        let subject = self::advertisement(&advertisement.name);
        let finding =
            finding(Severity::Warning, "bgp-advertisement-unused", message).about(subject);
        let finding = finding.seen([format!("its labels: {}", super::spaced(labels))]);
        finding
            .causes("no node announces the addresses that it lists")
            .help("select it by these labels in a CiliumBGPPeerConfig, and name that peer config in a CiliumBGPClusterConfig for a node")
    };
    unannounced.map(finding).collect()
}

pub(super) fn advertisement(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "CiliumBGPAdvertisement",
        name: name.to_owned(),
    }
}

/// The announcements of Services, by BGP and L2.
pub(super) struct Announcements<'o> {
    pub(super) l2: &'o [L2Policy],
    by_rules: ServiceAnnouncements<'o>,
}

/// `None` if the objects could not be read.
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
    Some(Announcements {
        // A policy without nodes, or with L2 switched off, has its own finding.
        l2: &observed.announcing.l2_policies,
        by_rules: ServiceAnnouncements::new(observed),
    })
}

impl Announcements<'_> {
    /// Whether BGP announces the addresses of this family of a Service.
    pub(super) fn by_bgp(&self, service: &LbService, family: Family) -> bool {
        self.by_rules.by_bgp(service, family)
    }

    /// Whether an L2 policy selects the Service, and agents of this release answer for it.
    pub(super) fn by_l2(&self, service: &LbService) -> bool {
        !self.by_rules.lacks_local_backend(service)
            && self.l2.iter().any(|policy| policy.selects(service))
    }

    /// Why an address of the Service is silent; `unselected` if no selector selects the Service.
    fn why(&self, service: &LbService, unannounced: &[IpAddr], unselected: Silence) -> Silence {
        let has_bgp = |family| self.by_bgp(service, family);
        if self.by_rules.lacks_local_backend(service) {
            return Silence::NoLocalBackend;
        }
        if self.by_rules.by_metal_lb(service) {
            return Silence::MetalLb;
        }
        if Family::BOTH.into_iter().any(has_bgp) {
            return Silence::Family(Family::of(unannounced[0]));
        }
        unselected
    }
}

/// The advertisements to a peer that announce no Service, because they have no selector.
pub(crate) fn unselective(observed: &Observed) -> impl Iterator<Item = &str> {
    let sent = observed.sent_advertisements();
    let faults = observed.announcing.selector_faults.iter();
    let missing = faults.filter(|fault| fault.problem == SelectorProblem::Missing);
    let names: BTreeSet<&str> = missing
        .map(|fault| fault.object.name.as_str())
        .filter(|name| sent.contains(name))
        .collect();
    names.into_iter()
}

/// Why nothing announces an address of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Silence {
    NoLocalBackend,
    MetalLb,
    /// No peer of the nodes that announce the Service has this family.
    Family(Family),
    NoSelector,
    Unselected,
}

/// Services with an address that neither BGP nor L2 announces, by cause. A cluster without BGP and L2
/// routes such addresses in another way, so it gets no finding.
pub(super) fn unannounced(observed: &Observed) -> Vec<Finding> {
    let Some(announcements) = announcements(observed) else {
        return Vec::new();
    };
    let keys = [
        setting_key::ENABLE_BGP_CONTROL_PLANE,
        setting_key::ENABLE_L2_ANNOUNCEMENTS,
    ];
    let is_on = keys.iter().any(|key| observed.is_on_somewhere(key));
    if !is_on && !observed.announces_services_by_metal_lb() {
        return Vec::new();
    }
    // Addresses from another source, such as those of nodes, are not judged.
    let rules = observed.lb_rules();
    let pools: Vec<Range> = observed
        .load_balancer_ranges()
        .map(|(_, range)| range)
        .collect();
    let is_of_pool = |address: &IpAddr| {
        let address = Range::from(*address);
        pools.iter().any(|range| range.contains(&address))
    };
    let unselected = match unselective(observed).next() {
        Some(_) => Silence::NoSelector,
        None => Silence::Unselected,
    };
    let mut by_cause: BTreeMap<Silence, Vec<(&LbService, Vec<IpAddr>)>> = BTreeMap::new();
    for service in observed.services.values() {
        let is_ours = rules.serves(service);
        if !is_ours || announcements.by_l2(service) || has_unread_policy(service, observed) {
            continue;
        }
        // A second controller may announce its addresses, and has its own finding.
        if second_controller(service, observed, &rules).is_some() {
            continue;
        }
        let is_silent = |address: &IpAddr| {
            is_of_pool(address) && !announcements.by_bgp(service, Family::of(*address))
        };
        let silent: Vec<IpAddr> = service.ingress.iter().copied().filter(is_silent).collect();
        if !silent.is_empty() {
            let cause = announcements.why(service, &silent, unselected);
            by_cause.entry(cause).or_default().push((service, silent));
        }
    }
    let causes = by_cause.into_iter();
    causes
        .map(|(cause, services)| not_announced(cause, &services, &announcements, observed))
        .collect()
}

/// Policies that no agent reads have their own finding, which names these Services.
fn has_unread_policy(service: &LbService, observed: &Observed) -> bool {
    ineffective::unread_policies(observed).any(|policy| {
        let mut selectors = policy.services.iter();
        selectors.any(|selector| selector.matches(&service.labels))
    })
}

fn not_announced(
    cause: Silence,
    services: &[(&LbService, Vec<IpAddr>)],
    announcements: &Announcements<'_>,
    observed: &Observed,
) -> Finding {
    let name = |service: &LbService| service.name.to_string().escape_debug().to_string();
    let line = |(service, addresses): &(&LbService, Vec<IpAddr>)| {
        format!(
            "Service `{}` has {}",
            name(service),
            super::spaced(addresses)
        )
    };
    let message = match services {
        [only] => format!("{}, which nothing announces", line(only)),
        _ => format!(
            "{} have addresses that nothing announces",
            count(services.len(), "Service")
        ),
    };
    let subjects = services
        .iter()
        .map(|(one, _)| ObjectRef::service(&one.name));
    let entries = unselective(observed).filter(|_| cause == Silence::NoSelector);
    let subjects = subjects.chain(entries.map(advertisement));
    let finding = finding(Severity::Warning, "address-not-announced", message);
    let finding = finding.about_all(subjects);
    let lines = services.iter().filter(|_| services.len() > 1).map(line);
    let l2 = announcements.l2.len();
    let l2 = match cause {
        Silence::NoLocalBackend => {
            format!("{l2} L2 policies, and externalTrafficPolicy: Local without a local backend")
        }
        _ => format!("{l2} L2 policies, none of which selects it"),
    };
    let bgp = announcements.by_rules.bgp_selectors().len();
    let bgp = match cause {
        Silence::MetalLb => "the BGP speaker of MetalLB announces only IPv4".to_owned(),
        Silence::Family(family) => format!("no peer of its announcing nodes has {family}"),
        _ => format!("{bgp} BGP selectors, none of which selects it"),
    };
    finding
        .seen([bgp, l2])
        .seen(lines)
        .causes("clients outside the cluster cannot reach it")
        .help(help(cause, observed))
}

fn help(cause: Silence, observed: &Observed) -> String {
    match cause {
        Silence::NoLocalBackend => "set `externalTrafficPolicy: Cluster` for the Gateway or Ingress, or announce the address by BGP: agents of this release answer only for Services with a local backend (cilium#48799)".to_owned(),
        Silence::MetalLb => "announce IPv6 by the BGP control plane (`enable-bgp-control-plane`) instead of `bgp-announce-lb-ip`".to_owned(),
        Silence::Family(family) => format!(
            "add {} with its advertisements to `spec.families` of the CiliumBGPPeerConfig, or to `families` of the neighbors in the CiliumBGPPeeringPolicy",
            family.to_string().to_lowercase()
        ),
        Silence::NoSelector => {
            let names = unselective(observed).map(|one| format!("`{}`", one.escape_debug()));
            let names = joined(names.collect::<Vec<_>>(), ", ");
            format!("add a `selector` that matches the Services to the entry of CiliumBGPAdvertisement {names}: an entry without one selects no Service")
        }
        Silence::Unselected => {
            let faults = &observed.announcing.selector_faults;
            match faults.iter().find(|fault| fault.problem != SelectorProblem::Missing) {
                Some(fault) => format!(
                    "correct the invalid `{}` of {} `{}`",
                    fault.field,
                    fault.object.kind,
                    fault.object.name.escape_debug()
                ),
                None => "label the Service so that a CiliumBGPAdvertisement or CiliumL2AnnouncementPolicy selects it, or widen one of their selectors".to_owned(),
            }
        }
    }
}
