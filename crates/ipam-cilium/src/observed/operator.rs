//! What Cilium's operator does in ipam `cluster-pool`: whom it gives blocks, and what it says to a
//! block that somebody else wrote.
//!
//! Rules: `pkg/ipam/allocator/podcidr/podcidr.go` @ 1.15 and 1.19,
//! `operator/pkg/ipam/allocator/podcidr` @ 1.20; the annotation that makes it skip a node:
//! `operator/cmd/cilium_node.go` @ 1.18.

use std::fmt;

use super::{ModeSeen, Node, Observed, ObservedKind, OperatorState};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Family};

/// Makes the operator skip a CiliumNode, from 1.18 on. An agent copies it from its Node.
pub const IGNORE_ANNOTATION: &str = "ipam.cilium.io/ignore";

/// Whether the operator is told to leave a node alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatorAttention {
    /// It serves the node.
    #[default]
    Served,
    /// [`IGNORE_ANNOTATION`] is `"true"`.
    Ignored,
}

/// Who gives a node its block in ipam `cluster-pool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockGiver {
    /// The operator, as soon as it sees a CiliumNode without one.
    Operator,
    /// The operator may: its Deployment cannot be seen, or is being changed, or there are several.
    Unseen,
    /// Whoever writes it: the operator skips this node, and does not know that its block is taken.
    AnyoneForThisNode,
    /// Whoever writes it: the operator runs in another mode and gives nothing.
    Anyone,
    /// Nobody for now: the operator is scaled to zero. When it is back it keeps the blocks that it
    /// finds, if they are of its ranges.
    NobodyForNow,
}

/// What the operator says of a block, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorRefusal {
    /// It has no ranges of this family.
    NoAllocator(Block),
    /// None of its ranges has it.
    OutOfRange(Block),
    /// Another CiliumNode has it.
    Taken(Block, NodeName),
}

impl OperatorRefusal {
    /// The node that has the block.
    pub fn holder(&self) -> Option<&NodeName> {
        match self {
            OperatorRefusal::Taken(_, holder) => Some(holder),
            OperatorRefusal::NoAllocator(_) | OperatorRefusal::OutOfRange(_) => None,
        }
    }
}

impl fmt::Display for OperatorRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperatorRefusal::NoAllocator(block) => {
                let family = block.family();
                write!(
                    f,
                    "unable to allocate CIDR {block} since allocator for {family} addresses does not exist"
                )
            }
            OperatorRefusal::OutOfRange(block) => {
                write!(f, "allocator not configured for the requested CIDR {block}")
            }
            OperatorRefusal::Taken(block, _) => {
                write!(f, "requested CIDR ({block}) is already allocated")
            }
        }
    }
}

impl Observed {
    /// Who gives this node its block.
    pub fn block_giver(&self, node: &Node) -> BlockGiver {
        let cilium = &self.cilium;
        let is_seen = self.blind_spot(ObservedKind::CiliumOperator).is_none();
        let Some(arguments) = cilium.operator_arguments.as_ref().filter(|_| is_seen) else {
            return BlockGiver::Unseen;
        };
        if cilium.operator_state != OperatorState::Settled {
            return BlockGiver::Unseen;
        }
        if arguments.get("ipam").and_then(|text| text.parse().ok()) == Some(IpamMode::Kubernetes) {
            return BlockGiver::Anyone;
        }
        if self.attention(node) == OperatorAttention::Ignored {
            match cilium.operator_version {
                Some(version) if version.is_at_least(18, 0) => {
                    return BlockGiver::AnyoneForThisNode;
                }
                // An older one does not know the annotation.
                Some(_) => {}
                None => return BlockGiver::Unseen,
            }
        }
        if cilium.operator_replicas == Some(0) {
            BlockGiver::NobodyForNow
        } else {
            BlockGiver::Operator
        }
    }

    /// The operator reads the annotation of the CiliumNode. Where there is none yet, it will have
    /// that of the Node.
    fn attention(&self, node: &Node) -> OperatorAttention {
        self.cilium_nodes
            .get(&node.name)
            .map_or(node.attention, |cilium_node| cilium_node.attention)
    }

    /// The ranges that the operator gives blocks of.
    pub fn operator_ranges(&self, family: Family) -> Vec<Block> {
        let key = match family {
            Family::Ipv4 => "cluster-pool-ipv4-cidr",
            Family::Ipv6 => "cluster-pool-ipv6-cidr",
        };
        self.cilium.cluster_pool(key).unwrap_or_default()
    }

    /// The prefix length of the operator's blocks.
    pub fn operator_mask(&self, family: Family) -> u8 {
        let (key, default) = match family {
            Family::Ipv4 => ("cluster-pool-ipv4-mask-size", 24),
            Family::Ipv6 => ("cluster-pool-ipv6-mask-size", 112),
        };
        self.cilium
            .operator_setting(key)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    }

    /// The same in ipam `cluster-pool`, and nothing elsewhere.
    pub fn cluster_pool_refusal(&self, block: Block, name: &NodeName) -> Option<OperatorRefusal> {
        let is_cluster_pool = self.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool);
        self.operator_refuses(block, name)
            .filter(|_| is_cluster_pool)
    }

    /// What the operator would say if a node's CiliumNode showed this block.
    pub fn operator_refuses(&self, block: Block, name: &NodeName) -> Option<OperatorRefusal> {
        let ranges = self.operator_ranges(block.family());
        if ranges.is_empty() {
            return Some(OperatorRefusal::NoAllocator(block));
        }
        if !ranges
            .iter()
            .any(|range| range.range().contains(&block.range()))
        {
            return Some(OperatorRefusal::OutOfRange(block));
        }
        let others = self
            .cilium_nodes
            .values()
            .filter(|other| other.name != *name);
        let mut others =
            others.filter(|other| other.pod_cidrs.iter().any(|held| held.overlaps(block)));
        others
            .next()
            .map(|other| OperatorRefusal::Taken(block, other.name.clone()))
    }
}
