//! The parts of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::lb::{AddressPoolChange, ServiceChange};
use super::misplaced::MisplacedReason;
use super::pairs::PortChange;
use super::pod_pools::PodPoolChange;
use ipam_cilium::observed::{HoldingField, NodeConfigApi, OperatorAttention};
use ipam_core::alloc::PassedOver;
use ipam_core::claims::ClaimGuard;
use ipam_core::model::{
    AddressPoolName, Hazard, NodeName, ObjectVersion, Origin, PerFamily, PoolName, ServiceName,
    WritePath,
};
use ipam_core::net::Block;
use ipam_core::neutron::Id;

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
    /// Kind as Kubernetes writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Target::AddressPool(_) => "CiliumLoadBalancerIPPool",
            Target::Service(_) => "Service",
            Target::PodPool(_) => "CiliumPodIPPool",
            Target::NodeConfig(_) => "CiliumNodeConfig",
            Target::Port(_) => "Port",
            Target::Node(_) => "Node",
        }
    }

    /// Name, with the namespace before it where there is one.
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

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of a pool of LoadBalancer addresses.
    AddressPool(Box<AddressPoolChange>),
    /// Of what a Service asks for.
    Service(ServiceChange),
    /// Of a pool of Pods, or of who uses it.
    PodPool(Box<PodPoolChange>),
    /// Of what a VM's port lets out.
    Port(Box<PortChange>),
    /// Of a node.
    Node(NodeChange),
}

/// How a change stands to those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// It may be sent together with others.
    Any,
    /// It is sent when those before it are through, and only if they went well: what it does was
    /// foretold after them.
    AfterThoseBefore,
}

impl Change {
    /// The object.
    pub fn target(&self) -> Target {
        match self {
            Change::AddressPool(change) => Target::AddressPool(change.name.clone()),
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

    /// How it stands to those beside it.
    pub fn sequence(&self) -> Sequence {
        match self {
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) => {
                Sequence::AfterThoseBefore
            }
            Change::Port(_) | Change::Node(_) => Sequence::Any,
        }
    }

    /// Whether it is a block for a node that has none, and of which nothing runs there yet.
    pub fn gives_to_a_new_node(&self) -> bool {
        let is_new =
            |node: &NodeChange| node.action == Action::Assign && node.hazard == Hazard::None;
        self.as_node().is_some_and(is_new) && self.needs_approval().is_empty()
    }

    /// Blocks that a person must approve before they are written.
    pub fn needs_approval(&self) -> &[UnapprovedBlock] {
        self.as_node().map_or(&[], |change| &change.needs_approval)
    }

    /// Whether it can be taken back.
    pub fn can_be_undone(&self) -> bool {
        match self {
            Change::AddressPool(_) | Change::Service(_) | Change::Port(_) => true,
            Change::PodPool(_) => false,
            Change::Node(change) => change.undo.is_some(),
        }
    }
}

/// The changes of nodes among these.
pub fn node_changes<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
) -> impl Iterator<Item = &'c NodeChange> {
    changes.into_iter().filter_map(Change::as_node)
}

/// What a change does to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The node gets a block.
    Assign,
    /// The node keeps its block, and it is written where the running Cilium reads it.
    Update,
    /// The node loses its block.
    Release,
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
        /// The annotations to set, or to remove; others are left alone.
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

/// What is written into the `CiliumNodeConfig` of one node.
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
    /// The object.
    pub object: NodeConfigObject,
}

/// The `CiliumNodeConfig` that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeConfigObject {
    /// There is none: it is created without settings, owned by its Node, and then filled in the
    /// version that it got.
    New {
        /// The value of the label that selects the node.
        hostname: String,
    },
    /// It was seen, in this version.
    Seen(ObjectVersion),
}

/// The CiliumNode that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CiliumNodeObject {
    /// There is none: it is created empty, owned by its Node, and then filled in the version that
    /// it got.
    New(OperatorAttention),
    /// There is none, and an empty one would be filled by Cilium's operator: it is created with its
    /// blocks.
    Filled,
    /// It was seen, in this version.
    Seen(ObjectVersion),
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

/// A better pool that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOverPool {
    /// The pool.
    pub pool: PoolName,
    /// Why.
    pub why: PassedOver,
}

/// Why a node gets this block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A `NodeAssignment` says so.
    Pinned,
    /// A `NodeAssignment` says so, and the node holds this other block.
    MovedByPin {
        /// The block that it holds.
        from: Block,
    },
    /// A `NodeAssignment` says so for one family, and the pool gives the other.
    PinnedInPart,
    /// The lowest free block of the best pool that could serve it.
    LowestFree {
        /// The better pools.
        passed_over: Vec<PassedOverPool>,
    },
    /// The node holds it already, in a field that the running Cilium does not read.
    HeldElsewhere {
        /// The field that shows it.
        field: HoldingField,
    },
    /// An undo plan says so.
    Undo,
}

/// One change of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// What it does.
    pub action: Action,
    /// The node.
    pub node: NodeName,
    /// The pool that the block belongs to, if any.
    pub pool: Option<PoolName>,
    /// What the written field shows now.
    pub before: Vec<Block>,
    /// What it will show.
    pub after: Vec<Block>,
    /// The write.
    pub edit: Edit,
    /// The write that takes it back; `None` where that cannot be done.
    pub undo: Option<Edit>,
    /// Why.
    pub reason: Reason,
    /// What it means for workloads.
    pub hazard: Hazard,
    /// The Node that was seen; the write must fail when it is another one by now.
    pub guard: ObjectVersion,
    /// The pin or the pool in the files.
    pub origin: Option<Origin>,
    /// Blocks of `after` that a person must approve.
    pub needs_approval: Vec<UnapprovedBlock>,
}

/// A block that only fields show which the node's own agent can write, and that no pool would give
/// the node. Written unattended, it would let one node choose its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnapprovedBlock {
    /// The block.
    pub block: Block,
    /// The field that shows it.
    pub field: HoldingField,
    /// Why no pool would give it.
    pub reason: MisplacedReason,
    /// Field manager and time of the last write of the field, where the server kept them.
    pub author: Option<(String, String)>,
}

impl fmt::Display for UnapprovedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnapprovedBlock {
            block,
            field,
            reason,
            author,
        } = self;
        write!(f, "{block}, which only {field} shows")?;
        if let Some((manager, time)) = author {
            write!(
                f,
                " (written by {} at {})",
                manager.escape_debug(),
                time.escape_debug()
            )?;
        }
        write!(f, ": {reason}")
    }
}

impl NodeChange {
    /// The same change, when the object that it writes was created without blocks and got this
    /// version: from then on its write is guarded by it, and its claim ends with it.
    pub fn prepared(&self, version: ObjectVersion) -> NodeChange {
        let mut change = self.clone();
        match &mut change.edit {
            Edit::CiliumNode { object, .. } => *object = CiliumNodeObject::Seen(version),
            Edit::NodeConfig(config) => config.object = NodeConfigObject::Seen(version),
            Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => {}
        }
        change
    }

    /// Blocks that the written field comes to show and does not show yet. What it shows already the
    /// object itself records, under the resourceVersion that guards the write.
    pub fn new_blocks(&self) -> BTreeSet<Block> {
        match (&self.edit, &self.undo) {
            (Edit::NodeAnnotations { values }, Some(Edit::NodeAnnotations { values: shown })) => {
                let is_new =
                    |(key, block): &(&&str, &Option<Block>)| shown.get(**key) != Some(*block);
                values
                    .iter()
                    .filter(is_new)
                    .filter_map(|(_, block)| *block)
                    .collect()
            }
            (Edit::NodeAnnotations { .. }, _) => self.edit.blocks(),
            (Edit::NodeSpec { .. } | Edit::CiliumNode { .. } | Edit::NodeConfig(_), _) => {
                let shown: BTreeSet<Block> = self.before.iter().copied().collect();
                self.edit.blocks().difference(&shown).copied().collect()
            }
        }
    }

    /// What keeps the write from landing late, as its claim names it: UID and guard of the object
    /// that is written.
    pub fn claim_guard(&self) -> (&str, ClaimGuard) {
        let version =
            |version: &ObjectVersion| ClaimGuard::Version(version.resource_version.clone());
        match &self.edit {
            Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => {
                (&self.guard.uid, version(&self.guard))
            }
            Edit::CiliumNode {
                object: CiliumNodeObject::New(_) | CiliumNodeObject::Filled,
                ..
            } => (&self.guard.uid, ClaimGuard::Creation),
            Edit::CiliumNode {
                object: CiliumNodeObject::Seen(seen),
                ..
            } => (&seen.uid, version(seen)),
            Edit::NodeConfig(config) => match &config.object {
                NodeConfigObject::New { .. } => (&self.guard.uid, ClaimGuard::Creation),
                NodeConfigObject::Seen(seen) => (&seen.uid, version(seen)),
            },
        }
    }
}
