//! Obstacles of an undo: parts of an earlier apply that stay.

use std::collections::BTreeSet;

use ipnet::IpNet;
use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use crate::plan::change::Target;
use ipam_core::model::{NodeName, OWNER_LABEL, WritePath};
use ipam_core::net::Block;

/// Why an earlier apply cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum UndoObstacle {
    /// The blocks that this path wrote stay.
    #[strum(serialize = "cannot-be-undone")]
    NodeKeeps(WritePath, Vec<Block>),
    /// The node may not have a block again that the apply took away.
    CannotBeGivenBack(Block),
    /// The node keeps these blocks, so its port still allows them.
    #[strum(serialize = "lets-held-out")]
    AllowsHeldBlocks(BTreeSet<IpNet>),
    /// Fields of a deleted object that no undo plan restores.
    #[strum(serialize = "undo-loses-fields")]
    LosesFields(Vec<String>),
    /// The agent of the CiliumNode has started on these blocks.
    #[strum(serialize = "undo-agent-started")]
    AgentStarted(Vec<Block>),
    /// The CiliumNode with these blocks lacks our label.
    #[strum(serialize = "undo-not-ours")]
    NotCreatedByUs(Vec<Block>),
    /// Cilium's operator would write these blocks back.
    #[strum(serialize = "undo-operator-keeps")]
    OperatorKeeps(Vec<Block>),
    /// Another object of the same undo is blocked.
    #[strum(serialize = "undo-waits")]
    WaitsFor(Box<Target>),
    /// A node has a block of the CiliumPodIPPool, or requests one.
    #[strum(serialize = "undo-pod-pool-in-use")]
    PodPoolInUse(NodeName, Option<Block>),
}

impl UndoObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            UndoObstacle::NodeKeeps(path, blocks) => node_keeps(*path, blocks),
            UndoObstacle::CannotBeGivenBack(block) => Explanation::new(
                format!("{block} cannot be given back: another has it by now, or no pool gives it"),
                "plan from the files instead: they give what is free",
            ),
            UndoObstacle::AllowsHeldBlocks(blocks) => Explanation::new(
                format!("it still allows {}, which its node keeps", joined(blocks)),
                "remove the block from the node first, and the next plan removes it from the port",
            ),
            UndoObstacle::LosesFields(fields) => Explanation::new(
                format!(
                    "it had fields that an undo plan does not restore: {}",
                    fields.join(", ").escape_debug()
                ),
                "revert the change of the files and apply, then set these fields again",
            ),
            UndoObstacle::AgentStarted(blocks) => Explanation::new(
                format!("its agent has started, and uses {}", joined(blocks)),
                "drain the node, delete its CiliumNode and restart its agent",
            ),
            UndoObstacle::NotCreatedByUs(blocks) => Explanation::new(
                format!(
                    "its CiliumNode with {} has no label {}={}: another writer created it, or its agent has written it",
                    joined(blocks),
                    OWNER_LABEL.0,
                    OWNER_LABEL.1
                ),
                "drain the node, delete its CiliumNode and restart its agent",
            ),
            UndoObstacle::OperatorKeeps(blocks) => Explanation::new(
                format!(
                    "Cilium's operator knows its blocks ({}), and would write them back",
                    joined(blocks)
                ),
                "delete the CiliumNode before the agent of the node starts",
            ),
            UndoObstacle::WaitsFor(target) => Explanation::new(
                format!("{target} is blocked, and both are undone together or not at all"),
                format!("unblock {target}, then apply the undo plan again"),
            ),
            UndoObstacle::PodPoolInUse(node, block) => pod_pool_in_use(node, *block),
        }
    }
}

fn pod_pool_in_use(node: &NodeName, block: Option<Block>) -> Explanation {
    let what = match block {
        Some(block) => format!("node {node} has {block} of it"),
        None => format!("node {node} requests addresses of it"),
    };
    Explanation::new(
        what,
        format!(
            "revert the change of the files and apply, so that agents choose another pool when they restart; drain node {node}, delete its CiliumNode and restart its agent; then apply again"
        ),
    )
}

fn node_keeps(path: WritePath, blocks: &[Block]) -> Explanation {
    let (why, unblock) = match path {
        WritePath::NodeSpec | WritePath::NodeAnnotation | WritePath::PodIpPool => (
            "spec.podCIDRs is write-once",
            "drain the node and re-create its Node object",
        ),
        WritePath::CiliumNode => (
            "its agent has started, and reads its CiliumNode",
            "drain the node, delete its CiliumNode, and restart its agent",
        ),
        WritePath::NodeConfig => (
            "the earlier setting of its CiliumNodeConfig is not a block",
            "drain the node, delete its CiliumNodeConfig `cilium-ipam-NODE`, and restart its agent",
        ),
    };
    Explanation::new(format!("it keeps {}: {why}", joined(blocks)), unblock)
}

fn joined<'b, B: ToString + 'b>(blocks: impl IntoIterator<Item = &'b B>) -> String {
    let blocks: Vec<String> = blocks.into_iter().map(ToString::to_string).collect();
    blocks.join(" ")
}
