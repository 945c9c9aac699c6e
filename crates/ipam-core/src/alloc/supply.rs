//! The free blocks of all pools, searchable by address.

use super::passed_over::PassedOver;
use crate::model::{PerFamily, PoolName};
use crate::net::{Block, BlockSize, Family, Range, Slots};

/// Index of a pool in its [`Supply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(usize);

/// Whether a pool gives new blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationMode {
    /// The pool gives new blocks.
    New,
    /// The pool keeps its allocations and gives no new blocks.
    Nothing,
}

crate::text_enum! {
    /// What happens to a node whose best pool is full. The text is that of the field `whenFull`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum WhenFull {
        /// The node gets a block of the next pool that selects it.
        #[default]
        NextPool = "NextPool",
        /// The node gets no block until the pool has one.
        Wait = "Wait",
    }
}

crate::serde_as_text! { WhenFull: "`whenFull` of a pool" }

/// A part of a range that lies in one range of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPart {
    /// Id of the pool in its [`Supply`].
    pub pool: PoolId,
    /// Number of the pool's blocks that the part overlaps.
    pub blocks: u128,
    pub part: Range,
}

#[derive(Clone, Debug)]
pub struct PoolSupply {
    name: PoolName,
    mode: AllocationMode,
    when_full: WhenFull,
    /// Slots of all ranges in the order of use, both families mixed.
    slots: Vec<Slots>,
    /// The places of the slots, sorted by address.
    by_address: Vec<usize>,
    of_family: PerFamily<FamilySlots>,
}

/// The slots of one family of a pool.
#[derive(Clone, Debug, Default)]
struct FamilySlots {
    /// Places of the slots of the family, in the order of use.
    places: Vec<usize>,
    /// The number of slots in front that are full.
    full: usize,
    /// Number of blocks, free and taken.
    blocks: u128,
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
        let slots: Vec<Slots> = ranges
            .iter()
            .filter_map(|range| Slots::new(*range, *size.get(range.family())?))
            .collect();
        let mut by_address: Vec<usize> = (0..slots.len()).collect();
        by_address.sort_by_key(|place| *slots[*place].range());
        let mut of_family: PerFamily<FamilySlots> = PerFamily::NONE;
        for (place, slots) in slots.iter().enumerate() {
            let family = of_family.get_mut(slots.size().family());
            let family = family.get_or_insert_default();
            family.places.push(place);
            family.blocks = family.blocks.saturating_add(slots.count());
        }
        PoolSupply {
            name,
            mode,
            when_full: WhenFull::default(),
            slots,
            by_address,
            of_family,
        }
    }

    #[must_use]
    pub fn with_when_full(self, when_full: WhenFull) -> PoolSupply {
        PoolSupply { when_full, ..self }
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

    /// The slots whose range contains this one.
    pub fn slots_around(&self, range: &Range) -> Option<&Slots> {
        self.place_around(range).map(|place| &self.slots[place])
    }

    fn place_around(&self, range: &Range) -> Option<usize> {
        let wanted = range.first_and_family();
        let behind = self
            .by_address
            .partition_point(|place| self.slots[*place].range().first_and_family() <= wanted);
        let place = self.by_address[behind.checked_sub(1)?];
        self.slots[place].range().contains(range).then_some(place)
    }

    /// Whether the pool has blocks of this family, free or taken.
    pub fn has(&self, family: Family) -> bool {
        self.of_family.get(family).is_some()
    }

    /// Number of blocks of this family, free and taken.
    pub fn blocks(&self, family: Family) -> u128 {
        self.of_family.get(family).map_or(0, |slots| slots.blocks)
    }

    /// Whether the block is one of this pool's, free or taken.
    pub(super) fn gives(&self, block: Block) -> bool {
        self.slots_around(&block.range())
            .is_some_and(|slots| slots.size() == block.size())
    }

    pub(super) fn has_free(&self, family: Family) -> bool {
        !self.with_room(family).is_empty()
    }

    /// The places of this family's slots, without the full ones in front.
    fn with_room(&self, family: Family) -> &[usize] {
        self.of_family
            .get(family)
            .map_or(&[], |slots| &slots.places[slots.full..])
    }

    /// Like [`PoolSupply::has_free`], without the blocks that overlap `apart`.
    pub(super) fn has_free_apart(&self, family: Family, apart: &[Range]) -> bool {
        if apart.is_empty() {
            self.has_free(family)
        } else {
            self.lowest_apart(family, apart).is_some()
        }
    }

    /// The lowest free block that does not overlap `apart`, and the place of its slots.
    fn lowest_apart(&self, family: Family, apart: &[Range]) -> Option<(usize, Block)> {
        self.with_room(family).iter().find_map(|place| {
            let mut slots = self.slots[*place].clone();
            apart.iter().for_each(|range| slots.take(range));
            Some((*place, slots.take_lowest()?))
        })
    }

    /// Why the pool cannot serve a node that has no blocks. The node takes each of `families` that
    /// the pool has, and needs each of `required`.
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
        is_full.then_some(self.when_full())
    }

    /// Why the pool is passed over if it is full.
    pub(super) fn when_full(&self) -> PassedOver {
        match self.when_full {
            WhenFull::NextPool => PassedOver::Full,
            WhenFull::Wait => PassedOver::AwaitsRoom,
        }
    }

    /// Takes the lowest free block that does not overlap `apart`.
    pub(super) fn take_lowest_apart(&mut self, family: Family, apart: &[Range]) -> Option<Block> {
        if apart.is_empty() {
            return self.take_lowest(family);
        }
        let (place, block) = self.lowest_apart(family, apart)?;
        self.take(place, &block.range());
        Some(block)
    }

    fn take_lowest(&mut self, family: Family) -> Option<Block> {
        let place = *self.with_room(family).first()?;
        let block = self.slots[place].take_lowest();
        self.skip_full(family);
        block
    }

    /// Takes every block of the slots at `place` that overlaps `range`.
    fn take(&mut self, place: usize, range: &Range) {
        self.slots[place].take(range);
        self.skip_full(self.slots[place].size().family());
    }

    fn skip_full(&mut self, family: Family) {
        if let Some(FamilySlots { places, full, .. }) = self.of_family.get_mut(family) {
            let newly_full = places[*full..]
                .iter()
                .take_while(|place| self.slots[**place].free() == 0);
            *full += newly_full.count();
        }
    }
}

/// The supplies of all pools. Their ranges must not overlap; the checks of the files ensure this.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    pools: Vec<PoolSupply>,
    /// The places of the pools, sorted by name.
    by_name: Vec<usize>,
    /// Ranges of all slots with pool and place, sorted by address.
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
        let mut by_name: Vec<usize> = (0..pools.len()).collect();
        by_name.sort_by_key(|place| &pools[*place].name);
        Supply {
            by_name,
            pools,
            index,
        }
    }

    pub fn id(&self, name: &PoolName) -> Option<PoolId> {
        let before = self
            .by_name
            .partition_point(|place| self.pools[*place].name < *name);
        let place = *self.by_name.get(before)?;
        (self.pools[place].name == *name).then_some(PoolId(place))
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
            self.pools[pool].take(place, range);
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
            .slots_around(part)?
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(name: &str, ranges: &[Block]) -> PoolSupply {
        let size = PerFamily {
            ipv4: BlockSize::new(Family::Ipv4, 26).ok(),
            ipv6: BlockSize::new(Family::Ipv6, 64).ok(),
        };
        PoolSupply::new(name.parse().unwrap(), AllocationMode::New, ranges, &size)
    }

    fn ranges(texts: &[&str]) -> Vec<Block> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_search_for_a_free_block_begins_behind_the_full_ranges() {
        let cidrs = ranges(&["10.9.0.0/26", "fd00::/63", "10.1.0.0/26", "10.5.0.0/25"]);
        let mut supply = Supply::new(vec![pool("a", &cidrs)]);
        let with_room =
            |supply: &Supply| Family::BOTH.map(|family| supply.pools[0].with_room(family).to_vec());
        assert_eq!(with_room(&supply), [vec![0, 2, 3], vec![1]]);
        supply.take(&"10.1.0.7".parse().unwrap());
        assert_eq!(with_room(&supply), [vec![0, 2, 3], vec![1]]);
        let pool = &mut supply.pools[0];
        let lowest = pool.take_lowest_apart(Family::Ipv4, &[]);
        assert_eq!(lowest, "10.9.0.0/26".parse().ok());
        assert_eq!(with_room(&supply), [vec![3], vec![1]]);
        supply.take(&"fd00::/63".parse::<Block>().unwrap().range());
        assert_eq!(with_room(&supply), [vec![3], vec![]]);
        assert!(!supply.pools[0].has_free(Family::Ipv6));
    }

    #[test]
    fn a_block_apart_comes_from_the_first_range_that_has_one() {
        let cidrs = ranges(&["10.9.0.0/26", "10.1.0.0/25"]);
        let mut pool = pool("a", &cidrs);
        let apart = ["10.9.0.1".parse().unwrap(), "10.1.0.1".parse().unwrap()];
        assert!(pool.has_free_apart(Family::Ipv4, &apart));
        let block = pool.take_lowest_apart(Family::Ipv4, &apart);
        assert_eq!(block, "10.1.0.64/26".parse().ok());
        assert!(!pool.has_free_apart(Family::Ipv4, &apart));
        assert_eq!(pool.take_lowest_apart(Family::Ipv4, &apart), None);
        assert!(pool.has_free(Family::Ipv4));
    }

    proptest! {
        #[test]
        fn a_pool_is_found_by_name_as_by_a_walk(
            names in proptest::collection::vec("[a-d]{1,2}", 0..12), wanted in "[a-e]{1,2}"
        ) {
            let supply = Supply::new(names.iter().map(|name| pool(name, &[])).collect());
            let walk = names.iter().position(|name| *name == wanted).map(PoolId);
            prop_assert_eq!(supply.id(&wanted.parse().unwrap()), walk);
        }

        #[test]
        fn the_range_around_a_block_is_found_as_by_a_walk(
            places in proptest::collection::btree_set(0u8..40, 0..10), wanted in 0u8..80
        ) {
            let cidrs = places.iter().rev().map(|place| format!("10.0.{place}.0/25"));
            let cidrs: Vec<Block> = cidrs.map(|cidr| cidr.parse().unwrap()).collect();
            let pool = pool("a", &cidrs);
            let block: Block = format!("10.0.{}.{}/26", wanted / 2, wanted % 2 * 64)
                .parse()
                .unwrap();
            let walk = pool.slots.iter().find(|slots| slots.range().contains(&block.range()));
            let found = pool.slots_around(&block.range());
            prop_assert_eq!(found.map(Slots::range), walk.map(Slots::range));
        }
    }
}
