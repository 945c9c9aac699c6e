//! The outcome of each pin: fulfilled already, to be assigned, or blocked.

use std::collections::BTreeMap;

use super::blocked::{BlockedReason, NodeObstacle, OperatorObstacle, PinObstacle};
use super::owners::AddressOwners;
use super::write_path::{Moving, moves_nodes};
use ipam_cilium::observed::{FamilyUse, Holding, Observed, Reading};
use ipam_core::model::{NodeName, PerFamily};
use ipam_core::net::Block;
use ipam_desired::{Desired, Pin, PoolState};

/// The outcome of a pin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PinOutcome {
    /// The node gets these blocks beside those that it holds.
    Assign(PerFamily<Block>),
    /// The node holds other blocks, and moves to these.
    Move(PerFamily<Block>),
    /// The pin cannot be fulfilled yet.
    Blocked(BlockedReason),
}

pub(super) fn outcome(
    pin: &Pin,
    held: &PerFamily<Holding>,
    desired: &Desired,
    observed: &Observed,
    others: &AddressOwners<'_>,
) -> PinOutcome {
    let (mut assign, mut moved) = (PerFamily::NONE, PerFamily::NONE);
    let moving = moves_nodes(observed, desired.policy.write_path);
    for block in pin.blocks.iter().copied() {
        match held.get(block.family()) {
            _ if observed.cilium.use_of(block.family()) == FamilyUse::Off => {
                return PinOutcome::Blocked(BlockedReason::Pin(PinObstacle::FamilyOff(
                    block.family(),
                )));
            }
            Some(holding) if holding.block == block => continue,
            Some(holding) if moving == Moving::BySetting && holding.reading == Reading::Read => {
                if let Some(reason) = obstacle(pin, block, desired, others) {
                    return PinOutcome::Blocked(reason);
                }
                moved.offer(block);
                continue;
            }
            Some(holding) => {
                return PinOutcome::Blocked(BlockedReason::Pin(PinObstacle::WouldMove {
                    pinned: block,
                    held: holding.block,
                }));
            }
            None => {}
        }
        if let Some(reason) = obstacle(pin, block, desired, others) {
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
    others: &AddressOwners<'_>,
) -> Option<BlockedReason> {
    if let Some(node) = others.holder(block, &pin.node) {
        let refusal = others
            .operator_refusal(block, &pin.node)
            .filter(|refusal| refusal.holder() == Some(node));
        let held = || BlockedReason::Pin(PinObstacle::HeldBy(block, node.clone()));
        return Some(refusal.map_or_else(held, |refusal| {
            BlockedReason::Operator(OperatorObstacle::Refuses(Box::new(refusal)))
        }));
    }
    if let Some(node) = others.claimant(block, &pin.node) {
        return Some(BlockedReason::Node(NodeObstacle::Claimed(
            block,
            node.clone(),
        )));
    }
    if others.uses(block) {
        return Some(BlockedReason::Pin(PinObstacle::NotFree(block)));
    }
    let pool = desired.pools.get(&pin.pool)?;
    (pool.state == PoolState::Disabled)
        .then(|| BlockedReason::Pin(PinObstacle::PoolDisabled(pool.name.clone())))
}

/// Every pinned block. A block is kept for its node even before the node exists.
pub(super) fn blocks(pins: &BTreeMap<NodeName, Pin>) -> Vec<Block> {
    pins.values()
        .flat_map(|pin| pin.blocks.iter().copied())
        .collect()
}
