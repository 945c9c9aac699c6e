//! Which blocks a port may allow. A block must belong to the node for certain: a node that writes a
//! block into its own fields must not get the addresses of others.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::plan::file_blocks::FileBlocks;
use crate::plan::misplaced::MisplacedReason;
use crate::plan::owners::AddressOwners;
use ipam_cilium::observed::{Node, Observed, Reading};
use ipam_core::net::Block;

/// Blocks of which Pods of a node have addresses, or may get addresses at any moment.
pub fn in_use(observed: &Observed, node: &Node) -> BTreeSet<Block> {
    let held = observed.holds(node);
    let read = held
        .iter()
        .filter(|holding| holding.reading == Reading::Read)
        .map(|holding| holding.block);
    read.chain(observed.pod_blocks_of(&node.name)).collect()
}

/// Why the port of a node does not allow a block.
pub(super) fn obstacle(
    files: &FileBlocks<'_>,
    observed: &Observed,
    owners: &AddressOwners<'_>,
    node: &Node,
    block: Block,
) -> Option<String> {
    if files.pool_of(block).is_none() {
        return Some("no pool of the files has it".to_owned());
    }
    // Beyond its bound, another object does not keep the allocator from giving this block.
    let owner = if is_in_spec(node, block) {
        AddressOwners::keeper
    } else {
        AddressOwners::holder
    };
    if let Some(other) = owner(owners, block, &node.name) {
        return Some(format!("node `{other}` shows it too"));
    }
    if let Some(reason) = unconfirmed(files, observed, node, block) {
        return Some(format!(
            "{reason}, and only the node's own agent shows the block"
        ));
    }
    owners
        .uses(block)
        .then(|| "something other than nodes has addresses of it".to_owned())
}

fn is_in_spec(node: &Node, block: Block) -> bool {
    node.spec.get(block.family()) == Some(&block)
}

/// Why the files would not give the node a block that only its own agent can have written.
fn unconfirmed(
    files: &FileBlocks<'_>,
    observed: &Observed,
    node: &Node,
    block: Block,
) -> Option<MisplacedReason> {
    if is_in_spec(node, block) {
        return None;
    }
    // In ipam `multi-pool`, a Pod of any node may ask for a pool.
    let is_meant = |reason: &MisplacedReason| {
        observed.is_multi_pool() && *reason == MisplacedReason::NotSelected
    };
    files
        .obstacle(node, block)
        .filter(|reason| !is_meant(reason))
}

/// The range as a block; `None` if bits below its prefix are set.
pub(super) fn block_of(range: &IpNet) -> Option<Block> {
    range.to_string().parse().ok()
}
