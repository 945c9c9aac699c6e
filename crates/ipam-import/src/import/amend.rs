//! Judges a trial plan: whether the files change nothing, and what makes them so.

use std::collections::BTreeSet;

use super::{Changes, ImportRequest, Inferred, InferredPin, InferredPool, Objects, PinReason};
use crate::proposal::held_by;
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::PoolState;
use ipam_plan::plan::{BlockedReason, Change, MisplacedReason, NodeObstacle, Plan, Target};

/// The judgement on a trial plan.
#[derive(Clone, Debug)]
pub enum Judgement {
    /// The plan is as wished.
    Good,
    /// These files may be better.
    Amended(Box<Inferred>),
    /// No files can be. Not empty.
    Refused(Vec<Refused>),
}

/// Why the files cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("node `{}` would be misplaced, even with a pin: {}: {}; {}", .0, .1, .2, .2.help())]
    Misplaced(NodeName, Block, MisplacedReason),
    #[error(
        "the plan would change {0}; --allow-changes writes the files anyway, and `cilium-ipam plan` shows the change"
    )]
    Change(Target),
    /// The pin of this node, and why.
    #[error("the pin of node `{0}` is blocked: {1}")]
    Pin(NodeName, String),
}

/// Judges the plan of the inferred files.
pub fn judge(
    inferred: &Inferred,
    plan: &Plan,
    observed: &Observed,
    request: &ImportRequest,
) -> Judgement {
    let mut amended = inferred.clone();
    let mut refused = add_pins(&mut amended, plan, observed);
    let waiting = waiting(plan, observed);
    let is_disabled =
        request.changes == Changes::Refused && disable(&mut amended, &waiting, observed);
    for change in plan
        .changes
        .iter()
        .filter(|one| !is_requested(one, request))
    {
        let is_over = is_disabled && waiting_node(change, observed).is_some();
        if !is_over {
            refused.push(Refused::Change(change.target()));
        }
    }
    for blocked in &plan.blocked {
        if let Target::Node(node) = &blocked.target
            && inferred.pins.contains_key(node)
        {
            refused.push(Refused::Pin(node.clone(), blocked.reason.to_string()));
        }
    }
    let is_amended = is_disabled || amended.pins.len() > inferred.pins.len();
    match (refused.is_empty(), is_amended) {
        (false, _) => Judgement::Refused(refused),
        (true, true) => Judgement::Amended(Box::new(amended)),
        (true, false) => Judgement::Good,
    }
}

/// Pins misplaced nodes. Returns those for which this is no help.
fn add_pins(amended: &mut Inferred, plan: &Plan, observed: &Observed) -> Vec<Refused> {
    let mut refused = Vec::new();
    let mut pins = Vec::new();
    for misplaced in &plan.misplaced {
        let node = observed.nodes.get(&misplaced.node);
        match node.and_then(|node| pin(amended, observed, node, &misplaced.reason)) {
            Some(pin) => pins.push((misplaced.node.clone(), pin)),
            None => refused.push(Refused::Misplaced(
                misplaced.node.clone(),
                misplaced.block,
                misplaced.reason.clone(),
            )),
        }
    }
    amended.pins.extend(pins);
    refused
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

/// Whether the person asked for it.
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
fn disable(amended: &mut Inferred, waiting: &BTreeSet<NodeName>, observed: &Observed) -> bool {
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
