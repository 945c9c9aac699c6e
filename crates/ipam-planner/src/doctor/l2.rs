//! L2 policies without effect (`pkg/l2announcer/l2announcer.go` @ 1.18 and 1.19).

use std::net::IpAddr;

use super::announcements::{announcements, by_policy};
use super::finding;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{ClassUse, LbService};
use ipam_cilium::observed::{L2Policy, Observed, ObservedKind, setting_key};
use ipam_core::model::{Finding, ObjectRef, Severity, count};

fn subject(policy: &L2Policy) -> ObjectRef {
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
    let is_served =
        |service: &&LbService| rules.class_use(service.class.as_deref()) == ClassUse::Ours;
    observed
        .services
        .values()
        .filter(is_served)
        .filter(|service| !service.ingress.is_empty() && by_policy(policy, service))
        .collect()
}

fn services_seen(observed: &Observed, policy: &L2Policy) -> String {
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

/// Policies that no agent reads, because the feature is off.
pub(super) fn switched_off(observed: &Observed) -> Vec<Finding> {
    let key = setting_key::ENABLE_L2_ANNOUNCEMENTS;
    let may_be_on_somewhere = observed
        .node_configs
        .iter()
        .any(|config| config.defaults.contains_key(key))
        || observed.is_blind_to_any(&[ObservedKind::CiliumNodeConfig, ObservedKind::CiliumConfig]);
    if is_on(observed) || observed.cilium.settings.is_none() || may_be_on_somewhere {
        return Vec::new();
    }
    let value = observed.common_setting(key);
    let value = value.map_or("absent", |setting| setting.value);
    let finding = |policy: &L2Policy| {
        let message = format!(
            "CiliumL2AnnouncementPolicy `{}` has no effect: L2 announcements are off",
            policy.name.escape_debug()
        );
        let finding = finding(Severity::Warning, "l2-switched-off", message).about(subject(policy));
        finding
            .seen([
                format!("cilium-config {key}: {}", value.escape_debug()),
                services_seen(observed, policy),
            ])
            .causes("no node answers for the addresses of its Services")
            .help("set `enable-l2-announcements: \"true\"` in cilium-config (Helm: l2announcements.enabled=true and kubeProxyReplacement=true) and restart the agents, or delete the policy")
    };
    let policies = observed.announcing.l2_policies.iter();
    policies.map(finding).collect()
}

/// IPv6 addresses that only L2 announces, before it knows IPv6 (cilium#39648, 1.19).
pub(super) fn ipv6_before_1_19(observed: &Observed) -> Vec<Finding> {
    let version = observed.cilium.version.map(|(version, _)| version);
    let is_older = version.is_some_and(|version| !behaviours::L2_IPV6.include(version));
    let Some(announcements) = announcements(observed).filter(|_| is_older && is_on(observed))
    else {
        return Vec::new();
    };
    let rules = observed.lb_rules();
    let finding = |service: &LbService| {
        let of_ipv6: Vec<&IpAddr> = service.ingress.iter().filter(|ip| ip.is_ipv6()).collect();
        let is_served = rules.class_use(service.class.as_deref()) == ClassUse::Ours;
        let is_only_l2 = announcements.by_l2(service) && !announcements.by_bgp(service);
        if of_ipv6.is_empty() || !is_served || !is_only_l2 {
            return None;
        }
        let message = format!(
            "Service `{}` has {}, which L2 does not announce before Cilium 1.19",
            service.name.to_string().escape_debug(),
            super::spaced(of_ipv6)
        );
        let policies = announcements.l2.iter();
        let policies = policies.filter(|policy| by_policy(policy, service));
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
