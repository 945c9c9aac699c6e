//! Ipam `cluster-pool`: agents read their CiliumNode, which Cilium's operator fills unless
//! something keeps it from that.
//!
//! While the operator hands out blocks itself, a CiliumNode can only be made before its agent makes
//! it, and a block of its ranges can be handed out to another node at the same moment. Up to 1.19.1
//! it then only says so. So this is done on request alone.

use super::super::blocked::BlockedReason;
use super::super::change::{CiliumNodeObject, Edit};
use super::{Paths, Wanted};
use ipam_cilium::observed::{BlockGiver, Node};
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
            return Err(BlockedReason::StaleOwner(WritePath::CiliumNode));
        }
        let mut new = CiliumNodeObject::New(node.attention);
        match self.observed.block_giver(node) {
            BlockGiver::Anyone => {}
            BlockGiver::AnyoneForThisNode => self.outside_operators_ranges(blocks)?,
            BlockGiver::NobodyForNow => self.as_the_operator_would(node, blocks)?,
            BlockGiver::Unseen => return Err(BlockedReason::OperatorUnseen),
            BlockGiver::Operator if wanted == Wanted::Automatically => {
                return Err(BlockedReason::OperatorGives);
            }
            BlockGiver::Operator => {
                if cilium_node.is_some() {
                    return Err(BlockedReason::OperatorGives);
                }
                self.as_the_operator_would(node, blocks)?;
                new = CiliumNodeObject::Filled;
            }
        }
        let object = match cilium_node {
            None => new,
            Some(seen) if !seen.version.is_known() => {
                return Err(BlockedReason::NoIdentity);
            }
            Some(seen) => CiliumNodeObject::Seen(seen.version.clone()),
        };
        let mut pod_cidrs = self.all_families(blocks)?;
        // The list is written whole: what else it has stays, as of a family that is switched off.
        let shown = cilium_node
            .into_iter()
            .flat_map(|seen| &seen.pod_cidrs)
            .copied();
        let others: Vec<Block> = shown.filter(|block| !pod_cidrs.contains(block)).collect();
        pod_cidrs.extend(others);
        Ok(Edit::CiliumNode { pod_cidrs, object })
    }

    /// Blocks that the operator would keep when it finds them.
    fn as_the_operator_would(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
    ) -> Result<(), BlockedReason> {
        for block in blocks.iter() {
            if let Some(refusal) = self.observed.operator_refuses(*block, &node.name) {
                return Err(BlockedReason::OperatorRefuses(Box::new(refusal)));
            }
            let mask = self.observed.operator_mask(block.family());
            // It would take a larger one for free as long as a part of it is, and a smaller one
            // would cost it a whole one.
            if block.size().prefix_len() != mask {
                return Err(BlockedReason::OperatorBlockSize(*block, mask));
            }
        }
        Ok(())
    }

    /// The operator does not know which blocks the nodes have that it skips.
    fn outside_operators_ranges(&self, blocks: &PerFamily<Block>) -> Result<(), BlockedReason> {
        if blocks
            .families()
            .any(|family| self.observed.operator_ranges(family).is_empty())
        {
            return Err(BlockedReason::OperatorUnseen);
        }
        let is_operators = |block: &&Block| {
            self.observed
                .operator_ranges(block.family())
                .iter()
                .any(|range| range.overlaps(**block))
        };
        blocks.iter().find(is_operators).map_or(Ok(()), |block| {
            Err(BlockedReason::InsideOperatorRanges(*block))
        })
    }
}
