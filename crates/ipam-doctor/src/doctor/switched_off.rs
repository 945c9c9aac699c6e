//! Objects of features that Cilium's settings switch off: no agent and no operator reads them.

use super::finding;
use super::ineffective::{services_seen, subject};
use ipam_cilium::behaviours;
use ipam_cilium::observed::{L2Policy, Observed, ObservedKind, setting_key};
use ipam_core::model::{Finding, ObjectRef, Severity, count};

/// The value of a setting, if it switches a feature off on every node.
fn value_if_off<'o>(observed: &'o Observed, key: &str) -> Option<&'o str> {
    let mut configs = observed.node_configs.iter();
    let may_be_on_somewhere = configs.any(|config| config.defaults.contains_key(key))
        || observed.is_blind_to_any(&[ObservedKind::CiliumNodeConfig, ObservedKind::CiliumConfig]);
    let is_off = !observed.is_on(key) && observed.cilium.settings.is_some() && !may_be_on_somewhere;
    let value = observed.common_setting(key);
    is_off.then(|| value.map_or("absent", |setting| setting.value))
}

fn told(value: &str, key: &str) -> String {
    format!("cilium-config {key}: {}", value.escape_debug())
}

/// A finding for each L2 policy that has no effect, because L2 announcements are off.
pub(super) fn l2(observed: &Observed) -> Vec<Finding> {
    let key = setting_key::ENABLE_L2_ANNOUNCEMENTS;
    let Some(value) = value_if_off(observed, key) else {
        return Vec::new();
    };
    let finding = |policy: &L2Policy| {
        let message = format!(
            "CiliumL2AnnouncementPolicy `{}` has no effect: L2 announcements are off",
            policy.name.escape_debug()
        );
        let finding = finding(Severity::Warning, "l2-switched-off", message).about(subject(policy));
        finding
            .seen([told(value, key), services_seen(observed, policy)])
            .causes("no node answers for the addresses of its Services")
            .help("set `enable-l2-announcements: \"true\"` in cilium-config (Helm: l2announcements.enabled=true and kubeProxyReplacement=true) and restart the agents, or delete the policy")
    };
    let policies = observed.announcing.l2_policies.iter();
    policies.map(finding).collect()
}

/// One finding about objects that have no effect; `None` without objects.
fn about(
    objects: Vec<ObjectRef>,
    rule: &'static str,
    what: &str,
    setting: String,
) -> Option<Finding> {
    let message = match &objects[..] {
        [] => return None,
        [only] => format!(
            "{} `{}` has no effect: {what}",
            only.kind,
            only.name.escape_debug()
        ),
        _ => format!("{} have no effect: {what}", count(objects.len(), "object")),
    };
    let line = |object: &ObjectRef| format!("{} `{}`", object.kind, object.name.escape_debug());
    let lines: Vec<String> = objects.iter().map(line).collect();
    let finding = finding(Severity::Warning, rule, message).seen([setting]);
    Some(finding.about_all(objects).seen(lines))
}

/// Objects that configure peers of BGP. Policies that the release does not read have their own finding.
pub(super) fn bgp(observed: &Observed) -> Vec<Finding> {
    let key = setting_key::ENABLE_BGP_CONTROL_PLANE;
    let Some(value) = value_if_off(observed, key) else {
        return Vec::new();
    };
    let announcing = &observed.announcing;
    let policies = announcing.policies.iter();
    let policies = policies
        .filter(|_| observed.reads_peering_policies())
        .map(|one| ("CiliumBGPPeeringPolicy", &one.name));
    let configs = announcing.cluster_configs.iter();
    let configs = configs
        .filter(|_| observed.may_have(behaviours::BGP_CLUSTER_CONFIGS))
        .map(|one| ("CiliumBGPClusterConfig", &one.name));
    let object = |(kind, name): (&'static str, &String)| ObjectRef {
        kind,
        name: name.clone(),
    };
    let objects = policies.chain(configs).map(object).collect();
    let what = "the BGP control plane is off";
    let finding = about(objects, "bgp-switched-off", what, told(value, key));
    let finding = finding.map(|finding| {
        finding
            .causes("no node has a BGP session by them, and routers get no route")
            .help("set `enable-bgp-control-plane: \"true\"` in cilium-config (Helm: bgpControlPlane.enabled=true) and restart the operator and the agents, or delete the objects")
    });
    finding.into_iter().collect()
}

/// Findings about `CiliumLoadBalancerIPPool`s that have no effect, because LB-IPAM is off.
pub(super) fn lb_ipam(observed: &Observed) -> Vec<Finding> {
    let rules = observed.lb_rules();
    let key = setting_key::ENABLE_LB_IPAM;
    let value = observed.cilium.operator_setting(key);
    let (Some(value), false) = (value, rules.is_on()) else {
        return Vec::new();
    };
    let pools = observed.address_pools.values();
    let enabled = pools.filter(|pool| !pool.manifest.spec.disabled);
    let objects = enabled
        .map(|pool| ObjectRef::address_pool(&pool.name))
        .collect();
    let finding = about(
        objects,
        "lb-ipam-switched-off",
        "LB-IPAM is off",
        told(value, key),
    );
    let finding = finding.map(|finding| {
        finding
            .causes("Services get no address of these pools, and keep those that they have")
            .help("remove `enable-lb-ipam` from cilium-config (Helm: lbIPAM.enabled) and restart the operator, or delete the pools")
    });
    finding.into_iter().collect()
}
