//! Who else has a block: nodes that show it, nodes for which it is claimed, and other users of the
//! address. Asks the claims as an apply does, so that a planned change can be claimed.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::change::NodeChange;
use super::kept_addresses::KeptAddresses;
use ipam_cilium::observed::{Observed, OperatorBlocks, OperatorRefusal};
use ipam_core::claims::{ClaimIndex, Claims, Conflict};
use ipam_core::model::{NodeName, PerFamily};
use ipam_core::net::{Block, Range, RangeIndex};

/// Who has a block that a change would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A node that shows an overlapping block.
    Holder(NodeName),
    /// A node for which it is claimed or quarantined.
    Claimant(NodeName),
    /// Something other than nodes has addresses of it.
    Foreign,
}

/// Answers who else uses an address.
pub(super) struct AddressOwners<'o> {
    claimed: ClaimIndex<'o>,
    /// Blocks that any field shows, by node.
    shown: RangeIndex<&'o NodeName>,
    /// Those parts of shown blocks that are kept out of the pools, by node.
    kept_addresses: RangeIndex<&'o NodeName>,
    /// The kept parts of blocks that are not kept whole.
    cut: BTreeMap<(&'o NodeName, Block), Vec<Range>>,
    foreign: RangeIndex<()>,
    observed: &'o Observed,
    operator_blocks: OnceCell<OperatorBlocks>,
}

impl<'o> AddressOwners<'o> {
    pub(super) fn new(
        observed: &'o Observed,
        kept_addresses: &KeptAddresses<'o>,
        foreign: &[Range],
        claims: &'o Claims,
    ) -> AddressOwners<'o> {
        AddressOwners {
            claimed: ClaimIndex::new(claims),
            shown: RangeIndex::new(
                observed
                    .shown_blocks()
                    .map(|(node, block)| (block.range(), node)),
            ),
            kept_addresses: RangeIndex::new(
                kept_addresses
                    .shown
                    .iter()
                    .map(|(node, range)| (*range, *node)),
            ),
            cut: kept_addresses.cut.clone(),
            foreign: RangeIndex::new(foreign.iter().map(|range| (*range, ()))),
            observed,
            operator_blocks: OnceCell::new(),
        }
    }

    /// Why Cilium's operator would refuse the block for a node, in ipam `cluster-pool`.
    pub(super) fn operator_refusal(
        &self,
        block: Block,
        node: &NodeName,
    ) -> Option<OperatorRefusal> {
        let known = self
            .operator_blocks
            .get_or_init(|| OperatorBlocks::new(self.observed));
        known.cluster_pool_refusal(self.observed, block, node)
    }

    /// Another node for which an overlapping block is claimed or quarantined.
    pub(super) fn claimant(&self, block: Block, node: &NodeName) -> Option<&'o NodeName> {
        self.claimed.claimant(block, node)
    }

    /// Another node that shows an overlapping block.
    pub(super) fn holder(&self, block: Block, node: &NodeName) -> Option<&'o NodeName> {
        other(&self.shown, block, node)
    }

    /// Another node for which addresses of the block are kept out of the pools. Beyond the bound of
    /// an object, the allocator gives the blocks that it shows to others.
    pub(super) fn keeper(&self, block: Block, node: &NodeName) -> Option<&'o NodeName> {
        other(&self.kept_addresses, block, node)
    }

    /// The addresses to quarantine after a write that replaces `before` by `after`. Of a block that
    /// no agent reads, only the part that was kept out of the pools: other nodes may have the rest.
    pub(super) fn freed(&self, node: &NodeName, before: &[Block], after: &[Block]) -> Vec<Block> {
        let freed = before.iter().filter(|block| !after.contains(block));
        freed
            .flat_map(|block| match self.cut.get(&(node, *block)) {
                Some(kept) => kept.iter().flat_map(Range::blocks).collect(),
                None => vec![*block],
            })
            .collect()
    }

    /// Whether something other than nodes uses a part of it.
    pub(super) fn uses(&self, block: Block) -> bool {
        self.foreign.overlapping(&block.range()).next().is_some()
    }

    /// Why a change must not be written: the first new block that others have, and its owner. A
    /// block in another field of the same node counts as new, because the write makes it real.
    /// `allocated` are the blocks that the allocator chose.
    pub(super) fn conflict(
        &self,
        change: &NodeChange,
        allocated: &PerFamily<Block>,
    ) -> Option<(Block, Owner)> {
        let blocks = change.new_blocks();
        let holder = |block: &Block| {
            let is_allocated = allocated.get(block.family()) == Some(block);
            let holder = if is_allocated {
                AddressOwners::keeper
            } else {
                AddressOwners::holder
            };
            Some((
                *block,
                Owner::Holder(holder(self, *block, &change.node)?.clone()),
            ))
        };
        if let Some(held) = blocks.iter().find_map(holder) {
            return Some(held);
        }
        if let Some(Conflict { block, holder }) = self.claimed.conflict(&change.claim_request()) {
            return Some((block, Owner::Claimant(holder)));
        }
        blocks
            .into_iter()
            .find(|block| self.uses(*block))
            .map(|block| (block, Owner::Foreign))
    }
}

fn other<'o>(
    index: &RangeIndex<&'o NodeName>,
    block: Block,
    node: &NodeName,
) -> Option<&'o NodeName> {
    index
        .overlapping(&block.range())
        .map(|(_, other)| *other)
        .filter(|other| *other != node)
        .min()
}
