//! Explains a node: the blocks that it holds, every pool in order, the deciding rule and the blocks
//! that were skipped.

use serde::Serialize;

use super::{FORMAT_VERSION, RequirementResult, passed_over, requirements};
use ipam_cilium::observed::{HoldingField, Node, Observed};
use ipam_core::alloc::PassedOverPool;
use ipam_core::model::{Labels, PoolName};
use ipam_core::net::{Block, Family, Range, Slots};
use ipam_core::text::joined;
use ipam_desired::{Desired, Pool, PoolState};
use ipam_plan::capacity::outside_best_pool;
use ipam_plan::plan::{
    BlockedReason, Misplaced, NodeChange, Plan, Reason, Target, WritePathObstacle, foreign_ranges,
    node_changes,
};

/// Explanation of a node's blocks.
#[derive(Debug, Serialize)]
pub struct NodeExplanation {
    format_version: &'static str,
    pub node: String,
    pub labels: Labels,
    /// Every field that shows a block.
    pub holds: Vec<HeldBlock>,
    /// Every pool, best first.
    pub pools: Vec<ConsideredPool>,
    /// The rule that decided between the pools.
    pub decided_by: String,
    /// The planned change, why it is blocked, or that the node keeps its blocks.
    pub outcome: String,
    /// Lower blocks of the same range that were skipped.
    pub skipped: Vec<Skipped>,
}

/// A block that the node holds.
#[derive(Debug, Serialize)]
pub struct HeldBlock {
    pub block: String,
    /// The field that shows it.
    pub field: String,
    /// The effect of the field in this Cilium.
    pub meaning: &'static str,
    /// The pool that contains the block.
    pub pool: Option<String>,
}

/// A pool, evaluated for the node.
#[derive(Debug, Serialize)]
pub struct ConsideredPool {
    pub pool: String,
    /// The higher priority wins.
    pub priority: i32,
    /// Each requirement of its selector. A selector without requirements selects every node.
    pub requirements: Vec<RequirementResult>,
    /// The result for this node.
    pub verdict: String,
    /// `file:line` of the pool.
    pub origin: String,
}

/// Number of skipped blocks for one reason.
#[derive(Debug, Serialize)]
pub struct Skipped {
    pub blocks: u128,
    pub why: &'static str,
}

pub(super) fn explain(
    node: &Node,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> NodeExplanation {
    let change = node_changes(&plan.changes).find(|change| change.node == node.name);
    let mut ranked: Vec<&Pool> = desired.pools.values().collect();
    ranked.sort_by(|a, b| Pool::best_first(a, b));
    let chosen = change.and_then(|change| change.pool.as_ref());
    let passed_over = passed_over(plan).remove(&node.name).unwrap_or_default();
    NodeExplanation {
        format_version: FORMAT_VERSION,
        node: node.name.to_string(),
        labels: node.labels.clone(),
        holds: shown(node, desired, observed),
        decided_by: decided_by(node, desired, &ranked, change),
        outcome: outcome(node, desired, observed, plan, change),
        skipped: change
            .map(|change| skipped(change, desired, observed, plan))
            .unwrap_or_default(),
        pools: ranked
            .into_iter()
            .map(|pool| considered(pool, node, chosen, passed_over))
            .collect(),
    }
}

/// Every field that shows a block.
fn shown(node: &Node, desired: &Desired, observed: &Observed) -> Vec<HeldBlock> {
    let read = observed.read_from_node(node);
    let of_node = node.blocks_by_field().map(|(field, block)| {
        match (observed.knows_pod_blocks(), read.contains(&block)) {
            (false, _) => (field, block, "unknown whether its agent uses it"),
            (true, true) => (field, block, "its agent uses it when it starts"),
            (true, false) => (field, block, "its agent does not use it"),
        }
    });
    let is_chained = observed.chaining_mode().is_some();
    let lives = observed.pod_blocks_of(&node.name);
    let cilium_node = observed.cilium_nodes.get(&node.name);
    let published = cilium_node.into_iter().flat_map(|node| &node.pod_cidrs);
    let published = published.map(|block| (HoldingField::CiliumNode, *block));
    let allocated = cilium_node
        .into_iter()
        .flat_map(|node| &node.allocated)
        .flat_map(|(_, blocks)| blocks);
    let allocated = allocated.map(|block| (HoldingField::Allocated, *block));
    let of_cilium_node =
        published
            .chain(allocated)
            .map(|(field, block)| match lives.contains(&block) {
                true if is_chained => (
                    field,
                    block,
                    "Cilium's own addresses of the node: another CNI plugin gives Pods theirs",
                ),
                true => (field, block, "its Pods live here"),
                false => (field, block, "unknown whether its Pods live here"),
            });
    let set = Family::BOTH
        .into_iter()
        .filter_map(|family| observed.set_range(node, family));
    let set = set.map(|block| match read.contains(&block) {
        true => (
            HoldingField::Setting,
            block,
            "its agent uses it when it starts",
        ),
        false => (HoldingField::Setting, block, "its agent does not use it"),
    });
    let pool = |block: Block| {
        desired
            .pools
            .values()
            .find(|pool| pool.contains(block))
            .map(|pool| pool.name.to_string())
    };
    let held = |(field, block, meaning): (HoldingField, Block, &'static str)| HeldBlock {
        block: block.to_string(),
        field: field.to_string(),
        meaning,
        pool: pool(block),
    };
    of_node.chain(set).chain(of_cilium_node).map(held).collect()
}

pub(super) fn considered(
    pool: &Pool,
    node: &Node,
    chosen: Option<&PoolName>,
    passed_over: &[PassedOverPool],
) -> ConsideredPool {
    let mut passed = passed_over.iter();
    let passed_over = passed.find(|passed| passed.pool == pool.name);
    let verdict = if chosen == Some(&pool.name) {
        "gives the block".to_owned()
    } else if let Some(passed_over) = passed_over {
        format!("selects it, and {}", passed_over.why)
    } else if !pool.selector.matches(&node.labels) {
        "does not select it".to_owned()
    } else if pool.state == PoolState::Disabled {
        "selects it, and is disabled".to_owned()
    } else if chosen.is_some() {
        "selects it, and comes later".to_owned()
    } else {
        "selects it".to_owned()
    };
    ConsideredPool {
        pool: pool.name.to_string(),
        priority: pool.priority,
        requirements: requirements(&pool.selector, &node.labels),
        verdict,
        origin: pool.origin.to_string(),
    }
}

fn decided_by(
    node: &Node,
    desired: &Desired,
    ranked: &[&Pool],
    change: Option<&NodeChange>,
) -> String {
    if let Some(pin) = desired.pins.get(&node.name) {
        return format!(
            "the NodeAssignment at {}: a pin overrides every pool",
            pin.origin
        );
    }
    match change.map(|change| &change.reason) {
        Some(Reason::HeldElsewhere { field }) => {
            return format!("it already holds its block, in {field}");
        }
        None if !node.shown.is_empty() => {
            return "nothing: a node keeps the blocks that it holds".to_owned();
        }
        _ => {}
    }
    let matching: Vec<&&Pool> = ranked
        .iter()
        .filter(|pool| pool.selector.matches(&node.labels))
        .collect();
    match matching[..] {
        [] => "nothing: no pool selects it".to_owned(),
        [only] => format!("only pool `{}` selects it", only.name),
        [first, second, ..] if first.priority != second.priority => {
            format!(
                "priority: {} of `{}` before {} of `{}`",
                first.priority, first.name, second.priority, second.name
            )
        }
        [first, second, ..] if first.selector.specificity() != second.selector.specificity() => {
            format!(
                "number of requirements: {} of `{}` before {} of `{}`",
                first.selector.specificity(),
                first.name,
                second.selector.specificity(),
                second.name
            )
        }
        [first, second, ..] => format!("the name alone: `{}` before `{}`", first.name, second.name),
    }
}

/// Outcome for a node that no change and no blocked entry names.
const STAYS: &str = "stays as it is";

/// The planned change, and every misplaced block that the node keeps.
fn outcome(
    node: &Node,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
    change: Option<&NodeChange>,
) -> String {
    let planned = planned(node, observed, plan, change);
    let misplaced: Vec<String> = plan
        .misplaced
        .iter()
        .filter(|misplaced| misplaced.node == node.name)
        .map(|Misplaced { block, reason, .. }| format!("{block}: {reason}; {}", reason.help()))
        .collect();
    if misplaced.is_empty() {
        let outside = outside_best_pool(desired, observed);
        let best = outside.iter().find(|(_, nodes)| nodes.contains(&node.name));
        return match best {
            Some((pool, _)) => {
                format!("{planned}; its best pool is `{pool}`, and another pool gave its block")
            }
            None => planned,
        };
    }
    let joint = if planned == STAYS {
        ", though misplaced: "
    } else {
        "; misplaced: "
    };
    format!("{planned}{joint}{}", misplaced.join("; "))
}

fn planned(node: &Node, observed: &Observed, plan: &Plan, change: Option<&NodeChange>) -> String {
    if let Some(change) = change {
        let blocks = joined(&change.after, " ");
        return format!("gets {blocks} in {}", change.edit.write_path().field());
    }
    let target = Target::Node(node.name.clone());
    match plan.blocked.iter().find(|blocked| blocked.target == target) {
        Some(blocked) if is_of_mode(&blocked.reason) => {
            format!("gets no block of a pool: {}", blocked.reason)
        }
        Some(blocked) => format!(
            "must wait: {}; {}",
            blocked.reason,
            blocked.reason.unblock()
        ),
        None if observed.is_multi_pool() => {
            let now = observed.default_pool(node);
            format!(
                "Cilium's operator gives it blocks as its Pods need them; its default pool is `{}` now",
                now.escape_debug()
            )
        }
        None => STAYS.to_owned(),
    }
}

/// Whether Cilium takes no block of a Node in its IPAM mode, so that nothing unblocks the node.
fn is_of_mode(reason: &BlockedReason) -> bool {
    let BlockedReason::WritePath(obstacle) = reason else {
        return false;
    };
    matches!(obstacle, WritePathObstacle::UnsupportedIpamMode(_))
}

/// The lower blocks of the range that gave the block.
fn skipped(
    change: &NodeChange,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> Vec<Skipped> {
    let gives = |block: &&Block| !change.before.contains(block);
    let Some(block) = change.after.iter().find(gives) else {
        return Vec::new();
    };
    let Some(pool) = change
        .pool
        .as_ref()
        .and_then(|name| desired.pools.get(name))
    else {
        return Vec::new();
    };
    let Some(range) = pool
        .ranges
        .iter()
        .map(|range| range.block)
        .find(|range| range.contains(*block))
    else {
        return Vec::new();
    };
    let others = observed
        .shown_blocks()
        .filter(|(name, _)| **name != change.node);
    let planned = desired
        .pins
        .values()
        .filter(|pin| pin.node != change.node)
        .flat_map(|pin| pin.blocks.iter().copied());
    let claims = observed.live_claims(desired.policy.quarantine);
    let given = node_changes(&plan.changes)
        .filter(|other| other.node != change.node)
        .flat_map(|other| &other.after);
    let reasons: [(&'static str, Vec<Range>); 7] = [
        (
            "held by other nodes",
            others.map(|(_, block)| block.range()).collect(),
        ),
        (
            "given to other nodes in the same plan",
            given.map(|block| block.range()).collect(),
        ),
        ("pinned to other nodes", planned.map(Block::range).collect()),
        ("reserved in the pool", pool.reserved.clone()),
        ("retiring in the pool", pool.retiring_ranges().collect()),
        (
            "claimed, or quarantined after another node",
            claims.ranges().collect(),
        ),
        (
            "in other use, or excluded by the Policy",
            foreign_ranges(desired, observed),
        ),
    ];
    let Some(below) = range.range().before(&block.range()) else {
        return Vec::new();
    };
    let count = |(why, ranges): (&'static str, Vec<Range>)| {
        let mut slots = Slots::new(range, block.size())?;
        ranges
            .iter()
            .filter_map(|taken| below.intersection(taken))
            .for_each(|taken| slots.take(&taken));
        Some(Skipped {
            why,
            blocks: slots.taken(),
        })
    };
    reasons
        .into_iter()
        .filter_map(count)
        .filter(|skipped| skipped.blocks > 0)
        .collect()
}
