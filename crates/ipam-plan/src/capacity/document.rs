//! The capacity of a cluster as JSON.

use serde::Serialize;

use super::{Capacity, NextBlock, Row, TimeLeft, Unknown, Waiting};
use ipam_core::model::{NodeName, PoolName, grouped_digits};

/// Output of `capacity -o json`.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityDocument {
    format_version: &'static str,
    /// The supplies whose size is known: pools of the files, Cilium's own pools, ranges of other
    /// allocators, and pools of LoadBalancer addresses.
    pub rows: Vec<RowDocument>,
    /// The range of each family from which the next new node gets its block.
    pub next: Vec<NextDocument>,
    /// Nodes that lack a block.
    pub waiting: Vec<WaitingDocument>,
    /// Nodes outside their best pool.
    pub outside: Vec<OutsideDocument>,
    /// Supplies whose size or use is unknown.
    pub unknown: Vec<UnknownDocument>,
}

/// A supply and a family. Counts are blocks, or addresses without `block_size`.
#[derive(Clone, Debug, Serialize)]
pub struct RowDocument {
    /// `IPPool`, `cluster-pool`, `cluster CIDR`, `CiliumPodIPPool` or `CiliumLoadBalancerIPPool`.
    pub kind: &'static str,
    /// The name of the object or program; empty for `cluster-pool`.
    pub name: String,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// CIDRs, or `FIRST-LAST`.
    pub ranges: Vec<String>,
    /// Prefix length of a block; null if single addresses are given.
    pub block_size: Option<u8>,
    pub total: u128,
    /// Held by nodes or pinned; of LoadBalancer pools, held by Services or reserved.
    pub used: u128,
    /// Kept free of nodes.
    pub reserved: u128,
    pub free: u128,
    /// `used` as a percentage of what is not reserved, rounded down.
    pub used_percent: u128,
    /// The longest run of addresses that nothing uses or keeps free: a CIDR, or `FIRST-LAST`.
    pub longest_free: Option<String>,
    /// Number of nodes with a block of it.
    pub nodes: usize,
    /// Days until it is full: a lower bound by the creation of nodes, or the trend of `--since`. Null
    /// without growth, or if too little is known.
    pub days_left: Option<u64>,
    /// The same in words.
    pub time_left: String,
}

/// The next block of a family for a new node.
#[derive(Clone, Debug, Serialize)]
pub struct NextDocument {
    pub kind: &'static str,
    pub name: String,
    pub family: String,
    /// The first range with a free block; null if all are full.
    pub range: Option<String>,
}

/// A node that lacks a block.
#[derive(Clone, Debug, Serialize)]
pub struct WaitingDocument {
    pub node: String,
    pub families: Vec<String>,
    pub why: String,
}

/// The nodes whose best pool this is, and that have a block of another pool.
#[derive(Clone, Debug, Serialize)]
pub struct OutsideDocument {
    /// The best pool of the nodes.
    pub pool: String,
    pub nodes: Vec<String>,
}

/// A supply whose size or use is unknown.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownDocument {
    pub kind: &'static str,
    pub name: String,
    /// Null if it is about both families.
    pub family: Option<String>,
    pub why: String,
}

impl CapacityDocument {
    pub fn new(capacity: &Capacity) -> CapacityDocument {
        CapacityDocument {
            format_version: "1.0",
            rows: capacity.rows.iter().map(RowDocument::new).collect(),
            next: capacity.next.iter().map(NextDocument::new).collect(),
            waiting: capacity.waiting.iter().map(WaitingDocument::new).collect(),
            outside: capacity.outside.iter().map(OutsideDocument::new).collect(),
            unknown: capacity.unknown.iter().map(UnknownDocument::new).collect(),
        }
    }
}

impl RowDocument {
    fn new(row: &Row) -> RowDocument {
        RowDocument {
            kind: row.of.kind(),
            name: row.of.name().to_owned(),
            family: row.family.to_string(),
            ranges: row.ranges.iter().map(ToString::to_string).collect(),
            block_size: row.size.map(|size| size.prefix_len()),
            total: row.counts.total,
            used: row.counts.used,
            reserved: row.counts.reserved,
            free: row.counts.free,
            used_percent: row.percent(),
            longest_free: row.longest_free.as_ref().map(ToString::to_string),
            nodes: row.holders.len(),
            days_left: match row.time_left {
                TimeLeft::None => Some(0),
                TimeLeft::AtLeastDays(days) | TimeLeft::Days(days) => Some(days),
                TimeLeft::NoGrowth | TimeLeft::Unknown => None,
            },
            time_left: row.time_left.to_string(),
        }
    }

    /// `4 of 252 IPv4 blocks`.
    pub fn used_of_usable(&self) -> String {
        let usable = self.total.saturating_sub(self.reserved);
        let [used, usable] = [self.used, usable].map(grouped_digits);
        let unit = match self.block_size {
            Some(_) => "blocks",
            None => "addresses",
        };
        format!("{used} of {usable} {} {unit}", self.family)
    }
}

impl NextDocument {
    fn new(next: &NextBlock) -> NextDocument {
        NextDocument {
            kind: next.of.kind(),
            name: next.of.name().to_owned(),
            family: next.family.to_string(),
            range: next.range.as_ref().map(ToString::to_string),
        }
    }
}

impl WaitingDocument {
    fn new(waiting: &Waiting) -> WaitingDocument {
        WaitingDocument {
            node: waiting.node.to_string(),
            families: waiting.families.iter().map(ToString::to_string).collect(),
            why: waiting.why.clone(),
        }
    }
}

impl OutsideDocument {
    fn new((pool, nodes): (&PoolName, &Vec<NodeName>)) -> OutsideDocument {
        OutsideDocument {
            pool: pool.to_string(),
            nodes: nodes.iter().map(ToString::to_string).collect(),
        }
    }
}

impl UnknownDocument {
    fn new(unknown: &Unknown) -> UnknownDocument {
        UnknownDocument {
            kind: unknown.of.kind(),
            name: unknown.of.name().to_owned(),
            family: unknown.family.map(|family| family.to_string()),
            why: unknown.why.clone(),
        }
    }
}
