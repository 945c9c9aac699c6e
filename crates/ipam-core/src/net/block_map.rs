//! A map from ranges to values that can change, for overlap queries. Knows nothing of pools or
//! nodes.

use std::collections::BTreeMap;

use super::{Block, BlockSize, Range};

/// Values by address. A range may have several values, and a value several times.
///
/// In contrast to [`RangeIndex`](super::RangeIndex), a change costs as much as a query: it grows
/// with the number of different block sizes, and with the logarithm of the number of ranges.
#[derive(Clone, Debug)]
pub struct BlockMap<T> {
    /// Blocks of one size do not overlap, so those that touch a range are neighbours.
    sizes: BTreeMap<BlockSize, BTreeMap<Block, Vec<T>>>,
}

impl<T> Default for BlockMap<T> {
    fn default() -> BlockMap<T> {
        BlockMap {
            sizes: BTreeMap::new(),
        }
    }
}

impl<T: Clone + PartialEq> BlockMap<T> {
    /// Adds a value to a range.
    pub fn insert(&mut self, range: &Range, value: &T) {
        for block in range.blocks() {
            let blocks = self.sizes.entry(block.size()).or_default();
            blocks.entry(block).or_default().push(value.clone());
        }
    }

    /// Removes a value that was added to exactly this range. Other values of the range stay.
    pub fn remove(&mut self, range: &Range, value: &T) {
        for block in range.blocks() {
            self.remove_block(block, value);
        }
    }

    fn remove_block(&mut self, block: Block, value: &T) {
        let Some(blocks) = self.sizes.get_mut(&block.size()) else {
            return;
        };
        if let Some(values) = blocks.get_mut(&block) {
            if let Some(place) = values.iter().position(|one| one == value) {
                values.swap_remove(place);
            }
            if values.is_empty() {
                blocks.remove(&block);
            }
        }
        if blocks.is_empty() {
            self.sizes.remove(&block.size());
        }
    }

    /// Every value with the part of its range that it was kept under, where that part overlaps
    /// `range`.
    pub fn overlapping<'s>(
        &'s self,
        range: &Range,
    ) -> impl Iterator<Item = (Block, &'s T)> + use<'s, T> {
        let range = *range;
        let sizes = self.sizes.iter();
        let sizes = sizes.filter(move |(size, _)| size.family() == range.family());
        sizes.flat_map(move |(size, blocks)| {
            let first = Block::around(range.numbers().0, *size);
            let touching = blocks
                .range(first..)
                .take_while(move |(block, _)| block.range().overlaps(&range));
            touching.flat_map(|(block, values)| values.iter().map(|value| (*block, value)))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::net::Family;

    fn range(first: u128, last: u128) -> Range {
        Range::from_numbers(Family::Ipv4, 0x0a00_0000 + first, 0x0a00_0000 + last)
    }

    proptest! {
        #[test]
        fn finds_what_a_list_does(
            changes in prop::collection::vec((0u128..2_000, 0u128..300, 0u8..4, any::<bool>()), 0..60),
            queries in prop::collection::vec((0u128..2_000, 0u128..300), 1..10),
        ) {
            let mut real = BlockMap::default();
            let mut naive: Vec<(Range, u8)> = Vec::new();
            for (first, width, value, is_removed) in changes {
                let one = range(first, first + width);
                real.insert(&one, &value);
                naive.push((one, value));
                if is_removed {
                    let (one, value) = naive.swap_remove(usize::try_from(first).unwrap() % naive.len());
                    real.remove(&one, &value);
                }
            }
            for (first, width) in queries {
                let wanted = range(first, first + width);
                let mut found: Vec<u8> = real.overlapping(&wanted).map(|(block, value)| {
                    assert!(block.range().overlaps(&wanted));
                    *value
                }).collect();
                let mut expected: Vec<u8> = naive.iter().filter(|(one, _)| one.overlaps(&wanted)).map(|(_, value)| *value).collect();
                found.sort_unstable();
                found.dedup();
                expected.sort_unstable();
                expected.dedup();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn the_families_are_apart_and_a_value_goes_as_often_as_it_came() {
        let [ipv4, ipv6] = Family::BOTH.map(Range::whole);
        let mut map = BlockMap::default();
        map.insert(&ipv6, &"six");
        map.insert(&ipv4, &"four");
        map.insert(&ipv4, &"four");
        let found = |map: &BlockMap<&'static str>| {
            let address: Range = "10.0.0.1".parse().unwrap();
            map.overlapping(&address)
                .map(|(_, value)| *value)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&map), ["four", "four"]);
        map.remove(&ipv4, &"four");
        map.remove(&ipv4, &"six");
        assert_eq!(found(&map), ["four"]);
        map.remove(&ipv4, &"four");
        assert_eq!(found(&map), [""; 0]);
    }
}
