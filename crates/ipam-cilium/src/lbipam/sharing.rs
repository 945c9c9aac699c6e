//! Decides which Services may share one address (`ServiceView.isCompatible`).

use super::rules::LbRules;
use super::service::{LbService, Port, TrafficPolicy};

const ANY_NAMESPACE: &str = "*";

pub fn may_share(one: &LbService, other: &LbService, rules: &LbRules) -> bool {
    incompatibility(one, other, rules).is_none()
}

/// Why two Services may not share an address, in the operator's words; `None` if they may.
pub(super) fn incompatibility(
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> Option<&'static str> {
    let key = one.sharing_key.read(rules);
    if key != other.sharing_key.read(rules) || key.is_none() {
        return Some("different sharing key");
    }
    if !(allows(one, other, rules) && allows(other, one, rules)) {
        return Some("different and not permitted namespace");
    }
    if one.ports.iter().any(|port| {
        other
            .ports
            .iter()
            .any(|other| ports_conflict(port, other, rules))
    }) {
        return Some("same port and protocol");
    }
    if one.traffic_policy != other.traffic_policy {
        return Some("different ExternalTrafficPolicy");
    }
    let same_pods = one.pod_selector == other.pod_selector && !one.pod_selector.is_empty();
    if one.traffic_policy == TrafficPolicy::Local && !same_pods {
        return Some("compatible ExternalTrafficPolicy local but selecting different set of pods");
    }
    None
}

fn ports_conflict(one: &Port, other: &Port, rules: &LbRules) -> bool {
    one.port == other.port && (one.protocol == other.protocol || !rules.tells_protocols_apart())
}

fn allows(one: &LbService, other: &LbService, rules: &LbRules) -> bool {
    let mut namespaces = one
        .sharing_namespaces
        .read(rules)
        .unwrap_or_default()
        .split(',');
    one.name.namespace() == other.name.namespace()
        || rules.shares_across_namespaces()
            && namespaces
                .any(|namespace| namespace == ANY_NAMESPACE || namespace == other.name.namespace())
}
