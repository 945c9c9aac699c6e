//! The slots of one range: which of its equally sized blocks are free.
//!
//! A leaf is a bitmap of 4,096 slots with a summary word. Full leaves are stored as runs, and empty
//! leaves are not stored. So a /48 with /64 blocks needs memory only for the blocks in use, and the
//! search for the lowest free slot skips full leaves.

mod leaf;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Block, BlockSize, Range};
use leaf::{LEAF_SLOTS, Leaf};

/// Free and taken slots of a range, which is divided into blocks of one size.
#[derive(Clone, Debug)]
pub struct Slots {
    range: Range,
    size: BlockSize,
    last_slot: u128,
    partial: BTreeMap<u128, Leaf>,
    /// First leaf → last leaf of each run of full leaves. Runs never touch.
    full: BTreeMap<u128, u128>,
    taken: u128,
    /// The leaf of the lowest free slot. It is not in `partial`, because most allocations use it.
    current: Option<(u128, Leaf)>,
}

impl Slots {
    /// A range divided into free slots. `None` if `size` does not fit into `range` or has the other
    /// family.
    pub fn new(range: Block, size: BlockSize) -> Option<Slots> {
        if size.family() != range.family() || size.prefix_len() < range.prefix_len() {
            return None;
        }
        let (first, last) = range.range().numbers();
        let last_slot = (last - first) >> size.host_bits();
        let mut slots = Slots {
            range: range.range(),
            size,
            last_slot,
            partial: BTreeMap::new(),
            full: BTreeMap::new(),
            taken: 0,
            current: None,
        };
        slots.trim_tail();
        Some(slots)
    }

    /// Takes the slots of the last leaf that lie beyond the range, so that no search leaves it.
    fn trim_tail(&mut self) {
        let used = self.last_slot % LEAF_SLOTS + 1;
        if used < LEAF_SLOTS {
            let mut leaf = Leaf::EMPTY;
            leaf.take(used as usize, LEAF_SLOTS as usize - 1);
            self.partial.insert(self.last_slot / LEAF_SLOTS, leaf);
        }
    }

    pub fn range(&self) -> &Range {
        &self.range
    }

    pub fn size(&self) -> BlockSize {
        self.size
    }

    /// Number of slots, free and taken.
    pub fn count(&self) -> u128 {
        self.last_slot.saturating_add(1)
    }

    /// Number of taken slots.
    pub fn taken(&self) -> u128 {
        self.taken
    }

    /// Number of free slots.
    pub fn free(&self) -> u128 {
        self.count() - self.taken
    }

    /// Takes every slot that overlaps `range`. Addresses outside are ignored, and taking twice is
    /// harmless.
    pub fn take(&mut self, range: &Range) {
        let Some((first, last)) = self.slots_of(range) else {
            return;
        };
        let (first_leaf, last_leaf) = (first / LEAF_SLOTS, last / LEAF_SLOTS);
        self.store_current();
        if first_leaf == last_leaf {
            self.take_in_leaf(
                first_leaf,
                (first % LEAF_SLOTS) as usize,
                (last % LEAF_SLOTS) as usize,
            );
            return;
        }
        self.take_in_leaf(
            first_leaf,
            (first % LEAF_SLOTS) as usize,
            LEAF_SLOTS as usize - 1,
        );
        self.take_in_leaf(last_leaf, 0, (last % LEAF_SLOTS) as usize);
        self.take_whole_leaves(first_leaf + 1, last_leaf);
    }

    /// How many slots overlap `range`.
    pub fn count_overlap(&self, range: &Range) -> u128 {
        self.slots_of(range)
            .map_or(0, |(first, last)| (last - first).saturating_add(1))
    }

    /// The part of `range` in the first `slots` slots that it overlaps; `None` if it is empty.
    pub fn first_of(&self, range: &Range, slots: u128) -> Option<Range> {
        let (first, last) = self.slots_of(range)?;
        let last = last.min(first + slots.checked_sub(1)?);
        let start = self.range.numbers().0;
        let end = start + (last << self.size.host_bits()) + ((1 << self.size.host_bits()) - 1);
        let kept = Range::from_numbers(
            self.range.family(),
            start + (first << self.size.host_bits()),
            end,
        );
        kept.intersection(range)
    }

    /// Takes the lowest free block and returns it.
    pub fn take_lowest(&mut self) -> Option<Block> {
        loop {
            if let Some((index, leaf)) = &mut self.current
                && let Some(within) = leaf.lowest_free()
            {
                leaf.take_free(within);
                let index = *index;
                self.taken += 1;
                return Some(self.block(index, within));
            }
            self.advance()?;
        }
    }

    fn block(&self, leaf: u128, within: usize) -> Block {
        let slot = leaf * LEAF_SLOTS + within as u128;
        Block::from_aligned(
            self.range.numbers().0 + (slot << self.size.host_bits()),
            self.size,
        )
    }

    /// Makes the first leaf with a free slot the current one; `None` if all are full.
    fn advance(&mut self) -> Option<()> {
        self.store_current();
        let next = match self.full.first_key_value() {
            Some((0, &end)) => end + 1,
            _ => 0,
        };
        if next > self.last_slot / LEAF_SLOTS {
            return None;
        }
        let leaf = self.partial.remove(&next).unwrap_or(Leaf::EMPTY);
        self.current = Some((next, leaf));
        Some(())
    }

    fn store_current(&mut self) {
        if let Some((index, leaf)) = self.current.take() {
            self.store_leaf(index, leaf);
        }
    }

    fn store_leaf(&mut self, index: u128, leaf: Leaf) {
        if leaf.is_full() {
            self.add_full_run(index, index);
        } else {
            self.partial.insert(index, leaf);
        }
    }

    fn slots_of(&self, range: &Range) -> Option<(u128, u128)> {
        let (first, last) = self.range.intersection(range)?.numbers();
        let start = self.range.numbers().0;
        Some((
            (first - start) >> self.size.host_bits(),
            (last - start) >> self.size.host_bits(),
        ))
    }

    fn in_full_run(&self, leaf: u128) -> bool {
        self.full
            .range(..=leaf)
            .next_back()
            .is_some_and(|(_, &end)| end >= leaf)
    }

    fn take_in_leaf(&mut self, index: u128, first: usize, last: usize) {
        if self.in_full_run(index) {
            return;
        }
        let mut leaf = self.partial.remove(&index).unwrap_or(Leaf::EMPTY);
        self.taken += u128::from(leaf.take(first, last));
        self.store_leaf(index, leaf);
    }

    /// Takes all slots of the leaves `from..to`.
    fn take_whole_leaves(&mut self, from: u128, to: u128) {
        if from >= to {
            return;
        }
        let runs = self
            .full
            .range(..to)
            .rev()
            .take_while(|(_, end)| **end >= from);
        let already_full: u128 = runs
            .map(|(&start, &end)| end.min(to - 1) - start.max(from) + 1)
            .sum();
        let partial: Vec<u128> = self
            .partial
            .range(from..to)
            .map(|(&index, _)| index)
            .collect();
        let partly: u128 = partial
            .iter()
            .filter_map(|index| self.partial.remove(index))
            .map(|leaf| leaf.count_taken())
            .sum();
        self.taken += (to - from - already_full) * LEAF_SLOTS - partly;
        self.add_full_run(from, to - 1);
    }

    fn add_full_run(&mut self, first: u128, last: u128) {
        let (mut first, mut last) = (first, last);
        if let Some((&start, &end)) = self.full.range(..=first).next_back()
            && end + 1 >= first
        {
            (first, last) = (start, last.max(end));
        }
        while let Some((&start, &end)) = self.full.range(first..).next()
            && start <= last + 1
        {
            self.full.remove(&start);
            last = last.max(end);
        }
        match self.full.entry(first) {
            Entry::Occupied(mut run) => *run.get_mut() = last,
            Entry::Vacant(place) => {
                place.insert(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn slots(range: &str, prefix_len: u64) -> Slots {
        let range: Block = range.parse().unwrap();
        Slots::new(range, BlockSize::new(range.family(), prefix_len).unwrap()).unwrap()
    }

    #[test]
    fn lowest_first_until_none_is_left() {
        let mut slots = slots("10.0.0.0/30", 32);
        slots.take(&"10.0.0.1".parse().unwrap());
        let given: Vec<String> = std::iter::from_fn(|| slots.take_lowest())
            .map(|b| b.to_string())
            .collect();
        assert_eq!(given, ["10.0.0.0/32", "10.0.0.2/32", "10.0.0.3/32"]);
        assert_eq!((slots.free(), slots.taken()), (0, 4));
    }

    #[test]
    fn a_wide_pool_costs_what_is_used() {
        let mut slots = slots("fd00::/16", 80);
        slots.take(&"fd00::/17".parse().unwrap());
        slots.take(&"fd00:8000::/24".parse().unwrap());
        assert_eq!(slots.take_lowest().unwrap().to_string(), "fd00:8100::/80");
        assert!(slots.partial.len() + slots.full.len() <= 4, "{slots:?}");
        assert_eq!(slots.taken(), (1 << 63) + (1 << 56) + 1);
    }

    #[test]
    fn the_widest_range_there_can_be() {
        let mut slots = slots("8000::/1", 128);
        slots.take(&"8000::/2".parse().unwrap());
        assert_eq!(slots.take_lowest().unwrap().to_string(), "c000::/128");
        assert_eq!(slots.free(), (1 << 126) - 1);
    }

    #[test]
    fn a_block_must_fit() {
        let size = BlockSize::new(super::super::Family::Ipv4, 16).unwrap();
        assert!(Slots::new("10.0.0.0/24".parse().unwrap(), size).is_none());
        assert!(Slots::new("fd00::/24".parse().unwrap(), size).is_none());
    }

    proptest! {
        #[test]
        fn equals_a_set_of_slots(
            prefix_len in 26u64..=32,
            takes in prop::collection::vec((0u32..16_384, 0u32..12_000, 0u8..3), 0..40),
        ) {
            let mut real = slots("10.0.0.0/18", prefix_len);
            let shift = 32 - prefix_len;
            let mut oracle: BTreeSet<u32> = BTreeSet::new();
            let all = 16_384u32 >> shift;
            for (start, length, operation) in takes {
                let end = (start + length).min(16_383);
                if operation == 0 {
                    let expected = (0..all).find(|slot| !oracle.contains(slot));
                    oracle.extend(expected);
                    let first = expected.map(|slot| u128::from(0x0a00_0000 + (slot << shift)));
                    prop_assert_eq!(real.take_lowest().map(|b| b.range().numbers().0), first);
                } else {
                    let number = |address: u32| 0x0a00_0000 + u128::from(address);
                    let family = super::super::Family::Ipv4;
                    real.take(&Range::from_numbers(family, number(start), number(end)));
                    oracle.extend(start >> shift..=end >> shift);
                }
                prop_assert_eq!(real.taken(), oracle.len() as u128);
            }
        }
    }
}
