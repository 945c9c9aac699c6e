//! Blocks that nodes hold and that the files would not give them today, with the reason.
//!
//! A held block never moves by itself, so this changes nothing: it keeps a plan without changes from claiming that the
//! cluster is what the files say. Ipam `multi-pool` is left out: Cilium's operator chooses blocks there, and Pods choose
//! pools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use strum::{IntoStaticStr, VariantNames};

use super::others::Others;
use crate::alloc::{PoolId, Supply};
use crate::desired::{Desired, Pool};
use crate::model::{NodeName, Origin, PoolName};
use crate::net::{Block, BlockSize, Family};
use crate::observed::{FamilyUse, HoldingField, Node, Observed};

/// A held block that the files would not give its node today.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misplaced {
    /// Why.
    pub reason: MisplacedReason,
    /// The pool that the block lies in.
    pub pool: Option<PoolName>,
    /// The node.
    pub node: NodeName,
    /// The block.
    pub block: Block,
    /// The field that shows it.
    pub field: HoldingField,
    /// The pool in the files.
    pub origin: Option<Origin>,
}

/// Why the files would not give a node the block that it holds. The code of each is stable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum MisplacedReason {
    /// The block lies in no pool.
    InNoPool,
    /// The selector of the block's pool does not match the node.
    NotSelected,
    /// The pool gives blocks of this size.
    OtherBlockSize(BlockSize),
    /// The pool reserves addresses of the block.
    Reserved,
    /// The Policy excludes addresses of the block.
    Excluded,
    /// Something other than the Pods of nodes uses addresses of the block.
    UsedByOthers,
    /// This pool comes first for the node, and has a free block.
    BetterPool(PoolName),
}

impl MisplacedReason {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// The way out.
    pub fn help(&self) -> &'static str {
        match self {
            MisplacedReason::InNoPool => "add the CIDR to a pool, or move the nodes: drain and re-create them",
            MisplacedReason::NotSelected => {
                "fix the labels or the selector, pin the nodes with NodeAssignments, or drain and re-create them"
            }
            MisplacedReason::OtherBlockSize(_) => "restore `blockSize`, or drain and re-create the nodes",
            MisplacedReason::Reserved | MisplacedReason::Excluded => {
                "give these addresses back to the pool, or drain and re-create the nodes"
            }
            MisplacedReason::UsedByOthers => "move what uses these addresses, or drain and re-create the nodes",
            MisplacedReason::BetterPool(_) => {
                "drain and re-create the nodes to move them; until then they keep the block"
            }
        }
    }
}

/// As it fits after the block and a colon: `10.0.0.0/24: in no pool`.
impl fmt::Display for MisplacedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MisplacedReason::InNoPool => f.write_str("in no pool"),
            MisplacedReason::NotSelected => f.write_str("the pool does not select the node"),
            MisplacedReason::OtherBlockSize(size) => write!(f, "the pool gives {size} blocks"),
            MisplacedReason::Reserved => f.write_str("the pool reserves these addresses"),
            MisplacedReason::Excluded => f.write_str("the Policy excludes these addresses"),
            MisplacedReason::UsedByOthers => f.write_str("something else uses these addresses"),
            MisplacedReason::BetterPool(pool) => write!(f, "pool {pool} comes first and has room"),
        }
    }
}

/// Compares what nodes hold with what the files would give them. Made once for a plan, after its blocks are allocated.
pub(super) struct Placement<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    supply: &'p Supply,
    others: &'p Others<'p>,
    /// Families that Cilium uses and that some pool gives. Of any other family the files say nothing.
    families: Vec<Family>,
    /// Families that an agent waits for.
    required: Vec<Family>,
    /// The first pool of a list that has room for a family. One list serves many nodes.
    with_room: BTreeMap<(Arc<[PoolId]>, Family), Option<PoolId>>,
}

impl<'p> Placement<'p> {
    pub(super) fn new(
        desired: &'p Desired,
        observed: &'p Observed,
        supply: &'p Supply,
        others: &'p Others<'p>,
    ) -> Placement<'p> {
        let use_of = |family: &Family| observed.cilium.use_of(*family);
        let is_given = |family: &Family| supply.pools().any(|(_, pool)| pool.has(*family));
        let is_used = |family: &Family| use_of(family) != FamilyUse::Off && is_given(family);
        let families = Family::BOTH.into_iter().filter(is_used).collect();
        let required = Family::BOTH.into_iter().filter(|family| use_of(family) == FamilyUse::Required).collect();
        Placement { desired, observed, supply, others, families, required, with_room: BTreeMap::new() }
    }

    /// The blocks of a node that are not in their place. `candidates` are the pools that select the node, best first.
    /// A block that the node is pinned to is in its place, and one that it is pinned away from is blocked.
    pub(super) fn of_node(&mut self, node: &Node, candidates: &Arc<[PoolId]>) -> Vec<Misplaced> {
        let pin = self.desired.pins.get(&node.name);
        // The pool of a pin gives the family that the pin leaves out.
        let of_pin: Option<Arc<[PoolId]>> = pin.and_then(|pin| self.supply.id(&pin.pool)).map(|id| [id].into());
        let candidates = of_pin.as_ref().unwrap_or(candidates);
        let mut misplaced = Vec::new();
        for holding in self.observed.holds(node).iter() {
            let family = holding.block.family();
            let is_pinned = pin.is_some_and(|pin| pin.blocks.get(family).is_some());
            if is_pinned || !self.families.contains(&family) {
                continue;
            }
            let pool = self.pool_of(holding.block);
            if let Some(reason) = self.of_block(node, holding.block, pool, candidates) {
                misplaced.push(Misplaced {
                    reason,
                    pool: pool.map(|pool| pool.name.clone()),
                    node: node.name.clone(),
                    block: holding.block,
                    field: holding.field,
                    origin: pool.map(|pool| pool.origin.clone()),
                });
            }
        }
        misplaced
    }

    fn pool_of(&self, block: Block) -> Option<&'p Pool> {
        let id = self.supply.pool_of(block)?;
        self.desired.pools.get(self.supply.pool(id).name())
    }

    fn of_block(
        &mut self,
        node: &Node,
        block: Block,
        pool: Option<&Pool>,
        candidates: &Arc<[PoolId]>,
    ) -> Option<MisplacedReason> {
        if let Some(reason) = not_given(self.desired, node, block, pool) {
            return Some(reason);
        }
        if self.others.uses(block) {
            return Some(MisplacedReason::UsedByOthers);
        }
        let (better, own) = (self.first_with_room(candidates, block.family())?, self.supply.pool_of(block)?);
        is_before(candidates, better, own).then(|| MisplacedReason::BetterPool(self.supply.pool(better).name().clone()))
    }

    /// The first pool that would serve a node without blocks, this family among them.
    fn first_with_room(&mut self, candidates: &Arc<[PoolId]>, family: Family) -> Option<PoolId> {
        let (supply, families, required) = (self.supply, &self.families, &self.required);
        let serves = |id: &&PoolId| {
            let pool = supply.pool(**id);
            pool.has(family) && pool.obstacle(families, required).is_none()
        };
        let find = || candidates.iter().find(serves).copied();
        *self.with_room.entry((candidates.clone(), family)).or_insert_with(find)
    }
}

/// Why no pool would give a node this block, which lies in this pool, even if all of them were empty.
pub(super) fn not_given(desired: &Desired, node: &Node, block: Block, pool: Option<&Pool>) -> Option<MisplacedReason> {
    let pin = desired.pins.get(&node.name);
    if pin.is_some_and(|pin| pin.blocks.get(block.family()) == Some(&block)) {
        return None;
    }
    if desired.policy.excluded.iter().any(|range| range.overlaps(&block.range())) {
        return Some(MisplacedReason::Excluded);
    }
    let Some(pool) = pool else { return Some(MisplacedReason::InNoPool) };
    if let Some(size) = pool.block_size.get(block.family()).filter(|size| **size != block.size()) {
        return Some(MisplacedReason::OtherBlockSize(*size));
    }
    if pool.reserved.iter().any(|range| range.overlaps(&block.range())) {
        return Some(MisplacedReason::Reserved);
    }
    let is_selected = match pin {
        Some(pin) => pin.pool == pool.name,
        None => pool.selector.matches(&node.labels),
    };
    (!is_selected).then_some(MisplacedReason::NotSelected)
}

fn is_before(candidates: &[PoolId], one: PoolId, other: PoolId) -> bool {
    let place = |id: PoolId| candidates.iter().position(|candidate| *candidate == id);
    place(one) < place(other)
}
