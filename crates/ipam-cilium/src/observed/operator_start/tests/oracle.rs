//! The behaviour of Cilium's operator, structured like its sources `podcidr.go` and `cidr_set.go`.

use std::collections::BTreeSet;

use super::super::Removal;
use super::super::judge::removals;
use super::super::slots::{FamilySlots, StartingNode};
use super::{block, name};
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Family};

/// A cluster: ranges and mask of each family, and the blocks of each node.
pub(super) struct Cluster {
    pub(super) families: [(Vec<Block>, u8); 2],
    pub(super) nodes: Vec<(NodeName, Vec<Block>)>,
}

impl Cluster {
    pub(super) fn new(v4: (&str, u8), v6: (&str, u8), nodes: &[(&str, &str)]) -> Cluster {
        let ranges = |text: &str| text.split_whitespace().map(block).collect();
        let nodes = nodes.iter();
        Cluster {
            families: [(ranges(v4.0), v4.1), (ranges(v6.0), v6.1)],
            nodes: nodes
                .map(|(node, blocks)| (name(node), ranges(blocks)))
                .collect(),
        }
    }

    pub(super) fn predicted(&self) -> Vec<Removal> {
        let [(v4, mask4), (v6, mask6)] = &self.families;
        let slots = [
            FamilySlots::new(Family::Ipv4, v4.clone(), *mask4),
            FamilySlots::new(Family::Ipv6, v6.clone(), *mask6),
        ];
        let nodes = self.nodes.iter();
        let nodes: Vec<StartingNode<'_>> = nodes
            .filter_map(|(name, blocks)| StartingNode::new(name, blocks, &slots))
            .collect();
        removals(&slots, &nodes)
    }

    /// Families that each node loses in each order of the nodes.
    pub(super) fn of_all_orders(&self) -> Vec<BTreeSet<(NodeName, Family)>> {
        let mut places: Vec<usize> = (0..self.nodes.len()).collect();
        let mut all = Vec::new();
        permute(&mut places, 0, &mut |order| all.push(self.start(order)));
        all
    }

    /// `allocateNode` of podcidr.go for each node in this order.
    fn start(&self, order: &[usize]) -> BTreeSet<(NodeName, Family)> {
        let mut sets: [Vec<CidrSet>; 2] = [0, 1].map(|family| {
            let (ranges, mask) = &self.families[family];
            let ranges = ranges.iter();
            ranges.map(|range| CidrSet::new(*range, *mask)).collect()
        });
        let mut lost = BTreeSet::new();
        for place in order {
            let (name, blocks) = &self.nodes[*place];
            for family in reuse(&mut sets, blocks) {
                lost.insert((name.clone(), family));
            }
        }
        lost
    }
}

fn permute(places: &mut Vec<usize>, from: usize, visit: &mut impl FnMut(&[usize])) {
    if from == places.len() {
        visit(places);
    }
    for other in from..places.len() {
        places.swap(from, other);
        permute(places, from + 1, visit);
        places.swap(from, other);
    }
}

/// One range of `cidr_set.go`.
#[derive(Clone)]
struct CidrSet {
    range: Block,
    slots: Vec<Block>,
    used: BTreeSet<usize>,
    next: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Allocated,
    Other,
}

impl CidrSet {
    fn new(range: Block, mask: u8) -> CidrSet {
        let mut slots = vec![range];
        while slots[0].prefix_len() < mask {
            slots = slots.iter().flat_map(|slot| slot.halves()).collect();
        }
        if range.prefix_len() > mask {
            slots.clear();
        }
        CidrSet {
            range,
            slots,
            used: BTreeSet::new(),
            next: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.used.len() == self.slots.len()
    }

    fn of(&self, block: Block) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        let touched = slots.filter(|(_, slot)| slot.overlaps(block));
        touched.map(|(place, _)| place).collect()
    }

    fn allocate_next(&mut self) {
        let count = self.slots.len();
        let mut candidate = self.next;
        while self.used.contains(&candidate) {
            candidate = (candidate + 1) % count;
        }
        self.next = (candidate + 1) % count;
        self.used.insert(candidate);
    }
}

/// `allocateIPNet`; without a block `allocateFirstFreeCIDR`.
fn allocate(sets: &mut Vec<CidrSet>, blocks: &[Block]) -> Result<(), Failure> {
    let before = sets.clone();
    if blocks.is_empty() {
        let set = sets.iter_mut().find(|set| !set.is_full());
        set.ok_or(Failure::Other)?.allocate_next();
        return Ok(());
    }
    for block in blocks {
        let set = sets.iter_mut().find(|set| set.range.overlaps(*block));
        let failure = match set {
            None => Failure::Other,
            Some(set) if set.is_full() => Failure::Other,
            Some(set) if set.of(*block).iter().all(|slot| set.used.contains(slot)) => {
                Failure::Allocated
            }
            Some(set) => {
                set.used.extend(set.of(*block));
                continue;
            }
        };
        *sets = before;
        return Err(failure);
    }
    Ok(())
}

/// `reuseIPNets` for a node that the operator does not know yet: the families that it loses.
fn reuse(sets: &mut [Vec<CidrSet>; 2], blocks: &[Block]) -> Vec<Family> {
    let of = |family: Family| -> Vec<Block> {
        let blocks = blocks.iter().copied();
        blocks.filter(|block| block.family() == family).collect()
    };
    let blocks = Family::BOTH.map(of);
    if blocks.concat().is_empty() {
        return Vec::new();
    }
    if (0..2).any(|family| sets[family].is_empty() && !blocks[family].is_empty()) {
        return Vec::new();
    }
    let before = sets.clone();
    let mut failed = Vec::new();
    for (place, family) in Family::BOTH.into_iter().enumerate() {
        if sets[place].is_empty() {
            continue;
        }
        match allocate(&mut sets[place], &blocks[place]) {
            Ok(()) => {}
            Err(Failure::Allocated) => failed.push(family),
            Err(Failure::Other) => {
                *sets = before;
                return Vec::new();
            }
        }
    }
    match failed.len() {
        2 => Vec::new(),
        _ => failed,
    }
}
