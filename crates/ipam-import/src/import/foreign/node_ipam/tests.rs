//! Any node selectors, and ClusterCIDRs with faults. `foreign/tests/cases/node-ipam` has the other cases.

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
