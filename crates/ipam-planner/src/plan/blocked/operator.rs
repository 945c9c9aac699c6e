//! Obstacles from Cilium's operator, which hands out blocks itself in ipam `cluster-pool`.

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use ipam_cilium::observed::OperatorRefusal;
use ipam_core::net::Block;

/// Why Cilium's operator keeps a block from being written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum OperatorObstacle {
    /// The operator gives the node a block itself.
    #[strum(serialize = "operator-allocates")]
    Gives,
    /// Whether the operator gives blocks itself is unknown.
    #[strum(serialize = "operator-unseen")]
    Unseen,
    /// The operator would refuse the block.
    #[strum(serialize = "operator-refuses")]
    Refuses(Box<OperatorRefusal>),
    /// The operator hands out blocks of another size, this prefix length.
    #[strum(serialize = "operator-block-size")]
    BlockSize(Block, u8),
    /// The operator skips the node, and would give the block to another one.
    #[strum(serialize = "inside-operator-ranges")]
    InsideRanges(Block),
}

impl OperatorObstacle {
    pub(super) fn explain(&self) -> Explanation {
        const STOP_IT: &str = "run the operator with --ipam=kubernetes (Helm: operator.extraArgs) or scale it to zero meanwhile, or, from Cilium 1.18 on, annotate the Node with `ipam.cilium.io/ignore: \"true\"` before its agent starts; or set `writePath: cilium-node` before the node's agent starts, at the risk that the operator gives the same block away at the same moment";
        const REMOVES: &str = ": from 1.17.15, 1.18.9 and 1.19.3 on, a starting operator removes the blocks of all nodes in one slot of its mask but one";
        match self {
            OperatorObstacle::Gives => Explanation::new(
                "Cilium's operator hands out blocks itself (ipam `cluster-pool`)",
                STOP_IT,
            ),
            OperatorObstacle::Unseen => Explanation::new(
                "what Cilium's operator does is unknown (its Deployment is not visible, is being changed, or its ranges or block sizes are unknown), so it may hand out the same block itself",
                STOP_IT,
            ),
            OperatorObstacle::Refuses(refusal) => match refusal.holder() {
                Some(holder) => Explanation::new(
                    format!("Cilium's operator would refuse it: {refusal} (by node {holder})"),
                    format!("pin a block in a slot that no other node uses{REMOVES}"),
                ),
                None => Explanation::new(
                    format!("Cilium's operator would refuse it: {refusal}"),
                    "add the pool's `cidrs` to the operator's ranges (cluster-pool-ipv4-cidr, cluster-pool-ipv6-cidr) and restart it, or run it with --ipam=kubernetes",
                ),
            },
            OperatorObstacle::BlockSize(block, mask) => Explanation::new(
                format!(
                    "{block} does not have the block size of Cilium's operator, which is /{mask}"
                ),
                format!(
                    "set the pool's blockSize to {mask}, or run the operator with --ipam=kubernetes{REMOVES}"
                ),
            ),
            OperatorObstacle::InsideRanges(block) => Explanation::new(
                format!(
                    "{block} lies in the ranges of Cilium's operator, which skips this node and does not know that the block is taken"
                ),
                "give the pool addresses outside of the operator's ranges, or remove the annotation `ipam.cilium.io/ignore`",
            ),
        }
    }
}
