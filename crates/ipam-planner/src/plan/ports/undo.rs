//! Undoing what an apply did to the pairs of ports. While a node keeps its block, its port allows
//! the block.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::allowed::{block_of, in_use, obstacle};
use super::saved::ranges;
use super::{PortCause, PortChange};
use crate::plan::blocked::{Blocked, BlockedReason, UndoObstacle};
use crate::plan::change::{Change, Edit, Target, node_changes};
use crate::plan::document::{ChangeDocument, EditDocument};
use crate::plan::file_blocks::FileBlocks;
use crate::plan::owners::AddressOwners;
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// The changes that undo changes of ports. An added range is removed only if the same undo takes
/// its block from the node; otherwise it stays, and is reported as blocked.
pub(in crate::plan) fn inverted(changes: &[&Change]) -> (Vec<Change>, Vec<Blocked>) {
    let taken = taken_ranges(changes);
    let (mut undone, mut blocked) = (Vec::new(), Vec::new());
    for change in changes.iter().filter_map(|change| change.as_port()) {
        let is_taken = |range: &&IpNet| {
            taken
                .get(&change.node)
                .is_some_and(|taken| taken.contains(*range))
        };
        let (removed, stays): (BTreeSet<IpNet>, BTreeSet<IpNet>) =
            change.added.iter().partition(|range| is_taken(range));
        if !stays.is_empty() {
            blocked.push(Blocked {
                target: Target::Port(change.port.clone()),
                reason: BlockedReason::Undo(UndoObstacle::AllowsHeldBlocks(stays)),
                origin: None,
            });
        }
        let added = change.removed.clone();
        if !added.is_empty() || !removed.is_empty() {
            undone.push(Change::Port(Box::new(PortChange {
                added,
                awaited: BTreeSet::new(),
                removed,
                // The whole list is known only when the undo is planned against the cluster.
                pairs: Vec::new(),
                cause: PortCause::Undo,
                ..change.clone()
            })));
        }
    }
    (undone, blocked)
}

/// Ranges that the undo of these changes takes from each node.
fn taken_ranges<'c>(changes: &[&'c Change]) -> BTreeMap<&'c NodeName, BTreeSet<IpNet>> {
    let mut taken: BTreeMap<&NodeName, BTreeSet<IpNet>> = BTreeMap::new();
    for change in node_changes(changes.iter().copied()) {
        let Some(undo) = &change.undo else { continue };
        // A running agent uses its block until it restarts.
        if matches!(undo, Edit::NodeConfig(_)) {
            continue;
        }
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
    taken
}

/// The change of a port that an undo plan asks for; `None` if the port does not show what the apply
/// wrote, or the saved change names anything but blocks of the files' pools.
///
/// The saved plan is not trusted: it adds no block that others may have, and removes none that the
/// node keeps. `taken` is what the same plan takes from nodes.
pub(in crate::plan) fn undone(
    saved: &ChangeDocument,
    taken: &BTreeMap<NodeName, BTreeSet<Block>>,
    files: &FileBlocks<'_>,
    observed: &Observed,
    owners: &AddressOwners<'_>,
) -> Option<Result<PortChange, Blocked>> {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else {
        return None;
    };
    let (node, port) = observed.port(&saved.name.parse().ok()?)?;
    let (add, remove) = (ranges(add)?, ranges(remove)?);
    let is_in_pools =
        |range: &IpNet| block_of(range).is_some_and(|block| files.pool_of(block).is_some());
    if !add.iter().chain(&remove).all(is_in_pools) || shares_vm(observed, node) {
        return None;
    }
    let change = port.change(&add, |range| remove.contains(range))?;
    if change.added != add || change.removed != remove {
        return None;
    }
    let blocked = |obstacle: UndoObstacle| {
        Some(Err(Blocked {
            target: Target::Port(port.id.clone()),
            reason: obstacle.into(),
            origin: None,
        }))
    };
    let kept = kept_ranges(observed, node, taken, &remove);
    if !kept.is_empty() {
        return blocked(UndoObstacle::AllowsHeldBlocks(kept));
    }
    let may_be_of_others = |block: &Block| {
        obstacle(files, observed, owners, node, *block).is_some()
            || owners.claimant(*block, &node.name).is_some()
    };
    if let Some(block) = add
        .iter()
        .map(block_of)
        .find(|block| block.as_ref().is_none_or(may_be_of_others))
    {
        return block.and_then(|block| blocked(UndoObstacle::CannotBeGivenBack(block)));
    }
    let undo = PortChange::new(observed, node, port, change, PortCause::Undo);
    Some(Ok(undo))
}

/// Those of the ranges that the node keeps.
fn kept_ranges(
    observed: &Observed,
    node: &Node,
    taken: &BTreeMap<NodeName, BTreeSet<Block>>,
    ranges: &BTreeSet<IpNet>,
) -> BTreeSet<IpNet> {
    let is_taken = |block: &Block| {
        taken
            .get(&node.name)
            .is_some_and(|taken| taken.contains(block))
    };
    in_use(observed, node)
        .into_iter()
        .filter(|block| !is_taken(block))
        .map(IpNet::from)
        .filter(|range| ranges.contains(range))
        .collect()
}

/// Whether another Node names the same VM.
fn shares_vm(observed: &Observed, node: &Node) -> bool {
    let vm = node.vm();
    observed
        .nodes
        .values()
        .any(|other| other.name != node.name && other.vm() == vm)
}
