//! Decides which Services may share one address (`ServiceView.isCompatible`).

use super::rules::LbRules;
use super::service::{LbService, Port, TrafficPolicy};
use crate::behaviours;

const ANY_NAMESPACE: &str = "*";

ipam_core::text_enum! {
    /// Why two Services may not share an address, in the operator's words and order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SharingObstacle {
        Key = "different sharing key",
        Namespace = "different and not permitted namespace",
        Port = "same port and protocol",
        TrafficPolicy = "different ExternalTrafficPolicy",
        Pods = "compatible ExternalTrafficPolicy local but selecting different set of pods",
    }
}

pub fn may_share(one: &LbService, other: &LbService, rules: &LbRules) -> bool {
    obstacles(one, other, rules).next().is_none()
}

/// Everything that keeps two Services from sharing an address.
pub fn sharing_obstacles(
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> Vec<SharingObstacle> {
    obstacles(one, other, rules).collect()
}

/// Why two Services may not share an address, in the operator's words; `None` if they may.
pub(super) fn incompatibility(
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> Option<&'static str> {
    let first = obstacles(one, other, rules).next()?;
    Some(first.as_str())
}

fn obstacles(
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> impl Iterator<Item = SharingObstacle> {
    let is = move |obstacle: &SharingObstacle| match obstacle {
        SharingObstacle::Key => {
            let key = one.sharing_key.read(rules);
            key != other.sharing_key.read(rules) || key.is_none()
        }
        SharingObstacle::Namespace => !(allows(one, other, rules) && allows(other, one, rules)),
        SharingObstacle::Port => conflicting_ports(one, other, rules).next().is_some(),
        SharingObstacle::TrafficPolicy => one.traffic_policy != other.traffic_policy,
        SharingObstacle::Pods => {
            let same_pods = one.pod_selector == other.pod_selector && !one.pod_selector.is_empty();
            one.traffic_policy == TrafficPolicy::Local
                && one.traffic_policy == other.traffic_policy
                && !same_pods
        }
    };
    SharingObstacle::ALL.iter().copied().filter(is)
}

/// The ports of the first Service that the second one has, too.
pub fn conflicting_ports<'s>(
    one: &'s LbService,
    other: &'s LbService,
    rules: &'s LbRules,
) -> impl Iterator<Item = &'s Port> {
    one.ports.iter().filter(move |port| {
        let mut others = other.ports.iter();
        others.any(|other| ports_conflict(port, other, rules))
    })
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
        || rules.is_of(behaviours::SHARING_ACROSS_NAMESPACES)
            && namespaces
                .any(|namespace| namespace == ANY_NAMESPACE || namespace == other.name.namespace())
}
