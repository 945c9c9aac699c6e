//! Explains whether two Services share an address, with everything that keeps them from it.

use std::net::IpAddr;

use serde::Serialize;

use super::FORMAT_VERSION;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{
    LbRules, LbService, ServingState, SharingObstacle, TrafficPolicy, conflicting_ports,
    sharing_obstacles,
};
use ipam_cilium::observed::Observed;
use ipam_core::net::Family;

/// Whether two Services share an address.
#[derive(Debug, Serialize)]
pub struct SharingExplanation {
    format_version: &'static str,
    /// `namespace/name` of both.
    pub services: [String; 2],
    /// Addresses that both hold.
    pub shared: Vec<IpAddr>,
    pub verdict: String,
    /// What keeps them from sharing an address, each with the way out.
    pub obstacles: Vec<String>,
}

pub(super) fn explain(
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
        (false, true, _) => format!("share {}", crate::freeze::listed(&shared)),
        (false, false, _) => format!(
            "both hold {}, and Cilium does not let them share it: one loses it",
            crate::freeze::listed(&shared)
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

/// What keeps two Services from sharing an address, each with the way out.
pub(crate) fn ways_to_share(one: &LbService, other: &LbService, rules: &LbRules) -> Vec<String> {
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
            let ports: Vec<String> = conflicting_ports(one, other, rules)
                .map(|port| match rules.tells_protocols_apart() {
                    true => format!("{}/{}", port.port, port.protocol),
                    false => port.port.to_string(),
                })
                .collect();
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
                ports.join(" ")
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
            crate::freeze::listed(&requested.0),
            crate::freeze::listed(&requested.1)
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
