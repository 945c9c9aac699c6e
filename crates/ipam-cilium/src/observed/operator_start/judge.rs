//! Which nodes find their slots used, in any order of the CiliumNodes. Must never know releases,
//! settings or objects.

use std::collections::{BTreeMap, BTreeSet};

use super::slots::{FamilySlots, Occupants, StartingNode};
use super::{Losers, Removal, RemovalCause};
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Range, merge, overlapping_pairs};

/// What the operator removes, by family and cause.
pub(super) fn removals(slots: &[FamilySlots; 2], nodes: &[StartingNode<'_>]) -> Vec<Removal> {
    let occupants = [Occupants::new(nodes, 0), Occupants::new(nodes, 1)];
    let mut all = Vec::new();
    for (family, of_family) in slots.iter().enumerate() {
        let other = 1 - family;
        let judge = Judge {
            slots: of_family,
            full: [0, 1].map(|family| occupants[family].filled(&slots[family].ranges)),
            other_slots: &slots[other],
            nodes,
            occupants: &occupants[family],
            others: &occupants[other],
            family,
            other,
        };
        all.extend(judge.shared());
        all.extend(judge.taken_first());
    }
    all
}

/// Judges the nodes of one family.
struct Judge<'j, 'n> {
    slots: &'j FamilySlots,
    other_slots: &'j FamilySlots,
    /// Ranges of each family whose slots may all be used before the last node comes.
    full: [Vec<Block>; 2],
    nodes: &'j [StartingNode<'n>],
    occupants: &'j Occupants<'j>,
    /// Nodes in the slots of the other family.
    others: &'j Occupants<'j>,
    family: usize,
    other: usize,
}

/// A block of a node, with the slots that it uses.
type Item = (Block, usize, Block);

impl Judge<'_, '_> {
    /// Removals because blocks share slots, by cause.
    fn shared(&self) -> Vec<Removal> {
        let mut by_cause: BTreeMap<RemovalCause, Removal> = BTreeMap::new();
        for (place, items) in self.components() {
            if items.len() < 2 {
                continue;
            }
            let candidates = self.candidates(place, &items);
            if candidates.is_empty() {
                continue;
            }
            let names = |item: &Item| self.nodes[item.1].name.clone();
            let removal = Removal {
                family: self.slots.family,
                cause: cause(&items, self.slots.mask),
                losers: self.losers(place, &items, &candidates),
                candidates: candidates
                    .into_iter()
                    .map(|node| (self.nodes[node].name.clone(), self.blocks(node)))
                    .collect(),
                places: [(place, items.iter().map(names).collect())].into(),
            };
            match by_cause.get_mut(&removal.cause) {
                None => {
                    by_cause.insert(removal.cause.clone(), removal);
                }
                Some(all) => {
                    all.losers = all.losers.and(removal.losers);
                    all.candidates.extend(removal.candidates);
                    all.places.extend(removal.places);
                }
            }
        }
        by_cause.into_values().collect()
    }

    fn blocks(&self, node: usize) -> Vec<Block> {
        let blocks = self.nodes[node].blocks[self.family].iter();
        blocks.map(|(block, _)| *block).collect()
    }

    /// Nested slots together, by the largest.
    fn components(&self) -> BTreeMap<Block, Vec<Item>> {
        let all = self.nodes.iter().enumerate();
        let mut items: Vec<Item> = all
            .flat_map(|(node, starting)| {
                let blocks = starting.blocks[self.family].iter().map(|(block, _)| *block);
                let used = starting.slots(self.family).zip(blocks);
                used.map(move |(slots, block)| (slots, node, block))
            })
            .collect();
        items.sort_by_key(|(slots, node, block)| {
            (slots.range().first(), slots.prefix_len(), *node, *block)
        });
        let mut components: BTreeMap<Block, Vec<Item>> = BTreeMap::new();
        let mut last: Option<Block> = None;
        for item in items {
            let place = last.filter(|last| last.contains(item.0));
            let place = place.unwrap_or(item.0);
            last = Some(place);
            components.entry(place).or_default().push(item);
        }
        components
    }

    /// Nodes of a component that lose their blocks in some order of the CiliumNodes.
    fn candidates(&self, place: Block, items: &[Item]) -> BTreeSet<usize> {
        let nodes: BTreeSet<usize> = items.iter().map(|(_, node, _)| *node).collect();
        nodes
            .into_iter()
            .filter(|node| self.may_lose(*node, place))
            .collect()
    }

    fn may_lose(&self, node: usize, place: Block) -> bool {
        let starting = &self.nodes[node];
        if starting.is_outside(self.other) {
            return false;
        }
        let rivals = self.others.rivals(node);
        let mut own: Vec<Range> = Vec::new();
        for slots in starting.slots(self.family) {
            let others = self.occupants.others(slots, node);
            let others = others.filter(|(_, other)| !rivals.contains(other));
            let used = merge(others.map(|(range, _)| range).chain(own.iter().copied()));
            let is_used = used.iter().any(|used| used.contains(&slots.range()));
            if place.contains(slots) && is_used && !self.is_whole_range(slots) {
                return true;
            }
            own.push(slots.range());
        }
        false
    }

    /// If a block fills its range and all of it is used, the range is full: an error, no removal.
    fn is_whole_range(&self, slots: Block) -> bool {
        self.slots.ranges.contains(&slots)
    }

    fn losers(&self, place: Block, items: &[Item], candidates: &BTreeSet<usize>) -> Losers {
        let nodes: BTreeSet<usize> = items.iter().map(|(_, node, _)| *node).collect();
        let is_plain = |item: &Item| {
            let starting = &self.nodes[item.1];
            item.0 == place
                && starting.blocks[self.family].len() == 1
                && starting.blocks[self.other].len() <= 1
                && self.others.is_alone(item.1)
                && !starting.is_outside(self.other)
        };
        let is_contested = self.takers().next().is_some();
        // A failure of the other family keeps the block.
        let others_fail = self.other_takers().next().is_some() || !self.full[self.other].is_empty();
        let is_certain = items.iter().all(is_plain)
            && !is_contested
            && !others_fail
            && !self.full[self.family]
                .iter()
                .any(|range| range.contains(place));
        let repeats = |node: &usize| self.nodes[*node].repeats(self.family);
        // Of several nodes, the first one without blocks in one slot keeps its block.
        let most = match nodes.len() {
            1 => 1,
            all if is_contested || nodes.iter().any(repeats) => all,
            all => all - 1,
        };
        match is_certain {
            true => Losers::Exactly(most),
            false => Losers::AtMost(most.min(candidates.len())),
        }
    }

    /// Nodes that lack this family while the operator has ranges of it.
    fn takers(&self) -> impl Iterator<Item = &NodeName> + '_ {
        takers(self.nodes, self.slots, self.family)
    }

    fn other_takers(&self) -> impl Iterator<Item = &NodeName> + '_ {
        takers(self.nodes, self.other_slots, self.other)
    }

    /// Removals because nodes without a block of this family take the first free slots. A taker
    /// reaches a slot if fewer slots before it stay free than there are takers.
    fn taken_first(&self) -> Option<Removal> {
        let takers: BTreeSet<NodeName> = self.takers().cloned().collect();
        if takers.is_empty() {
            return None;
        }
        let mut removal = Removal {
            family: self.slots.family,
            cause: RemovalCause::TakenFirst(takers.clone()),
            candidates: BTreeMap::new(),
            losers: Losers::AtMost(0),
            places: BTreeMap::new(),
        };
        let reach = takers.len() as u128;
        let components = self.components();
        let mut holes: u128 = 0;
        let ranges = self.slots.ranges.iter();
        for range in ranges.filter(|range| range.prefix_len() <= self.slots.mask) {
            let mut next = 0;
            let held = components.range(range..);
            for (place, items) in held.take_while(|(place, _)| range.contains(**place)) {
                let before = range.range().before(&place.range());
                let start = before.map_or(0, |before| self.slots.count(before));
                holes += start - next;
                next = start + self.slots.count(place.range());
                let smallest = items.iter().map(|item| self.slots.count(item.0.range()));
                let needed = holes + smallest.min().unwrap_or(1);
                if needed > reach {
                    return removal.finished();
                }
                self.reached(*place, items, &mut removal);
            }
            holes += self.slots.count(range.range()).saturating_sub(next);
        }
        removal.finished()
    }

    fn reached(&self, place: Block, items: &[Item], removal: &mut Removal) {
        for (slots, node, _) in items {
            if self.is_whole_range(*slots) || self.nodes[*node].is_outside(self.other) {
                continue;
            }
            let name = self.nodes[*node].name;
            removal.candidates.insert(name.clone(), self.blocks(*node));
            let nodes = removal.places.entry(place).or_default();
            nodes.insert(name.clone());
        }
    }
}

impl Removal {
    fn finished(mut self) -> Option<Removal> {
        let takers = match &self.cause {
            RemovalCause::TakenFirst(takers) => takers.len(),
            _ => 0,
        };
        self.losers = Losers::AtMost(takers.min(self.candidates.len()));
        (!self.candidates.is_empty()).then_some(self)
    }
}

fn takers<'t>(
    nodes: &'t [StartingNode<'_>],
    slots: &'t FamilySlots,
    family: usize,
) -> impl Iterator<Item = &'t NodeName> {
    let nodes = nodes.iter().filter(|_| !slots.ranges.is_empty());
    let lacking = nodes.filter(move |node| node.blocks[family].is_empty());
    lacking.map(|node| node.name)
}

fn cause(items: &[Item], mask: u8) -> RemovalCause {
    let first = items[0].1;
    if items.iter().all(|(_, node, _)| *node == first) {
        return RemovalCause::OwnBlocks;
    }
    let blocks = items.iter().map(|(_, node, block)| (block.range(), *node));
    match overlapping_pairs(blocks)
        .iter()
        .any(|(one, two)| one != two)
    {
        true => RemovalCause::SameBlock,
        false => RemovalCause::SameSlot(mask),
    }
}
