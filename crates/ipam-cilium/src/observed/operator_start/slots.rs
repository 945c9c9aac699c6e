//! The operator's slots and the nodes in them. Must never know releases, settings or objects.
//!
//! Blocks and slots are aligned, so two of them are nested or apart.

use std::collections::BTreeSet;

use ipam_core::model::NodeName;
use ipam_core::net::{Block, Family, Range, RangeIndex, merge};

/// The slots of one family.
pub(super) struct FamilySlots {
    pub(super) family: Family,
    /// Ranges of the family, in the operator's order.
    pub(super) ranges: Vec<Block>,
    pub(super) mask: u8,
}

/// Where the operator finds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The block grown to whole slots.
    Slots(Block),
    /// The block is outside the operator's ranges, or in a range that is smaller than its mask size.
    Refused,
}

impl FamilySlots {
    /// With a mask that the family does not have, the operator does not start.
    pub(super) fn new(family: Family, ranges: Vec<Block>, mask: u8) -> FamilySlots {
        let ranges = match mask <= family.bits() {
            true => ranges,
            false => Vec::new(),
        };
        FamilySlots {
            family,
            ranges,
            mask,
        }
    }

    fn place(&self, block: Block) -> Place {
        let range = self.ranges.iter().find(|range| range.overlaps(block));
        match range {
            Some(range) if range.prefix_len() > self.mask => Place::Refused,
            Some(range) if block.prefix_len() <= range.prefix_len() => Place::Slots(*range),
            Some(_) => Place::Slots(self.grown(block)),
            None => Place::Refused,
        }
    }

    fn grown(&self, block: Block) -> Block {
        let slot = block.enclosing().find(|one| one.prefix_len() <= self.mask);
        slot.unwrap_or(block)
    }

    /// The number of slots in a block or range.
    pub(super) fn count(&self, of: Range) -> u128 {
        (of.width() >> (self.family.bits() - self.mask)).saturating_add(1)
    }
}

/// A CiliumNode with blocks, as the operator reads it.
pub(super) struct StartingNode<'n> {
    pub(super) name: &'n NodeName,
    /// Blocks and their places by family, in the order of the CiliumNode.
    pub(super) blocks: [Vec<(Block, Place)>; 2],
}

impl<'n> StartingNode<'n> {
    /// `None` if it has no block, or one of a family without ranges: the operator takes up nothing.
    pub(super) fn new(
        name: &'n NodeName,
        blocks: &[Block],
        slots: &[FamilySlots; 2],
    ) -> Option<StartingNode<'n>> {
        let of_family = |slots: &FamilySlots| -> Vec<(Block, Place)> {
            let blocks = blocks.iter().copied();
            let blocks = blocks.filter(|block| block.family() == slots.family);
            blocks.map(|block| (block, slots.place(block))).collect()
        };
        let blocks = [of_family(&slots[0]), of_family(&slots[1])];
        let has_allocators = blocks
            .iter()
            .zip(slots)
            .all(|(blocks, slots)| blocks.is_empty() || !slots.ranges.is_empty());
        let is_empty = blocks.iter().all(Vec::is_empty);
        // The operator refuses a node whose first block of a family lies outside the ranges,
        // whatever its other blocks.
        let starts_outside = |blocks: &Vec<(Block, Place)>| {
            let first = blocks.first();
            first.is_some_and(|(_, place)| *place == Place::Refused)
        };
        let is_refused = blocks.iter().any(starts_outside);
        (has_allocators && !is_empty && !is_refused).then_some(StartingNode { name, blocks })
    }

    /// Whether a block of this family lies outside the ranges.
    pub(super) fn is_outside(&self, family: usize) -> bool {
        let mut places = self.blocks[family].iter();
        places.any(|(_, place)| *place == Place::Refused)
    }

    /// Whether its own earlier blocks use the slots of one: this family always fails.
    pub(super) fn repeats(&self, family: usize) -> bool {
        let mut own: Vec<Range> = Vec::new();
        self.slots(family).any(|slots| {
            let used = merge(own.iter().copied());
            own.push(slots.range());
            used.iter().any(|used| used.contains(&slots.range()))
        })
    }

    /// The slots that the operator looks at before a block outside the ranges ends the turn.
    pub(super) fn slots(&self, family: usize) -> impl Iterator<Item = Block> + '_ {
        let places = self.blocks[family].iter().map(|(_, place)| *place);
        places.map_while(|place| match place {
            Place::Slots(slots) => Some(slots),
            Place::Refused => None,
        })
    }
}

/// The nodes in the slots of one family.
pub(super) struct Occupants<'n> {
    index: RangeIndex<usize>,
    nodes: &'n [StartingNode<'n>],
    family: usize,
}

impl<'n> Occupants<'n> {
    pub(super) fn new(nodes: &'n [StartingNode<'n>], family: usize) -> Occupants<'n> {
        let all = nodes.iter().enumerate();
        let occupying = all.filter(|(_, node)| !node.is_outside(family) && !node.repeats(family));
        let slots = occupying.flat_map(|(place, node)| {
            let slots = node.slots(family);
            slots.map(move |block| (block.range(), place))
        });
        Occupants {
            index: RangeIndex::new(slots),
            nodes,
            family,
        }
    }

    /// Nodes other than `node` that use a part of these slots, each with the part.
    pub(super) fn others(
        &self,
        slots: Block,
        node: usize,
    ) -> impl Iterator<Item = (Range, usize)> + '_ {
        let overlapping = self.index.overlapping(&slots.range()).copied();
        overlapping.filter(move |(_, other)| *other != node)
    }

    /// The ranges without a free slot.
    pub(super) fn filled(&self, ranges: &[Block]) -> Vec<Block> {
        let is_filled = |range: &&Block| {
            let used = self.index.overlapping(&range.range());
            let used = merge(used.map(|(slots, _)| *slots));
            used.iter().any(|used| used.contains(&range.range()))
        };
        ranges.iter().filter(is_filled).copied().collect()
    }

    /// Whether no other node is in the slots of this one.
    pub(super) fn is_alone(&self, node: usize) -> bool {
        let mut slots = self.nodes[node].slots(self.family);
        slots.all(|slots| self.others(slots, node).next().is_none())
    }

    /// Nodes with a single block, each of which makes a block of this node fail. A node with
    /// several blocks may give them up again.
    pub(super) fn rivals(&self, node: usize) -> BTreeSet<usize> {
        let slots = self.nodes[node].slots(self.family);
        let covering = slots.flat_map(|block| {
            let others = self.others(block, node);
            let has_one = |other: usize| self.nodes[other].blocks[self.family].len() == 1;
            others.filter(move |(range, other)| range.contains(&block.range()) && has_one(*other))
        });
        covering.map(|(_, other)| other).collect()
    }
}
