//! `show pools`: each pool with its number of blocks.

use serde::Serialize;

use super::failure::Failure;
use super::files::{Names, Revision};
use super::show::{Items, TableFormat, read_and_plan};
use super::{Common, output};
use crate::render::{grouped_digits, natural_order, table};
use ipam_cilium::observed::Observed;
use ipam_core::model::Origin;
use ipam_desired::{NeutronPool, PoolState};
use ipam_planner::openstack::SubnetPools;
use ipam_planner::plan::{Misplaced, Plan, PoolUse, pool_use};

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Names of pools, and the directory of pools, pins and policy. An argument with a `/` that is
    /// not `pool/NAME`, or that exists on disk, is the directory. Default: all pools, and `pools`.
    #[arg(value_name = "NAME|DIR")]
    names: Vec<String>,
    #[command(flatten)]
    revision: Revision,
    /// Output format. `wide` adds the address family, the longest run of free addresses, and the
    /// file.
    #[arg(long, short, value_enum, default_value = "human")]
    output: TableFormat,
}

#[derive(Clone, Serialize)]
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
    /// The longest run of addresses that nothing uses or keeps free: a CIDR, or `FIRST-LAST`.
    longest_free: Option<String>,
    /// The document.
    origin: Place,
    /// Set if the pool is a subnet of Neutron. Such a pool has no blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    neutron: Option<NeutronRow>,
}

/// A place in the files.
#[derive(Clone, Serialize)]
struct Place {
    file: String,
    line: u32,
}

impl From<&Origin> for Place {
    fn from(origin: &Origin) -> Place {
        Place {
            file: origin.file.to_string(),
            line: origin.line,
        }
    }
}

#[derive(Clone, Serialize)]
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
            longest_free,
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
            longest_free: longest_free.as_ref().map(ToString::to_string),
            origin: Place::from(&pool.origin),
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
            longest_free: None,
            origin: Place::from(&pool.origin),
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

    fn wide_cells(&self) -> [String; 14] {
        let [a, b, c, d, e, f, g, h, i, j, k] = self.cells();
        let or_dash = |text: &str| match text.is_empty() {
            true => "-".to_owned(),
            false => text.to_owned(),
        };
        let Place { file, line } = &self.origin;
        let free = self.longest_free.as_deref().unwrap_or_default();
        let added = [
            or_dash(&self.family),
            or_dash(free),
            format!("{file}:{line}"),
        ];
        let [l, m, n] = added;
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n]
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
    let names = Names::new("pool", &flags.names);
    let location = names.location(&flags.revision)?;
    let (loaded, observed, plan) = read_and_plan(location, common).await?;
    let of_nodes = pool_use(&loaded.desired, &observed);
    let of_nodes = of_nodes.iter().map(|pool| PoolRow::new(pool, &plan));
    let of_neutron = loaded
        .desired
        .neutron_pools
        .values()
        .map(|pool| PoolRow::of_neutron(pool, &observed));
    let rows = named(&names, of_nodes.chain(of_neutron).collect())?;
    Ok(print(flags.output, rows)?)
}

/// The rows of the named pools, in the order of the names; all rows without a name. A dual-stack
/// pool has two rows. Fails if a name is unknown.
fn named(names: &Names<'_>, rows: Vec<PoolRow>) -> Result<Vec<PoolRow>, Failure> {
    if names.names.is_empty() {
        return Ok(rows);
    }
    let mut named = Vec::new();
    for name in &names.names {
        let before = named.len();
        named.extend(rows.iter().filter(|row| row.name == *name).cloned());
        if named.len() == before {
            return Err(names.unknown(name, rows.iter().map(|row| row.name.as_str())));
        }
    }
    Ok(named)
}

const HEADING: [&str; 11] = [
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

const WIDE_HEADING: [&str; 14] = [
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
    "FAMILY",
    "LONGEST FREE",
    "FILE",
];

fn print(format: TableFormat, mut rows: Vec<PoolRow>) -> std::io::Result<()> {
    let items = |rows| Items {
        format_version: "1.1",
        items: rows,
    };
    let is_wide = match format {
        TableFormat::Json => return output::json(&items(rows)),
        TableFormat::Yaml => return output::yaml(&items(rows)),
        TableFormat::Human => false,
        TableFormat::Wide => true,
    };
    rows.sort_by(|a, b| natural_order(&a.name, &b.name));
    for why in rows
        .iter()
        .filter_map(|row| row.neutron.as_ref()?.unknown.as_ref())
    {
        output::warn(why);
    }
    output::data(&match is_wide {
        true => table(
            WIDE_HEADING,
            &rows.iter().map(PoolRow::wide_cells).collect::<Vec<_>>(),
        ),
        false => table(
            HEADING,
            &rows.iter().map(PoolRow::cells).collect::<Vec<_>>(),
        ),
    })
}
