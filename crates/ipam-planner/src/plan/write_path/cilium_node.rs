//! Ipam `cluster-pool`: agents read their CiliumNode, which Cilium's operator usually fills.
//!
//! While the operator hands out blocks itself, a CiliumNode can only be created before its agent
//! creates it. The operator may hand out the same block at the same moment; up to 1.19.1 it then
//! only logs it. So this path is used only on request.

use super::super::blocked::{BlockedReason, OperatorObstacle, WritePathObstacle};
use super::super::change::{CiliumNodeObject, Edit};
use super::{Paths, Wanted};
use ipam_cilium::observed::{BlockAllocator, Node, OperatorBlocks};
use ipam_core::model::{PerFamily, WritePath};
use ipam_core::net::Block;

impl Paths<'_> {
    pub(super) fn on_cilium_node(
        &self,
        node: &Node,
        wanted: Wanted,
        blocks: &PerFamily<Block>,
    ) -> Result<Edit, BlockedReason> {
        let cilium_node = self.observed.cilium_nodes.get(&node.name);
        if cilium_node
            .is_some_and(|seen| seen.owner.as_ref().is_some_and(|owner| *owner != node.uid))
        {
            return Err(BlockedReason::WritePath(WritePathObstacle::StaleOwner(
                WritePath::CiliumNode,
            )));
        }
        let mut new = CiliumNodeObject::New(node.attention);
        match self.observed.block_allocator(node) {
            BlockAllocator::External => {}
            BlockAllocator::SkippedNode => self.outside_operators_ranges(blocks)?,
            BlockAllocator::ScaledToZero => self.as_the_operator_would(node, blocks)?,
            BlockAllocator::Unseen => {
                return Err(BlockedReason::Operator(OperatorObstacle::Unseen));
            }
            BlockAllocator::Operator if wanted == Wanted::Automatically => {
                return Err(BlockedReason::Operator(OperatorObstacle::Gives));
            }
            BlockAllocator::Operator => {
                if cilium_node.is_some() {
                    return Err(BlockedReason::Operator(OperatorObstacle::Gives));
                }
                self.as_the_operator_would(node, blocks)?;
                new = CiliumNodeObject::Filled;
            }
        }
        let object = match cilium_node {
            None => new,
            Some(seen) if !seen.version.is_known() => {
                return Err(BlockedReason::MissingUid);
            }
            Some(seen) => CiliumNodeObject::Seen(seen.version.clone()),
        };
        let mut pod_cidrs = self.all_families(blocks)?;
        // The list is written whole. Its other blocks stay, such as those of an unused family.
        let shown = cilium_node
            .into_iter()
            .flat_map(|seen| &seen.pod_cidrs)
            .copied();
        let others: Vec<Block> = shown.filter(|block| !pod_cidrs.contains(block)).collect();
        pod_cidrs.extend(others);
        Ok(Edit::CiliumNode { pod_cidrs, object })
    }

    /// Checks that the operator would keep the blocks when it reads them.
    fn as_the_operator_would(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
    ) -> Result<(), BlockedReason> {
        let known = self
            .operator_blocks
            .get_or_init(|| OperatorBlocks::new(self.observed));
        for block in blocks.iter() {
            if let Some(refusal) = known.refusal(self.observed, *block, &node.name) {
                return Err(BlockedReason::Operator(OperatorObstacle::Refuses(
                    Box::new(refusal),
                )));
            }
            let Some(mask) = self.observed.operator_mask(block.family()) else {
                return Err(BlockedReason::Operator(OperatorObstacle::Unseen));
            };
            // The operator would treat a larger block as free while a part of it is free. A smaller
            // one would use up a whole block.
            if block.size().prefix_len() != mask {
                return Err(BlockedReason::Operator(OperatorObstacle::BlockSize(
                    *block, mask,
                )));
            }
        }
        Ok(())
    }

    /// The operator does not know the blocks of nodes that it skips.
    fn outside_operators_ranges(&self, blocks: &PerFamily<Block>) -> Result<(), BlockedReason> {
        if blocks
            .families()
            .any(|family| self.observed.operator_ranges(family).is_empty())
        {
            return Err(BlockedReason::Operator(OperatorObstacle::Unseen));
        }
        let is_operators = |block: &&Block| {
            self.observed
                .operator_ranges(block.family())
                .iter()
                .any(|range| range.overlaps(**block))
        };
        blocks.iter().find(is_operators).map_or(Ok(()), |block| {
            Err(BlockedReason::Operator(OperatorObstacle::InsideRanges(
                *block,
            )))
        })
    }
}
