//! Obstacles of an undo: parts of an earlier apply that stay.

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use ipam_core::model::{OWNER_LABEL, WritePath};
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
    /// The agent of the CiliumNode has started on these blocks.
    #[strum(serialize = "undo-agent-started")]
    AgentStarted(Vec<Block>),
    /// The CiliumNode with these blocks lacks our label.
    #[strum(serialize = "undo-not-ours")]
    NotCreatedByUs(Vec<Block>),
    /// Cilium's operator would write these blocks back.
    #[strum(serialize = "undo-operator-keeps")]
    OperatorKeeps(Vec<Block>),
}

impl UndoObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            UndoObstacle::NodeKeeps(path, blocks) => node_keeps(*path, blocks),
            UndoObstacle::CannotBeGivenBack(block) => Explanation::new(
                format!("{block} cannot be given back: another has it by now, or no pool gives it"),
                "plan from the files instead: they give what is free",
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
        }
    }
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

fn joined(blocks: &[Block]) -> String {
    let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
    blocks.join(" ")
}
