//! Which addresses are taken and by whom, so that they become free one by one. Must never know why a
//! node gets a block.

use std::collections::BTreeMap;

use crate::plan::overview::BlockCounts;
use ipam_core::alloc::{PoolId, Supply};
use ipam_core::model::NodeName;
use ipam_core::net::{BlockMap, Family, Range};

/// What takes an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// A block that the node shows or gets, or the part of it that is kept out of the pools.
    Node(NodeName),
    /// A block that the node shows, of which the pools give a part to others. Takes nothing.
    Shown(NodeName),
    /// A block that a plan gives to the node, and that is not written yet.
    Planned(NodeName),
    /// The node's machine.
    Machine(NodeName),
    /// The pin of the node.
    Pin(NodeName),
    /// Something other than nodes and their pins.
    Other,
}

impl Taker {
    /// Whether it takes the address for the Pods of a node, now or later.
    fn is_for_pods(&self) -> bool {
        match self {
            Taker::Node(_) | Taker::Pin(_) => true,
            Taker::Shown(_) | Taker::Planned(_) | Taker::Machine(_) | Taker::Other => false,
        }
    }

    pub(super) fn takes(&self) -> bool {
        !matches!(self, Taker::Shown(_))
    }
}

/// The taken addresses and the rest of the pools.
#[derive(Clone, Debug)]
pub(super) struct TakenAddresses {
    takers: BlockMap<Taker>,
    /// The pools without all of them.
    free: Supply,
    /// The pools without what nodes hold or are pinned to.
    without_held: Supply,
}

impl TakenAddresses {
    /// Nothing is taken of these pools.
    pub(super) fn none_of(pools: Supply) -> TakenAddresses {
        TakenAddresses {
            takers: BlockMap::default(),
            without_held: pools.clone(),
            free: pools,
        }
    }

    /// The pools without the taken addresses.
    pub(super) fn free(&self) -> &Supply {
        &self.free
    }

    /// Lends the pools to `plan`, which returns them with what it took for nodes. All of that is
    /// free again afterwards.
    pub(super) fn lend<T>(&mut self, plan: impl FnOnce(Supply) -> (Supply, (T, Vec<Range>))) -> T {
        let (free, (result, given)) = plan(std::mem::take(&mut self.free));
        self.free = free;
        given.iter().for_each(|range| self.restore(range));
        result
    }

    /// Frees the blocks that overlap a range, apart from what something takes.
    fn restore(&mut self, range: &Range) {
        for freed in self.free.release(range) {
            let taken = self.takers.overlapping(&freed);
            for (block, _) in taken.filter(|(_, taker)| taker.takes()) {
                self.free.take(&block.range());
            }
        }
    }

    pub(super) fn take(&mut self, range: &Range, taker: &Taker) {
        self.takers.insert(range, taker);
        if taker.takes() {
            self.free.take(range);
        }
        if taker.is_for_pods() {
            self.without_held.take(range);
        }
    }

    /// Gives back what was taken by [`TakenAddresses::take`] with the same arguments. An address
    /// stays taken as long as something else takes it.
    pub(super) fn release(&mut self, range: &Range, taker: &Taker) {
        self.takers.remove(range, taker);
        if taker.takes() {
            self.restore(range);
        }
        if !taker.is_for_pods() {
            return;
        }
        for freed in self.without_held.release(range) {
            let held = self.takers.overlapping(&freed);
            for (block, _) in held.filter(|(_, other)| other.is_for_pods()) {
                self.without_held.take(&block.range());
            }
        }
    }

    /// Whether another node has a part of this block of a node.
    pub(super) fn is_of_another(&self, range: &Range, node: &NodeName) -> bool {
        let mut takers = self.takers.overlapping(range);
        takers.any(|(_, taker)| match taker {
            Taker::Node(other) | Taker::Planned(other) | Taker::Machine(other) => other != node,
            Taker::Shown(_) | Taker::Pin(_) | Taker::Other => false,
        })
    }

    /// Whether another node has or shows a part of this block.
    pub(super) fn is_shown_by_another(&self, range: &Range, node: &NodeName) -> bool {
        let mut takers = self.takers.overlapping(range);
        takers.any(|(_, taker)| match taker {
            Taker::Node(other)
            | Taker::Shown(other)
            | Taker::Planned(other)
            | Taker::Machine(other) => other != node,
            Taker::Pin(_) | Taker::Other => false,
        })
    }

    /// Whether this address of a node's machine lies in a block of another node.
    pub(super) fn is_in_block_of_another(&self, range: &Range, node: &NodeName) -> bool {
        let mut takers = self.takers.overlapping(range);
        takers.any(|(_, taker)| matches!(taker, Taker::Node(other) if other != node))
    }

    /// Whether something other than nodes and their pins has a part of this range.
    pub(super) fn is_of_something_else(&self, range: &Range) -> bool {
        let mut takers = self.takers.overlapping(range);
        takers.any(|(_, taker)| *taker == Taker::Other)
    }

    /// Whether a part of this range is held by a node or pinned.
    pub(super) fn is_for_pods(&self, range: &Range) -> bool {
        let mut takers = self.takers.overlapping(range);
        takers.any(|(_, taker)| taker.is_for_pods())
    }

    /// The nodes to which a part of this range is pinned.
    pub(super) fn pinned_to<'s>(
        &'s self,
        range: &Range,
    ) -> impl Iterator<Item = &'s NodeName> + use<'s> {
        let takers = self.takers.overlapping(range);
        takers.filter_map(|(_, taker)| match taker {
            Taker::Pin(node) => Some(node),
            Taker::Node(_)
            | Taker::Shown(_)
            | Taker::Planned(_)
            | Taker::Machine(_)
            | Taker::Other => None,
        })
    }

    /// How full a pool is.
    pub(super) fn counts(&self, pool: PoolId) -> BTreeMap<Family, BlockCounts> {
        let (free, without_held) = (self.free.pool(pool), self.without_held.pool(pool));
        let families = Family::BOTH.into_iter().filter(|family| free.has(*family));
        let counts = families.map(|family| (family, BlockCounts::of(without_held, free, family)));
        counts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_core::alloc::{AllocationMode, PoolSupply};
    use ipam_core::model::PerFamily;
    use ipam_core::net::{Block, BlockSize};
    use proptest::prelude::*;

    fn pools() -> Supply {
        let size = PerFamily {
            ipv4: BlockSize::new(Family::Ipv4, 26).ok(),
            ipv6: None,
        };
        let ranges: Vec<Block> = vec![
            "10.0.0.0/22".parse().unwrap(),
            "10.0.6.0/24".parse().unwrap(),
        ];
        let mode = AllocationMode::New;
        Supply::new(vec![PoolSupply::new(
            "a".parse().unwrap(),
            mode,
            &ranges,
            &size,
        )])
    }

    fn taker(number: u8) -> Taker {
        let node = |number: u8| format!("n{number}").parse().unwrap();
        match number {
            0..4 => Taker::Node(node(number)),
            4..6 => Taker::Machine(node(number - 4)),
            6..8 => Taker::Pin(node(number - 6)),
            8 => Taker::Shown(node(0)),
            9 => Taker::Planned(node(0)),
            _ => Taker::Other,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn gives_back_as_if_it_had_never_been_taken(
            changes in prop::collection::vec((0u32..2_048, 0u32..6, 0u8..12, any::<bool>()), 0..40),
        ) {
            let mut real = TakenAddresses::none_of(pools());
            let mut left: Vec<(Range, Taker)> = Vec::new();
            for (address, bits, number, is_released) in changes {
                let first = u32::from_be_bytes([10, 0, 0, 0]) + address;
                let last = first + (1 << bits) - 1;
                let [first, last] = [first, last].map(std::net::Ipv4Addr::from);
                let range: Range = format!("{first}-{last}").parse().unwrap();
                let taker = taker(number);
                real.take(&range, &taker);
                left.push((range, taker));
                if is_released {
                    let (range, taker) = left.swap_remove(address as usize % left.len());
                    real.release(&range, &taker);
                }
                let mut naive = TakenAddresses::none_of(pools());
                left.iter().for_each(|(range, taker)| naive.take(range, taker));
                let pool = naive.free().id(&"a".parse().unwrap()).unwrap();
                prop_assert_eq!(real.counts(pool), naive.counts(pool));
                let slots = |taken: &TakenAddresses| -> Vec<Option<Block>> {
                    let slots = taken.free().pool(pool).slots().iter();
                    slots.map(|slots| slots.clone().take_lowest()).collect()
                };
                prop_assert_eq!(slots(&real), slots(&naive));
            }
        }
    }
}
