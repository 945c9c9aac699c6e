//! Explains a pool: its ranges, the blocks that are free, and for each node why it may or may not
//! get one.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{FORMAT_VERSION, RequirementResult, node, requirements};
use crate::plan::{NodeChange, Plan, RangeUse, node_changes, range_use};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::NodeName;
use ipam_desired::{Desired, Pool, PoolState};

/// Free blocks that are listed of each range.
const NEXT: usize = 5;

/// Explanation of a pool of blocks.
#[derive(Debug, Serialize)]
pub struct PoolExplanation {
    format_version: &'static str,
    pub pool: String,
    /// `file:line` of the pool.
    pub origin: String,
    /// The higher priority wins.
    pub priority: i32,
    /// In the syntax of `kubectl -l`.
    pub selector: String,
    /// A disabled pool gives no blocks.
    pub disabled: bool,
    /// In the order of use.
    pub ranges: Vec<ExplainedRange>,
    /// Nodes that the selector matches, or that hold a block of the pool.
    pub nodes: Vec<PoolNode>,
    /// Number of the other nodes.
    pub other_nodes: usize,
}

/// A range of a pool. Counts are blocks.
#[derive(Debug, Serialize)]
pub struct ExplainedRange {
    pub range: String,
    pub total: u128,
    /// Held by nodes or pinned.
    pub used: u128,
    /// Reserved, excluded, claimed, quarantined, or used by something else.
    pub reserved: u128,
    pub free: u128,
    /// The lowest free blocks.
    pub next: Vec<String>,
}

/// A node, evaluated for the pool.
#[derive(Debug, Serialize)]
pub struct PoolNode {
    pub node: String,
    /// Blocks of the pool that the node holds.
    pub holds: Vec<String>,
    /// The result for this pool.
    pub verdict: String,
    pub requirements: Vec<RequirementResult>,
}

pub(super) fn explain(
    pool: &Pool,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> PoolExplanation {
    let changes: BTreeMap<&NodeName, &NodeChange> = node_changes(&plan.changes)
        .map(|change| (&change.node, change))
        .collect();
    let all = observed.nodes.values();
    let nodes: Vec<PoolNode> = all
        .filter_map(|node| of_node(pool, node, observed, changes.get(&node.name).copied()))
        .collect();
    PoolExplanation {
        format_version: FORMAT_VERSION,
        pool: pool.name.to_string(),
        origin: pool.origin.to_string(),
        priority: pool.priority,
        selector: pool.selector.to_string(),
        disabled: pool.state == PoolState::Disabled,
        ranges: range_use(desired, observed, &pool.name, NEXT)
            .iter()
            .map(of_range)
            .collect(),
        other_nodes: observed.nodes.len() - nodes.len(),
        nodes,
    }
}

fn of_range(range_use: &RangeUse) -> ExplainedRange {
    let RangeUse {
        range,
        total,
        used,
        free,
        next,
    } = range_use;
    ExplainedRange {
        range: range.to_string(),
        total: *total,
        used: *used,
        reserved: total - used - free,
        free: *free,
        next: next.iter().map(ToString::to_string).collect(),
    }
}

/// `None` for a node that has nothing to do with the pool.
fn of_node(
    pool: &Pool,
    node: &Node,
    observed: &Observed,
    change: Option<&NodeChange>,
) -> Option<PoolNode> {
    let held = observed.holds(node);
    let of_pool = held.iter().filter(|holding| pool.contains(holding.block));
    let holds: Vec<String> = of_pool.map(|holding| holding.block.to_string()).collect();
    let is_selected = pool.selector.matches(&node.labels);
    if holds.is_empty() && !is_selected {
        return None;
    }
    let chosen = change.and_then(|change| change.pool.as_ref());
    let gives = chosen == Some(&pool.name);
    let verdict = match (gives, is_selected, held.is_empty()) {
        (false, true, false) if holds.is_empty() => {
            "selects it, and it holds a block of another pool".to_owned()
        }
        (false, true, false) => "selects it, and it keeps its block".to_owned(),
        (false, false, _) => "does not select it, and it keeps its block".to_owned(),
        (true, _, _) | (false, true, true) => node::considered(pool, node, chosen, change).verdict,
    };
    Some(PoolNode {
        node: node.name.to_string(),
        holds,
        verdict,
        requirements: requirements(&pool.selector, &node.labels),
    })
}
