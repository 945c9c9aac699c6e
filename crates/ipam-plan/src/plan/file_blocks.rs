//! Which blocks the files give to which nodes, independent of the cluster.
//!
//! The one place that compares a block with pools, pins and exclusions. Knows nothing of held or
//! claimed blocks.
//!
//! The outcome of each pin: fulfilled already, to be assigned, or blocked.

use std::collections::BTreeMap;

use super::blocked::{BlockedReason, NodeObstacle, OperatorObstacle, PinObstacle};
use super::misplaced::MisplacedReason;
use super::owners::AddressOwners;
use super::write_path::{Moving, moves_nodes};
use ipam_cilium::observed::{FamilyUse, Holding, Node, Observed, Reading};
use ipam_core::model::{NodeName, PerFamily, PoolName};
use ipam_core::net::{Block, Range, RangeIndex, merge, touching};
use ipam_desired::{Desired, Pin, Pool, PoolState};

/// Indexes pools and pins by address, so that no query walks over all of them.
pub(super) struct FileBlocks<'d> {
    desired: &'d Desired,
    pools: RangeIndex<&'d PoolName>,
    pinned: RangeIndex<&'d NodeName>,
    /// What the Policy excludes, merged.
    excluded: Vec<Range>,
    /// What each pool reserves, merged.
    reserved: BTreeMap<&'d PoolName, Vec<Range>>,
    /// What pools retire, merged.
    retiring: Vec<Range>,
}

impl<'d> FileBlocks<'d> {
    pub(super) fn new(desired: &'d Desired) -> FileBlocks<'d> {
        let ranges = |pool: &'d Pool| {
            pool.ranges
                .iter()
                .map(|range| (range.block.range(), &pool.name))
        };
        let pinned = desired
            .pins
            .values()
            .flat_map(|pin| pin.blocks.iter().map(|block| (block.range(), &pin.node)));
        FileBlocks {
            desired,
            pools: RangeIndex::new(desired.pools.values().flat_map(ranges)),
            pinned: RangeIndex::new(pinned),
            excluded: merge(desired.policy.excluded.iter().copied()),
            reserved: desired
                .pools
                .values()
                .map(|pool| (&pool.name, merge(pool.reserved.iter().copied())))
                .collect(),
            retiring: merge(desired.pools.values().flat_map(Pool::retiring_ranges)),
        }
    }

    /// The pool that has the whole block in one of its ranges.
    pub(super) fn pool_of(&self, block: Block) -> Option<&'d Pool> {
        let mut around = self
            .pools
            .overlapping(&block.range())
            .filter(|(range, _)| range.contains(&block.range()));
        around
            .next()
            .and_then(|(_, name)| self.desired.pools.get(*name))
    }

    /// The pool that gives exactly this block, or why no pool gives it to any node.
    pub(super) fn owning_pool(&self, block: Block) -> Result<&'d Pool, MisplacedReason> {
        if !touching(&self.excluded, &block.range()).is_empty() {
            return Err(MisplacedReason::BlockExcluded);
        }
        let pool = self.pool_of(block).ok_or(MisplacedReason::InNoPool)?;
        let size = pool
            .block_size
            .get(block.family())
            .ok_or(MisplacedReason::InNoPool)?;
        if *size != block.size() {
            return Err(MisplacedReason::OtherBlockSize(*size));
        }
        let reserved = self.reserved.get(&pool.name);
        if reserved.is_some_and(|ranges| !touching(ranges, &block.range()).is_empty()) {
            return Err(MisplacedReason::BlockReserved);
        }
        if !touching(&self.retiring, &block.range()).is_empty() {
            return Err(MisplacedReason::RangeRetiring);
        }
        Ok(pool)
    }

    /// Why the files would not give a node this block, even if all pools were empty.
    pub(super) fn obstacle(&self, node: &Node, block: Block) -> Option<MisplacedReason> {
        let pin = self.desired.pins.get(&node.name);
        if pin.is_some_and(|pin| pin.blocks.get(block.family()) == Some(&block)) {
            return None;
        }
        let pool = match self.owning_pool(block) {
            Ok(pool) => pool,
            Err(reason) => return Some(reason),
        };
        if let Some(other) = self.pinned_to_other(&node.name, block) {
            return Some(MisplacedReason::PinnedToOther(other.clone()));
        }
        match pin {
            Some(pin) if pin.pool != pool.name => {
                Some(MisplacedReason::PinnedElsewhere(pin.pool.clone()))
            }
            Some(_) => None,
            None => (!pool.selector.matches(&node.labels)).then_some(MisplacedReason::NotSelected),
        }
    }

    /// Like [`FileBlocks::obstacle`], for a block that the node does not have yet: a disabled pool
    /// gives no new blocks.
    pub(super) fn obstacle_to_new(&self, node: &Node, block: Block) -> Option<MisplacedReason> {
        let is_disabled = |pool: &&Pool| pool.state == PoolState::Disabled;
        let disabled = || {
            self.pool_of(block)
                .filter(is_disabled)
                .map(|_| MisplacedReason::PoolDisabled)
        };
        self.obstacle(node, block).or_else(disabled)
    }

    fn pinned_to_other(&self, node: &NodeName, block: Block) -> Option<&'d NodeName> {
        self.pinned
            .overlapping(&block.range())
            .map(|(_, other)| *other)
            .filter(|other| *other != node)
            .min()
    }
}

/// The pool in whose ranges each block lies, if any does.
pub fn pools_of(
    desired: &Desired,
    blocks: impl IntoIterator<Item = Block>,
) -> BTreeMap<Block, PoolName> {
    let files = FileBlocks::new(desired);
    let pool_of = |block| Some((block, files.pool_of(block)?.name.clone()));
    blocks.into_iter().filter_map(pool_of).collect()
}

/// The outcome of a pin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PinOutcome {
    /// The node gets these blocks in addition to the blocks that it holds.
    Assign(PerFamily<Block>),
    /// The node holds other blocks, and moves to these blocks.
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
                return PinOutcome::Blocked(PinObstacle::FamilyOff(block.family()).into());
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
                return PinOutcome::Blocked(
                    PinObstacle::WouldMove {
                        pinned: block,
                        held: holding.block,
                    }
                    .into(),
                );
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
        let held = || PinObstacle::HeldBy(block, node.clone()).into();
        return Some(refusal.map_or_else(held, |refusal| {
            OperatorObstacle::Refuses(Box::new(refusal)).into()
        }));
    }
    if let Some(node) = others.claimant(block, &pin.node) {
        return Some(NodeObstacle::Claimed(block, node.clone()).into());
    }
    if others.uses(block) {
        return Some(PinObstacle::NotFree(block).into());
    }
    let pool = desired.pools.get(&pin.pool)?;
    (pool.state == PoolState::Disabled).then(|| PinObstacle::PoolDisabled(pool.name.clone()).into())
}

/// Every pinned block. A block is kept for its node even before the node exists.
pub(super) fn blocks(pins: &BTreeMap<NodeName, Pin>) -> Vec<Block> {
    pins.values()
        .flat_map(|pin| pin.blocks.iter().copied())
        .collect()
}
