//! `show pools`: each pool with its number of blocks.

use serde::Serialize;

use super::failure::Failure;
use super::show::{Flags, Items, read_and_plan};
use super::{Common, Format, output};
use crate::render::{grouped_digits, natural_order, table};
use ipam_cilium::observed::Observed;
use ipam_desired::{NeutronPool, PoolState};
use ipam_planner::openstack::SubnetPools;
use ipam_planner::plan::{Misplaced, Plan, PoolUse, pool_use};

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
    /// Number of misplaced blocks of this family.
    misplaced: usize,
    /// Set if the pool is a subnet of Neutron. Such a pool has no blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    neutron: Option<NeutronRow>,
}

#[derive(Serialize)]
struct NeutronRow {
    network: String,
    subnet: String,
    /// Why its addresses are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
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

    fn of_neutron(pool: &NeutronPool, observed: &Observed) -> PoolRow {
        let range = SubnetPools::range(pool, observed);
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

    fn cells(&self) -> [String; 11] {
        if let Some(neutron) = &self.neutron {
            return self.cells_of_neutron(neutron);
        }
        let name = if self.disabled {
            format!("{} (disabled)", self.name)
        } else {
            self.name.clone()
        };
        let numbers = [self.total, self.used, self.reserved, self.free];
        let [total, used, reserved, free] = numbers.map(grouped_digits);
        [
            name,
            self.cidrs.join(","),
            format!("/{}", self.block_size),
            self.priority.to_string(),
            self.selector.clone(),
            grouped_digits(self.nodes),
            total,
            used,
            reserved,
            free,
            grouped_digits(self.misplaced),
        ]
    }

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

pub(super) async fn run(flags: &Flags, common: &Common) -> Result<(), Failure> {
    let (loaded, observed, plan) = read_and_plan(flags, common).await?;
    let of_nodes = pool_use(&loaded.desired, &observed);
    let of_nodes = of_nodes.iter().map(|pool| PoolRow::new(pool, &plan));
    let of_neutron = loaded
        .desired
        .neutron_pools
        .values()
        .map(|pool| PoolRow::of_neutron(pool, &observed));
    Ok(print(flags.output, of_nodes.chain(of_neutron).collect())?)
}

fn print(format: Format, mut rows: Vec<PoolRow>) -> std::io::Result<()> {
    if format == Format::Json {
        return output::json(&Items {
            format_version: "1.0",
            items: rows,
        });
    }
    rows.sort_by(|a, b| natural_order(&a.name, &b.name));
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
    for why in rows
        .iter()
        .filter_map(|row| row.neutron.as_ref()?.unknown.as_ref())
    {
        output::warn(why);
    }
    output::data(&table(
        heading,
        &rows.iter().map(PoolRow::cells).collect::<Vec<_>>(),
    ))
}
