//! The writes that give a node its blocks, one for each write path.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Operation, Target, Write, guard};
use ipam_cilium::observed::{
    IGNORE_ANNOTATION, NodeConfigApi, OWNER_LABEL, OperatorAttention, range_setting,
};
use ipam_core::net::Block;
use ipam_plan::plan::{
    CiliumNodeObject, Edit, HOSTNAME_LABEL, NodeChange, NodeConfigEdit, NodeConfigObject,
};

impl Write {
    /// Creates the object that a change fills afterwards, without the fields that an agent reads.
    /// `None` if the object exists.
    pub fn preparing(change: &NodeChange) -> Option<Write> {
        match &change.edit {
            Edit::CiliumNode {
                object: CiliumNodeObject::New(attention),
                ..
            } => {
                let operation = Operation::Create(new_cilium_node(change, *attention, json!({})));
                Some(Write {
                    target: Target::CiliumNode(change.node.clone()),
                    operation,
                })
            }
            Edit::NodeConfig(config) => {
                let NodeConfigEdit {
                    api,
                    namespace,
                    name,
                    object,
                    ..
                } = &**config;
                let is_new = matches!(object, NodeConfigObject::New { .. });
                let operation = || {
                    node_config(
                        change,
                        *api,
                        (namespace, name),
                        json!({"defaults": {}}),
                        object,
                    )
                };
                let target = Target::NodeConfig(*api, namespace.clone(), name.clone());
                is_new.then(|| Write {
                    target,
                    operation: operation(),
                })
            }
            Edit::CiliumNode { .. } | Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => None,
        }
    }
}

impl From<&NodeChange> for Write {
    fn from(change: &NodeChange) -> Write {
        let mut patch = json!({"metadata": guard(&change.guard)});
        match &change.edit {
            Edit::NodeConfig(config) => {
                let NodeConfigEdit {
                    api,
                    namespace,
                    name,
                    ranges,
                    removed,
                    object,
                } = &**config;
                let is_new = matches!(object, NodeConfigObject::New { .. });
                // Only in a patch does null mean anything: it removes a key.
                let removed = removed.iter().filter(|_| !is_new);
                let removed = removed.map(|family| (range_setting(*family), None));
                let set = ranges.iter();
                let set = set.map(|block| (range_setting(block.family()), Some(block.to_string())));
                let settings: BTreeMap<_, _> = set.chain(removed).collect();
                let spec = json!({"defaults": settings});
                let target = Target::NodeConfig(*api, namespace.clone(), name.clone());
                return Write {
                    target,
                    operation: node_config(change, *api, (namespace, name), spec, object),
                };
            }
            Edit::CiliumNode { pod_cidrs, object } => {
                return cilium_node(change, &texts(pod_cidrs), object);
            }
            Edit::NodeSpec { pod_cidrs } => {
                let texts = texts(pod_cidrs);
                // Both fields: the API server lets podCIDR win where they differ
                // (pkg/apis/core/v1/conversion.go).
                patch["spec"] = json!({"podCIDR": texts.first(), "podCIDRs": texts});
            }
            Edit::NodeAnnotations { values } => {
                for (key, block) in values {
                    patch["metadata"]["annotations"][*key] =
                        json!(block.map(|block| block.to_string()));
                }
            }
        }
        Write {
            target: Target::Node(change.node.clone()),
            operation: Operation::Patch(patch),
        }
    }
}

fn texts(blocks: &[Block]) -> Vec<String> {
    blocks.iter().map(ToString::to_string).collect()
}

/// Writes the CiliumNode that the agent reads when it starts. The Node owns it, so both are deleted
/// together.
fn cilium_node(change: &NodeChange, pod_cidrs: &[String], object: &CiliumNodeObject) -> Write {
    let spec = json!({"ipam": {"podCIDRs": pod_cidrs}});
    let operation = match object {
        CiliumNodeObject::Seen(version) => {
            Operation::Patch(json!({"metadata": guard(version), "spec": spec}))
        }
        CiliumNodeObject::New(attention) => {
            Operation::Create(new_cilium_node(change, *attention, spec))
        }
        CiliumNodeObject::Deleted(version) => Operation::Delete(version.clone()),
        CiliumNodeObject::Filled => {
            Operation::Create(new_cilium_node(change, OperatorAttention::Served, spec))
        }
    };
    Write {
        target: Target::CiliumNode(change.node.clone()),
        operation,
    }
}

fn new_cilium_node(change: &NodeChange, attention: OperatorAttention, spec: Value) -> Value {
    // The label proves to an undo that we created it, and that no agent has written it since.
    let (label, value) = OWNER_LABEL;
    let mut object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": change.node.as_str(), "labels": {label: value}, "ownerReferences": [owner(change)]}, "spec": spec});
    if attention == OperatorAttention::Ignored {
        object["metadata"]["annotations"] = json!({IGNORE_ANNOTATION: "true"});
    }
    object
}

fn owner(change: &NodeChange) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": change.node.as_str(), "uid": change.guard.uid})
}

/// Writes a CiliumNodeConfig for one node. Its Node owns it, so both are deleted together.
fn node_config(
    change: &NodeChange,
    api: NodeConfigApi,
    (namespace, name): (&str, &str),
    mut spec: Value,
    object: &NodeConfigObject,
) -> Operation {
    match object {
        NodeConfigObject::Seen(version) => {
            Operation::Patch(json!({"metadata": guard(version), "spec": spec}))
        }
        NodeConfigObject::Deleted(version) => Operation::Delete(version.clone()),
        NodeConfigObject::New { hostname } => {
            let (label, value) = OWNER_LABEL;
            spec["nodeSelector"] = json!({"matchLabels": {HOSTNAME_LABEL: hostname}});
            let metadata = json!({"name": name, "namespace": namespace, "labels": {label: value}, "ownerReferences": [owner(change)]});
            Operation::Create(
                json!({"apiVersion": api.as_str(), "kind": "CiliumNodeConfig", "metadata": metadata, "spec": spec}),
            )
        }
    }
}
