//! What keeps two Services from sharing an address.

use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{
    LbRules, LbService, SharingObstacle, TrafficPolicy, conflicting_ports, sharing_obstacles,
};
use ipam_core::text::joined;

/// What keeps two Services from sharing an address, each with the fix.
pub fn ways_to_share(one: &LbService, other: &LbService, rules: &LbRules) -> Vec<String> {
    sharing_obstacles(one, other, rules)
        .into_iter()
        .map(|obstacle| reason(obstacle, one, other, rules))
        .collect()
}

fn reason(
    obstacle: SharingObstacle,
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> String {
    match obstacle {
        SharingObstacle::Key => {
            let key = |service: &LbService| match service.sharing_key(rules) {
                Some(key) => format!("`{}`", key.escape_debug()),
                None => "none".to_owned(),
            };
            format!(
                "sharing keys: {} and {}; give both the same one",
                key(one),
                key(other)
            )
        }
        SharingObstacle::Namespace => {
            "namespaces: both need lbipam.cilium.io/sharing-cross-namespace with the other's namespace or `*`, which Cilium reads from 1.16 on".to_owned()
        }
        SharingObstacle::Port => {
            let ports = conflicting_ports(one, other, rules).map(|port| {
                match rules.tells_protocols_apart() {
                    true => format!("{}/{}", port.port, port.protocol),
                    false => port.port.to_string(),
                }
            });
            let protocols = match rules.tells_protocols_apart() {
                true => "",
                false if !rules.is_of(behaviours::PROTOCOLS_BY_SETTING) => {
                    ", and Cilium up to 1.16 does not tell protocols apart"
                }
                false => {
                    ", and this Cilium tells protocols apart only with `bpf-lb-proto-diff: \"true\"` in cilium-config"
                }
            };
            format!(
                "ports: both have {}{protocols}; give one of them other ports",
                joined(ports, " ")
            )
        }
        SharingObstacle::TrafficPolicy => {
            let policy = |service: &LbService| match service.traffic_policy {
                TrafficPolicy::Cluster => "Cluster",
                TrafficPolicy::Local => "Local",
            };
            format!(
                "externalTrafficPolicy: {} and {}; set the same one",
                policy(one),
                policy(other)
            )
        }
        SharingObstacle::Pods => {
            "externalTrafficPolicy Local: they need the same selector of Pods, and it may not be empty".to_owned()
        }
    }
}
