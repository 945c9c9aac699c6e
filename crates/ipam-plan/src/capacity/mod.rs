//! How full every supply of addresses is: the pools of the files, Cilium's own pools, the ranges of
//! other allocators, and the pools of LB-IPAM. A view of an observed cluster, with or without files.
//!
//! It decides nothing, and never reads a clock: an observation has its time.

mod address_pools;
mod document;
mod outside;
mod own_pools;
mod supplies;
#[cfg(test)]
mod tests;
mod time_left;
pub mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use crate::plan::{BlockCounts, Plan};
use ipam_cilium::observed::Observed;
use ipam_core::model::{NodeName, PoolName, grouped_digits};
use ipam_core::net::{Block, BlockSize, Family, Range};
use ipam_desired::Desired;

pub use document::{
    CapacityDocument, NextDocument, OutsideDocument, RowDocument, UnknownDocument, WaitingDocument,
};
pub use outside::outside_best_pool;
pub(crate) use own_pools::rows as own_rows;
pub use supplies::{NextBlock, Supply, refused, supplies};
pub use time_left::TimeLeft;
pub use waiting::{Waiting, usable_addresses};

/// How full the supplies of a cluster are.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// The supplies whose size is known.
    pub rows: Vec<Row>,
    /// The supplies whose size or use is unknown.
    pub unknown: Vec<Unknown>,
    /// What the next new node gets, where one allocator gives all nodes their blocks in a known order.
    pub next: Vec<NextBlock>,
    /// Nodes that lack a block.
    pub waiting: Vec<Waiting>,
    /// Nodes with a block of another pool than their best one, by that one.
    pub outside: BTreeMap<PoolName, Vec<NodeName>>,
}

/// A supply and a family.
#[derive(Clone, Debug)]
pub struct Row {
    pub of: Supplier,
    pub family: Family,
    pub ranges: Vec<Range>,
    /// The size of its blocks; `None` if it gives single addresses.
    pub size: Option<BlockSize>,
    pub counts: BlockCounts,
    /// The longest run of addresses that nothing uses or keeps free.
    pub longest_free: Option<Range>,
    /// The nodes that have a block of it.
    pub holders: BTreeSet<NodeName>,
    pub time_left: TimeLeft,
}

/// A supply whose size or use is unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unknown {
    pub of: Supplier,
    pub family: Option<Family>,
    /// Why, as a clause.
    pub why: String,
}

/// Who gives addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Supplier {
    /// A pool of the files.
    Pool(PoolName),
    /// The operator of Cilium, in ipam `cluster-pool`.
    ClusterPool,
    /// A program that assigns `spec.podCIDRs` of Nodes, by its name.
    Allocator(String),
    /// A `CiliumPodIPPool`, by its name.
    PodPool(String),
    /// A `CiliumLoadBalancerIPPool`, by its name.
    AddressPool(String),
    /// The IPAM mode of Cilium, if nothing is known of its supply.
    Cilium,
}

impl Supplier {
    /// The kind of object or program.
    pub fn kind(&self) -> &'static str {
        match self {
            Supplier::Pool(_) => "IPPool",
            Supplier::ClusterPool => "cluster-pool",
            Supplier::Allocator(_) => "cluster CIDR",
            Supplier::PodPool(_) => "CiliumPodIPPool",
            Supplier::AddressPool(_) => "CiliumLoadBalancerIPPool",
            Supplier::Cilium => "ipam",
        }
    }

    /// Its name; empty if the kind says all.
    pub fn name(&self) -> &str {
        match self {
            Supplier::Pool(name) => name.as_str(),
            Supplier::Allocator(name) | Supplier::PodPool(name) | Supplier::AddressPool(name) => {
                name
            }
            Supplier::ClusterPool | Supplier::Cilium => "",
        }
    }
}

impl fmt::Display for Supplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Supplier::Pool(name) => write!(f, "pool `{name}`"),
            Supplier::ClusterPool => f.write_str("Cilium's cluster pool"),
            Supplier::Allocator(name) => write!(f, "the cluster CIDR of {}", name.escape_debug()),
            Supplier::PodPool(name) | Supplier::AddressPool(name) => {
                write!(f, "{} `{}`", self.kind(), name.escape_debug())
            }
            Supplier::Cilium => f.write_str("Cilium's IPAM mode"),
        }
    }
}

impl Row {
    /// Blocks or addresses that are not kept free of nodes.
    pub fn usable(&self) -> u128 {
        self.counts.total.saturating_sub(self.counts.reserved)
    }

    /// Percentage of the usable blocks or addresses that is in use, rounded down.
    pub fn percent(&self) -> u128 {
        let used = self.counts.used.saturating_mul(100);
        used.checked_div(self.usable()).unwrap_or(100)
    }

    /// `4 of 252 blocks`, without what is kept free of nodes.
    pub fn used_of_usable(&self) -> String {
        let what = match self.size {
            Some(_) => "blocks",
            None => "addresses",
        };
        let [used, usable] = [self.counts.used, self.usable()].map(grouped_digits);
        format!("{used} of {usable} {what}")
    }

    pub fn is_full(&self) -> bool {
        self.counts.free == 0
    }
}

/// The capacity of a cluster, without the time left. With files, their pools are part of it, and the
/// plan says why nodes wait.
pub fn capacity(observed: &Observed, files: Option<(&Desired, &Plan)>) -> Capacity {
    let mut capacity = Capacity::default();
    if let Some((desired, _)) = files {
        capacity.rows.extend(own_pools::rows(desired, observed));
        capacity.outside = outside_best_pool(desired, observed);
    }
    for supply in supplies(observed) {
        match supply {
            Ok(supply) => {
                capacity.next.extend(supply.next());
                capacity.rows.push(supply.row());
            }
            Err(unknown) => capacity.unknown.push(unknown),
        }
    }
    match address_pools::rows(observed) {
        Ok(rows) => capacity.rows.extend(rows),
        Err(unknown) => capacity.unknown.push(unknown),
    }
    let plan = files.map(|(_, plan)| plan);
    capacity.waiting = waiting::nodes(observed, &capacity.rows, plan);
    capacity
}

impl Capacity {
    /// Adds the time left, estimated from node creation times.
    #[must_use]
    pub fn with_time_left(mut self, observed: &Observed) -> Capacity {
        for row in &mut self.rows {
            row.time_left = TimeLeft::of(row, |name| created(observed, name), observed.at);
        }
        self
    }

    /// With the trend of earlier observations in place of the creation of nodes.
    #[must_use]
    pub fn with_trend(mut self, earlier: &[(Timestamp, Capacity)], now: Timestamp) -> Capacity {
        for row in &mut self.rows {
            let is_same = |other: &&Row| other.of == row.of && other.family == row.family;
            let used = earlier.iter().filter_map(|(time, capacity)| {
                let before = capacity.rows.iter().find(is_same)?;
                Some((*time, before.counts.used))
            });
            let used: Vec<_> = used.chain([(now, row.counts.used)]).collect();
            row.time_left = TimeLeft::by_trend(&used, row.counts.free);
        }
        self
    }
}

/// When a node was created; `None` if it is gone, or if that cannot be read.
fn created(observed: &Observed, name: &NodeName) -> Option<Timestamp> {
    observed.nodes.get(name)?.created.parse().ok()
}

/// Blocks as ranges.
fn ranges_of(blocks: &[Block]) -> Vec<Range> {
    blocks.iter().map(|block| block.range()).collect()
}
