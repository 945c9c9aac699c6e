//! Blocks that nodes hold and that the files would not give them today, with the reason.
//!
//! A held block never moves by itself, so nothing here changes the plan. It tells a cluster that
//! matches the files from one that does not. In ipam `multi-pool` Pods choose pools, so any node
//! may hold blocks of any pool.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use strum::{IntoStaticStr, VariantNames};

use super::file_blocks::FileBlocks;
use super::owners::AddressOwners;
use ipam_cilium::observed::{FamilyUse, Holding, HoldingField, Node, Observed};
use ipam_core::alloc::{PassedOver, PoolId, Supply};
use ipam_core::model::{NodeName, Origin, PerFamily, PoolName};
use ipam_core::net::{Block, BlockSize, Family, RangeIndex};
use ipam_desired::{Desired, Pin, Pool};

/// A held block that the files would not give its node today.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misplaced {
    /// Why the files would not give the node the block.
    pub reason: MisplacedReason,
    /// The pool that the block lies in.
    pub pool: Option<PoolName>,
    pub node: NodeName,
    pub block: Block,
    /// The field that shows the block.
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
    /// The node is pinned into this other pool, which gives the family that the pin leaves out.
    PinnedElsewhere(PoolName),
    /// The pool gives blocks of this size.
    OtherBlockSize(BlockSize),
    /// The pool reserves addresses of the block.
    BlockReserved,
    /// The pool retires the range of the block.
    RangeRetiring,
    /// The Policy excludes addresses of the block.
    BlockExcluded,
    /// The block is pinned to this other node.
    PinnedToOther(NodeName),
    /// The node's block of the other family belongs to this pool, which gives both families.
    DualStackSplit(PoolName),
    /// Cilium gave the block from a `CiliumPodIPPool` of this other name.
    GivenByOtherPool(String),
    /// The pool gives no new blocks. A block that a node holds already is not misplaced.
    PoolDisabled,
    /// Something other than the Pods of nodes uses addresses of the block.
    UsedByOthers,
    /// A pool that comes first for the node has a free block: its name.
    BetterPool(PoolName),
}

impl MisplacedReason {
    /// Stable code of the reason, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// How to fix the misplaced block: a sentence for people.
    pub fn help(&self) -> &'static str {
        match self {
            MisplacedReason::InNoPool => {
                "add the CIDR to a pool, or move the nodes with `cilium-ipam migrate`"
            }
            MisplacedReason::NotSelected => {
                "fix the labels or the selector, pin the nodes with NodeAssignments, or move them with `cilium-ipam migrate`"
            }
            MisplacedReason::PinnedElsewhere(_) => {
                "name this block in the pin, too, or move the node with `cilium-ipam migrate`"
            }
            MisplacedReason::OtherBlockSize(_) => {
                "restore `blockSize`, or move the nodes with `cilium-ipam migrate`"
            }
            MisplacedReason::BlockReserved | MisplacedReason::BlockExcluded => {
                "give these addresses back to the pool, or move the nodes with `cilium-ipam migrate`"
            }
            MisplacedReason::RangeRetiring => {
                "move the nodes with `cilium-ipam migrate`; until then they keep the block"
            }
            MisplacedReason::PinnedToOther(_) => {
                "pin another block, or move this node with `cilium-ipam migrate`, so that the pinned one can have it"
            }
            MisplacedReason::DualStackSplit(_) => {
                "move the nodes with `cilium-ipam migrate`: they get both blocks of one pool"
            }
            MisplacedReason::GivenByOtherPool(_) => {
                "move the CIDR back to that pool, or drain and re-create the nodes"
            }
            MisplacedReason::PoolDisabled => {
                "enable the pool, or clear the field that shows the block"
            }
            MisplacedReason::UsedByOthers => {
                "move what uses these addresses, or move the nodes with `cilium-ipam migrate`"
            }
            MisplacedReason::BetterPool(_) => {
                "move the nodes with `cilium-ipam migrate`; until then they keep the block"
            }
        }
    }
}

/// The text follows the block and a colon: `10.0.0.0/24: in no pool`.
impl fmt::Display for MisplacedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MisplacedReason::InNoPool => f.write_str("in no pool"),
            MisplacedReason::NotSelected => f.write_str("the pool does not select the node"),
            MisplacedReason::PinnedElsewhere(pool) => {
                write!(f, "the node is pinned into pool {pool}")
            }
            MisplacedReason::OtherBlockSize(size) => write!(f, "the pool gives {size} blocks"),
            MisplacedReason::BlockReserved => f.write_str("the pool reserves these addresses"),
            MisplacedReason::RangeRetiring => f.write_str("the pool retires this range"),
            MisplacedReason::BlockExcluded => f.write_str("the Policy excludes these addresses"),
            MisplacedReason::PinnedToOther(node) => write!(f, "it is pinned to node {node}"),
            MisplacedReason::DualStackSplit(pool) => {
                write!(
                    f,
                    "the node's other block is of pool {pool}, which gives both"
                )
            }
            MisplacedReason::GivenByOtherPool(pool) => {
                write!(f, "Cilium gave it of pool {}", pool.escape_debug())
            }
            MisplacedReason::PoolDisabled => f.write_str("the pool is disabled"),
            MisplacedReason::UsedByOthers => f.write_str("something else uses these addresses"),
            MisplacedReason::BetterPool(pool) => write!(f, "pool {pool} comes first and has room"),
        }
    }
}

/// Compares the blocks that nodes hold with those that the files would give them. Made once for a
/// plan, after allocation.
pub(super) struct Placement<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    supply: &'p Supply,
    files: &'p FileBlocks<'p>,
    others: &'p AddressOwners<'p>,
    /// Families that Cilium uses.
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
        files: &'p FileBlocks<'p>,
        others: &'p AddressOwners<'p>,
    ) -> Placement<'p> {
        let use_of = |family: &Family| observed.cilium.use_of(*family);
        let families = Family::BOTH
            .into_iter()
            .filter(|family| use_of(family) != FamilyUse::Off)
            .collect();
        let required = Family::BOTH
            .into_iter()
            .filter(|family| use_of(family) == FamilyUse::Required)
            .collect();
        Placement {
            desired,
            observed,
            supply,
            files,
            others,
            families,
            required,
            with_room: BTreeMap::new(),
        }
    }

    /// The misplaced blocks of a node. `candidates` are the pools that select the node, best first.
    /// A block of the node's pin is never misplaced, and one that the pin replaces is blocked.
    pub(super) fn of_node(&mut self, node: &Node, candidates: &Arc<[PoolId]>) -> Vec<Misplaced> {
        let pin = self.desired.pins.get(&node.name);
        // The pool of the pin also gives the family that the pin omits.
        let of_pin: Option<Arc<[PoolId]>> = pin
            .and_then(|pin| self.supply.id(&pin.pool))
            .map(|id| [id].into());
        let candidates = of_pin.as_ref().unwrap_or(candidates);
        let held = self.observed.holds(node);
        let mut misplaced = Vec::new();
        for holding in held.iter() {
            let family = holding.block.family();
            let is_pinned = pin.is_some_and(|pin| pin.blocks.get(family).is_some());
            if !self.families.contains(&family) {
                continue;
            }
            let reason = match is_pinned {
                true => self.of_pinned(pin, holding.block),
                false => self
                    .of_block(node, holding.block, candidates)
                    .or_else(|| self.of_pair(node, &held, holding)),
            };
            misplaced.extend(reason.map(|reason| {
                misplaced_block(self.files, node, holding.block, holding.field, reason)
            }));
        }
        misplaced
    }

    /// A pin may lie in reserved addresses of its pool, but not in addresses that something else
    /// uses.
    fn of_pinned(&self, pin: Option<&Pin>, block: Block) -> Option<MisplacedReason> {
        let is_it = pin.is_some_and(|pin| pin.blocks.get(block.family()) == Some(&block));
        (is_it && self.others.uses(block)).then_some(MisplacedReason::UsedByOthers)
    }

    fn of_block(
        &mut self,
        node: &Node,
        block: Block,
        candidates: &Arc<[PoolId]>,
    ) -> Option<MisplacedReason> {
        if let Some(reason) = self.files.obstacle(node, block) {
            return Some(reason);
        }
        if self.others.uses(block) {
            return Some(MisplacedReason::UsedByOthers);
        }
        let (better, own) = (
            self.first_with_room(candidates, block.family())?,
            self.supply.pool_of(block)?,
        );
        is_before(candidates, better, own)
            .then(|| MisplacedReason::BetterPool(self.supply.pool(better).name().clone()))
    }

    /// A pool with both families gives a node both. If the pools of both blocks have both families,
    /// the pool of the IPv4 block decides. The pool of a misplaced block decides nothing.
    fn of_pair(
        &self,
        node: &Node,
        held: &PerFamily<Holding>,
        holding: &Holding,
    ) -> Option<MisplacedReason> {
        let family = holding.block.family();
        let is_used = |other: &&Holding| self.families.contains(&other.block.family());
        let other = held
            .iter()
            .filter(is_used)
            .find(|other| other.block.family() != family)?;
        let (own, of_other) = (
            self.files.pool_of(holding.block)?,
            self.files.pool_of(other.block)?,
        );
        let gives_both = |pool: &Pool| {
            Family::BOTH
                .iter()
                .all(|family| pool.block_size.get(*family).is_some())
        };
        let leads = family == Family::Ipv6 || !gives_both(own);
        let is_split = own.name != of_other.name && gives_both(of_other) && leads;
        let is_split = is_split && self.files.obstacle(node, other.block).is_none();
        is_split.then(|| MisplacedReason::DualStackSplit(of_other.name.clone()))
    }

    /// The first pool that would serve a node without blocks, and gives this family.
    fn first_with_room(&mut self, candidates: &Arc<[PoolId]>, family: Family) -> Option<PoolId> {
        let (supply, families, required) = (self.supply, &self.families, &self.required);
        let find = || {
            for id in candidates.iter() {
                let pool = supply.pool(*id);
                match pool.obstacle(families, required) {
                    None if pool.has(family) => return Some(*id),
                    // A node without blocks would wait for a block of this pool.
                    Some(PassedOver::AwaitsRoom) => return None,
                    None | Some(_) => {}
                }
            }
            None
        };
        *self
            .with_room
            .entry((candidates.clone(), family))
            .or_insert_with(find)
    }
}

/// In ipam `multi-pool`: blocks that Cilium's operator gave a node from pools that the files do not
/// have, or have with other ranges.
pub(super) fn of_pod_pools(
    files: &FileBlocks<'_>,
    foreign: &RangeIndex<()>,
    observed: &Observed,
    node: &Node,
) -> Vec<Misplaced> {
    let allocated = observed
        .cilium_nodes
        .get(&node.name)
        .into_iter()
        .flat_map(|node| &node.allocated);
    let blocks =
        allocated.flat_map(|(pool, blocks)| blocks.iter().map(move |block| (pool, *block)));
    let of_block = |(pool, block): (&String, Block)| {
        let reason = match files.owning_pool(block) {
            Ok(giver) if giver.name.as_str() != pool => {
                MisplacedReason::GivenByOtherPool(pool.clone())
            }
            Ok(_) if foreign.overlapping(&block.range()).next().is_some() => {
                MisplacedReason::UsedByOthers
            }
            Ok(_) => return None,
            Err(reason) => reason,
        };
        Some(misplaced_block(
            files,
            node,
            block,
            HoldingField::Allocated,
            reason,
        ))
    };
    blocks.filter_map(of_block).collect()
}

fn misplaced_block(
    files: &FileBlocks<'_>,
    node: &Node,
    block: Block,
    field: HoldingField,
    reason: MisplacedReason,
) -> Misplaced {
    let pool = files.pool_of(block);
    let (name, origin) = (
        pool.map(|pool| pool.name.clone()),
        pool.map(|pool| pool.origin.clone()),
    );
    Misplaced {
        reason,
        pool: name,
        node: node.name.clone(),
        block,
        field,
        origin,
    }
}

fn is_before(candidates: &[PoolId], one: PoolId, other: PoolId) -> bool {
    let place = |id: PoolId| candidates.iter().position(|candidate| *candidate == id);
    place(one) < place(other)
}
