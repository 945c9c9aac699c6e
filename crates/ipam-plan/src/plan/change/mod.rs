//! The changes of a plan.
//!
//! The write of a change of a node, field by field.
//!
//! The object that a change is about.

mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::lb::{AddressPoolChange, ServiceChange};
use super::owned::{Owned, PoolAction};
use super::pod_pools::PodPoolChange;
use super::ports::PortChange;
use ipam_cilium::observed::{NodeConfigApi, OperatorAttention};
use ipam_core::model::{
    AddressPoolName, Hazard, NodeName, ObjectVersion, PerFamily, ServiceName, WritePath,
};
use ipam_core::net::{Block, Family};
use ipam_core::neutron::Id;

#[cfg(test)]
pub(super) use node::tests;
pub use node::{Action, NodeChange, Reason, UnapprovedBlock};

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A pool of LoadBalancer addresses.
    AddressPool(Box<AddressPoolChange>),
    /// The addresses that a Service asks for.
    Service(ServiceChange),
    /// A pool of Pods, or the nodes that use it.
    PodPool(Box<PodPoolChange>),
    /// The pairs of a VM's port.
    Port(Box<PortChange>),
    /// The blocks of a node.
    Node(Box<NodeChange>),
}

/// The order of a change among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sequence {
    /// It may be sent together with others.
    Any,
    /// It is sent only after those before it succeeded: its effects were computed after theirs.
    AfterThoseBefore,
}

impl Change {
    /// The object.
    pub fn target(&self) -> Target {
        match self {
            Change::AddressPool(change) => change.object.target(),
            Change::Service(change) => Target::Service(change.service.clone()),
            Change::PodPool(change) => change.object.target(),
            Change::Port(change) => Target::Port(change.port.clone()),
            Change::Node(change) => Target::Node(change.node.clone()),
        }
    }

    /// The change of a node, if it is one.
    pub fn as_node(&self) -> Option<&NodeChange> {
        match self {
            Change::Node(change) => Some(change),
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) | Change::Port(_) => {
                None
            }
        }
    }

    /// The change of a port, if it is one.
    pub fn as_port(&self) -> Option<&PortChange> {
        match self {
            Change::Port(change) => Some(change),
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) | Change::Node(_) => {
                None
            }
        }
    }

    /// What it means for workloads.
    pub fn hazard(&self) -> Hazard {
        match self {
            Change::AddressPool(change) => change.hazard,
            Change::Service(change) => change.hazard,
            Change::PodPool(change) => change.hazard,
            Change::Port(change) => change.hazard(),
            Change::Node(change) => change.hazard,
        }
    }

    /// Its order among other changes.
    pub fn sequence(&self) -> Sequence {
        match self {
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) => {
                Sequence::AfterThoseBefore
            }
            Change::Port(_) | Change::Node(_) => Sequence::Any,
        }
    }

    /// Whether it gives a block to a node on which no Pod depends on it yet.
    pub fn gives_to_a_new_node(&self) -> bool {
        let is_new =
            |node: &NodeChange| node.action == Action::Assign && node.hazard == Hazard::None;
        self.as_node().is_some_and(is_new) && self.needs_approval().is_empty()
    }

    /// Blocks that a person must approve before they are written.
    pub fn needs_approval(&self) -> &[UnapprovedBlock] {
        self.as_node().map_or(&[], |change| &change.needs_approval)
    }

    /// Whether it can be undone.
    pub fn can_be_undone(&self) -> bool {
        match self {
            Change::AddressPool(_) | Change::Service(_) | Change::Port(_) => true,
            Change::PodPool(change) => change.lost_fields.is_empty(),
            Change::Node(change) => change.undo.is_some(),
        }
    }
}

impl From<AddressPoolChange> for Change {
    fn from(change: AddressPoolChange) -> Change {
        Change::AddressPool(Box::new(change))
    }
}

impl From<ServiceChange> for Change {
    fn from(change: ServiceChange) -> Change {
        Change::Service(change)
    }
}

impl From<PodPoolChange> for Change {
    fn from(change: PodPoolChange) -> Change {
        Change::PodPool(Box::new(change))
    }
}

impl From<NodeChange> for Change {
    fn from(change: NodeChange) -> Change {
        Change::Node(Box::new(change))
    }
}

/// The changes of nodes among these.
pub fn node_changes<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
) -> impl Iterator<Item = &'c NodeChange> {
    changes.into_iter().filter_map(Change::as_node)
}

/// The write, field by field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// `spec.podCIDR` and `spec.podCIDRs`, the primary family first.
    NodeSpec {
        /// All blocks of the node.
        pod_cidrs: Vec<Block>,
    },
    /// Annotations by key.
    NodeAnnotations {
        /// The annotations to set, or to remove with `None`; others stay.
        values: BTreeMap<&'static str, Option<Block>>,
    },
    /// `CiliumNode.spec.ipam.podCIDRs`.
    CiliumNode {
        /// All blocks of the node.
        pod_cidrs: Vec<Block>,
        /// The CiliumNode.
        object: CiliumNodeObject,
    },
    /// `ipv4-range` and `ipv6-range` for one node.
    NodeConfig(Box<NodeConfigEdit>),
}

/// The write into the `CiliumNodeConfig` of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfigEdit {
    /// The version in which it is written.
    pub api: NodeConfigApi,
    /// Cilium's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The blocks that it sets.
    pub ranges: PerFamily<Block>,
    /// Families whose setting it removes.
    pub removed: BTreeSet<Family>,
    /// The object.
    pub object: NodeConfigObject,
}

/// The `CiliumNodeConfig` that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeConfigObject {
    /// It does not exist. It is created without settings and owned by its Node. The write then
    /// fills the version that the server returned.
    New {
        /// The value of the label that selects the node.
        hostname: String,
    },
    /// It exists in this version.
    Seen(ObjectVersion),
    /// It exists in this version and is deleted, because it has no other settings.
    Deleted(ObjectVersion),
}

/// The CiliumNode that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CiliumNodeObject {
    /// It does not exist. It is created empty and owned by its Node. The write then fills the
    /// version that the server returned.
    New(OperatorAttention),
    /// It does not exist, and Cilium's operator would fill an empty one. So it is created with its
    /// blocks.
    Filled,
    /// It exists in this version.
    Seen(ObjectVersion),
    /// It exists in this version and is deleted.
    Deleted(ObjectVersion),
}

impl Edit {
    /// The write path that it belongs to.
    pub fn write_path(&self) -> WritePath {
        match self {
            Edit::NodeSpec { .. } => WritePath::NodeSpec,
            Edit::NodeAnnotations { .. } => WritePath::NodeAnnotation,
            Edit::CiliumNode { .. } => WritePath::CiliumNode,
            Edit::NodeConfig(_) => WritePath::NodeConfig,
        }
    }

    /// The blocks that the written fields will show.
    pub fn blocks(&self) -> BTreeSet<Block> {
        match self {
            Edit::NodeSpec { pod_cidrs } | Edit::CiliumNode { pod_cidrs, .. } => {
                pod_cidrs.iter().copied().collect()
            }
            Edit::NodeAnnotations { values } => values.values().flatten().copied().collect(),
            Edit::NodeConfig(config) => config.ranges.iter().copied().collect(),
        }
    }
}

ipam_core::text_enum! {
    /// What a change does to its object. The text stands in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ChangeAction {
        Assign = "assign",
        Release = "release",
        Update = "update",
        Create = "create",
        Adopt = "adopt",
        Delete = "delete",
        Pin = "pin",
    }
}

impl From<Action> for ChangeAction {
    fn from(action: Action) -> ChangeAction {
        match action {
            Action::Assign => ChangeAction::Assign,
            Action::Update => ChangeAction::Update,
            Action::Release => ChangeAction::Release,
        }
    }
}

impl From<PoolAction> for ChangeAction {
    fn from(action: PoolAction) -> ChangeAction {
        match action {
            PoolAction::Update => ChangeAction::Update,
            PoolAction::Adopt => ChangeAction::Adopt,
            PoolAction::Delete => ChangeAction::Delete,
            PoolAction::Create => ChangeAction::Create,
        }
    }
}

ipam_core::text_enum! {
    /// Kind of an object as Kubernetes writes it; `Port` for a port of Neutron. The text stands
    /// in JSON, and outputs are sorted by this order, which is that of the texts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TargetKind {
        AddressPool = "CiliumLoadBalancerIPPool",
        NodeConfig = "CiliumNodeConfig",
        PodPool = "CiliumPodIPPool",
        Node = "Node",
        Port = "Port",
        Service = "Service",
    }
}

ipam_core::serde_as_text! {
    ChangeAction: "action",
    TargetKind: "kind of a changed object",
}

/// The object that a change is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A `CiliumLoadBalancerIPPool`.
    AddressPool(AddressPoolName),
    /// A Service.
    Service(ServiceName),
    /// A `CiliumPodIPPool`.
    PodPool(String),
    /// A `CiliumNodeConfig`.
    NodeConfig(String),
    /// A port of a VM, at OpenStack Neutron.
    Port(Id),
    /// A Node.
    Node(NodeName),
}

impl Target {
    pub fn kind(&self) -> TargetKind {
        match self {
            Target::AddressPool(_) => TargetKind::AddressPool,
            Target::Service(_) => TargetKind::Service,
            Target::PodPool(_) => TargetKind::PodPool,
            Target::NodeConfig(_) => TargetKind::NodeConfig,
            Target::Port(_) => TargetKind::Port,
            Target::Node(_) => TargetKind::Node,
        }
    }

    /// Name, as `NAMESPACE/NAME` if the kind has namespaces.
    pub fn name(&self) -> String {
        match self {
            Target::AddressPool(name) => name.to_string(),
            Target::Service(name) => name.to_string(),
            Target::PodPool(name) | Target::NodeConfig(name) => name.clone(),
            Target::Port(id) => id.to_string(),
            Target::Node(name) => name.to_string(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind(), self.name())
    }
}

#[cfg(test)]
mod target_tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_the_api() {
        let kinds = [
            Target::AddressPool("p".parse().unwrap()),
            Target::Service("n/s".parse().unwrap()),
            Target::PodPool("p".to_owned()),
            Target::NodeConfig("c".to_owned()),
            Target::Node("n".parse().unwrap()),
        ]
        .map(|target| target.kind().as_str());
        assert_eq!(
            kinds,
            [
                "CiliumLoadBalancerIPPool",
                "Service",
                "CiliumPodIPPool",
                "CiliumNodeConfig",
                "Node"
            ]
        );
    }
}
