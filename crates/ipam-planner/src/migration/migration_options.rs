//! What a person asks a migration for. Plain data.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::as_text;
use super::drain::DrainRules;
use ipam_core::model::NodeName;

ipam_core::text_enum! {
    /// How nodes get other blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MethodChoice {
        /// In ipam `cluster-pool` the CiliumNode is re-created; in ipam `kubernetes` a
        /// `CiliumNodeConfig` moves the node.
        #[default]
        Auto = "auto",
        /// In ipam `kubernetes` the Node is re-created.
        RecreateNode = "recreate-node",
    }
}

ipam_core::text_enum! {
    /// What moves.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Goal {
        /// Misplaced nodes get the blocks that the files would give them.
        #[default]
        Blocks = "blocks",
        /// All nodes read their blocks from the Node. No block changes.
        ToKubernetes = "kubernetes",
        /// All nodes read their blocks from the CiliumNode. No block changes.
        ToClusterPool = "cluster-pool",
    }
}

/// What a person asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrationRequest {
    /// `blocks`: misplaced nodes get other blocks. `kubernetes` and `cluster-pool`: Cilium's new
    /// IPAM mode.
    #[serde(with = "as_text")]
    pub goal: Goal,
    /// Only these nodes. Control-plane nodes are moved only if they are among them.
    #[serde(with = "as_text::set")]
    pub nodes: BTreeSet<NodeName>,
    /// `auto` or `recreate-node`.
    #[serde(with = "as_text")]
    pub method: MethodChoice,
    /// Which Pods may be lost.
    pub drain: DrainRules,
}
