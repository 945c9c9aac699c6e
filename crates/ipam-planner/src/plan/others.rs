//! Who else has a block. The planner and the claims ask the same questions here, so that what is
//! planned can be claimed.

use super::change::NodeChange;
use super::withheld::Withheld;
use ipam_cilium::observed::Observed;
use ipam_core::claims::{Claim, ClaimGuard, Claims, Conflict};
use ipam_core::model::{NodeName, PerFamily};
use ipam_core::net::{Block, Range, RangeIndex};

/// Claims in force, by address.
pub(super) struct Claimed<'c> {
    claims: &'c Claims,
    by_address: RangeIndex<&'c NodeName>,
}

impl<'c> Claimed<'c> {
    pub(super) fn new(claims: &'c Claims) -> Claimed<'c> {
        let by_address = RangeIndex::new(claims.held().map(|(block, node)| (block.range(), node)));
        Claimed { claims, by_address }
    }

    /// Another node that an overlapping block is claimed for, or after which one rests.
    pub(super) fn claimant(&self, block: Block, node: &NodeName) -> Option<&'c NodeName> {
        self.by_address
            .overlapping(&block.range())
            .map(|(_, other)| *other)
            .filter(|other| *other != node)
            .min()
    }

    /// The first block that a change puts where it was not, and that is spoken for otherwise: for
    /// another node, or for another object of the same node, which ends when that object changes.
    pub(super) fn conflict(&self, change: &NodeChange) -> Option<Conflict> {
        let of = |block: &Block| {
            self.claimant(*block, &change.node)
                .or_else(|| self.elsewhere(*block, change))
        };
        change.new_blocks().iter().find_map(|block| {
            Some(Conflict {
                block: *block,
                holder: of(block)?.clone(),
            })
        })
    }

    /// The node itself, if the block is about to be written into another object of it. An object
    /// that is still to be created is another one than any that exists.
    fn elsewhere(&self, block: Block, change: &NodeChange) -> Option<&'c NodeName> {
        let (uid, guard) = change.claim_guard();
        let is_elsewhere = |claim: &&Claim| match (&claim.guard, &guard) {
            (ClaimGuard::Creation, _) => false,
            (ClaimGuard::Version(_), ClaimGuard::Creation) => true,
            (ClaimGuard::Version(_), ClaimGuard::Version(_)) => claim.uid != uid,
        };
        self.claims
            .in_flight
            .get(&block)
            .filter(is_elsewhere)
            .map(|claim| &claim.node)
    }
}

/// Who has a block that a change would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// A node that shows an overlapping one.
    Holder(NodeName),
    /// A node that it is claimed for, or after which it rests.
    Claimant(NodeName),
    /// Something other than nodes has addresses of it.
    Foreign,
}

/// Answers who else uses an address.
pub(super) struct Others<'o> {
    claimed: Claimed<'o>,
    /// All that any field shows for a node.
    shown: RangeIndex<&'o NodeName>,
    /// What of it is kept out of the pools.
    withheld: RangeIndex<&'o NodeName>,
    foreign: RangeIndex<()>,
}

impl<'o> Others<'o> {
    pub(super) fn new(
        observed: &'o Observed,
        withheld: &Withheld<'o>,
        foreign: &[Range],
        claims: &'o Claims,
    ) -> Others<'o> {
        Others {
            claimed: Claimed::new(claims),
            shown: RangeIndex::new(
                observed
                    .shown_blocks()
                    .map(|(node, block)| (block.range(), node)),
            ),
            withheld: RangeIndex::new(withheld.shown.iter().map(|(node, range)| (*range, *node))),
            foreign: RangeIndex::new(foreign.iter().map(|range| (*range, ()))),
        }
    }

    /// Another node that an overlapping block is claimed for, or after which one rests.
    pub(super) fn claimant(&self, block: Block, node: &NodeName) -> Option<&'o NodeName> {
        self.claimed.claimant(block, node)
    }

    /// Another node that shows an overlapping block.
    pub(super) fn holder(&self, block: Block, node: &NodeName) -> Option<&'o NodeName> {
        other(&self.shown, block, node)
    }

    /// Another node for which addresses of the block are kept out of the pools: of what an object
    /// shows beyond its bound, the allocator gives blocks to others.
    pub(super) fn keeper(&self, block: Block, node: &NodeName) -> Option<&'o NodeName> {
        other(&self.withheld, block, node)
    }

    /// Whether something else than nodes uses a part of it.
    pub(super) fn uses(&self, block: Block) -> bool {
        self.foreign.overlapping(&block.range()).next().is_some()
    }

    /// Why a change must not be written: a block that it puts where it was not becomes real by
    /// that, whether its node holds it already in another field or not. `allocated` are those of
    /// its blocks that the allocator chose.
    pub(super) fn conflict(
        &self,
        change: &NodeChange,
        allocated: &PerFamily<Block>,
    ) -> Option<(Block, Rival)> {
        let blocks = change.new_blocks();
        let holder = |block: &Block| {
            let is_allocated = allocated.get(block.family()) == Some(block);
            let holder = if is_allocated {
                Others::keeper
            } else {
                Others::holder
            };
            Some((
                *block,
                Rival::Holder(holder(self, *block, &change.node)?.clone()),
            ))
        };
        if let Some(held) = blocks.iter().find_map(holder) {
            return Some(held);
        }
        if let Some(Conflict { block, holder }) = self.claimed.conflict(change) {
            return Some((block, Rival::Claimant(holder)));
        }
        blocks
            .into_iter()
            .find(|block| self.uses(*block))
            .map(|block| (block, Rival::Foreign))
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
