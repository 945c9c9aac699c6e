//! Cilium's operator in ipam `cluster-pool`: which nodes it gives blocks, and which blocks of other
//! writers it refuses.
//!
//! Rules: `pkg/ipam/allocator/podcidr/podcidr.go` @ 1.15 and 1.19,
//! `operator/pkg/ipam/allocator/podcidr` @ 1.20; the annotation that makes it skip a node:
//! `operator/cmd/cilium_node.go` @ 1.18.
//!
//! `status.ipam.operator-status.error` of CiliumNodes: what the operator complains about, by its
//! own words.

use std::fmt;

use super::operator_settings::{
    self, OperatorSettings, WrittenPool, mask_key, ranges_key, switch_key,
};
use super::{ModeSeen, Node, Observed, ObservedKind, OperatorState};
use crate::behaviours;
use crate::releases::NEWEST;
use ipam_core::model::{CiliumVersion, IpamMode, NodeName};
use ipam_core::net::{Block, Family, RangeIndex};

/// Makes the operator skip a CiliumNode, from 1.18 on. An agent copies it from its Node.
pub const IGNORE_ANNOTATION: &str = "ipam.cilium.io/ignore";

/// Whether the operator handles a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatorAttention {
    /// It serves the node.
    #[default]
    Served,
    /// [`IGNORE_ANNOTATION`] is `"true"`.
    Ignored,
}

/// Whether Cilium's operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorRun {
    /// Nothing shows that it does not.
    Assumed,
    /// Its only Deployment is scaled to zero, and no Pod of it is seen. Pods outside `kube-system` are
    /// not read.
    Stopped,
}

/// Who allocates a node's block in ipam `cluster-pool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockAllocator {
    /// The operator, as soon as a CiliumNode has no block.
    Operator,
    /// Perhaps the operator: its Deployment is hidden or changing, or there are several.
    Unseen,
    /// Any writer: the operator skips this node, and does not know that its block is taken.
    SkippedNode,
    /// Any writer: the operator runs in another mode.
    External,
    /// The operator, but it is scaled to zero. When it starts, it keeps existing blocks of its
    /// ranges.
    ScaledToZero,
}

/// Why the operator refuses a block, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorRefusal {
    /// It has no ranges of this family.
    NoAllocator(Block),
    /// None of its ranges contains the block.
    OutOfRange(Block),
    /// Another CiliumNode has a block in its slot.
    Taken(Block, NodeName),
}

impl OperatorRefusal {
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
    /// The allocator of this node's block.
    pub fn block_allocator(&self, node: &Node) -> BlockAllocator {
        let cilium = &self.cilium;
        let is_seen = self.blind_spot(ObservedKind::CiliumOperator).is_none();
        let Some(arguments) = cilium.operator_arguments.as_ref().filter(|_| is_seen) else {
            return BlockAllocator::Unseen;
        };
        if cilium.operator_state != OperatorState::Settled {
            return BlockAllocator::Unseen;
        }
        if arguments.get("ipam").and_then(|text| text.parse().ok()) == Some(IpamMode::Kubernetes) {
            return BlockAllocator::External;
        }
        if self.attention(node) == OperatorAttention::Ignored {
            match cilium.oldest_operator() {
                Some(version) if behaviours::IGNORED_NODES.include(version) => {
                    return BlockAllocator::SkippedNode;
                }
                // An older operator does not know the annotation.
                Some(_) => {}
                None => return BlockAllocator::Unseen,
            }
        }
        match self.operator_run() {
            OperatorRun::Stopped => BlockAllocator::ScaledToZero,
            OperatorRun::Assumed => BlockAllocator::Operator,
        }
    }

    pub fn operator_run(&self) -> OperatorRun {
        let cilium = &self.cilium;
        let is_settled = cilium.operator_state == OperatorState::Settled;
        match cilium.operator_replicas {
            Some(0) if is_settled => OperatorRun::Stopped,
            _ => OperatorRun::Assumed,
        }
    }

    /// The operator reads the annotation of the CiliumNode. A new CiliumNode copies it from the
    /// Node.
    fn attention(&self, node: &Node) -> OperatorAttention {
        self.cilium_nodes
            .get(&node.name)
            .map_or(node.attention, |cilium_node| cilium_node.attention)
    }

    /// What an operator of this release makes of its settings when it starts; `None` unless they are
    /// those of ipam `cluster-pool`.
    pub fn operator_settings(&self, release: CiliumVersion) -> Option<OperatorSettings> {
        let is_read = self.cilium.settings.is_some() && self.starts_in_cluster_pool();
        is_read.then(|| operator_settings::read(&self.written_pools(), release))
    }

    /// The settings of the operator's pools, IPv4 first.
    pub fn written_pools(&self) -> [WrittenPool<'_>; 2] {
        Family::BOTH.map(|family| self.written_pool(family))
    }

    fn written_pool(&self, family: Family) -> WrittenPool<'_> {
        let written = |key| self.cilium.written(key);
        WrittenPool {
            family,
            switch: written(switch_key(family)),
            ranges: written(ranges_key(family)),
            mask: written(mask_key(family)),
        }
    }

    /// The operator's ranges, even if it does not start with them. None if one is unreadable: it may
    /// be any range.
    pub fn operator_ranges(&self, family: Family) -> Vec<Block> {
        let ranges = self.written_pool(family).ranges(self.latest_operator());
        let blocks = ranges.iter().map(|range| range.as_ref().ok()?.block());
        blocks.collect::<Option<_>>().unwrap_or_default()
    }

    /// The prefix length of the operator's blocks; `None` if its setting is not one, such as a variable
    /// in the arguments.
    pub fn operator_mask(&self, family: Family) -> Option<u8> {
        let mask = self.written_pool(family).mask(self.latest_operator());
        mask.and_then(|mask| u8::try_from(mask).ok())
    }

    /// The latest release of the operators, by whose rules the settings are read.
    fn latest_operator(&self) -> CiliumVersion {
        let releases = self.operator_releases();
        releases.last().copied().flatten().unwrap_or(NEWEST)
    }
}

/// The blocks of all CiliumNodes by address, and the operator's ranges and mask.
pub struct OperatorBlocks {
    shown: RangeIndex<NodeName>,
    /// IPv4 first.
    pools: [(Vec<Block>, Option<u8>); 2],
    mode: ModeSeen,
}

impl OperatorBlocks {
    pub fn new(observed: &Observed) -> OperatorBlocks {
        let nodes = observed.cilium_nodes.values();
        let blocks = nodes.flat_map(|node| {
            let blocks = node.pod_cidrs.iter();
            blocks.map(|block| (block.range(), node.name.clone()))
        });
        OperatorBlocks {
            shown: RangeIndex::new(blocks),
            pools: Family::BOTH.map(|family| {
                (
                    observed.operator_ranges(family),
                    observed.operator_mask(family),
                )
            }),
            mode: observed.cilium.mode(),
        }
    }

    /// As [`OperatorBlocks::refusal`], but only in ipam `cluster-pool`.
    pub fn cluster_pool_refusal(&self, block: Block, name: &NodeName) -> Option<OperatorRefusal> {
        match self.mode == ModeSeen::Known(IpamMode::ClusterPool) {
            true => self.refusal(block, name),
            false => None,
        }
    }

    /// Why the operator would refuse this block in the node's CiliumNode.
    pub fn refusal(&self, block: Block, name: &NodeName) -> Option<OperatorRefusal> {
        let [ipv4, ipv6] = &self.pools;
        let (ranges, mask) = match block.family() {
            Family::Ipv4 => ipv4,
            Family::Ipv6 => ipv6,
        };
        if ranges.is_empty() {
            return Some(OperatorRefusal::NoAllocator(block));
        }
        if !ranges
            .iter()
            .any(|range| range.range().contains(&block.range()))
        {
            return Some(OperatorRefusal::OutOfRange(block));
        }
        // Blocks in one slot exclude each other: a starting operator removes all but one.
        let mut enclosing = block.enclosing();
        let slot = enclosing.find(|block| mask.is_some_and(|mask| block.prefix_len() <= mask));
        let shown = self.shown.overlapping(&slot.unwrap_or(block).range());
        let others = shown.map(|(_, other)| other).filter(|other| *other != name);
        let first = others.min()?;
        Some(OperatorRefusal::Taken(block, first.clone()))
    }
}

/// A line of the operator's error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorComplaint {
    /// Ipam `cluster-pool`: none of its ranges has a free block.
    Full,
    /// Ipam `multi-pool`: the pool has no free block for this node.
    PoolEmpty(String),
    /// Ipam `multi-pool`: the pool does not exist.
    PoolMissing(String),
    /// Another text.
    Other(String),
}

impl OperatorComplaint {
    /// Every complaint of an error, in its order.
    pub fn all_of(error: &str) -> Vec<OperatorComplaint> {
        error
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(OperatorComplaint::of)
            .collect()
    }

    fn of(line: &str) -> OperatorComplaint {
        // An allocation names its pool around the cause.
        let around = line
            .split_once("from pool \"")
            .and_then(|(_, rest)| rest.split_once("\": "));
        if let Some((_, missing)) = line.split_once("non-existing pool: ") {
            return OperatorComplaint::PoolMissing(missing.to_owned());
        }
        if let Some((missing, _)) = line
            .strip_prefix("unable to find pool ")
            .and_then(|rest| rest.split_once(", prefix "))
        {
            return OperatorComplaint::PoolMissing(missing.to_owned());
        }
        match around {
            Some((pool, "pool empty")) => OperatorComplaint::PoolEmpty(pool.to_owned()),
            _ if is_full(line) => OperatorComplaint::Full,
            _ => OperatorComplaint::Other(line.to_owned()),
        }
    }
}

/// `allocator full`, or one range after the other: `allocator clusterCIDR: …, nodeMask: 24 full`.
fn is_full(line: &str) -> bool {
    line == "allocator full"
        || (line.starts_with("allocator clusterCIDR: ") && line.ends_with("full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_by_their_words() {
        use OperatorComplaint::{Full, Other, PoolEmpty, PoolMissing};
        let text = |text: &str| text.to_owned();
        for (error, complaints) in [
            ("allocator full", vec![Full]),
            (
                "allocator clusterCIDR: 10.0.0.0/24, nodeMask: 24 full",
                vec![Full],
            ),
            (
                "failed to allocate ipv4 address for node \"n1\" from pool \"red\": pool empty",
                vec![PoolEmpty(text("red"))],
            ),
            (
                "failed to allocate ipv4 address for node \"n1\" from pool \"a\": cannot allocate from non-existing pool: a\n",
                vec![PoolMissing(text("a"))],
            ),
            (
                "unable to find pool red, prefix 10.0.0.0/24 is still allocated to the node but is marked as orphan\ncannot release from non-existing pool: red",
                vec![PoolMissing(text("red")), PoolMissing(text("red"))],
            ),
            // The node shows a block that the pool cannot give.
            (
                "unable to reuse from pool red: pool empty",
                vec![Other(text("unable to reuse from pool red: pool empty"))],
            ),
            (
                "requested CIDR (10.0.0.0/24) is already allocated",
                vec![Other(text(
                    "requested CIDR (10.0.0.0/24) is already allocated",
                ))],
            ),
        ] {
            assert_eq!(OperatorComplaint::all_of(error), complaints, "{error}");
        }
    }
}
