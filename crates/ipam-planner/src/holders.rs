//! Nodes and the blocks that they hold: which pairs overlap. Knows no field and no finding.

use ipam_core::model::NodeName;
use ipam_core::net::{Block, Range, overlapping_pairs};

/// A node with a block of it.
pub type Holder<'o> = (&'o NodeName, Block);

/// Pairs of different nodes with blocks that overlap.
pub fn overlapping_holders<'o>(mut holders: Vec<Holder<'o>>) -> Vec<(Holder<'o>, Holder<'o>)> {
    holders.sort();
    holders.dedup();
    let owners: Vec<(Range, usize)> = holders
        .iter()
        .enumerate()
        .map(|(index, (_, block))| (block.range(), index))
        .collect();
    let pairs = overlapping_pairs(owners)
        .into_iter()
        .map(|(a, b)| (holders[a], holders[b]));
    let mut pairs: Vec<_> = pairs.filter(|(a, b)| a.0 != b.0).collect();
    pairs.sort();
    pairs.dedup();
    pairs
}
