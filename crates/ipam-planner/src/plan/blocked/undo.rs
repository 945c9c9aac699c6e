//! Obstacles of an undo: parts of an earlier apply that stay.

use std::collections::BTreeSet;

use ipnet::IpNet;
use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use ipam_core::model::WritePath;
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
    /// The files decide, so an undo plan cannot change it.
    #[strum(serialize = "undone-by-files")]
    DecidedByFiles,
}

impl UndoObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            UndoObstacle::NodeKeeps(path, blocks) => node_keeps(*path, blocks),
            UndoObstacle::CannotBeGivenBack(block) => Explanation::new(
                format!("{block} cannot be given back: another has it by now, or no pool gives it"),
                "plan from the files, and the node gets a block of its pool",
            ),
            UndoObstacle::AllowsHeldBlocks(blocks) => Explanation::new(
                format!("it still allows {}, which its node keeps", joined(blocks)),
                "remove the block from the node first, and the next plan removes it from the port",
            ),
            UndoObstacle::DecidedByFiles => Explanation::new(
                "it is as the files say",
                "revert the change of the files, and apply",
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
            "its agent may have started on what its CiliumNode shows",
            "drain the node, delete its CiliumNode, and restart its agent",
        ),
        WritePath::NodeConfig => (
            "its agent may have started on what its CiliumNodeConfig says",
            "drain the node, delete its CiliumNodeConfig `cilium-ipam-NODE`, and restart its agent",
        ),
    };
    Explanation::new(format!("it keeps {}: {why}", joined(blocks)), unblock)
}

fn joined<'b, B: ToString + 'b>(blocks: impl IntoIterator<Item = &'b B>) -> String {
    let blocks: Vec<String> = blocks.into_iter().map(ToString::to_string).collect();
    blocks.join(" ")
}
