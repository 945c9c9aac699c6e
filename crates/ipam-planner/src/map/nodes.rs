//! Areas of nodes: the blocks that they hold, those that fields only show, what the plan gives and
//! takes away, and the addresses of their machines.

use std::collections::{BTreeMap, BTreeSet};

use super::area::{Area, AreaKind, Presence};
use super::services::single;
use crate::holders::overlapping_holders;
use crate::plan::{NodeChange, Plan, Reason, node_changes};
use ipam_cilium::observed::Observed;
use ipam_core::model::NodeName;
use ipam_core::net::{Block, RangeIndex};
use ipam_desired::Desired;

pub(super) fn areas(desired: &Desired, observed: &Observed, plan: &Plan) -> Vec<Area> {
    let mut blocks = held(observed);
    mark_shared(&mut blocks);
    mark_misplaced(&mut blocks, plan);
    for change in node_changes(&plan.changes) {
        apply(change, &mut blocks);
    }
    let pools = RangeIndex::new(desired.pools.values().flat_map(|pool| {
        let ranges = pool.ranges.iter();
        ranges.map(move |range| (range.block.range(), pool.name.as_str()))
    }));
    let mut areas: Vec<Area> = blocks.into_values().chain(machines(observed)).collect();
    for area in &mut areas {
        let pool = pools.overlapping(&area.block.range()).next();
        area.pool = pool.map(|(_, name)| (*name).to_owned());
        let node = area.owner.parse::<NodeName>().ok();
        let node = node.and_then(|name| observed.nodes.get(&name));
        area.domain = node
            .and_then(|node| node.labels.get(&desired.policy.failure_domain))
            .cloned();
    }
    areas
}

type Blocks = BTreeMap<(NodeName, Block), Area>;

/// What nodes hold, and what fields only show.
fn held(observed: &Observed) -> Blocks {
    let mut blocks = BTreeMap::new();
    for node in observed.nodes.values() {
        for holding in observed.holds(node).iter() {
            let area = Area::new(AreaKind::Node, holding.block, &node.name);
            let area = area.with_note(format!("in {}", holding.field));
            blocks.insert((node.name.clone(), holding.block), area);
        }
    }
    for node in observed.cilium_nodes.values() {
        let lives: BTreeSet<Block> = observed.pod_blocks_of(&node.name).into_iter().collect();
        let allocated = node.allocated.iter();
        let allocated =
            allocated.flat_map(|(pool, blocks)| blocks.iter().map(move |block| (pool, block)));
        for (pool, block) in allocated {
            let area = Area::new(AreaKind::Node, *block, &node.name);
            let area = area.with_note(format!("of pool {}", pool.escape_debug()));
            blocks.insert((node.name.clone(), *block), area);
        }
        for block in lives {
            blocks
                .entry((node.name.clone(), block))
                .or_insert_with(|| Area::new(AreaKind::Node, block, &node.name));
        }
    }
    for (name, block) in observed.shown_blocks() {
        blocks
            .entry((name.clone(), block))
            .or_insert_with(|| Area::new(AreaKind::Shown, block, name));
    }
    blocks
}

fn mark_shared(blocks: &mut Blocks) {
    let holders = blocks
        .iter()
        .filter(|(_, area)| area.kind == AreaKind::Node)
        .map(|((name, block), _)| (name, *block));
    let pairs: Vec<_> = overlapping_holders(holders.collect())
        .into_iter()
        .map(|(a, b)| ((a.0.clone(), a.1), (b.0.clone(), b.1)))
        .collect();
    for (one, other) in pairs {
        for (key, with) in [(&one, &other), (&other, &one)] {
            if let Some(area) = blocks.get_mut(key) {
                area.shared_with.push(with.0.to_string());
            }
        }
    }
}

fn mark_misplaced(blocks: &mut Blocks, plan: &Plan) {
    for misplaced in &plan.misplaced {
        if let Some(area) = blocks.get_mut(&(misplaced.node.clone(), misplaced.block)) {
            area.misplaced = Some(misplaced.reason.to_string());
        }
    }
}

/// A field that a change writes may not be the one that shows the block now: such a block stays.
fn apply(change: &NodeChange, blocks: &mut Blocks) {
    for block in &change.after {
        let key = (change.node.clone(), *block);
        let note = format!("the plan writes it to {}", change.edit.write_path());
        match blocks.get_mut(&key) {
            Some(area) if area.kind == AreaKind::Node => area.notes.push(note),
            _ => {
                let area = Area::new(AreaKind::Node, *block, &change.node);
                blocks.insert(key, area.present(Presence::Added).with_note(note));
            }
        }
    }
    let moved = match &change.reason {
        Reason::MovedByPin { from } => Some(from),
        _ => None,
    };
    let left = change.before.iter().chain(moved);
    for block in left.filter(|block| !change.after.contains(block)) {
        if let Some(area) = blocks.get_mut(&(change.node.clone(), *block)) {
            area.presence = Presence::Removed;
        }
    }
}

fn machines(observed: &Observed) -> impl Iterator<Item = Area> {
    observed.nodes.values().flat_map(|node| {
        let addresses: BTreeSet<Block> = node
            .addresses
            .iter()
            .filter_map(|address| single(*address))
            .collect();
        addresses
            .into_iter()
            .map(|address| Area::new(AreaKind::Machine, address, &node.name))
    })
}
