//! What a migration keeps of each node in the cluster: where the node stands, and what a program that
//! takes over, or that turns the node back to its old blocks, needs. It must never know where records
//! are stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::seen::NodeSeen;
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::Block;

ipam_core::text_enum! {
    /// How a node comes to another block.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Method {
        /// Ipam `cluster-pool`: the CiliumNode is deleted and created with the block.
        CiliumNode = "cilium-node",
        /// Ipam `kubernetes`: a `CiliumNodeConfig` sets `ipv4-range` or `ipv6-range` for the node.
        NodeConfig = "node-config",
        /// Ipam `kubernetes`: the Node is deleted and created with the block. Its kubelet must be
        /// restarted.
        NodeObject = "node",
        /// The node keeps its block, and its agent reads it from the Node: ipam `cluster-pool`
        /// becomes `kubernetes`.
        ToKubernetes = "to-kubernetes",
        /// The node keeps its block, and its agent reads it from the CiliumNode: ipam `kubernetes`
        /// becomes `cluster-pool`.
        ToClusterPool = "to-cluster-pool",
    }
}

ipam_core::text_enum! {
    /// The step at which a node stands. Each is recorded before it is begun.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Phase {
        /// No step of the node was begun.
        Pending = "pending",
        /// The node takes no new Pods.
        Cordon = "cordon",
        /// The Pods of the node are evicted.
        Drain = "drain",
        /// The Node is saved into the record.
        Save = "save",
        /// The Node or the CiliumNode is deleted.
        Remove = "remove",
        /// The Node is created again, with everything that it had but its blocks.
        Create = "create",
        /// The block is written.
        Assign = "assign",
        /// A person restarts the kubelet.
        Kubelet = "kubelet",
        /// The agent's Pod is deleted, and its DaemonSet creates another one.
        Restart = "restart",
        /// The agent must have the block, and the node must be ready.
        Verify = "verify",
        /// The node takes Pods again.
        Uncordon = "uncordon",
        /// The node is moved, or back where it was.
        Done = "done",
    }
}

ipam_core::text_enum! {
    /// Whether a node moves to its new blocks or back to its old ones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Direction {
        Forward = "forward",
        Back = "back",
    }
}

ipam_core::text_enum! {
    /// Whether the cordon of a node is not ours, such as one from before the migration. Then it
    /// stays as it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CordonedBefore {
        Yes = "yes",
        No = "no",
    }
}

ipam_core::serde_as_text! {
    Method: "method",
    Phase: "step",
    Direction: "direction",
    CordonedBefore: "answer",
}

/// A Node as it was before it was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedNode {
    /// Its resourceVersion: the deletion fails if anything has changed it since.
    pub resource_version: String,
    /// The object to create.
    pub manifest: Value,
}

/// The record of one node of a migration, as stored in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    /// The migration that it belongs to.
    pub migration: String,
    pub node: NodeName,
    /// `metadata.uid` of the Node.
    pub uid: String,
    pub method: Method,
    pub pool: PoolName,
    /// The blocks before the migration.
    pub from: Vec<Block>,
    /// The blocks after it.
    pub to: Vec<Block>,
    pub direction: Direction,
    pub phase: Phase,
    /// When the phase began, by the clock of the program that began it.
    pub since: Timestamp,
    pub cordoned_before: CordonedBefore,
    /// `metadata.uid` of the agent's Pod that is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Box<SavedNode>>,
    /// How often a CiliumNode that was written by another program was deleted again.
    pub attempts: u32,
    /// Why the node cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why nothing is left to do for it, such as that a person deleted the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl NodeRecord {
    /// The blocks that the node shall have in the current direction.
    pub fn goal(&self) -> &[Block] {
        match self.direction {
            Direction::Forward => &self.to,
            Direction::Back => &self.from,
        }
    }

    /// The blocks that the node leaves in the current direction.
    pub fn left(&self) -> &[Block] {
        match self.direction {
            Direction::Forward => &self.from,
            Direction::Back => &self.to,
        }
    }

    /// Whether the first step of the node was begun.
    pub fn has_begun(&self) -> bool {
        self.phase != Phase::Pending || self.direction == Direction::Back
    }

    /// Whether no step is left for the node.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether the node has lost an object that the next steps create again, so that a program that
    /// stops should take them first.
    pub fn lacks_an_object(&self) -> bool {
        let creates = matches!(self.method, Method::NodeObject | Method::CiliumNode);
        match self.phase {
            Phase::Remove | Phase::Create => true,
            Phase::Assign => creates,
            _ => false,
        }
    }

    /// The record at the next phase.
    pub(super) fn at(&self, phase: Phase, now: Timestamp) -> NodeRecord {
        NodeRecord {
            phase,
            since: now,
            ..self.clone()
        }
    }

    pub(super) fn failed(&self, why: String) -> NodeRecord {
        NodeRecord {
            failure: Some(why),
            ..self.clone()
        }
    }

    /// The record after a person restarted the node's kubelet. Unchanged at any other phase.
    #[must_use]
    pub fn kubelet_restarted(&self, seen: &NodeSeen, now: Timestamp) -> NodeRecord {
        match self.phase {
            Phase::Kubelet => NodeRecord {
                agent: seen.agent_uid(),
                ..self.at(Phase::Restart, now)
            },
            _ => self.clone(),
        }
    }

    /// The record with another attempt at the failed phase.
    #[must_use]
    pub fn retried(&self, now: Timestamp) -> NodeRecord {
        NodeRecord {
            failure: None,
            attempts: 0,
            since: now,
            ..self.clone()
        }
    }
}

impl Method {
    /// Whether the node gets another block, so that its Pods must leave first.
    pub fn renumbers(self) -> bool {
        match self {
            Method::CiliumNode | Method::NodeConfig | Method::NodeObject => true,
            Method::ToKubernetes | Method::ToClusterPool => false,
        }
    }

    /// The phases of a node, in order.
    pub fn phases(self) -> &'static [Phase] {
        use Phase::{
            Assign, Cordon, Create, Drain, Kubelet, Remove, Restart, Save, Uncordon, Verify,
        };
        match self {
            Method::CiliumNode => &[Cordon, Drain, Remove, Assign, Restart, Verify, Uncordon],
            Method::NodeConfig => &[Cordon, Drain, Assign, Restart, Verify, Uncordon],
            Method::NodeObject => &[
                Cordon, Drain, Save, Remove, Create, Assign, Kubelet, Restart, Verify, Uncordon,
            ],
            Method::ToKubernetes | Method::ToClusterPool => {
                &[Cordon, Assign, Restart, Verify, Uncordon]
            }
        }
    }

    /// The phase that follows a phase, by this method.
    pub(super) fn after(self, phase: Phase) -> Phase {
        let phases = self.phases();
        let place = phases.iter().position(|one| *one == phase);
        match (place, phase) {
            (_, Phase::Pending) => phases.first().copied(),
            (Some(place), _) => phases.get(place + 1).copied(),
            (None, _) => None,
        }
        .unwrap_or(Phase::Done)
    }
}

impl NodeRecord {
    /// The record with which the node goes back. A node on its way back stays so.
    #[must_use]
    pub fn turned_back(&self, seen: &NodeSeen, now: Timestamp) -> NodeRecord {
        if self.direction == Direction::Back {
            return self.retried(now);
        }
        let phase = match self.phase {
            // No step was begun, so none has to be undone.
            Phase::Pending => Phase::Done,
            // The block is still the old one.
            Phase::Cordon | Phase::Drain | Phase::Save => Phase::Uncordon,
            Phase::Remove | Phase::Create | Phase::Assign | Phase::Kubelet | Phase::Restart => {
                self.begun(seen)
            }
            // Pods may run on the new block.
            Phase::Verify | Phase::Uncordon | Phase::Done => Phase::Cordon,
        };
        NodeRecord {
            direction: Direction::Back,
            phase,
            since: now,
            attempts: 0,
            failure: None,
            agent: None,
            ..self.clone()
        }
    }

    /// The phase in which a drained node returns, whose block is being changed.
    fn begun(&self, seen: &NodeSeen) -> Phase {
        match self.method {
            Method::NodeConfig | Method::ToKubernetes | Method::ToClusterPool => Phase::Assign,
            Method::CiliumNode => Phase::Remove,
            Method::NodeObject => match &seen.node {
                None => Phase::Create,
                Some(node) if node.node.uid != self.uid => Phase::Create,
                Some(node) if node.node.spec.is_empty() => Phase::Assign,
                // The deletion of the Node cannot be called off, or its block can be written only
                // once.
                Some(_) => Phase::Save,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::tests::{record, seen_node};

    fn turned(method: Method, phase: Phase, seen: &NodeSeen) -> Phase {
        let record = NodeRecord {
            method,
            phase,
            ..record()
        };
        let turned = record.turned_back(seen, Timestamp::UNIX_EPOCH);
        assert_eq!(turned.direction, Direction::Back);
        assert_eq!(turned.goal(), record.from);
        turned.phase
    }

    #[test]
    fn a_node_returns_from_where_it_stands() {
        let seen = NodeSeen {
            node: Some(seen_node("u", &["10.0.0.0/24"])),
            ..NodeSeen::default()
        };
        let of = |method, phase| turned(method, phase, &seen);
        assert_eq!(of(Method::NodeConfig, Phase::Pending), Phase::Done);
        assert_eq!(of(Method::NodeConfig, Phase::Drain), Phase::Uncordon);
        assert_eq!(of(Method::NodeConfig, Phase::Restart), Phase::Assign);
        assert_eq!(of(Method::CiliumNode, Phase::Assign), Phase::Remove);
        assert_eq!(of(Method::CiliumNode, Phase::Done), Phase::Cordon);
        assert_eq!(of(Method::NodeObject, Phase::Kubelet), Phase::Save);
        let gone = NodeSeen::default();
        assert_eq!(
            turned(Method::NodeObject, Phase::Remove, &gone),
            Phase::Create
        );
    }

    #[test]
    fn a_node_on_its_way_back_goes_on() {
        let back = NodeRecord {
            direction: Direction::Back,
            phase: Phase::Drain,
            failure: Some("x".to_owned()),
            ..record()
        };
        let turned = back.turned_back(&NodeSeen::default(), Timestamp::UNIX_EPOCH);
        assert_eq!((turned.phase, turned.failure), (Phase::Drain, None));
    }
}
