//! What becomes of each pin: kept already, to be assigned, or impossible for now.

use std::collections::BTreeMap;

use super::blocked::BlockedReason;
use super::others::Others;
use super::write_path::{Moving, moves_nodes};
use ipam_cilium::observed::{FamilyUse, Holding, Observed, Reading};
use ipam_core::model::{NodeName, PerFamily};
use ipam_core::net::Block;
use ipam_desired::{Desired, Pin, PoolState};

/// What a pin asks of its node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PinOutcome {
    /// The node gets these blocks, besides what it holds.
    Assign(PerFamily<Block>),
    /// The node holds others, and moves to these.
    Move(PerFamily<Block>),
    /// It cannot be, for now.
    Blocked(BlockedReason),
}

pub(super) fn outcome(
    pin: &Pin,
    held: &PerFamily<Holding>,
    desired: &Desired,
    observed: &Observed,
    others: &Others<'_>,
) -> PinOutcome {
    let (mut assign, mut moved) = (PerFamily::NONE, PerFamily::NONE);
    let moving = moves_nodes(observed, desired.policy.write_path);
    for block in pin.blocks.iter().copied() {
        match held.get(block.family()) {
            _ if observed.cilium.use_of(block.family()) == FamilyUse::Off => {
                return PinOutcome::Blocked(BlockedReason::PinFamilyOff(block.family()));
            }
            Some(holding) if holding.block == block => continue,
            Some(holding) if moving == Moving::BySetting && holding.reading == Reading::Read => {
                if let Some(reason) = obstacle(pin, block, desired, observed, others) {
                    return PinOutcome::Blocked(reason);
                }
                moved.offer(block);
                continue;
            }
            Some(holding) => {
                return PinOutcome::Blocked(BlockedReason::PinWouldMove {
                    pinned: block,
                    held: holding.block,
                });
            }
            None => {}
        }
        if let Some(reason) = obstacle(pin, block, desired, observed, others) {
            return PinOutcome::Blocked(reason);
        }
        assign.offer(block);
    }
    if moved.is_empty() {
        PinOutcome::Assign(assign)
    } else {
        PinOutcome::Move(moved)
    }
}

fn obstacle(
    pin: &Pin,
    block: Block,
    desired: &Desired,
    observed: &Observed,
    others: &Others<'_>,
) -> Option<BlockedReason> {
    if let Some(node) = others.holder(block, &pin.node) {
        let refusal = observed
            .cluster_pool_refusal(block, &pin.node)
            .filter(|refusal| refusal.holder() == Some(node));
        let held = || BlockedReason::PinHeldBy(block, node.clone());
        return Some(refusal.map_or_else(held, |refusal| {
            BlockedReason::OperatorRefuses(Box::new(refusal))
        }));
    }
    if let Some(node) = others.claimant(block, &pin.node) {
        return Some(BlockedReason::SpokenFor(block, node.clone()));
    }
    if others.uses(block) {
        return Some(BlockedReason::PinNotFree(block));
    }
    let pool = desired.pools.get(&pin.pool)?;
    (pool.state == PoolState::Disabled).then(|| BlockedReason::PinPoolDisabled(pool.name.clone()))
}

/// Every pinned block, that of a node which does not exist yet included: it is kept for it.
pub(super) fn blocks(pins: &BTreeMap<NodeName, Pin>) -> Vec<Block> {
    pins.values()
        .flat_map(|pin| pin.blocks.iter().copied())
        .collect()
}
