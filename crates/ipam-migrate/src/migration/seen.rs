//! What the cluster shows of one node during a migration: the Node, its CiliumNode and its Pods.
//!
//! Reads raw objects. It must never decide what to do.

use std::sync::Arc;

use serde_json::Value;

use ipam_cilium::observed::{CiliumNode, Node, ObjectVersion, ObservedKind, ReadError, Understood};
use ipam_cilium::pods::{Pod, Readiness};
use ipam_core::net::Block;

/// On a Node: the migration that moves it. No plan changes such a node.
pub use ipam_cilium::observed::MIGRATION_ANNOTATION;

/// One node of a migration with its objects, as read from the cluster.
#[derive(Clone, Debug, Default)]
pub struct NodeSeen {
    pub node: Option<SeenNode>,
    pub cilium_node: Option<Arc<CiliumNode>>,
    /// Pods that are bound to the node.
    pub pods: Vec<Pod>,
}

/// A Node with the fields that a migration keeps.
#[derive(Clone, Debug)]
pub struct SeenNode {
    pub node: Arc<Node>,
    /// The whole Node as the server shows it.
    pub object: Value,
}

/// Whether a node takes new Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    Schedulable,
    Cordoned,
}

impl NodeSeen {
    /// Reads the objects; `None` is one that does not exist.
    ///
    /// # Errors
    /// Fails if an object is malformed.
    pub fn read(
        node: Option<Value>,
        cilium_node: Option<&Value>,
        pods: &[Value],
    ) -> Result<NodeSeen, ReadError> {
        let node = node.map(SeenNode::read).transpose()?;
        let cilium_node = cilium_node.map(read_cilium_node).transpose()?;
        let pods = pods.iter().map(Pod::read).collect::<Result<_, _>>()?;
        Ok(NodeSeen {
            node,
            cilium_node,
            pods,
        })
    }

    /// Pods of Cilium's agent on the node.
    pub(super) fn agents(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.is_agent())
    }

    /// `metadata.uid` of the agent's Pod that runs now.
    pub(super) fn agent_uid(&self) -> Option<String> {
        self.agents().next().map(|pod| pod.uid.clone())
    }

    /// The blocks that the CiliumNode shows.
    pub fn agent_blocks(&self) -> &[Block] {
        self.cilium_node
            .as_ref()
            .map_or(&[], |cilium_node| &cilium_node.pod_cidrs)
    }
}

impl SeenNode {
    fn read(object: Value) -> Result<SeenNode, ReadError> {
        let text = object.to_string();
        match Understood::of(ObservedKind::Node, &text) {
            Some(Understood::Node(node)) => Ok(SeenNode { node, object }),
            _ => Err(unreadable("nodes", &text)),
        }
    }

    pub(super) fn version(&self) -> ObjectVersion {
        ObjectVersion {
            uid: self.node.uid.clone(),
            resource_version: self.node.resource_version.clone(),
        }
    }

    pub fn scheduling(&self) -> Scheduling {
        match self.object.pointer("/spec/unschedulable") {
            Some(Value::Bool(true)) => Scheduling::Cordoned,
            _ => Scheduling::Schedulable,
        }
    }

    pub(super) fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.object.pointer("/metadata/finalizers");
        let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
        finalizers.filter_map(Value::as_str).collect()
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.object.pointer("/metadata/deletionTimestamp").is_some()
    }

    pub fn readiness(&self) -> Readiness {
        let conditions = self.object.pointer("/status/conditions");
        let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        match conditions.any(|one| one["type"] == "Ready" && one["status"] == "True") {
            true => Readiness::Ready,
            false => Readiness::NotReady,
        }
    }
}

fn read_cilium_node(object: &Value) -> Result<Arc<CiliumNode>, ReadError> {
    let text = object.to_string();
    match Understood::of(ObservedKind::CiliumNode, &text) {
        Some(Understood::CiliumNode(node)) => Ok(node),
        _ => Err(unreadable("ciliumnodes.cilium.io", &text)),
    }
}

fn unreadable(resource: &'static str, text: &str) -> ReadError {
    ReadError::of(resource, text, &std::fmt::Error)
}
