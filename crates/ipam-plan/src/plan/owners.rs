//! Who else has a block: nodes that show it, nodes for which it is claimed, and other users of the
//! address. Asks the claims as an apply does, so that a planned change can be claimed.
//!
//! Where a block comes from: its pool, the place in the files, and the reason.
//!
//! Counts the blocks of each pool that claims and quarantines keep from other nodes.
//!
//! How changes become claims: each change of a node is a request to the claims.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::change::{Change, NodeChange, Reason};
use super::kept_addresses::KeptAddresses;
use ipam_cilium::observed::{Holding, Observed, OperatorBlocks, OperatorRefusal, Reading};
use ipam_core::alloc::{Assigned, Supply};
use ipam_core::claims::{ClaimIndex, ClaimRequest, Claims, Conflict};
use ipam_core::model::{NodeName, Origin, PerFamily, PoolName};
use ipam_core::net::{Block, Range, RangeIndex};
use ipam_desired::Desired;

/// The user of a block that a change would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A node that shows an overlapping block.
    Holder(NodeName),
    /// The node for which the block is claimed or quarantined.
    Claimant(NodeName),
    /// Something other than nodes has addresses of the block.
    Foreign,
}

/// Answers who else uses an address.
pub(super) struct AddressOwners<'o> {
    claimed: ClaimIndex<'o>,
    /// Blocks that any field shows, by node.
    shown: RangeIndex<&'o NodeName>,
    /// Parts of shown blocks that are kept out of the pools, by node.
    kept_addresses: RangeIndex<&'o NodeName>,
    /// The kept parts of shown blocks that are not kept whole.
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
        known.cluster_pool_refusal(block, node)
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

    /// Whether something other than nodes uses a part of the block.
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

/// The pool, the place in the files, and the reason of a block.
pub(super) struct Source {
    pub(super) pool: Option<PoolName>,
    pub(super) origin: Option<Origin>,
    pub(super) reason: Reason,
}

impl Source {
    /// The source of a free block that a pool gives.
    pub(super) fn of_assigned(desired: &Desired, supply: &Supply, assigned: &Assigned) -> Source {
        let pool = supply.pool(assigned.pool).name().clone();
        let reason = Reason::LowestFree {
            passed_over: assigned.passed_over.clone(),
        };
        Source {
            origin: desired.pools.get(&pool).map(|pool| pool.origin.clone()),
            pool: Some(pool),
            reason,
        }
    }

    /// The source of blocks that the node holds already. The pool is that of the block which no
    /// agent reads.
    pub(super) fn of_held(desired: &Desired, supply: &Supply, held: &PerFamily<Holding>) -> Source {
        let unread = held
            .iter()
            .find(|holding| holding.reading == Reading::NotRead);
        let pool = unread
            .and_then(|holding| supply.pool_of(holding.block))
            .map(|id| supply.pool(id).name().clone());
        let origin = pool
            .as_ref()
            .and_then(|pool| desired.pools.get(pool))
            .map(|pool| pool.origin.clone());
        let reason = unread.map_or(Reason::Pinned, |holding| Reason::HeldElsewhere {
            field: holding.field,
        });
        Source {
            pool,
            origin,
            reason,
        }
    }
}

/// Number of blocks of a pool that no other node may get for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimedBlocks {
    pub in_flight: usize,
    pub quarantined: usize,
}

impl ClaimedBlocks {
    /// When the claimed blocks are free, as the end of an advice.
    pub(super) fn until(self) -> &'static str {
        match (self.in_flight, self.quarantined) {
            (0, 0) => "",
            (0, _) => ", or plan again when the quarantine ends",
            (_, 0) => ", or plan again when the claims end: an apply ends those of a killed one",
            _ => {
                ", or plan again when the claims or the quarantine end: an apply ends the claims of a killed one"
            }
        }
    }
}

/// The claimed and quarantined blocks of each pool that has some.
pub(super) fn claimed_blocks(
    desired: &Desired,
    observed: &Observed,
    supply: &Supply,
) -> BTreeMap<PoolName, ClaimedBlocks> {
    let Claims {
        in_flight,
        quarantined,
    } = observed.live_claims(desired.policy.quarantine);
    let pool_of = |block: &Block| {
        let pool = supply.pool_of(*block)?;
        Some(supply.pool(pool).name().clone())
    };
    let mut claimed: BTreeMap<PoolName, ClaimedBlocks> = BTreeMap::new();
    for pool in in_flight.keys().filter_map(pool_of) {
        claimed.entry(pool).or_default().in_flight += 1;
    }
    for pool in quarantined.keys().filter_map(pool_of) {
        claimed.entry(pool).or_default().quarantined += 1;
    }
    claimed
}

/// The claims with those of these changes, and the changes, by their index, that must not be
/// written because another node has one of their blocks. `claims` must be those in force; freed
/// blocks are quarantined before the write, so that a kill in between forgets nothing.
pub fn claim_changes(
    claims: &Claims,
    changes: &[Change],
    now: Timestamp,
    quarantine: SignedDuration,
) -> (Claims, BTreeMap<usize, Conflict>) {
    let (places, requests): (Vec<usize>, Vec<ClaimRequest<'_>>) = changes
        .iter()
        .enumerate()
        .filter_map(|(place, change)| Some((place, change.as_node()?.claim_request())))
        .unzip();
    let (claims, conflicts) = claims.claim_batch(&requests, now, quarantine);
    let conflicts = conflicts
        .into_iter()
        .map(|(index, conflict)| (places[index], conflict));
    (claims, conflicts.collect())
}

/// The claims after these changes were applied. Claims of other writes stay, and so do those of a
/// write whose outcome is unknown, and of an object that was created by name.
pub fn settle_applied<'c>(
    claims: &Claims,
    applied: impl Iterator<Item = &'c NodeChange>,
    now: Timestamp,
    quarantine: SignedDuration,
) -> Claims {
    claims.settle(applied.map(NodeChange::claim_request), now, quarantine)
}
