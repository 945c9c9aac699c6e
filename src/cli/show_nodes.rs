//! `show nodes`: each node with its blocks, the field that shows them, and the plan for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::failure::Failure;
use super::show::{Flags, Items, read_and_plan};
use super::{Common, Format, output};
use crate::render::table;
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_planner::plan::{Blocked, NodeChange, Plan, Target, node_changes};

#[derive(Serialize)]
struct NodeRow {
    name: String,
    pod_cidrs: Vec<String>,
    field: String,
    pool: String,
    state: String,
    /// Blocks that a person must approve before they are written, with their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_approval: Vec<String>,
    /// Why the files would not give the node its blocks today.
    #[serde(skip_serializing_if = "Option::is_none")]
    misplaced: Option<String>,
}

pub(super) async fn run(flags: &Flags, common: &Common) -> Result<(), Failure> {
    let (loaded, observed, plan) = read_and_plan(flags, common).await?;
    let rows = node_rows(&loaded.desired, &observed, &plan);
    Ok(print(flags.output, rows)?)
}

/// The parts of a plan that are about nodes.
struct NodePlan<'p> {
    changes: BTreeMap<&'p NodeName, &'p NodeChange>,
    blocked: BTreeMap<&'p NodeName, String>,
    misplaced: BTreeMap<&'p NodeName, Vec<String>>,
}

impl<'p> NodePlan<'p> {
    fn new(plan: &'p Plan) -> NodePlan<'p> {
        let reason = |blocked: &'p Blocked| match &blocked.target {
            Target::Node(node) => Some((node, format!("blocked: {}", blocked.reason))),
            Target::AddressPool(_)
            | Target::Service(_)
            | Target::PodPool(_)
            | Target::NodeConfig(_)
            | Target::Port(_) => None,
        };
        let mut misplaced: BTreeMap<&NodeName, Vec<String>> = BTreeMap::new();
        for one in &plan.misplaced {
            misplaced
                .entry(&one.node)
                .or_default()
                .push(format!("{}: {}", one.block, one.reason));
        }
        NodePlan {
            changes: node_changes(&plan.changes)
                .map(|change| (&change.node, change))
                .collect(),
            blocked: plan.blocked.iter().filter_map(reason).collect(),
            misplaced,
        }
    }

    /// All states of a node. It may get a block of one family while that of the other is misplaced.
    fn state(&self, node: &NodeName) -> String {
        let change = self.changes.get(node).map(|change| planned(&change.after));
        let approval = self
            .needs_approval(node)
            .into_iter()
            .map(|block| format!("needs the approval of a person: {block}"));
        let blocked = self.blocked.get(node).cloned();
        let misplaced = self
            .misplaced
            .get(node)
            .into_iter()
            .flatten()
            .map(|why| format!("misplaced: {why}"));
        let parts: Vec<String> = change
            .into_iter()
            .chain(approval)
            .chain(blocked)
            .chain(misplaced)
            .collect();
        if parts.is_empty() {
            "as planned".to_owned()
        } else {
            parts.join("; ")
        }
    }

    fn needs_approval(&self, node: &NodeName) -> Vec<String> {
        let blocks = self
            .changes
            .get(node)
            .into_iter()
            .flat_map(|change| &change.needs_approval);
        blocks.map(ToString::to_string).collect()
    }
}

fn node_rows(desired: &Desired, observed: &Observed, plan: &Plan) -> Vec<NodeRow> {
    let of_plan = NodePlan::new(plan);
    let row = |node: &Arc<Node>| {
        if observed.is_multi_pool() {
            return of_multi_pool(node, observed, of_plan.blocked.get(&node.name));
        }
        let held = observed.holds(node);
        let pool = held.iter().find_map(|holding| {
            desired
                .pools
                .values()
                .find(|pool| pool.contains(holding.block))
        });
        NodeRow {
            name: node.name.to_string(),
            pod_cidrs: held
                .iter()
                .map(|holding| holding.block.to_string())
                .collect(),
            field: held
                .iter()
                .next()
                .map_or("-", |holding| holding.field.as_str())
                .to_owned(),
            pool: pool.map_or_else(|| "-".to_owned(), |pool| pool.name.to_string()),
            state: of_plan.state(&node.name),
            needs_approval: of_plan.needs_approval(&node.name),
            misplaced: of_plan
                .misplaced
                .get(&node.name)
                .map(|reasons| reasons.join("; ")),
        }
    };
    observed.nodes.values().map(row).collect()
}

/// In multi-pool mode, Cilium's operator gives a node blocks of the pools that its Pods ask for.
fn of_multi_pool(node: &Node, observed: &Observed, blocked: Option<&String>) -> NodeRow {
    let allocated = observed
        .cilium_nodes
        .get(&node.name)
        .map(|node| node.allocated.as_slice())
        .unwrap_or_default();
    let pools: Vec<&str> = allocated.iter().map(|(pool, _)| pool.as_str()).collect();
    let default = observed.default_pool(node);
    NodeRow {
        name: node.name.to_string(),
        pod_cidrs: allocated
            .iter()
            .flat_map(|(_, blocks)| blocks)
            .map(ToString::to_string)
            .collect(),
        field: if allocated.is_empty() {
            "-"
        } else {
            "CiliumNode.spec.ipam.pools.allocated"
        }
        .to_owned(),
        pool: if pools.is_empty() {
            "-".to_owned()
        } else {
            pools.join(",")
        },
        state: blocked
            .cloned()
            .unwrap_or_else(|| format!("default pool {}", default.escape_debug())),
        needs_approval: Vec::new(),
        misplaced: None,
    }
}

fn planned(after: &[Block]) -> String {
    let blocks: Vec<String> = after.iter().map(ToString::to_string).collect();
    format!("will get {}", blocks.join(","))
}

fn print(format: Format, rows: Vec<NodeRow>) -> std::io::Result<()> {
    if format == Format::Json {
        return output::json(&Items {
            format_version: "1.0",
            items: rows,
        });
    }
    let cells = |row: &NodeRow| {
        let blocks = if row.pod_cidrs.is_empty() {
            "-".to_owned()
        } else {
            row.pod_cidrs.join(",")
        };
        [
            row.name.clone(),
            blocks,
            row.pool.clone(),
            row.field.clone(),
            row.state.clone(),
        ]
    };
    output::data(&table(
        ["NAME", "POD CIDRS", "POOL", "FIELD", "STATE"],
        &rows.iter().map(cells).collect::<Vec<_>>(),
    ))
}
