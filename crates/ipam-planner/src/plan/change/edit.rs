//! The write of a change of a node, field by field.

use std::collections::{BTreeMap, BTreeSet};

use ipam_cilium::observed::{NodeConfigApi, OperatorAttention};
use ipam_core::model::{ObjectVersion, PerFamily, WritePath};
use ipam_core::net::{Block, Family};

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
