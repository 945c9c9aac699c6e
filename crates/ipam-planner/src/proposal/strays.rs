//! Stray blocks: single blocks far from those that lie together. No range is stretched over the
//! addresses between them; a stray block is named on its own.

use std::collections::BTreeMap;

use super::suggestion::cover;
use ipam_core::net::Block;

/// Fewest blocks that lie together. Beside fewer, no block is a stray one.
const TOGETHER: usize = 4;

/// How often the range of the others would double to contain a stray block.
const DOUBLINGS: u8 = 3;

/// Blocks by their neighbourhood, the widest CIDR that may be suggested around them.
pub(super) type Near = BTreeMap<Block, Vec<Block>>;

/// The blocks without the stray ones, and those.
pub(super) fn set_apart(near: Near) -> (Near, Vec<Block>) {
    let most = near.values().map(Vec::len).max().unwrap_or_default();
    let (mut together, mut strays) = (Near::new(), Vec::new());
    for (widest, mut blocks) in near {
        if blocks.len() == 1 && most >= TOGETHER {
            strays.append(&mut blocks);
            continue;
        }
        blocks.sort_by_key(|block| (block.range().first_and_family(), block.prefix_len()));
        while let Some(place) = stray(&blocks, widest) {
            strays.push(blocks.remove(place));
        }
        together.insert(widest, blocks);
    }
    (together, strays)
}

/// The place of a stray block: the first or the last one.
fn stray(sorted: &[Block], widest: Block) -> Option<usize> {
    if sorted.len() <= TOGETHER {
        return None;
    }
    let whole = cover(sorted, widest).prefix_len();
    let last = sorted.len() - 1;
    let shrinks = |rest: &[Block]| cover(rest, widest).prefix_len() >= whole + DOUBLINGS;
    match (shrinks(&sorted[1..]), shrinks(&sorted[..last])) {
        (true, _) => Some(0),
        (false, true) => Some(last),
        (false, false) => None,
    }
}
