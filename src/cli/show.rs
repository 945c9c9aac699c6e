//! `show pools`, `show nodes` and `show lb`: tables as kubectl users expect them; and `show plan`,
//! or `show PLANFILE`.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Subcommand;
use serde::Serialize;

use super::failure::Failure;
use super::files::Files;
use super::reading::read;
use super::{Common, Format, Reached, output, show_lb, show_plan};
use crate::render::table;
use ipam_cilium::observed::Observed;
use ipam_cluster::Extent;
use ipam_controller::{Job, Loaded, Reach};
use ipam_core::model::NodeName;
use ipam_desired::{Desired, NeutronPool, PoolState};
use ipam_planner::check::neutron_range;
use ipam_planner::plan::{
    Blocked, Misplaced, NodeChange, Plan, PoolUse, Target, node_changes, pool_use,
};

/// Show pools, nodes or LoadBalancer addresses as they are, or a plan file.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    plan: Option<show_plan::Flags>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Each pool with its blocks: total, held by nodes, kept free, left.
    Pools(Flags),
    /// LoadBalancer pools with their counts, and the Services that have addresses of them or wait
    /// for one.
    Lb(show_lb::Flags),
    /// Each node with its blocks, the field that shows them, and what is planned.
    Nodes(Flags),
    /// A saved plan or an undo plan, as `show PLANFILE` does.
    Plan(show_plan::Flags),
}

#[derive(Debug, clap::Args)]
struct Flags {
    #[command(flatten)]
    files: Files,
    /// Form of the table.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

#[derive(Serialize)]
struct PoolRow {
    name: String,
    family: String,
    cidrs: Vec<String>,
    block_size: u8,
    priority: i32,
    selector: String,
    disabled: bool,
    total: u128,
    used: u128,
    reserved: u128,
    free: u128,
    nodes: usize,
    /// Nodes with a block of it that the files would not give them today.
    misplaced: usize,
    /// Of a pool that is a subnet of Neutron; it has no blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    neutron: Option<NeutronRow>,
}

#[derive(Serialize)]
struct NeutronRow {
    network: String,
    subnet: String,
    /// Why its addresses are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

impl PoolRow {
    fn of_neutron(pool: &NeutronPool, observed: &Observed) -> PoolRow {
        let range = neutron_range(pool, observed);
        let unknown = range.as_ref().err().map(ToString::to_string);
        let (network, subnet) = (pool.network.to_string(), pool.subnet.to_string());
        PoolRow {
            name: pool.name.to_string(),
            family: range
                .as_ref()
                .map(|range| range.family().to_string())
                .unwrap_or_default(),
            cidrs: range.iter().map(ToString::to_string).collect(),
            block_size: 0,
            priority: 0,
            selector: String::new(),
            disabled: false,
            total: 0,
            used: 0,
            reserved: 0,
            free: 0,
            nodes: 0,
            misplaced: 0,
            neutron: Some(NeutronRow {
                network,
                subnet,
                unknown,
            }),
        }
    }

    /// Of a pool that gives nothing to nodes.
    fn cells_of_neutron(&self, neutron: &NeutronRow) -> [String; 11] {
        let none = || "-".to_owned();
        let range = self
            .cidrs
            .first()
            .cloned()
            .unwrap_or_else(|| "unknown".to_owned());
        let what = format!("Neutron {}", neutron.subnet);
        [
            self.name.clone(),
            range,
            none(),
            none(),
            what,
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
        ]
    }
}

#[derive(Serialize)]
struct NodeRow {
    name: String,
    pod_cidrs: Vec<String>,
    field: String,
    pool: String,
    state: String,
    /// Blocks that a person must approve before they are written, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_approval: Vec<String>,
    /// Why the files would not give the node its blocks today.
    #[serde(skip_serializing_if = "Option::is_none")]
    misplaced: Option<String>,
}

#[derive(Serialize)]
struct Items<T> {
    format_version: &'static str,
    items: Vec<T>,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    match (&arguments.what, &arguments.plan) {
        (Some(What::Plan(flags)), _) | (None, Some(flags)) => return show_plan::run(flags, common),
        (None, None) => {
            return Err(Failure::Failed(
                "name a table or a plan file; see `show --help`".to_owned(),
            ));
        }
        (Some(What::Lb(flags)), _) => return show_lb::run(flags, common).await,
        (Some(What::Pools(flags)), _) => {
            let (loaded, observed, plan) = seen(flags, common).await?;
            let of_nodes = pool_use(&loaded.desired, &observed);
            let of_nodes = of_nodes.iter().map(|pool| PoolRow::new(pool, &plan));
            let of_neutron = loaded
                .desired
                .neutron_pools
                .values()
                .map(|pool| PoolRow::of_neutron(pool, &observed));
            pools(flags.output, of_nodes.chain(of_neutron).collect())?;
        }
        (Some(What::Nodes(flags)), _) => {
            let (loaded, observed, plan) = seen(flags, common).await?;
            nodes(flags.output, node_rows(&loaded.desired, &observed, &plan))?;
        }
    }
    Ok(Reached::Done)
}

async fn seen(flags: &Flags, common: &Common) -> Result<(Loaded, Observed, Plan), Failure> {
    let (loaded, observed) =
        read(flags.files.location(), common, Extent::Plan, Reach::Subnets).await?;
    let Some(observed) = observed else {
        return Err(Failure::Invalid(output::diagnostics(
            &loaded,
            common.detail(),
        )));
    };
    let plan = Job::files(&loaded).plan(&observed);
    Ok((loaded, observed, plan))
}

impl PoolRow {
    fn new(pool_use: &PoolUse<'_>, plan: &Plan) -> PoolRow {
        let PoolUse {
            pool,
            family,
            total,
            used,
            reserved,
            free,
            nodes,
            ..
        } = pool_use;
        let of_pool = |one: &&Misplaced| {
            one.pool.as_ref() == Some(&pool.name) && one.block.family() == *family
        };
        let ranges = pool
            .ranges
            .iter()
            .map(|range| range.block)
            .filter(|block| block.family() == *family);
        PoolRow {
            name: pool.name.to_string(),
            family: family.to_string(),
            cidrs: ranges.map(|block| block.to_string()).collect(),
            block_size: pool
                .block_size
                .get(*family)
                .map_or(0, |size| size.prefix_len()),
            priority: pool.priority,
            selector: pool.selector.to_string(),
            disabled: pool.state == PoolState::Disabled,
            total: *total,
            used: *used,
            reserved: *reserved,
            free: *free,
            nodes: *nodes,
            misplaced: plan.misplaced.iter().filter(of_pool).count(),
            neutron: None,
        }
    }
}

fn pools(format: Format, rows: Vec<PoolRow>) -> std::io::Result<()> {
    if format == Format::Json {
        return output::json(&Items {
            format_version: "1.0",
            items: rows,
        });
    }
    let heading = [
        "NAME",
        "CIDRS",
        "BLOCK",
        "PRIORITY",
        "SELECTOR",
        "NODES",
        "TOTAL",
        "USED",
        "RESERVED",
        "FREE",
        "MISPLACED",
    ];
    let cells = |row: &PoolRow| {
        if let Some(neutron) = &row.neutron {
            return row.cells_of_neutron(neutron);
        }
        let name = if row.disabled {
            format!("{} (disabled)", row.name)
        } else {
            row.name.clone()
        };
        let numbers =
            [row.total, row.used, row.reserved, row.free].map(|number| number.to_string());
        let [total, used, reserved, free] = numbers;
        let block = format!("/{}", row.block_size);
        [
            name,
            row.cidrs.join(","),
            block,
            row.priority.to_string(),
            row.selector.clone(),
            row.nodes.to_string(),
            total,
            used,
            reserved,
            free,
            row.misplaced.to_string(),
        ]
    };
    for why in rows
        .iter()
        .filter_map(|row| row.neutron.as_ref()?.unknown.as_ref())
    {
        output::warn(why);
    }
    output::data(&table(heading, &rows.iter().map(cells).collect::<Vec<_>>()))
}

/// What a plan says of nodes.
struct Said<'p> {
    changes: BTreeMap<&'p NodeName, &'p NodeChange>,
    blocked: BTreeMap<&'p NodeName, String>,
    misplaced: BTreeMap<&'p NodeName, Vec<String>>,
}

impl<'p> Said<'p> {
    fn new(plan: &'p Plan) -> Said<'p> {
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
        Said {
            changes: node_changes(&plan.changes)
                .map(|change| (&change.node, change))
                .collect(),
            blocked: plan.blocked.iter().filter_map(reason).collect(),
            misplaced,
        }
    }

    /// Everything at once: a node may get a block of one family while that of the other is
    /// misplaced.
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
    let said = Said::new(plan);
    let row = |node: &Arc<ipam_cilium::observed::Node>| {
        if observed.is_multi_pool() {
            return of_multi_pool(node, observed, said.blocked.get(&node.name));
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
            state: said.state(&node.name),
            needs_approval: said.needs_approval(&node.name),
            misplaced: said
                .misplaced
                .get(&node.name)
                .map(|reasons| reasons.join("; ")),
        }
    };
    observed.nodes.values().map(row).collect()
}

/// There the operator gives what Pods need, of the pools that they ask for.
fn of_multi_pool(
    node: &ipam_cilium::observed::Node,
    observed: &Observed,
    blocked: Option<&String>,
) -> NodeRow {
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

fn planned(after: &[ipam_core::net::Block]) -> String {
    let blocks: Vec<String> = after.iter().map(ToString::to_string).collect();
    format!("will get {}", blocks.join(","))
}

fn nodes(format: Format, rows: Vec<NodeRow>) -> std::io::Result<()> {
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
