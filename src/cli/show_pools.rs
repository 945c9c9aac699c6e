//! `show pools`: each pool with its number of blocks.

use serde::Serialize;

use super::completions;
use super::failure::Failure;
use super::files::{Names, Revision};
use super::show::{Column, or_dash, print, read_and_plan};
use super::{Common, Format, output};
use crate::render::{by_name, grouped_digits};
use ipam_cilium::observed::Observed;
use ipam_core::alloc::WhenFull;
use ipam_core::model::Origin;
use ipam_desired::{NeutronPool, PoolState};
use ipam_plan::openstack::SubnetPools;
use ipam_plan::plan::{Misplaced, Plan, PoolUse, nodes_by_pool, pool_use};

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Names of pools, and the directory of pools, pins and policy. An argument with a `/` that is
    /// not `pool/NAME`, or that exists on disk, is the directory. Default: all pools, and `pools`.
    #[arg(value_name = "NAME|DIR", add = completions::pools())]
    names: Vec<String>,
    #[command(flatten)]
    revision: Revision,
    /// Output format. `wide` adds the address family, the longest run of free addresses, and the
    /// file.
    #[arg(long, short, value_parser = Format::table(), default_value = "human")]
    output: Format,
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
    when_full: WhenFull,
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
    fn new(pool_use: &PoolUse<'_>, nodes: usize, plan: &Plan) -> PoolRow {
        let PoolUse {
            pool,
            family,
            counts,
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
            when_full: pool.when_full,
            total: counts.total,
            used: counts.used,
            reserved: counts.reserved,
            free: counts.free,
            nodes,
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
            when_full: WhenFull::default(),
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

    fn shown_name(&self) -> String {
        match self.disabled {
            true => format!("{} (disabled)", self.name),
            false => self.name.clone(),
        }
    }

    fn shown_cidrs(&self) -> String {
        match (&self.neutron, self.cidrs.is_empty()) {
            (Some(_), true) => "unknown".to_owned(),
            _ => self.cidrs.join(","),
        }
    }

    fn shown_selector(&self) -> String {
        match &self.neutron {
            Some(neutron) => format!("Neutron {}", neutron.subnet),
            None => self.selector.clone(),
        }
    }

    /// A value that a subnet of Neutron does not have.
    fn of_blocks(&self, value: String) -> String {
        match self.neutron {
            Some(_) => "-".to_owned(),
            None => value,
        }
    }

    /// Blocks in use, as a percentage of what is not reserved, rounded down.
    fn used_percent(&self) -> String {
        let usable = self.total.saturating_sub(self.reserved);
        let used = self.used.saturating_mul(100);
        let percent = used.checked_div(usable).unwrap_or(100);
        format!("{percent} %")
    }

    fn number(&self, number: impl std::fmt::Display) -> String {
        self.of_blocks(grouped_digits(number))
    }
}

pub(super) async fn run(flags: &Flags, common: &Common) -> Result<(), Failure> {
    let names = Names::new("pool", &flags.names);
    let location = names.location(&flags.revision)?;
    let (loaded, observed, plan) = read_and_plan(location, common).await?;
    let of_nodes = pool_use(&loaded.desired, &observed);
    let selected = nodes_by_pool(&loaded.desired, &observed);
    let of_nodes = of_nodes.iter().map(|of_pool| {
        let nodes = selected.get(&of_pool.pool.name).copied();
        PoolRow::new(of_pool, nodes.unwrap_or_default(), &plan)
    });
    let of_neutron = loaded
        .desired
        .neutron_pools
        .values()
        .map(|pool| PoolRow::of_neutron(pool, &observed));
    let rows = named(&names, of_nodes.chain(of_neutron).collect())?;
    if matches!(flags.output, Format::Human | Format::Wide) {
        for row in by_name(&rows, |row| &row.name) {
            let neutron = row.neutron.as_ref();
            if let Some(why) = neutron.and_then(|neutron| neutron.unknown.as_ref()) {
                output::warn(why);
            }
        }
    }
    Ok(print(flags.output, rows, |row| &row.name, &COLUMNS, &WIDE)?)
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

const COLUMNS: [Column<PoolRow>; 12] = [
    ("NAME", PoolRow::shown_name),
    ("CIDRS", PoolRow::shown_cidrs),
    ("BLOCK", |row| row.of_blocks(format!("/{}", row.block_size))),
    ("PRIORITY", |row| row.of_blocks(row.priority.to_string())),
    ("SELECTOR", PoolRow::shown_selector),
    ("NODES", |row| row.number(row.nodes)),
    ("TOTAL", |row| row.number(row.total)),
    ("USED", |row| row.number(row.used)),
    ("RESERVED", |row| row.number(row.reserved)),
    ("FREE", |row| row.number(row.free)),
    ("USE", |row| row.of_blocks(row.used_percent())),
    ("MISPLACED", |row| row.number(row.misplaced)),
];

const WIDE: [Column<PoolRow>; 3] = [
    ("FAMILY", |row| or_dash(&row.family)),
    ("LONGEST FREE", |row| {
        or_dash(row.longest_free.as_deref().unwrap_or_default())
    }),
    ("FILE", |row| {
        let Place { file, line } = &row.origin;
        format!("{file}:{line}")
    }),
];
