//! Objects without effect: BGP objects that the running Cilium does not read, speakers without a
//! peer, L2 policies (`pkg/l2announcer/l2announcer.go` @ 1.18 and 1.19), and selectors of BGP and L2
//! objects that select nothing by mistake.

use std::net::IpAddr;

use super::announced_services::{advertisement, announcements, unselective};
use super::finding;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{
    Advertisement, L2Policy, Observed, PeeringPolicy, PodCidrs, SelectorFault, SelectorProblem,
    setting_key,
};
use ipam_core::model::{Finding, NodeName, ObjectRef, Severity, count};
use ipam_core::net::Family;

/// `CiliumBGPPeeringPolicy`s of a cluster whose agents do not know them: from 1.19 on.
pub(super) fn unread_policies(observed: &Observed) -> impl Iterator<Item = &PeeringPolicy> {
    let is_unread = !observed.reads_peering_policies();
    observed
        .announcing
        .policies
        .iter()
        .filter(move |_| is_unread)
}

fn policy_subject(policy: &PeeringPolicy) -> ObjectRef {
    ObjectRef {
        kind: "CiliumBGPPeeringPolicy",
        name: policy.name.clone(),
    }
}

/// It is an error if the nodes should speak BGP and nothing else announces by it. With BGP switched
/// off, no agent ever read the policy.
fn severity(policy: &PeeringPolicy, observed: &Observed) -> Severity {
    let is_known = observed.cilium.settings.is_some();
    if is_known && !observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE) {
        return Severity::Info;
    }
    let nodes = || observed.nodes.values();
    let replaced = nodes().any(|node| observed.advertisements_of(node).next().is_some());
    let selects = nodes().any(|node| policy.nodes.matches(&node.labels));
    match replaced || !selects {
        true => Severity::Warning,
        false => Severity::Error,
    }
}

pub(super) fn peering_policies(observed: &Observed) -> Vec<Finding> {
    let finding = |policy: &PeeringPolicy| {
        let severity = severity(policy, observed);
        let message = format!(
            "CiliumBGPPeeringPolicy `{}` has no effect: Cilium 1.19 and later do not read it",
            policy.name.escape_debug()
        );
        let nodes = observed.nodes.values();
        let nodes = nodes.filter(|node| policy.nodes.matches(&node.labels));
        let is_selected = |service: &&LbService| {
            let mut selectors = policy.services.iter();
            !service.ingress.is_empty()
                && selectors.any(|selector| selector.matches(&service.labels))
        };
        let services = observed.services.values().filter(is_selected).count();
        let pod_cidrs = match policy.pod_cidrs.is_empty() {
            false => "exports pod CIDRs",
            true => "exports no pod CIDRs",
        };
        let finding = finding(severity, "peering-policy-not-read", message)
            .about(policy_subject(policy))
            .seen([format!(
                "it selects {} and {} with an address, and {pod_cidrs}",
                count(nodes.count(), "node"),
                count(services, "Service")
            )]);
        if severity == Severity::Info {
            return finding.help("BGP is switched off, so nothing changes: delete the policy");
        }
        finding
            .causes("routers get no route by it")
            .help("write the same as CiliumBGPClusterConfig, CiliumBGPPeerConfig and CiliumBGPAdvertisement, then delete the policy")
    };
    unread_policies(observed).map(finding).collect()
}

/// Nodes whose MetalLB speaker has no peer, by the selectors of `bgp-config`.
pub(super) fn speakers_without_peer(observed: &Observed) -> Vec<Finding> {
    if !observed.runs_metal_lb_speakers() {
        return Vec::new();
    }
    let nodes = observed.nodes.values();
    let names: Vec<&NodeName> = nodes
        .filter(|node| !observed.speaks_to_a_peer(node))
        .map(|node| &node.name)
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "no peer in the ConfigMap `bgp-config` is for {}",
        super::named(&names)
    );
    let peers = observed.announcing.speaker_peers.as_ref();
    let selectors = peers.into_iter().flat_map(|peers| &peers.peers).flatten();
    let finding = finding(Severity::Warning, "speaker-without-peer", message);
    let finding = super::about_nodes(finding, names)
        .seen(selectors.map(|selector| format!("node-selectors: {selector}")));
    vec![
        finding
            .causes("their speakers announce nothing: routers have no route to their Pods, and none by them to Services")
            .help("add a peer whose `node-selectors` match these nodes, and restart their agents; leave it so if they are not to announce"),
    ]
}

/// In ipam `multi-pool` a node has no pod CIDR, so an advertisement of it announces nothing
/// (`pkg/bgp/manager/reconciler/pod_cidr.go` @ 1.20).
pub(super) fn pod_cidrs_in_multi_pool(observed: &Observed) -> Vec<Finding> {
    if !observed.is_multi_pool() || !observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE)
    {
        return Vec::new();
    }
    let sent = observed.sent_advertisements();
    let announces = |entry: &&Advertisement| {
        entry.pod_cidrs == PodCidrs::Announced && sent.contains(entry.name.as_str())
    };
    let advertisements = observed.announcing.advertisements.iter().filter(announces);
    let of_advertisement = |entry: &Advertisement| ObjectRef {
        kind: "CiliumBGPAdvertisement",
        name: entry.name.clone(),
    };
    let exports = |policy: &&PeeringPolicy| {
        let mut nodes = observed.nodes.values();
        !policy.pod_cidrs.is_empty()
            && observed.reads_peering_policies()
            && nodes.any(|node| policy.nodes.matches(&node.labels))
    };
    let policies = observed.announcing.policies.iter().filter(exports);
    let subjects = advertisements
        .map(of_advertisement)
        .chain(policies.map(policy_subject));
    let finding = |subject: ObjectRef| {
        let (field, name) = (
            match subject.kind {
                "CiliumBGPAdvertisement" => "advertisementType: PodCIDR",
                _ => "exportPodCIDR: true",
            },
            subject.name.escape_debug().to_string(),
        );
        let message = format!(
            "{} `{name}` announces no Pods: ipam `multi-pool` has no pod CIDRs",
            subject.kind
        );
        let finding = finding(
            Severity::Warning,
            "pod-cidr-advertisement-without-effect",
            message,
        );
        finding
            .about(subject)
            .seen([field.to_owned(), "cilium-config ipam: multi-pool".to_owned()])
            .causes("routers get no route to Pods by it")
            .help("announce pools: `advertisementType: CiliumPodIPPool` with a selector (in a CiliumBGPPeeringPolicy: `podIPPoolSelector`)")
    };
    subjects.map(finding).collect()
}

pub(super) fn subject(policy: &L2Policy) -> ObjectRef {
    ObjectRef {
        kind: "CiliumL2AnnouncementPolicy",
        name: policy.name.clone(),
    }
}

fn is_on(observed: &Observed) -> bool {
    observed.is_on(setting_key::ENABLE_L2_ANNOUNCEMENTS)
}

/// Services with a LoadBalancer address that this policy selects.
fn selected<'o>(observed: &'o Observed, policy: &'o L2Policy) -> Vec<&'o LbService> {
    let rules = observed.lb_rules();
    let is_served = |service: &&LbService| rules.serves(service);
    observed
        .services
        .values()
        .filter(is_served)
        .filter(|service| !service.ingress.is_empty() && policy.selects(service))
        .collect()
}

pub(super) fn services_seen(observed: &Observed, policy: &L2Policy) -> String {
    let services = selected(observed, policy).len();
    format!("it selects {} with an address", count(services, "Service"))
}

/// Policies whose selector matches no node.
pub(super) fn without_nodes(observed: &Observed) -> Vec<Finding> {
    if !is_on(observed) || observed.nodes.is_empty() {
        return Vec::new();
    }
    let has_node = |policy: &L2Policy| {
        let mut nodes = observed.nodes.values();
        nodes.any(|node| policy.nodes.matches(&node.labels))
    };
    let finding = |policy: &L2Policy| {
        let message = format!(
            "CiliumL2AnnouncementPolicy `{}` selects no node",
            policy.name.escape_debug()
        );
        let finding =
            finding(Severity::Warning, "l2-policy-without-nodes", message).about(subject(policy));
        finding
            .seen([
                format!("spec.nodeSelector: {}", policy.nodes),
                services_seen(observed, policy),
            ])
            .causes("no node answers for the addresses of its Services")
            .help(
                "correct `spec.nodeSelector`, or label the nodes: kubectl get nodes --show-labels",
            )
    };
    let policies = observed.announcing.l2_policies.iter();
    policies
        .filter(|policy| !has_node(policy))
        .map(finding)
        .collect()
}

/// IPv6 addresses that only L2 announces, before it knows IPv6 (cilium#39648, 1.19).
pub(super) fn ipv6_before_1_19(observed: &Observed) -> Vec<Finding> {
    let is_older = !observed.may_have(behaviours::L2_IPV6);
    let Some(announcements) = announcements(observed).filter(|_| is_older && is_on(observed))
    else {
        return Vec::new();
    };
    let rules = observed.lb_rules();
    let finding = |service: &LbService| {
        let of_ipv6: Vec<&IpAddr> = service.ingress.iter().filter(|ip| ip.is_ipv6()).collect();
        let is_served = rules.serves(service);
        let is_only_l2 =
            announcements.by_l2(service) && !announcements.by_bgp(service, Family::Ipv6);
        if of_ipv6.is_empty() || !is_served || !is_only_l2 {
            return None;
        }
        let message = format!(
            "Service `{}` has {}, which L2 does not announce before Cilium 1.19",
            service.name.to_string().escape_debug(),
            super::spaced(of_ipv6)
        );
        let policies = announcements.l2.iter();
        let policies = policies.filter(|policy| policy.selects(service));
        let finding = finding(Severity::Warning, "l2-without-ipv6", message)
            .about(ObjectRef::service(&service.name))
            .seen(policies.map(|policy| {
                format!(
                    "CiliumL2AnnouncementPolicy `{}` selects it",
                    policy.name.escape_debug()
                )
            }));
        let finding = finding.causes("no node answers neighbour solicitations for this address");
        Some(finding.help("upgrade to Cilium 1.19 or later, announce the address by BGP, or give the Service only IPv4"))
    };
    observed.services.values().filter_map(finding).collect()
}

/// Selectors of BGP and L2 objects that Kubernetes rejects.
pub(super) fn invalid_selectors(observed: &Observed) -> Vec<Finding> {
    let finding = |fault: &SelectorFault| {
        let SelectorProblem::Invalid(why) = &fault.problem else {
            return None;
        };
        let SelectorFault { object, field, .. } = fault;
        let message = format!(
            "{} `{}` has an invalid selector in `{field}`: {}",
            object.kind,
            object.name.escape_debug(),
            why.escape_debug()
        );
        let finding = finding(Severity::Error, "selector-invalid", message);
        let finding = finding
            .about(object.clone())
            .causes("Cilium cannot use it, so the object announces nothing");
        Some(finding.help("correct the selector: `In` and `NotIn` need values, and `Exists` and `DoesNotExist` have none"))
    };
    let faults = observed.announcing.selector_faults.iter();
    faults.filter_map(finding).collect()
}

/// BGP advertisements of Services without a selector. A finding among `others` about Services that
/// an advertisement would announce names the advertisement already.
pub(super) fn absent_selectors(observed: &Observed, others: &[Finding]) -> Vec<Finding> {
    let silent = others
        .iter()
        .filter(|finding| finding.rule.0 == "address-not-announced");
    let named: Vec<&ObjectRef> = silent.flat_map(|finding| &finding.other_subjects).collect();
    let finding = |name: &str| {
        let message = format!(
            "CiliumBGPAdvertisement `{}` announces no Service: its entry has no `selector`",
            name.escape_debug()
        );
        let finding = finding(
            Severity::Warning,
            "bgp-advertisement-without-selector",
            message,
        );
        finding
            .about(advertisement(name))
            .causes("an absent selector selects nothing, so no node announces the addresses of Services by it")
            .help("add a `selector`, such as `matchLabels` of the Services; an empty one (`{}`) selects every Service")
    };
    let names = unselective(observed).filter(|name| !named.contains(&&advertisement(name)));
    names.map(finding).collect()
}
