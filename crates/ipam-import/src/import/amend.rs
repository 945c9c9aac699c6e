//! Judges a trial plan: whether the files change nothing, and what makes them so.

use std::collections::BTreeSet;

use super::{
    BrokenNode, Changes, ImportRequest, Inferred, InferredPin, InferredPool, Objects, PinReason,
};
use crate::proposal::held_by;
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::PoolState;
use ipam_plan::plan::{
    BlockedReason, Change, Misplaced, MisplacedReason, NodeObstacle, Plan, Target,
};

/// The judgement on a trial plan.
#[derive(Clone, Debug)]
pub enum Judgement {
    /// The plan does only what the user asked for.
    Good,
    /// The amended files, whose plan may be better.
    Amended(Box<Inferred>),
    /// The plan of any files changes these objects. Not empty.
    Refused(Vec<Target>),
}

/// Judges the plan of the inferred files.
pub fn judge(
    inferred: &Inferred,
    plan: &Plan,
    observed: &Observed,
    request: &ImportRequest,
) -> Judgement {
    let mut amended = inferred.clone();
    let is_pinned =
        drop_blocked_pins(&mut amended, plan) | pin_misplaced(&mut amended, plan, observed);
    let waiting = waiting(plan, observed);
    let is_disabled =
        request.changes == Changes::Refused && disable_pools(&mut amended, &waiting, observed);
    let unasked = plan.changes.iter();
    let unasked = unasked.filter(|change| {
        let is_over = is_disabled && waiting_node(change, observed).is_some();
        !is_over && !is_requested(change, request)
    });
    let refused: Vec<Target> = unasked.map(Change::target).collect();
    match (refused.is_empty(), is_disabled || is_pinned) {
        (false, _) => Judgement::Refused(refused),
        (true, true) => Judgement::Amended(Box::new(amended)),
        (true, false) => Judgement::Good,
    }
}

/// Pins misplaced nodes. A node for which this is no help loses its pin. Returns whether anything
/// changed.
fn pin_misplaced(amended: &mut Inferred, plan: &Plan, observed: &Observed) -> bool {
    let mut is_changed = false;
    let mut pins = Vec::new();
    // With CNI chaining no Pods live in a block, so it may stay where other addresses are.
    let stays = |misplaced: &Misplaced| {
        observed.chaining_mode().is_some() && misplaced.reason == MisplacedReason::UsedByOthers
    };
    for misplaced in &plan.misplaced {
        if amended.broken.contains_key(&misplaced.node) || stays(misplaced) {
            continue;
        }
        is_changed = true;
        let node = observed.nodes.get(&misplaced.node);
        if let Some(pin) = node.and_then(|node| pin(amended, observed, node, &misplaced.reason)) {
            pins.push((misplaced.node.clone(), pin));
            continue;
        }
        let broken = BrokenNode {
            block: Some(misplaced.block),
            why: format!("{}; {}", misplaced.reason, misplaced.reason.help()),
        };
        amended.pins.remove(&misplaced.node);
        amended.broken.insert(misplaced.node.clone(), broken);
    }
    amended.pins.extend(pins);
    is_changed
}

/// Removes the pins that the plan blocks. Returns whether there are any.
fn drop_blocked_pins(amended: &mut Inferred, plan: &Plan) -> bool {
    let mut is_changed = false;
    for blocked in &plan.blocked {
        if let Target::Node(node) = &blocked.target
            && amended.pins.remove(node).is_some()
        {
            let broken = BrokenNode {
                block: None,
                why: format!("{}; {}", blocked.reason, blocked.reason.unblock()),
            };
            amended.broken.entry(node.clone()).or_insert(broken);
            is_changed = true;
        }
    }
    is_changed
}

/// A pin that keeps the node's blocks; `None` if it has one already, or no pool has them all.
fn pin(
    inferred: &Inferred,
    observed: &Observed,
    node: &Node,
    reason: &MisplacedReason,
) -> Option<InferredPin> {
    if inferred.pins.contains_key(&node.name) || observed.is_multi_pool() {
        return None;
    }
    let blocks = held_by(observed, node);
    let has = |pool: &&InferredPool| {
        blocks.iter().all(|block| {
            pool.sizes.get(block.family()) == Some(&block.size())
                && pool.cidrs.iter().any(|cidr| cidr.contains(*block))
        })
    };
    let pool = inferred.pools.iter().find(has)?;
    Some(InferredPin {
        pool: pool.name.clone(),
        blocks,
        reason: PinReason::Misplaced(reason.to_string()),
    })
}

fn gives(pool: &InferredPool) -> bool {
    pool.state == PoolState::Active
}

/// Whether the user asked for the change.
fn is_requested(change: &Change, request: &ImportRequest) -> bool {
    match change {
        _ if request.changes == Changes::Allowed => true,
        Change::AddressPool(_) | Change::PodPool(_) => request.objects == Objects::Adopted,
        Change::Service(_) | Change::Port(_) | Change::Node(_) => false,
    }
}

/// The node, if the change gives it a block of a family of which it holds none, and changes nothing
/// else.
fn waiting_node<'p>(change: &'p Change, observed: &Observed) -> Option<&'p NodeName> {
    let change = change.as_node()?;
    let node = observed.nodes.get(&change.node)?;
    let held = observed.holds(node);
    let is_new = |block: &Block| held.get(block.family()).is_none();
    change
        .new_blocks()
        .iter()
        .any(is_new)
        .then_some(&change.node)
}

/// Nodes without a block that the plan would serve, or for which a pool has none.
fn waiting(plan: &Plan, observed: &Observed) -> BTreeSet<NodeName> {
    let served = plan.changes.iter();
    let served = served.filter_map(|change| waiting_node(change, observed).cloned());
    let unserved =
        plan.blocked
            .iter()
            .filter_map(|blocked| match (&blocked.target, &blocked.reason) {
                (
                    Target::Node(node),
                    BlockedReason::Node(NodeObstacle::NodePoolsExhausted { .. }),
                ) => Some(node.clone()),
                _ => None,
            });
    served.chain(unserved).collect()
}

/// Disables the pools that would give blocks to waiting nodes: those that select them. Returns
/// whether there are any.
fn disable_pools(
    amended: &mut Inferred,
    waiting: &BTreeSet<NodeName>,
    observed: &Observed,
) -> bool {
    let mut is_disabled = false;
    for pool in amended.pools.iter_mut().filter(|pool| gives(pool)) {
        let is_selected = |name: &&NodeName| {
            let node = observed.nodes.get(*name);
            node.is_some_and(|node| pool.selector.matches(&node.labels))
        };
        let selected: BTreeSet<NodeName> = waiting.iter().filter(is_selected).cloned().collect();
        if !selected.is_empty() {
            pool.state = PoolState::Disabled;
            pool.evidence.waiting = selected;
            is_disabled = true;
        }
    }
    is_disabled
}
