//! A value that Cilium does not read as a CIDR: the address at its start stays free of other nodes,
//! because an agent that started on an earlier value may use the block around it.

use serde_json::json;

use super::{cilium_node, folder};
use crate::support::node;

/// The block that a new node gets beside an object.
fn given(object: &str) -> String {
    let folder = folder(&[node("n1", "a", ""), node("n2", "a", ""), object.to_owned()]);
    let plan = folder.plan();
    let changes = plan["changes"].as_array().unwrap();
    assert!(
        changes.iter().all(|change| change["name"] != "n1"),
        "{plan:#}"
    );
    let change = changes.iter().find(|change| change["name"] == "n2");
    change.unwrap()["after"][0].as_str().unwrap().to_owned()
}

#[test]
fn the_block_around_an_unreadable_value_is_given_to_no_other_node() {
    for text in [
        "10.20.0.0",
        "10.20.0.0/24 ",
        "10.20.0.0/255.255.255.0",
        "10.20.0.0-10.20.0.255",
        "10.20.0.7/33",
    ] {
        let cilium_node = cilium_node("n1", text).to_string();
        assert_eq!(given(&cilium_node), "10.20.1.0/24", "{text}");
    }
    for text in ["10.20", "nothing", ""] {
        let cilium_node = cilium_node("n1", text).to_string();
        assert_eq!(given(&cilium_node), "10.20.0.0/24", "{text}");
    }
}

#[test]
fn so_are_values_of_nodes() {
    let other = |key: &str, value: &str| {
        let metadata = json!({"name": "n3", "labels": {"rack": "z"}, "annotations": {key: value}});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}).to_string()
    };
    let annotated = other("network.cilium.io/ipv4-pod-cidr", "10.20.0.0");
    let folder = folder(&[
        node("n2", "a", ""),
        annotated,
        node(
            "n4",
            "z",
            r#""podCIDR":"10.20.1.0","podCIDRs":["10.20.1.0"]"#,
        ),
    ]);
    let plan = folder.plan();
    let changes = plan["changes"].as_array().unwrap();
    assert_eq!(changes[0]["after"][0], "10.20.2.0/24", "{plan:#}");
}
