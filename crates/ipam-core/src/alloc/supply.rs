//! The free blocks of all pools, searchable by address.

use super::allocate::PassedOver;
use crate::model::{PerFamily, PoolName};
use crate::net::{Block, BlockSize, Family, Range, Slots};

/// Index of a pool in its [`Supply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(usize);

/// Whether a pool gives new blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationMode {
    /// It gives new blocks.
    New,
    /// It keeps its allocations and gives no new blocks.
    Nothing,
}

/// A part of a range that lies in one range of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPart {
    /// The pool.
    pub pool: PoolId,
    /// Number of blocks that it overlaps.
    pub blocks: u128,
    pub part: Range,
}

#[derive(Clone, Debug)]
pub struct PoolSupply {
    name: PoolName,
    mode: AllocationMode,
    /// In the order of use, both families mixed.
    slots: Vec<Slots>,
}

impl PoolSupply {
    /// A pool with these ranges, used in this order. A range whose family has no size, or a longer
    /// prefix, is left out.
    pub fn new(
        name: PoolName,
        mode: AllocationMode,
        ranges: &[Block],
        size: &PerFamily<BlockSize>,
    ) -> PoolSupply {
        let slots = ranges
            .iter()
            .filter_map(|range| Slots::new(*range, *size.get(range.family())?))
            .collect();
        PoolSupply { name, mode, slots }
    }

    pub fn name(&self) -> &PoolName {
        &self.name
    }

    pub fn mode(&self) -> AllocationMode {
        self.mode
    }

    pub fn slots(&self) -> &[Slots] {
        &self.slots
    }

    /// Whether it has blocks of this family, free or taken.
    pub fn has(&self, family: Family) -> bool {
        self.slots
            .iter()
            .any(|slots| slots.size().family() == family)
    }

    /// Whether the block is one of this pool's, free or taken.
    pub(super) fn gives(&self, block: Block) -> bool {
        self.slots
            .iter()
            .any(|slots| slots.size() == block.size() && slots.range().contains(&block.range()))
    }

    pub(super) fn has_free(&self, family: Family) -> bool {
        self.slots
            .iter()
            .any(|slots| slots.size().family() == family && slots.free() > 0)
    }

    /// As [`PoolSupply::has_free`], without the blocks that overlap `apart`.
    pub(super) fn has_free_apart(&self, family: Family, apart: &[Range]) -> bool {
        if apart.is_empty() {
            self.has_free(family)
        } else {
            self.apart_from(apart).has_free(family)
        }
    }

    fn apart_from(&self, apart: &[Range]) -> PoolSupply {
        let mut supply = self.clone();
        apart
            .iter()
            .for_each(|range| supply.slots.iter_mut().for_each(|slots| slots.take(range)));
        supply
    }

    /// Why it cannot serve a node that has no blocks. The node takes each of `families` that the
    /// pool has, and needs each of `required`.
    pub fn obstacle(&self, families: &[Family], required: &[Family]) -> Option<PassedOver> {
        if let Some(family) = required.iter().find(|family| !self.has(**family)) {
            return Some(PassedOver::Lacks(*family));
        }
        if self.mode == AllocationMode::Nothing {
            return Some(PassedOver::Disabled);
        }
        let is_full = families
            .iter()
            .any(|family| self.has(*family) && !self.has_free(*family));
        is_full.then_some(PassedOver::Full)
    }

    /// Takes the lowest free block that does not overlap `apart`.
    pub(super) fn take_lowest_apart(&mut self, family: Family, apart: &[Range]) -> Option<Block> {
        if apart.is_empty() {
            return self.take_lowest(family);
        }
        let block = self.apart_from(apart).take_lowest(family)?;
        self.slots
            .iter_mut()
            .for_each(|slots| slots.take(&block.range()));
        Some(block)
    }

    fn take_lowest(&mut self, family: Family) -> Option<Block> {
        let mut of_family = self
            .slots
            .iter_mut()
            .filter(|slots| slots.size().family() == family);
        of_family.find_map(Slots::take_lowest)
    }
}

/// All pools. Their ranges must not overlap; the checks of the files ensure this.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    pools: Vec<PoolSupply>,
    /// Range, pool and place of its slots, sorted by address.
    index: Vec<(Range, usize, usize)>,
}

impl Supply {
    /// Ids follow the order of `pools`.
    pub fn new(pools: Vec<PoolSupply>) -> Supply {
        let places = pools.iter().enumerate();
        let mut index: Vec<_> = places
            .flat_map(|(pool, supply)| {
                supply
                    .slots
                    .iter()
                    .enumerate()
                    .map(move |(place, slots)| (*slots.range(), pool, place))
            })
            .collect();
        index.sort_unstable();
        Supply { pools, index }
    }

    pub fn id(&self, name: &PoolName) -> Option<PoolId> {
        self.pools
            .iter()
            .position(|pool| pool.name == *name)
            .map(PoolId)
    }

    pub fn pool(&self, id: PoolId) -> &PoolSupply {
        &self.pools[id.0]
    }

    pub(super) fn pool_mut(&mut self, id: PoolId) -> &mut PoolSupply {
        &mut self.pools[id.0]
    }

    /// All pools with their ids.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, &PoolSupply)> {
        self.pools
            .iter()
            .enumerate()
            .map(|(id, pool)| (PoolId(id), pool))
    }

    /// The pool that contains the block in one range.
    pub fn pool_of(&self, block: Block) -> Option<PoolId> {
        self.touched(&block.range())
            .find(|(range, _, _)| range.contains(&block.range()))
            .map(|(_, pool, _)| PoolId(*pool))
    }

    /// Takes every block that overlaps `range`, in all pools.
    pub fn take(&mut self, range: &Range) {
        let touched: Vec<(usize, usize)> = self
            .touched(range)
            .map(|(_, pool, place)| (*pool, *place))
            .collect();
        for (pool, place) in touched {
            self.pools[pool].slots[place].take(range);
        }
    }

    /// The parts of a range that lie in pools.
    pub fn parts(&self, range: &Range) -> Vec<PoolPart> {
        let part = |(_, pool, place): &(Range, usize, usize)| {
            let slots = &self.pools[*pool].slots[*place];
            let part = slots.range().intersection(range)?;
            Some(PoolPart {
                pool: PoolId(*pool),
                blocks: slots.count_overlap(&part),
                part,
            })
        };
        self.touched(range).filter_map(part).collect()
    }

    /// The part of `part` in the first `blocks` blocks that it overlaps.
    pub fn first_blocks(&self, pool: PoolId, part: &Range, blocks: u128) -> Option<Range> {
        self.pools[pool.0]
            .slots
            .iter()
            .find(|slots| slots.range().contains(part))?
            .first_of(part, blocks)
    }

    fn touched<'s>(
        &'s self,
        range: &Range,
    ) -> impl Iterator<Item = &'s (Range, usize, usize)> + use<'s> {
        let range = *range;
        let start = self.index.partition_point(|(pool, _, _)| {
            (pool.family(), pool.last()) < (range.family(), range.first())
        });
        self.index[start..]
            .iter()
            .take_while(move |(pool, _, _)| pool.overlaps(&range))
    }
}
