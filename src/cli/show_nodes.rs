//! `show nodes`: each node with its blocks, the field that shows them, and the plan for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::completions;
use super::failure::Failure;
use super::files::{Names, Revision};
use super::show::{Column, or_dash, print, read_and_plan};
use super::{Common, Format};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::{NodeName, Selector, SelectorIndex};
use ipam_core::net::Block;
use ipam_core::text::joined;
use ipam_desired::{Desired, Pool};
use ipam_plan::plan::{Blocked, NodeChange, Plan, Target, node_changes};

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Names of nodes, and the directory of pools, pins and policy. An argument with a `/` that is
    /// not `node/NAME`, or that exists on disk, is the directory. Default: all nodes, and `pools`.
    #[arg(value_name = "NAME|DIR", add = completions::nodes())]
    names: Vec<String>,
    #[command(flatten)]
    revision: Revision,
    /// Only nodes with these labels, such as `rack=a,!gpu`.
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Output format. `wide` adds the pools that select the node and its labels.
    #[arg(long, short, value_parser = Format::table(), default_value = "human")]
    output: Format,
}

impl Flags {
    /// The selected nodes. Fails if a name is unknown.
    fn nodes<'o>(
        &self,
        names: &Names<'_>,
        observed: &'o Observed,
    ) -> Result<Vec<&'o Arc<Node>>, Failure> {
        let find = |name: &&str| {
            let known = name.parse::<NodeName>().ok();
            known
                .and_then(|name| observed.nodes.get(&name))
                .ok_or_else(|| names.unknown(name, observed.nodes.keys().map(NodeName::as_str)))
        };
        let mut nodes: Vec<&Arc<Node>> = match names.names.is_empty() {
            true => observed.nodes.values().collect(),
            false => names.names.iter().map(find).collect::<Result<_, _>>()?,
        };
        if let Some(selector) = &self.selector {
            nodes.retain(|node| selector.matches(&node.labels));
        }
        Ok(nodes)
    }
}

#[derive(Serialize)]
struct NodeRow {
    name: String,
    labels: BTreeMap<String, String>,
    /// Pools whose selector matches the node, best first.
    selected_by: Vec<String>,
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
    let names = Names::new("node", &flags.names);
    let location = names.location(&flags.revision)?;
    let (loaded, observed, plan) = read_and_plan(location, common).await?;
    let nodes = flags.nodes(&names, &observed)?;
    let rows = node_rows(&nodes, &loaded.desired, &observed, &plan);
    Ok(print(flags.output, rows, |row| &row.name, &COLUMNS, &WIDE)?)
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

    /// All states of a node. It may get a block of one family while its block of the other family
    /// is misplaced.
    fn state(&self, node: &NodeName) -> String {
        let change = self.changes.get(node).map(|change| planned(&change.after));
        let approval = self
            .needs_approval(node)
            .into_iter()
            .map(|block| format!("needs manual approval: {block}"));
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

fn node_rows(
    nodes: &[&Arc<Node>],
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> Vec<NodeRow> {
    let of_plan = NodePlan::new(plan);
    let mut ranked: Vec<&Pool> = desired.pools.values().collect();
    ranked.sort_by(|a, b| Pool::best_first(a, b));
    let selectors = SelectorIndex::new(ranked.iter().map(|pool| &pool.selector));
    let selected_by = |node: &Node| {
        let places = selectors.matching(&node.labels, |place| &ranked[place].selector);
        places.map(|place| ranked[place].name.to_string()).collect()
    };
    let row = |node: &&Arc<Node>| {
        if observed.is_multi_pool() {
            let blocked = of_plan.blocked.get(&node.name);
            return of_multi_pool(node, observed, blocked, selected_by(node));
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
            labels: node.labels.clone(),
            selected_by: selected_by(node),
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
    nodes.iter().map(row).collect()
}

/// In multi-pool mode, Cilium's operator gives a node blocks of the pools that its Pods ask for.
fn of_multi_pool(
    node: &Node,
    observed: &Observed,
    blocked: Option<&String>,
    selected_by: Vec<String>,
) -> NodeRow {
    let allocated = observed
        .cilium_nodes
        .get(&node.name)
        .map(|node| node.allocated.as_slice())
        .unwrap_or_default();
    let pools = allocated.iter().map(|(pool, _)| pool);
    let default = observed.default_pool(node);
    NodeRow {
        name: node.name.to_string(),
        labels: node.labels.clone(),
        selected_by,
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
        pool: or_dash(&joined(pools, ",")),
        state: blocked
            .cloned()
            .unwrap_or_else(|| format!("default pool {}", default.escape_debug())),
        needs_approval: Vec::new(),
        misplaced: None,
    }
}

fn planned(after: &[Block]) -> String {
    format!("will get {}", joined(after, ","))
}

const COLUMNS: [Column<NodeRow>; 5] = [
    ("NAME", |row| row.name.clone()),
    ("POD CIDRS", |row| or_dash(&row.pod_cidrs.join(","))),
    ("POOL", |row| row.pool.clone()),
    ("FIELD", |row| row.field.clone()),
    ("STATE", |row| row.state.clone()),
];

const WIDE: [Column<NodeRow>; 2] = [
    ("SELECTED BY", |row| or_dash(&row.selected_by.join(","))),
    ("LABELS", |row| {
        let labels = row.labels.iter();
        let labels = labels.map(|(key, value)| format!("{key}={value}"));
        or_dash(&joined(labels, ","))
    }),
];
