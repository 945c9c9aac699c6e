//! Taking back what an apply did to the pairs of ports. A node that keeps its block keeps its way
//! out, too.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::blocked::{Blocked, BlockedReason};
use super::change::{Change, Target, node_changes};
use super::document::ChangeDocument;
use super::document_edit::EditDocument;
use super::file_blocks::FileBlocks;
use super::others::Others;
use super::pairs::{PortCause, PortChange, block_of, in_use, obstacle, ranges};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// What takes changes of ports back. Of what they let out, only that goes whose block goes with it;
/// what stays is told as blocked.
pub(super) fn inverted(changes: &[&Change]) -> (Vec<Change>, Vec<Blocked>) {
    let mut taken: BTreeMap<&NodeName, BTreeSet<IpNet>> = BTreeMap::new();
    for change in node_changes(changes.iter().copied()) {
        let Some(undo) = &change.undo else { continue };
        let left: BTreeSet<Block> = undo.blocks().into_iter().collect();
        let gone = change
            .edit
            .blocks()
            .into_iter()
            .filter(|block| !left.contains(block));
        taken
            .entry(&change.node)
            .or_default()
            .extend(gone.map(IpNet::from));
    }
    let (mut undone, mut blocked) = (Vec::new(), Vec::new());
    for change in changes.iter().filter_map(|change| change.as_port()) {
        let goes = |range: &&IpNet| {
            taken
                .get(&change.node)
                .is_some_and(|taken| taken.contains(*range))
        };
        let (removed, stays): (BTreeSet<IpNet>, BTreeSet<IpNet>) =
            change.added.iter().partition(|range| goes(range));
        if !stays.is_empty() {
            let reason = BlockedReason::LetsHeldOut(stays);
            blocked.push(Blocked {
                target: Target::Port(change.port.clone()),
                reason,
                origin: None,
            });
        }
        let added = change.removed.clone();
        if !added.is_empty() || !removed.is_empty() {
            // Which list that makes is known when it is done.
            let (pairs, cause) = (Vec::new(), PortCause::Undo);
            undone.push(Change::Port(Box::new(PortChange {
                added,
                removed,
                pairs,
                cause,
                ..change.clone()
            })));
        }
    }
    (undone, blocked)
}

/// What an undo plan asks for of a port. What stands in the file is not trusted: it is about the
/// files' pools alone, opens no port for what is somebody else's, and closes none to what its node
/// keeps. `taken` is what the same plan takes from nodes.
pub(super) fn undone(
    saved: &ChangeDocument,
    taken: &BTreeMap<NodeName, BTreeSet<Block>>,
    files: &FileBlocks<'_>,
    observed: &Observed,
    others: &Others<'_>,
) -> Option<Result<PortChange, Blocked>> {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else {
        return None;
    };
    let (node, port) = observed.port(&saved.name.parse().ok()?)?;
    let (add, remove) = (ranges(add)?, ranges(remove)?);
    let is_in_pools =
        |range: &IpNet| block_of(range).is_some_and(|block| files.pool_of(block).is_some());
    if !add.iter().chain(&remove).all(is_in_pools) || is_twice(observed, node) {
        return None;
    }
    let change = port.change(&add, |range| remove.contains(range))?;
    if change.added != add || change.removed != remove {
        return None;
    }
    let is_taken = |block: &Block| {
        taken
            .get(&node.name)
            .is_some_and(|taken| taken.contains(block))
    };
    let kept = in_use(observed, node)
        .into_iter()
        .filter(|block| !is_taken(block))
        .map(IpNet::from);
    let kept: BTreeSet<IpNet> = kept.filter(|block| remove.contains(block)).collect();
    let is_somebodys = |block: &Block| {
        obstacle(files, observed, others, node, *block).is_some()
            || others.claimant(*block, &node.name).is_some()
    };
    let blocked = |reason| {
        Some(Err(Blocked {
            target: Target::Port(port.id.clone()),
            reason,
            origin: None,
        }))
    };
    if !kept.is_empty() {
        return blocked(BlockedReason::LetsHeldOut(kept));
    }
    if let Some(block) = add
        .iter()
        .map(block_of)
        .find(|block| block.as_ref().is_none_or(is_somebodys))
    {
        return block.and_then(|block| blocked(BlockedReason::CannotBeGivenBack(block)));
    }
    Some(Ok(PortChange::new(node, port, change, PortCause::Undo)))
}

/// Whether another Node says that it is the same VM.
fn is_twice(observed: &Observed, node: &Node) -> bool {
    let vm = node.vm();
    observed
        .nodes
        .values()
        .any(|other| other.name != node.name && other.vm() == vm)
}
