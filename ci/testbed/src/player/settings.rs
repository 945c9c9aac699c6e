//! Which block an agent reads when it starts, and what it writes into its CiliumNode.
//!
//! Facts played: `ipam: kubernetes` waits for a block of the Node (spec before annotations, those
//! only with `annotate-k8s-node`), then publishes it; `cluster-pool` creates or updates the CiliumNode first and waits for
//! the operator to put a block there. With `ipam: multi-pool` of a CiliumNodeConfig, the agent waits for
//! the CiliumPodIPPool and for a block of its default pool, requests addresses of it, and returns the
//! blocks of other pools (`pkg/ipam/multipool_manager.go` @ 1.20). `ipv4-range` of a CiliumNodeConfig replaces the block, but does
//! not end the wait. Labels, owner and addresses of the CiliumNode come from the Node each time.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::oracle::AnnotateK8sNode;
use crate::player::block::Block;
use crate::player::node::{found, text};
use crate::player::{PlayedIpam, Player};

const NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumpodippools";
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
    let mut settings = settings(&node, player)?;
    let held = match player.ipam {
        _ if settings
            .get("ipam")
            .is_some_and(|ipam| ipam == "multi-pool") =>
        {
            let pool = settings.get("ipam-default-ip-pool");
            of_pool(&node, pool.map_or("default", String::as_str), player)?
        }
        PlayedIpam::Kubernetes(annotate) => of_node(&node, annotate),
        PlayedIpam::ClusterPool => of_cilium_node(&publish(&node, None, player)?),
    };
    let Some(held) = held else {
        return Ok(None);
    };
    let used = settings.remove("ipv4-range").unwrap_or(held);
    let block = used
        .parse()
        .map_err(|why| Error::unreadable(format!("the block of {name}"), why))?;
    if let PlayedIpam::Kubernetes(_) = player.ipam {
        publish(&node, Some(&used), player)?;
    }
    Ok(Some(block))
}

/// The IPv4 blocks of a list of CIDRs, and how many others there are.
fn by_family(cidrs: Option<&Value>) -> (Vec<&str>, usize) {
    let cidrs = cidrs.and_then(Value::as_array).into_iter().flatten();
    let (ipv4, ipv6): (Vec<&str>, Vec<&str>) = cidrs
        .filter_map(Value::as_str)
        .partition(|cidr| !cidr.contains(':'));
    (ipv4, ipv6.len())
}

fn of_node(node: &Value, annotate: AnnotateK8sNode) -> Option<String> {
    let of_spec = by_family(node.pointer("/spec/podCIDRs")).0.first().copied();
    let annotations = &node["metadata"]["annotations"];
    let of_annotation = || match annotate {
        AnnotateK8sNode::On => ANNOTATIONS.iter().find_map(|key| annotations[key].as_str()),
        AnnotateK8sNode::Off => None,
    };
    of_spec.or_else(of_annotation).map(str::to_owned)
}

fn of_cilium_node(cilium_node: &Value) -> Option<String> {
    let (ipv4, _) = by_family(cilium_node.pointer("/spec/ipam/podCIDRs"));
    ipv4.first().map(|&cidr| cidr.to_owned())
}

/// Requests addresses of the pool, and keeps no block of another one. In dual stack, a block of one
/// family does not suffice.
fn of_pool(node: &Value, pool: &str, player: &Player) -> Result<Option<String>> {
    let cilium_node = publish(node, None, player)?;
    if found(player.client.get(&format!("{POOLS}/{pool}")))?.is_none() {
        return Ok(None);
    }
    let allocated = cilium_node.pointer("/spec/ipam/pools/allocated");
    let allocated = allocated.and_then(Value::as_array).into_iter().flatten();
    let of_pool: Vec<&Value> = allocated.filter(|one| one["pool"] == pool).collect();
    let (_, old_ipv6) = by_family(cilium_node.pointer("/spec/ipam/podCIDRs"));
    let needed = match old_ipv6 {
        0 => json!({"ipv4-addrs": 8}),
        _ => json!({"ipv4-addrs": 8, "ipv6-addrs": 8}),
    };
    let requested = json!([{"pool": pool, "needed": needed}]);
    let version = &cilium_node["metadata"]["resourceVersion"];
    let change = json!({"metadata": {"resourceVersion": version},
        "spec": {"ipam": {"pools": {"requested": requested, "allocated": of_pool}}}});
    let path = format!("{NODES}/{}", text(node, "/metadata/name"));
    match player.client.patch(&path, &change) {
        // Another writer was faster: it is tried again.
        Err(error) if error.status() == Some(409) => Ok(None),
        Err(error) => Err(error),
        Ok(_) => {
            let (ipv4, ipv6) = by_family(of_pool.first().map(|one| &one["cidrs"]));
            let first = ipv4.first().filter(|_| ipv6 > 0 || old_ipv6 == 0);
            Ok(first.map(|&cidr| cidr.to_owned()))
        }
    }
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

/// The settings of the CiliumNodeConfigs that select the node. The last by name wins.
fn settings(node: &Value, player: &Player) -> Result<BTreeMap<String, String>> {
    let list = |version: &str| {
        player.client.get(&format!(
            "/apis/cilium.io/{version}/namespaces/kube-system/ciliumnodeconfigs"
        ))
    };
    let Some(configs) =
        found(list("v2"))?.map_or_else(|| found(list("v2alpha1")), |all| Ok(Some(all)))?
    else {
        return Ok(BTreeMap::new());
    };
    let configs = configs["items"].as_array().into_iter().flatten();
    let mut chosen: Vec<&Value> = configs
        .filter(|config| selects(&config["spec"]["nodeSelector"], &node["metadata"]["labels"]))
        .collect();
    chosen.sort_by_key(|config| text(config, "/metadata/name"));
    let of_config = |config: &Value| config["spec"]["defaults"].as_object().cloned();
    let all = chosen.into_iter().filter_map(of_config).flatten();
    Ok(all
        .filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())))
        .collect())
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
