//! The pools of the files, and the nodes that have a block of each.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Supplier, TimeLeft};
use crate::plan::{PoolUse, holders, pool_use};
use ipam_cilium::observed::Observed;
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::Family;
use ipam_desired::Desired;

pub(crate) fn rows(desired: &Desired, observed: &Observed) -> Vec<Row> {
    let mut by_pool: BTreeMap<(PoolName, Family), BTreeSet<NodeName>> = BTreeMap::new();
    let supply = crate::plan::supply(desired);
    for (pool, node, block) in holders(&supply, observed) {
        let nodes = by_pool.entry((pool.clone(), block.family())).or_default();
        nodes.insert(node.clone());
    }
    let row = |used: PoolUse<'_>| {
        let PoolUse {
            pool,
            family,
            counts,
            longest_free,
            ..
        } = used;
        let ranges = pool.ranges.iter().map(|range| range.block.range());
        Row {
            of: Supplier::Pool(pool.name.clone()),
            family,
            ranges: ranges.filter(|range| range.family() == family).collect(),
            size: pool.block_size.get(family).copied(),
            counts,
            longest_free,
            holders: by_pool
                .remove(&(pool.name.clone(), family))
                .unwrap_or_default(),
            time_left: TimeLeft::Unknown,
        }
    };
    pool_use(desired, observed).into_iter().map(row).collect()
}
