//! Obstacles of a CiliumPodIPPool (ipam `multi-pool`).
//!
//! Obstacles from Cilium's operator, which assigns pod CIDRs itself in ipam `cluster-pool`.
//!
//! Obstacles of an undo: parts of an earlier apply that stay.

use strum::{IntoStaticStr, VariantNames};

use super::Explanation;
use ipam_cilium::observed::OperatorRefusal;
use ipam_core::model::{NodeName, OWNER_LABEL, WritePath};
use ipam_core::net::{Block, BlockSize, Range};
use ipam_core::text::joined;

/// Why a `CiliumPodIPPool` cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum PodPoolObstacle {
    /// The server does not know `CiliumPodIPPool`s.
    #[strum(serialize = "pod-pools-not-served")]
    NotServed,
    /// The server does not show `CiliumPodIPPool`s or `CiliumNodeConfig`s.
    #[strum(serialize = "pod-pools-hidden")]
    Hidden(String),
    /// A disabled pool, which Cilium does not have.
    #[strum(serialize = "pod-pool-disabled")]
    Disabled,
    /// Without the addresses that are taken, nothing is left of the pool's ranges.
    #[strum(serialize = "pod-pool-empty")]
    Empty,
    /// Another `CiliumPodIPPool` has some of the pool's addresses.
    #[strum(serialize = "pod-pool-overlaps")]
    Overlaps(Box<(Block, String)>),
    /// The size of the blocks of an existing pool cannot be changed.
    #[strum(serialize = "pod-pool-size")]
    Size(BlockSize),
    /// A node has a block that would lie outside the changed pool.
    #[strum(serialize = "pod-pool-in-use")]
    InUse(Block, NodeName),
    /// While this version of the operator runs, CIDRs can only be added to the pool.
    #[strum(serialize = "pod-pool-cidr-change-unsupported")]
    Recut,
    /// The `reservedRanges` of the pool would lie outside its CIDRs.
    #[strum(serialize = "pod-pool-reserved")]
    Reserved(Range),
    /// A foreign `CiliumNodeConfig` makes the pool the default of nodes.
    #[strum(serialize = "pod-pool-chosen")]
    Chosen(String),
    /// An IPv6 CIDR has more than this number of bits above its blocks.
    #[strum(serialize = "pod-pool-too-wide")]
    TooWide(u8),
}

impl PodPoolObstacle {
    pub(super) fn explain(&self) -> Explanation {
        match self {
            PodPoolObstacle::NotServed => Explanation::new(
                "CiliumPodIPPools are not served (Cilium 1.14 and later)",
                "let Cilium's operator install its CRDs first",
            ),
            PodPoolObstacle::Hidden(why) => Explanation::new(
                format!("existing objects cannot be read: {}", why.escape_debug()),
                "allow `list` on ciliumpodippools and ciliumnodeconfigs",
            ),
            PodPoolObstacle::Disabled => Explanation::new(
                "a CiliumPodIPPool cannot be disabled: agents take addresses of it while it exists",
                "remove its file once no node has a block of it",
            ),
            PodPoolObstacle::Empty => Explanation::new(
                "nothing is left of its ranges for the families that are in use",
                "widen the pool, or remove ranges from `reserved` and `excluded`",
            ),
            PodPoolObstacle::Overlaps(other) => {
                let (block, pool) = &**other;
                let pool = pool.escape_debug();
                Explanation::new(
                    format!("CiliumPodIPPool {pool} has or gave {block} too"),
                    format!(
                        "remove the CIDR from one of them; `kubectl get ciliumpodippool {pool} -o yaml`"
                    ),
                )
            }
            PodPoolObstacle::Size(size) => Explanation::new(
                format!(
                    "its blocks have the size {size}, and maskSize of a CiliumPodIPPool cannot be changed"
                ),
                format!("keep blockSize {size}, or make another pool for it"),
            ),
            PodPoolObstacle::InUse(block, node) => Explanation::new(
                format!(
                    "node {node} has {block} of it, and would keep it while the operator complains"
                ),
                format!(
                    "drain node {node}, delete its CiliumNode and restart its agent, or leave the CIDR in the pool"
                ),
            ),
            PodPoolObstacle::Recut => Explanation::new(
                "with CIDRs that are not only appended, this operator (before 1.19, or of unknown version) would forget the blocks that it gave",
                "append CIDRs only; or stop the operator, drain the pool's nodes and delete their CiliumNodes first, as Cilium's guide for multi-pool says",
            ),
            PodPoolObstacle::Reserved(range) => Explanation::new(
                format!(
                    "its reservedRanges contain {range}, which would no longer lie in its CIDRs"
                ),
                "leave the CIDR in the pool, or remove the range from `reservedRanges` of the CiliumPodIPPool",
            ),
            PodPoolObstacle::Chosen(config) => Explanation::new(
                format!(
                    "CiliumNodeConfig {} makes it the default of nodes, and is not ours",
                    config.escape_debug()
                ),
                "remove that CiliumNodeConfig first",
            ),
            PodPoolObstacle::TooWide(bits) => Explanation::new(
                format!("Cilium takes no IPv6 CIDR that has more than 2^{bits} blocks"),
                "write narrower `cidrs`, or a smaller prefix length as blockSize",
            ),
        }
    }
}

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
        const STOP_IT: &str = "run the operator with --ipam=kubernetes (Helm: operator.extraArgs) or scale it to zero during this time, or, from Cilium 1.18 on, annotate the Node with `ipam.cilium.io/ignore: \"true\"` before its agent starts; or set `writePath: cilium-node` before the node's agent starts, at the risk that the operator gives the same block away at the same moment";
        const REMOVES: &str = ": from 1.17.15, 1.18.9 and 1.19.3 on, a starting operator removes the blocks of all nodes in one slot of its mask but one";
        match self {
            OperatorObstacle::Gives => Explanation::new(
                "Cilium's operator assigns pod CIDRs itself (ipam `cluster-pool`)",
                STOP_IT,
            ),
            OperatorObstacle::Unseen => Explanation::new(
                "what Cilium's operator does is unknown (its Deployment is not visible, is being changed, or its ranges or block sizes are unknown), so it may assign the same block itself",
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
                "give the pool addresses outside the operator's ranges, or remove the annotation `ipam.cilium.io/ignore`",
            ),
        }
    }
}

/// Why an earlier apply cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum UndoObstacle {
    /// The blocks that this write path wrote stay on the node.
    #[strum(serialize = "cannot-be-undone")]
    NodeKeeps(WritePath, Vec<Block>),
    /// The block that the apply removed may not be given to the node again.
    CannotBeGivenBack(Block),
    /// The agent of the CiliumNode has started, and uses these blocks.
    #[strum(serialize = "undo-agent-started")]
    AgentStarted(Vec<Block>),
    /// The CiliumNode with these blocks lacks the label of `cilium-ipam`.
    #[strum(serialize = "undo-not-ours")]
    NotCreatedByUs(Vec<Block>),
    /// Cilium's operator would write these blocks to the CiliumNode again.
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
                format!("its agent has started, and uses {}", joined(blocks, " ")),
                "drain the node, delete its CiliumNode and restart its agent",
            ),
            UndoObstacle::NotCreatedByUs(blocks) => Explanation::new(
                format!(
                    "its CiliumNode with {} has no label {}={}: another writer created it, or its agent has written it",
                    joined(blocks, " "),
                    OWNER_LABEL.0,
                    OWNER_LABEL.1
                ),
                "drain the node, delete its CiliumNode and restart its agent",
            ),
            UndoObstacle::OperatorKeeps(blocks) => Explanation::new(
                format!(
                    "Cilium's operator knows its blocks ({}), and would write them back",
                    joined(blocks, " ")
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
    Explanation::new(format!("it keeps {}: {why}", joined(blocks, " ")), unblock)
}
