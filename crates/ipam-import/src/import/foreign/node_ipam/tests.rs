//! ClusterCIDRs as the documentation of node-ipam-controller prints them, and others.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::import::foreign::calico::tests::check;
use crate::import::foreign::tests::{broken, hostile};
use ipam_core::model::Labels;

fn cluster_cidr(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR",
        "metadata": {"name": name, "finalizers": ["networking.x-k8s.io/cluster-cidr-finalizer"]}, "spec": spec})
}

fn one(spec: Value) -> ForeignPools {
    node_ipam_controller(&[cluster_cidr("pool", spec)])
}

fn terms(terms: Value) -> Value {
    json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 8, "nodeSelector": {"nodeSelectorTerms": terms}})
}

fn names(found: &ForeignPools) -> Vec<RemarkName> {
    found.all_remarks().map(|remark| remark.name).collect()
}

#[test]
fn a_dual_stack_cluster_cidr_becomes_a_pool() {
    let found = one(
        json!({"ipv4": "10.0.0.0/16", "ipv6": "fd00:10::/108", "perNodeHostBits": 8,
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "rack", "operator": "In", "values": ["a", "b"]}, {"key": "gpu", "operator": "DoesNotExist"}]}]}}),
    );
    let pool = &found.pools[0];
    assert_eq!(pool.selector.to_string(), "!gpu,rack in (a,b)");
    let sizes: Vec<u8> = pool
        .block_size
        .iter()
        .map(|size| size.prefix_len())
        .collect();
    assert_eq!(sizes, [24, 120]);
    assert_eq!(pool.cidrs.len(), 2);
    assert_eq!(
        names(&found),
        [RemarkName::SelectorTranslated, RemarkName::OtherAllocator]
    );
}

#[test]
fn terms_are_alternatives_if_one_selector_means_them() {
    let selector = |of: Value| one(terms(of)).pools[0].selector.to_string();
    let rack = |value: &str| json!({"matchExpressions": [{"key": "rack", "operator": "In", "values": [value]}]});
    assert_eq!(selector(json!([rack("a"), rack("b")])), "rack in (a,b)");
    // An empty term selects nothing.
    assert_eq!(
        selector(json!([{}, rack("b")])),
        selector(json!([rack("b")]))
    );
    let own = "cilium-ipam.io/pool=pool";
    for (inexpressible, name) in [
        (
            json!([rack("a"), {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]),
            RemarkName::SelectorNotExpressible,
        ),
        (
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]),
            RemarkName::SelectorNotExpressible,
        ),
        (
            json!([{"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["8"]}]}]),
            RemarkName::SelectorNotExpressible,
        ),
        (
            json!([{"matchExpressions": [{"key": "cpus", "operator": "Near"}]}]),
            RemarkName::SelectorNotExpressible,
        ),
        (json!("rack"), RemarkName::SelectorNotExpressible),
        (json!([]), RemarkName::SelectsNothing),
        (json!([{}]), RemarkName::SelectsNothing),
    ] {
        let found = one(terms(inexpressible.clone()));
        assert_eq!(found.pools[0].selector.to_string(), own, "{inexpressible}");
        assert!(
            names(&found).contains(&name),
            "{inexpressible}: {:?}",
            names(&found)
        );
    }
}

#[test]
fn a_nil_selector_is_for_all_nodes() {
    let found = one(json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 8}));
    assert_eq!(found.pools[0].selector, Selector::default());
}

#[test]
fn a_deleted_cluster_cidr_gives_no_new_blocks() {
    let mut object = cluster_cidr("pool", json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 8}));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let found = node_ipam_controller(&[object]);
    assert_eq!(found.pools[0].state, PoolState::Disabled);
}

#[test]
fn the_order_of_the_controller_is_kept() {
    let rack = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]});
    let wide = cluster_cidr(
        "a-wide",
        json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 8, "nodeSelector": rack}),
    );
    let narrow = cluster_cidr(
        "b-narrow",
        json!({"ipv4": "10.1.0.0/20", "perNodeHostBits": 8, "nodeSelector": rack}),
    );
    let found = node_ipam_controller(&[wide.clone(), narrow]);
    let priorities: Vec<(&str, i32)> = found
        .pools
        .iter()
        .map(|pool| (pool.name.as_str(), pool.priority))
        .collect();
    // The one with fewer blocks first, although its name comes later.
    assert_eq!(priorities, [("a-wide", 1), ("b-narrow", 2)]);
    // Ours is the same order: no priorities.
    let all = cluster_cidr("all", json!({"ipv4": "10.2.0.0/24", "perNodeHostBits": 4}));
    let found = node_ipam_controller(&[wide, all]);
    assert!(found.pools.iter().all(|pool| pool.priority == 0));
}

#[test]
fn overlapping_and_malformed_objects_are_left_out() {
    let found = node_ipam_controller(&[
        cluster_cidr("one", json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 8})),
        cluster_cidr(
            "two",
            json!({"ipv4": "10.0.128.0/17", "perNodeHostBits": 8}),
        ),
    ]);
    assert_eq!(found.pools.len(), 1);
    assert!(names(&found).contains(&RemarkName::PoolsOverlap));
    for spec in [
        json!({"ipv4": "10.0.0.0/16"}),
        json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 3}),
        json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 33}),
        json!({"ipv4": "10.0.0.0/30", "perNodeHostBits": 8}),
        json!({"ipv4": "fd00::/64", "perNodeHostBits": 8}),
        json!({"ipv4": "ten", "perNodeHostBits": 8}),
        json!({"perNodeHostBits": 8}),
        json!(7),
    ] {
        let found = one(spec.clone());
        assert!(found.pools.is_empty(), "{spec}");
        assert_eq!(names(&found), [RemarkName::ObjectUnreadable], "{spec}");
    }
}

/// Whether Kubernetes selects a node by these terms, written out.
fn is_selected(terms: &[Vec<(u8, u8, Vec<u8>)>], labels: &Labels) -> bool {
    let holds = |(key, operator, values): &(u8, u8, Vec<u8>)| {
        let value = labels.get(&format!("k{key}"));
        let is_in = value.is_some_and(|value| values.iter().any(|one| format!("v{one}") == *value));
        match operator {
            0 => is_in,
            1 => !is_in,
            2 => value.is_some(),
            _ => value.is_none(),
        }
    };
    terms
        .iter()
        .any(|term| !term.is_empty() && term.iter().all(holds))
}

proptest! {
    /// A selector that is imported selects the same nodes.
    #[test]
    fn selectors_select_the_same_nodes(
        terms in prop::collection::vec(
            prop::collection::vec((0..2_u8, 0..4_u8, prop::collection::vec(0..3_u8, 1..3)), 0..3), 0..4),
    ) {
        const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
        let written: Vec<Value> = terms.iter().map(|term| {
            let expressions = term.iter().map(|(key, operator, values)| {
                let values: Vec<String> = values.iter().map(|value| format!("v{value}")).collect();
                let values = if *operator < 2 { values } else { Vec::new() };
                json!({"key": format!("k{key}"), "operator": OPERATORS[usize::from(*operator)], "values": values})
            });
            json!({"matchExpressions": expressions.collect::<Vec<_>>()})
        }).collect();
        let found = one(super::tests::terms(json!(written)));
        let is_own = names(&found).iter().any(|name| {
            matches!(name, RemarkName::SelectorNotExpressible | RemarkName::SelectsNothing)
        });
        for place in 0..16_u8 {
            let value = |of: u8| (of < 3).then(|| format!("v{of}"));
            let both = [("k0", value(place % 4)), ("k1", value(place / 4))];
            let labels: Labels = both
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                .collect();
            let expected = is_selected(&terms, &labels);
            if is_own {
                // Nothing is approximated: no node is selected by these labels.
                prop_assert!(!found.pools[0].selector.matches(&labels));
            } else {
                prop_assert_eq!(found.pools[0].selector.matches(&labels), expected, "{:?}", labels);
            }
        }
    }

    #[test]
    fn no_broken_field_breaks_the_import(place in 0..40_usize, by in hostile()) {
        let mut object = cluster_cidr("pool", json!({"ipv4": "10.0.0.0/16", "ipv6": "fd00::/104", "perNodeHostBits": 8,
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}));
        broken(&mut object, place, &by);
        check(&node_ipam_controller(&[object]));
    }
}
