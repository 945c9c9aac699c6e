//! Divides CIDRs of one family among groups of nodes, so that each group keeps its held blocks.
//!
//! Knows no nodes and no names, only numbers of blocks.

use std::cmp::Reverse;

use super::groups::HeldBlock;
use ipam_core::net::{Block, BlockSize, Range, covers, merge, touching};

/// Demand of a group of nodes for blocks of one family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Whether the group gets addresses for new blocks.
    pub(super) gives: bool,
    pub(super) nodes: u128,
    /// Nodes without a block of this family.
    pub(super) without: u128,
}

/// CIDRs that a group of nodes gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// CIDRs of the group, in the order of use.
    pub(super) cidrs: Vec<Block>,
    /// Held blocks of the group outside the divided CIDRs, unless the group only keeps blocks.
    pub(super) outside: Vec<Block>,
    /// Nodes for which no block is left.
    pub(super) lacking: u128,
}

pub(super) struct Division {
    /// One share for each group, in the order of the groups.
    pub(super) shares: Vec<Share>,
    /// Free parts of the divided CIDRs that no group needs.
    pub(super) unassigned: Vec<Block>,
}

/// Divides `cidrs`. `held` are all held blocks, sorted and without overlaps; `others` are
/// addresses in other use, merged.
///
/// A group gets the largest parts in which only it holds blocks. A group that could not double with
/// them gets a free part, too; these are all of one size.
pub(super) fn divide(
    cidrs: &[Block],
    size: BlockSize,
    demands: &[Demand],
    held: &[HeldBlock],
    others: &[Range],
) -> Division {
    let (given, kept): (Vec<HeldBlock>, Vec<HeldBlock>) =
        held.iter().partition(|held| demands[held.group].gives);
    let kept = kept.iter().map(|held| held.block.range());
    let taken = merge(others.iter().copied().chain(kept));
    let givers = demands.iter().filter(|demand| demand.gives).count();
    let mut parts = Parts {
        size,
        widest: widest(cidrs, size, givers),
        taken: &taken,
        owned: vec![Vec::new(); demands.len()],
        room: vec![0; demands.len()],
        free: Vec::new(),
    };
    for cidr in cidrs {
        parts.visit(*cidr, &within(&given, *cidr));
    }
    for held in &given {
        parts.room[held.group] = parts.room[held.group].saturating_sub(1);
    }
    if givers == 1 {
        let giver = demands.iter().position(|demand| demand.gives);
        let free = std::mem::take(&mut parts.free);
        free.iter()
            .zip(giver.into_iter().cycle())
            .for_each(|(part, giver)| parts.own(giver, *part));
    }
    parts.hand_out(&parts.needy(demands, |demand| (demand.nodes + demand.without).max(1)));
    while parts.hand_out(&parts.needy(demands, |demand| demand.without)) {}
    parts.division(cidrs, demands, held)
}

/// The most addresses of one part, minus one: with several groups, each could have a part.
fn widest(cidrs: &[Block], size: BlockSize, groups: usize) -> u128 {
    let total = cidrs
        .iter()
        .fold(0u128, |sum, cidr| sum.saturating_add(cidr.range().width()));
    let parts = groups.next_power_of_two().max(1) as u128;
    let one_block = (1u128 << (size.family().bits() - size.prefix_len())) - 1;
    let rounded = (total / parts)
        .checked_add(1)
        .map_or(u128::MAX, u128::next_power_of_two);
    rounded.saturating_sub(1).max(one_block)
}

fn within(held: &[HeldBlock], part: Block) -> Vec<HeldBlock> {
    held.iter()
        .filter(|held| part.contains(held.block))
        .copied()
        .collect()
}

/// Number of blocks of this size that fit into the part.
fn slots(part: Block, size: BlockSize) -> u128 {
    match size.prefix_len().checked_sub(part.prefix_len()) {
        Some(bits) => 1u128.checked_shl(bits.into()).unwrap_or(u128::MAX),
        None => 0,
    }
}

/// The state of a division of CIDRs among groups.
struct Parts<'d> {
    size: BlockSize,
    widest: u128,
    /// Addresses in other use, as merged ranges.
    taken: &'d [Range],
    /// Parts of each group.
    owned: Vec<Vec<Block>>,
    /// Number of blocks that each group can give.
    room: Vec<u128>,
    free: Vec<Block>,
}

impl Parts<'_> {
    /// Divides a part until only one group holds blocks in it. `held` are those inside.
    fn visit(&mut self, part: Block, held: &[HeldBlock]) {
        let range = part.range();
        let owner = held.first().map(|held| held.group);
        let is_of_one = held.iter().all(|held| Some(held.group) == owner);
        let is_clean = touching(self.taken, &range).is_empty();
        if held.is_empty() && covers(self.taken, &range) {
            return;
        }
        let is_small = part.prefix_len() >= self.size.prefix_len();
        match owner {
            None if is_clean && range.width() <= self.widest => self.free.push(part),
            Some(owner) if is_of_one && is_clean && range.width() <= self.widest => {
                self.own(owner, part);
            }
            // The block that is held there, even if something else uses its addresses.
            Some(owner) if is_small => self.own(owner, part),
            None if is_small => {}
            _ => {
                for half in part.halves() {
                    self.visit(half, &within(held, half));
                }
            }
        }
    }

    fn own(&mut self, group: usize, part: Block) {
        self.owned[group].push(part);
        self.room[group] = self.room[group].saturating_add(slots(part, self.size));
    }

    /// Indexes of the groups that give new blocks and have less room than they want.
    fn needy(&self, demands: &[Demand], want: impl Fn(&Demand) -> u128) -> Vec<usize> {
        let demands = demands.iter().enumerate();
        demands
            .filter(|(group, demand)| demand.gives && self.room[*group] < want(demand))
            .map(|(group, _)| group)
            .collect()
    }

    /// Gives each of these groups a free part, all of the largest size that suffices for all.
    /// Returns whether there was a part to give.
    fn hand_out(&mut self, groups: &[usize]) -> bool {
        let parts_of = |length: u8| {
            let parts = self.free.iter().filter(|part| part.prefix_len() <= length);
            parts.fold(0u128, |sum, part| {
                let bits = u32::from(length - part.prefix_len());
                sum.saturating_add(1u128.checked_shl(bits).unwrap_or(u128::MAX))
            })
        };
        let smallest = self.size.prefix_len();
        let length = (1..=smallest)
            .find(|length| parts_of(*length) >= groups.len() as u128)
            .unwrap_or(smallest);
        let mut gave = false;
        for group in groups {
            let Some(part) = self.take(length) else {
                break;
            };
            self.own(*group, part);
            gave = true;
        }
        gave
    }

    /// Takes a free part of this length, from the smallest that has one.
    fn take(&mut self, length: u8) -> Option<Block> {
        let fitting = self.free.iter().enumerate();
        let (place, _) = fitting
            .filter(|(_, part)| part.prefix_len() <= length)
            .min_by_key(|(_, part)| (Reverse(part.prefix_len()), **part))?;
        let mut part = self.free.remove(place);
        while part.prefix_len() < length {
            let mut halves = part.halves();
            part = halves.next()?;
            self.free.extend(halves);
        }
        Some(part)
    }

    fn division(self, cidrs: &[Block], demands: &[Demand], held: &[HeldBlock]) -> Division {
        let share = |(group, owned): (usize, &Vec<Block>)| {
            let demand = demands[group];
            let is_outside =
                |block: &Block| !demand.gives || !cidrs.iter().any(|cidr| cidr.contains(*block));
            let of_group = held.iter().filter(|held| held.group == group);
            let outside: Vec<Block> = of_group.map(|held| held.block).filter(is_outside).collect();
            // Parts of two CIDRs stay two, as the person wrote them.
            let inside = cidrs
                .iter()
                .flat_map(|cidr| joined(owned.iter().copied().filter(|part| cidr.contains(*part))));
            let cidrs = inside.chain(joined(outside.iter().copied())).collect();
            match demand.gives {
                true => Share {
                    cidrs,
                    outside,
                    lacking: demand.without.saturating_sub(self.room[group]),
                },
                false => Share {
                    cidrs,
                    ..Share::default()
                },
            }
        };
        Division {
            shares: self.owned.iter().enumerate().map(share).collect(),
            unassigned: joined(self.free.iter().copied()),
        }
    }
}

/// The fewest blocks that have the same addresses, sorted.
pub(super) fn joined(blocks: impl Iterator<Item = Block>) -> Vec<Block> {
    let mut sorted: Vec<Block> = blocks.collect();
    sorted.sort_by_key(|block| (block.range().first_and_family(), block.prefix_len()));
    sorted.dedup();
    let mut joined: Vec<Block> = Vec::new();
    for block in sorted {
        // Settings may name overlapping CIDRs. The wider one comes first.
        if joined.last().is_some_and(|last| last.contains(block)) {
            continue;
        }
        let mut block = block;
        while let Some(parent) = joined.last().and_then(|last| parent_of_both(*last, block)) {
            joined.pop();
            block = parent;
        }
        joined.push(block);
    }
    joined
}

fn parent_of_both(lower: Block, upper: Block) -> Option<Block> {
    let parent = lower.enclosing().nth(1)?;
    (lower.size() == upper.size() && parent.halves().eq([lower, upper])).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divides `cidrs`; each group is its blocks and the number of nodes without one.
    fn check(cidrs: &str, size: u64, groups: &[(&str, u128)], others: &str, expected: &str) {
        let blocks = |text: &str| -> Vec<Block> {
            text.split_whitespace()
                .map(|text| text.parse().unwrap())
                .collect()
        };
        let cidrs = blocks(cidrs);
        let size = BlockSize::new(cidrs[0].family(), size).unwrap();
        let mut held = Vec::new();
        let mut demands = Vec::new();
        for (group, (of_group, without)) in groups.iter().enumerate() {
            let of_group = blocks(of_group);
            demands.push(Demand {
                gives: true,
                nodes: of_group.len() as u128 + without,
                without: *without,
            });
            held.extend(of_group.iter().map(|block| HeldBlock {
                block: *block,
                group,
            }));
        }
        held.sort_by_key(|held| held.block);
        let others = merge(blocks(others).into_iter().map(Block::range));
        let division = divide(&cidrs, size, &demands, &held, &others);
        let listed = |blocks: &[Block]| {
            let texts: Vec<String> = blocks.iter().map(ToString::to_string).collect();
            texts.join(" ")
        };
        let mut lines: Vec<String> = division
            .shares
            .iter()
            .map(|share| listed(&share.cidrs))
            .collect();
        lines.push(format!("free: {}", listed(&division.unassigned)));
        assert_eq!(lines.join("\n").trim_end(), expected.trim_end());
        for share in &division.shares {
            assert_eq!(share.lacking, 0, "{share:?}");
        }
    }

    #[test]
    fn one_group_gets_everything_but_addresses_in_other_use() {
        check(
            "10.0.0.0/16",
            24,
            &[("10.0.7.0/24", 3)],
            "",
            "10.0.0.0/16\nfree: ",
        );
        check(
            "10.0.0.0/22",
            24,
            &[("", 2)],
            "10.0.1.7/32",
            "10.0.0.0/24 10.0.2.0/23\nfree: ",
        );
        check(
            "fd00::/48",
            64,
            &[("fd00:0:0:9::/64", 1)],
            "",
            "fd00::/48\nfree: ",
        );
    }

    #[test]
    fn groups_without_blocks_get_equal_parts() {
        check(
            "10.0.0.0/16",
            24,
            &[("", 1), ("", 9), ("", 0)],
            "",
            "10.0.0.0/18\n10.0.64.0/18\n10.0.128.0/18\nfree: 10.0.192.0/18",
        );
        check(
            "10.0.0.0/16 10.9.0.0/16",
            24,
            &[("", 1), ("", 1)],
            "",
            "10.0.0.0/16\n10.9.0.0/16\nfree: ",
        );
    }

    #[test]
    fn groups_keep_the_parts_in_which_they_hold_blocks() {
        check(
            "10.16.0.0/12",
            24,
            &[("10.20.0.0/24", 1), ("10.21.3.0/24", 1)],
            "",
            "10.20.0.0/16\n10.21.0.0/16\nfree: 10.16.0.0/14 10.22.0.0/15 10.24.0.0/13",
        );
    }

    #[test]
    fn interleaved_blocks_stay_and_each_group_gets_room() {
        check(
            "10.0.0.0/16",
            24,
            &[
                ("10.0.0.0/24 10.0.2.0/24", 0),
                ("10.0.1.0/24", 0),
                ("10.0.3.0/24", 1),
            ],
            "",
            "10.0.0.0/24 10.0.2.0/24 10.0.64.0/18\n10.0.1.0/24 10.0.128.0/18\n10.0.3.0/24 10.0.192.0/18\nfree: 10.0.4.0/22 10.0.8.0/21 10.0.16.0/20 10.0.32.0/19",
        );
    }

    #[test]
    fn blocks_outside_the_cidrs_come_last() {
        check(
            "10.0.0.0/16",
            24,
            &[("10.9.0.0/24 10.9.1.0/24 10.7.0.0/24", 2)],
            "",
            "10.0.0.0/16 10.7.0.0/24 10.9.0.0/23\nfree: ",
        );
    }

    #[test]
    fn a_wide_range_in_other_use_costs_nothing() {
        check(
            "fd00::/16",
            120,
            &[("fd00::100/120", 0)],
            "fd00::/17",
            "fd00::100/120 fd00:8000::/17\nfree: ",
        );
    }
}
