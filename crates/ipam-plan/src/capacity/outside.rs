//! Nodes with a block of another pool than the best one that selects them.

use std::collections::BTreeMap;

use crate::plan::{Candidates, supply};
use ipam_cilium::observed::Observed;
use ipam_core::alloc::{AllocationMode, PoolId};
use ipam_core::model::{NodeName, PoolName};
use ipam_desired::Desired;

/// The nodes outside each pool that is their best one. Disabled pools, pinned nodes and blocks in no
/// pool do not count. In ipam `multi-pool` Pods choose pools, so there are no such nodes.
pub fn outside_best_pool(
    desired: &Desired,
    observed: &Observed,
) -> BTreeMap<PoolName, Vec<NodeName>> {
    let mut outside: BTreeMap<PoolName, Vec<NodeName>> = BTreeMap::new();
    if observed.is_multi_pool() {
        return outside;
    }
    let supply = supply(desired);
    let mut candidates = Candidates::new(desired, &supply);
    let gives = |id: &&PoolId| supply.pool(**id).mode() == AllocationMode::New;
    let nodes = observed.nodes.values();
    for node in nodes.filter(|node| !desired.pins.contains_key(&node.name)) {
        let Some(best) = candidates.of(node).iter().find(gives).copied() else {
            continue;
        };
        let pool = supply.pool(best);
        let held = observed.holds(node);
        let blocks = held.iter().map(|holding| holding.block);
        let mut owners = blocks
            .filter(|block| pool.has(block.family()))
            .filter_map(|block| supply.pool_of(block));
        if owners.any(|owner| owner != best) {
            let nodes = outside.entry(pool.name().clone()).or_default();
            nodes.push(node.name.clone());
        }
    }
    outside
}
