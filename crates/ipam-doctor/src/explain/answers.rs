//! Explains which nodes answer for an address of a LoadBalancer Service, by L2 announcements and
//! BGP, and whether two Services share an address. Does not know which of several nodes holds the
//! Lease of a Service: Leases are not read.

use std::net::IpAddr;

use serde::Serialize;

use super::FORMAT_VERSION;
use crate::doctor::unselective;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{BGP_CLASS, L2_CLASS, LbRules, LbService, ServingState};
use ipam_cilium::observed::{
    DEFAULT_CILIUM_NAMESPACE, METAL_LB_FAMILIES, Observed, ObservedKind, ServiceAnnouncements,
    setting_key,
};
use ipam_core::model::{NodeName, Selector, count};
use ipam_core::net::{Family, Range};
use ipam_core::text::joined;
use ipam_plan::check::ways_to_share;

/// Nodes that an answer names.
const NAMED: usize = 5;

/// Empty unless the range is one address that a Service holds.
pub(super) fn explain(range: Range, observed: &Observed) -> Vec<String> {
    if range.first() != range.last() {
        return Vec::new();
    }
    let address = range.first();
    let announcements = ServiceAnnouncements::new(observed);
    let holders = observed
        .services
        .values()
        .filter(|service| service.ingress.contains(&address));
    holders
        .flat_map(|service| {
            let family = Family::of(address);
            [
                by_l2(service, family, observed),
                by_bgp(service, family, &announcements, observed),
            ]
            .into_iter()
            .flatten()
            .map(|text| format!("{}: {text}", service.name.to_string().escape_debug()))
        })
        .collect()
}

fn named(nodes: &[&NodeName]) -> String {
    let mut names: Vec<String> = nodes.iter().take(NAMED).map(ToString::to_string).collect();
    if nodes.len() > NAMED {
        names.push(format!("and {} more", nodes.len() - NAMED));
    }
    format!("{} ({})", count(nodes.len(), "node"), names.join(" "))
}

fn blind(observed: &Observed, kinds: &[ObservedKind]) -> Option<String> {
    let spot = kinds.iter().find_map(|kind| observed.blind_spot(*kind))?;
    Some(format!(
        "unknown, because {} cannot be read: {}",
        spot.kind.resource(),
        spot.why.escape_debug()
    ))
}

fn by_l2(service: &LbService, family: Family, observed: &Observed) -> Vec<String> {
    let told = |text: String| vec![format!("L2: {text}")];
    if !observed.is_on_somewhere(setting_key::ENABLE_L2_ANNOUNCEMENTS) {
        return told("off (`enable-l2-announcements` is not true)".to_owned());
    }
    if !service.has_no_class_but(L2_CLASS) {
        return told("its loadBalancerClass leaves it to others".to_owned());
    }
    if let Some(why) = blind(observed, &[ObservedKind::L2AnnouncementPolicy]) {
        return told(why);
    }
    if family == Family::Ipv6 && !observed.may_have(behaviours::L2_IPV6) {
        return told("no node answers for IPv6 before Cilium 1.19".to_owned());
    }
    let policies = observed.announcing.l2_policies.iter();
    let policies: Vec<_> = policies
        .filter(|policy| policy.services.matches(&service.labels))
        .collect();
    if policies.is_empty() {
        return told(
            "no CiliumL2AnnouncementPolicy with loadBalancerIPs selects it: no node answers"
                .to_owned(),
        );
    }
    let mut answers: Vec<String> = policies
        .iter()
        .map(|policy| {
            let name = policy.name.escape_debug();
            match &nodes(&policy.nodes, observed)[..] {
                [] => format!("L2: policy `{name}` selects no node: no node answers"),
                nodes => format!("L2: policy `{name}` selects {}", named(nodes)),
            }
        })
        .collect();
    let namespace = observed
        .cilium
        .namespace
        .as_deref()
        .unwrap_or(DEFAULT_CILIUM_NAMESPACE);
    answers.push(format!(
        "L2: the holder of its Lease answers, and Leases are not read: kubectl get lease --namespace {namespace} cilium-l2announce-{}-{}",
        service.name.namespace().escape_debug(),
        service.name.name().escape_debug()
    ));
    answers
}

fn nodes<'o>(selector: &Selector, observed: &'o Observed) -> Vec<&'o NodeName> {
    let nodes = observed.nodes.values();
    nodes
        .filter(|node| selector.matches(&node.labels))
        .map(|node| &node.name)
        .collect()
}

fn by_bgp(
    service: &LbService,
    family: Family,
    announcements: &ServiceAnnouncements<'_>,
    observed: &Observed,
) -> Vec<String> {
    use ObservedKind::{BgpAdvertisement, BgpClusterConfig, BgpPeerConfig, BgpPeeringPolicy};
    let told = |text: String| vec![format!("BGP: {text}")];
    if announcements.by_metal_lb(service) {
        if !METAL_LB_FAMILIES.contains(&family) {
            return told(format!("MetalLB's speaker announces no {family} address"));
        }
        return told(
            "MetalLB's speaker announces it by its own configuration, which is not read".to_owned(),
        );
    }
    if !observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE) {
        return told("off (`enable-bgp-control-plane` is not true)".to_owned());
    }
    if !service.has_no_class_but(BGP_CLASS) {
        return told("its loadBalancerClass leaves it to others".to_owned());
    }
    let kinds = [
        BgpPeeringPolicy,
        BgpClusterConfig,
        BgpPeerConfig,
        BgpAdvertisement,
    ];
    if let Some(why) = blind(observed, &kinds) {
        return told(why);
    }
    let announcers: Vec<&NodeName> = observed
        .nodes
        .values()
        .filter(|node| observed.announces_service(node, service, family))
        .map(|node| &node.name)
        .collect();
    match &announcers[..] {
        [] => {
            let names = unselective(observed).map(|one| format!("`{}`", one.escape_debug()));
            let names = joined(names.collect::<Vec<_>>(), ", ");
            let why = match names.is_empty() {
                true => String::new(),
                false => format!(", and {names} has no selector, so it selects no Service"),
            };
            told(format!("no node has an advertisement that selects it{why}"))
        }
        nodes => told(format!("announced by {}", named(nodes))),
    }
}

/// Whether two Services share an address.
#[derive(Debug, Serialize)]
pub struct SharingExplanation {
    format_version: &'static str,
    /// `namespace/name` of both.
    pub services: [String; 2],
    /// Addresses that both hold.
    pub shared: Vec<IpAddr>,
    pub verdict: String,
    /// What keeps them from sharing an address, each with the fix.
    pub obstacles: Vec<String>,
}

pub(super) fn explain_sharing(
    one: &LbService,
    other: &LbService,
    observed: &Observed,
) -> SharingExplanation {
    let rules = observed.lb_rules();
    let shared: Vec<IpAddr> = one
        .ingress
        .iter()
        .copied()
        .filter(|address| other.ingress.contains(address))
        .collect();
    let mut obstacles = ways_to_share(one, other, &rules);
    let may = obstacles.is_empty();
    obstacles.extend(apart(one, other, observed, &rules));
    let verdict = match (shared.is_empty(), may, obstacles.is_empty()) {
        (false, true, _) => format!("share {}", joined(&shared, " ")),
        (false, false, _) => format!(
            "both hold {}, and Cilium does not let them share it: one loses it",
            joined(&shared, " ")
        ),
        (true, false, _) => "do not share an address, and cannot:".to_owned(),
        (true, true, false) => "may share an address, and do not:".to_owned(),
        (true, true, true) => "may share an address, and do not yet: Cilium gives a Service the address of its sharing key only when it needs a new one".to_owned(),
    };
    SharingExplanation {
        format_version: FORMAT_VERSION,
        services: [one.name.to_string(), other.name.to_string()],
        shared,
        verdict,
        obstacles,
    }
}

/// What leads two Services that may share an address to different ones.
fn apart(
    one: &LbService,
    other: &LbService,
    observed: &Observed,
    rules: &LbRules,
) -> Option<String> {
    let requested = (one.requested(rules), other.requested(rules));
    let is_common = |address: &IpAddr| requested.1.contains(address);
    if !requested.0.is_empty() && !requested.1.is_empty() && !requested.0.iter().any(is_common) {
        return Some(format!(
            "requests: {} and {}; request the same address",
            joined(&requested.0, " "),
            joined(&requested.1, " ")
        ));
    }
    let families = (one.wanted_families(rules), other.wanted_families(rules));
    let common: Vec<Family> = families
        .0
        .into_iter()
        .filter(|family| families.1.contains(family))
        .collect();
    if common.is_empty() {
        return Some("families: they have none in common".to_owned());
    }
    let pools = observed.address_pools_as_read(rules);
    let mut both = pools.iter().filter(|pool| {
        pool.state == ServingState::Enabled
            && pool.selects(&one.labels)
            && pool.selects(&other.labels)
    });
    both.next()
        .is_none()
        .then(|| "pools: no enabled pool selects both; widen the serviceSelector of one".to_owned())
}
