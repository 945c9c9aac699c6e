//! Which block an agent reads when it starts, and what it writes into its CiliumNode.
//!
//! Facts played: `ipam: kubernetes` waits for a block of the Node (spec before annotations, those
//! only with `annotate-k8s-node`), then publishes it; `cluster-pool` creates or updates the CiliumNode first and waits for
//! the operator to put a block there. `ipv4-range` of a CiliumNodeConfig replaces the block, but does
//! not end the wait. Labels, owner and addresses of the CiliumNode come from the Node each time.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::oracle::AnnotateK8sNode;
use crate::player::block::Block;
use crate::player::node::{found, text};
use crate::player::{PlayedIpam, Player};

const NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
/// The second is read only where the first is absent.
const ANNOTATIONS: [&str; 2] = [
    "network.cilium.io/ipv4-pod-cidr",
    "io.cilium.network.ipv4-pod-cidr",
];

/// The block of a node whose agent starts, or nothing while it must wait.
pub(crate) fn block(name: &str, player: &Player) -> Result<Option<Block>> {
    let Some(node) = found(player.client.get(&format!("/api/v1/nodes/{name}")))? else {
        return Ok(None);
    };
    let held = match player.ipam {
        PlayedIpam::Kubernetes(annotate) => of_node(&node, annotate),
        PlayedIpam::ClusterPool => of_cilium_node(&publish(&node, None, player)?),
    };
    let Some(held) = held else {
        return Ok(None);
    };
    let used = range(&node, player)?.unwrap_or(held);
    let block = used
        .parse()
        .map_err(|why| Error::unreadable(format!("the block of {name}"), why))?;
    if let PlayedIpam::Kubernetes(_) = player.ipam {
        publish(&node, Some(&used), player)?;
    }
    Ok(Some(block))
}

fn of_node(node: &Value, annotate: AnnotateK8sNode) -> Option<String> {
    let cidrs = node.pointer("/spec/podCIDRs").and_then(Value::as_array);
    let ipv4 = |cidr: &&str| !cidr.contains(':');
    let of_spec = cidrs
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(ipv4);
    let annotations = &node["metadata"]["annotations"];
    let of_annotation = || match annotate {
        AnnotateK8sNode::On => ANNOTATIONS.iter().find_map(|key| annotations[key].as_str()),
        AnnotateK8sNode::Off => None,
    };
    of_spec.or_else(of_annotation).map(str::to_owned)
}

fn of_cilium_node(cilium_node: &Value) -> Option<String> {
    let first = text(cilium_node, "/spec/ipam/podCIDRs/0");
    (!first.is_empty()).then(|| first.to_owned())
}

/// Creates or updates the CiliumNode. Without a block, the blocks there stay.
fn publish(node: &Value, block: Option<&str>, player: &Player) -> Result<Value> {
    let name = text(node, "/metadata/name");
    let path = format!("{NODES}/{name}");
    let addresses: Vec<Value> = node
        .pointer("/status/addresses")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|address| address["type"] != "Hostname")
        .map(|address| json!({"type": address["type"], "ip": address["address"]}))
        .collect();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": text(node, "/metadata/uid")});
    let metadata =
        json!({"name": name, "labels": node["metadata"]["labels"], "ownerReferences": [owner]});
    let ipam = block.map_or(json!({}), |block| json!({"podCIDRs": [block]}));
    let wanted = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata,
        "spec": {"addresses": addresses, "ipam": ipam}});
    match found(player.client.patch(&path, &wanted))? {
        Some(there) => Ok(there),
        None => player.client.create(NODES, &wanted),
    }
}

/// `ipv4-range` of the CiliumNodeConfigs that select the node. The last by name wins.
fn range(node: &Value, player: &Player) -> Result<Option<String>> {
    let list = |version: &str| {
        player.client.get(&format!(
            "/apis/cilium.io/{version}/namespaces/kube-system/ciliumnodeconfigs"
        ))
    };
    let Some(configs) =
        found(list("v2"))?.map_or_else(|| found(list("v2alpha1")), |all| Ok(Some(all)))?
    else {
        return Ok(None);
    };
    let ranges: BTreeMap<&str, &str> = configs["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|config| selects(&config["spec"]["nodeSelector"], &node["metadata"]["labels"]))
        .filter_map(|config| {
            Some((
                text(config, "/metadata/name"),
                config["spec"]["defaults"]["ipv4-range"].as_str()?,
            ))
        })
        .collect();
    Ok(ranges.values().last().map(|&range| range.to_owned()))
}

/// As Kubernetes reads a LabelSelector.
fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let listed = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    equal.into_iter().all(|(key, value)| labels[key] == *value)
        && listed.into_iter().all(|one| holds(one, labels))
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let label = &labels[text(expression, "/key")];
    let values = expression["values"].as_array();
    let is_listed = values.is_some_and(|values| values.contains(label));
    match text(expression, "/operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => !label.is_null(),
        "DoesNotExist" => label.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_wins_over_annotations_and_those_need_the_setting() {
        let node = |spec: Value, annotations: Value| json!({"spec": spec, "metadata": {"annotations": annotations}});
        let old = json!({"io.cilium.network.ipv4-pod-cidr": "10.0.1.0/24"});
        let both = json!({"io.cilium.network.ipv4-pod-cidr": "10.0.1.0/24", "network.cilium.io/ipv4-pod-cidr": "10.0.2.0/24"});
        let spec = json!({"podCIDRs": ["fd00::/64", "10.0.3.0/24"]});
        let of = |spec: &Value, annotations: &Value, annotate| {
            of_node(&node(spec.clone(), annotations.clone()), annotate)
        };
        let empty = json!({});
        assert_eq!(
            of(&spec, &both, AnnotateK8sNode::On).as_deref(),
            Some("10.0.3.0/24")
        );
        assert_eq!(
            of(&empty, &both, AnnotateK8sNode::On).as_deref(),
            Some("10.0.2.0/24")
        );
        assert_eq!(
            of(&empty, &old, AnnotateK8sNode::On).as_deref(),
            Some("10.0.1.0/24")
        );
        assert_eq!(of(&empty, &old, AnnotateK8sNode::Off), None);
    }

    #[test]
    fn selectors_are_read_as_kubernetes_does() {
        let labels = json!({"rack": "a"});
        assert!(selects(&json!({}), &labels));
        assert!(selects(&json!({"matchLabels": {"rack": "a"}}), &labels));
        assert!(!selects(&json!({"matchLabels": {"rack": "b"}}), &labels));
        let one = |operator: &str, values: &[&str]| {
            selects(
                &json!({"matchExpressions": [{"key": "rack", "operator": operator, "values": values}]}),
                &labels,
            )
        };
        assert!(
            one("In", &["a", "b"])
                && !one("NotIn", &["a"])
                && one("Exists", &[])
                && !one("DoesNotExist", &[])
        );
    }
}
