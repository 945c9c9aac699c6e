//! Unreadable parts of a cluster never count as unchanged. Some versions are refused.

use std::collections::BTreeSet;

use serde_json::json;

use super::objects::{config, node, service};
use super::{observe, v};
use crate::upgrade::{Files, Refused, upgrade};
use ipam_cilium::observed::{BlindSpot, Observed, ObservedKind};

fn what(observed: &Observed, to: &str) -> Vec<String> {
    let upgrade = upgrade(Files::default(), observed, v(to)).unwrap();
    assert!(!upgrade.changes_something());
    upgrade.unjudged.into_iter().map(|part| part.what).collect()
}

fn blind(settings: &serde_json::Value, kind: ObservedKind) -> Observed {
    let mut observed = observe(
        "1.18.3",
        &[config(settings), node("n1", Some("10.1.0.0/24"))],
    );
    observed.blind_spots.push(BlindSpot {
        kind,
        why: "forbidden".to_owned(),
    });
    observed
}

#[test]
fn hidden_kinds() {
    let kubernetes = json!({"ipam": "kubernetes"});
    let bgp = json!({"ipam": "kubernetes", "enable-bgp-control-plane": "true"});
    let cases = [
        (&kubernetes, ObservedKind::Service, vec!["services"]),
        (
            &kubernetes,
            ObservedKind::LoadBalancerPool,
            vec!["ciliumloadbalancerippools.cilium.io"],
        ),
        (&kubernetes, ObservedKind::CiliumConfig, vec!["configmaps"]),
        (&kubernetes, ObservedKind::BgpPeeringPolicy, vec![]),
        (
            &bgp,
            ObservedKind::BgpPeeringPolicy,
            vec!["ciliumbgppeeringpolicies.cilium.io"],
        ),
        (&kubernetes, ObservedKind::PodIpPool, vec![]),
    ];
    for (settings, kind, expected) in cases {
        assert_eq!(what(&blind(settings, kind), "1.19.3"), expected, "{kind:?}");
        // Nothing is judged if nothing is upgraded.
        assert!(what(&blind(settings, kind), "1.18.3").is_empty());
    }
}

#[test]
fn clusters_that_are_not_understood() {
    assert_eq!(what(&observe("1.18.3", &[]), "1.19.3"), ["nodes"]);
    let eni = observe("1.18.3", &[config(&json!({"ipam": "eni"}))]);
    assert_eq!(what(&eni, "1.19.3"), ["nodes"]);
    let older = observe(
        "1.12.19",
        &[
            config(&json!({"ipam": "kubernetes"})),
            service("a", "blue", &["20.0.0.1"]),
        ],
    );
    assert_eq!(
        what(&older, "1.13.18"),
        ["ciliumbgploadbalancerippools.cilium.io"]
    );
    let mut mixed = observe("1.18.3", &[config(&json!({"ipam": "kubernetes"}))]);
    mixed.cilium.operator_versions = BTreeSet::from([Some(v("1.17.6"))]);
    assert_eq!(what(&mixed, "1.19.3"), ["the start"]);
}

#[test]
fn versions_that_are_refused() {
    let mut observed = observe("1.18.3", &[]);
    let refused =
        |observed: &Observed, to: &str| upgrade(Files::default(), observed, v(to)).unwrap_err();
    assert_eq!(refused(&observed, "1.21"), Refused::TooNew(v("1.21")));
    assert_eq!(
        refused(&observed, "1.17"),
        Refused::Downgrade(v("1.18.3"), v("1.17"))
    );
    observed.cilium.version = None;
    assert_eq!(refused(&observed, "1.19"), Refused::UnknownStart);
}
