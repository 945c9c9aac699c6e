//! What becomes of each pin: kept already, to be assigned, or impossible for now.

use std::collections::BTreeMap;

use super::change::BlockedReason;
use crate::desired::{Desired, Pin, PoolState};
use crate::model::{NodeName, PerFamily};
use crate::net::{Block, Range};
use crate::observed::{Holding, Observed};

/// What a pin asks of its node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PinOutcome {
    /// The node gets these blocks, besides what it holds.
    Assign(PerFamily<Block>),
    /// It cannot be, for now.
    Blocked(BlockedReason),
}

/// Answers who else uses an address.
pub(super) struct Others<'o> {
    /// Blocks that nodes show, sorted, with their nodes.
    shown: Vec<(Range, &'o NodeName)>,
    /// Services, machines, load balancers.
    foreign: &'o [Range],
}

impl<'o> Others<'o> {
    /// `foreign` must come from [`crate::net::merge`].
    pub(super) fn new(observed: &'o Observed, foreign: &'o [Range]) -> Others<'o> {
        let mut shown: Vec<(Range, &NodeName)> =
            observed.shown_blocks().map(|(node, block)| (block.range(), node)).collect();
        shown.sort();
        Others { shown, foreign }
    }

    /// Another node that shows an overlapping block. Linear: pins are few, and duplicates make no order to search by.
    fn holder(&self, block: Block, node: &NodeName) -> Option<&'o NodeName> {
        self.shown
            .iter()
            .find(|(range, other)| *other != node && range.overlaps(&block.range()))
            .map(|(_, other)| *other)
    }

    fn uses(&self, block: Block) -> bool {
        let range = block.range();
        let start =
            self.foreign.partition_point(|other| (other.family(), other.last()) < (range.family(), range.first()));
        self.foreign.get(start).is_some_and(|other| other.overlaps(&range))
    }
}

pub(super) fn outcome(pin: &Pin, held: &PerFamily<Holding>, desired: &Desired, others: &Others<'_>) -> PinOutcome {
    let mut assign = PerFamily::NONE;
    for block in pin.blocks.iter().copied() {
        match held.get(block.family()) {
            Some(holding) if holding.block == block => continue,
            Some(holding) => {
                return PinOutcome::Blocked(BlockedReason::PinWouldMove { pinned: block, held: holding.block });
            }
            None => {}
        }
        if let Some(reason) = obstacle(pin, block, desired, others) {
            return PinOutcome::Blocked(reason);
        }
        assign.offer(block);
    }
    PinOutcome::Assign(assign)
}

fn obstacle(pin: &Pin, block: Block, desired: &Desired, others: &Others<'_>) -> Option<BlockedReason> {
    if let Some(node) = others.holder(block, &pin.node) {
        return Some(BlockedReason::PinHeldBy(block, node.clone()));
    }
    if others.uses(block) {
        return Some(BlockedReason::PinNotFree(block));
    }
    let pool = desired.pools.get(&pin.pool)?;
    (pool.state == PoolState::Disabled).then(|| BlockedReason::PinPoolDisabled(pool.name.clone()))
}

/// Every pinned block, that of a node which does not exist yet included: it is kept for it.
pub(super) fn blocks(pins: &BTreeMap<NodeName, Pin>) -> Vec<Block> {
    pins.values().flat_map(|pin| pin.blocks.iter().copied()).collect()
}
