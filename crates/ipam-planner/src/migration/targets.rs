//! The blocks that the files would give to nodes that hold none: where the nodes move to.
//!
//! It imagines a cluster in which these nodes hold nothing and their blocks are taken, and plans
//! for it. So a node moves to exactly what a plan would give it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::{BlockedReason, Change, Plan, Target, node_config_name, plan};
use ipam_cilium::observed::{ModeSeen, NodeConfig, NodeConfigs, Observed};
use ipam_core::model::{IpamMode, NodeName, PerFamily, PoolName, WritePath, WritePathChoice};
use ipam_core::net::Block;
use ipam_desired::{Desired, Pin};

/// What the files would give a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewBlocks {
    pub(super) pool: PoolName,
    pub(super) blocks: PerFamily<Block>,
}

/// The new blocks of each node, or why it gets none. `kept` are blocks that a node keeps, such as
/// those of the family that is not misplaced.
pub(super) fn targets(
    desired: &Desired,
    observed: &Observed,
    kept: &BTreeMap<NodeName, Option<(PoolName, PerFamily<Block>)>>,
) -> BTreeMap<NodeName, Result<NewBlocks, BlockedReason>> {
    let mut imagined = observed.clone();
    let mut wanted = desired.clone();
    wanted.policy.write_path = WritePathChoice::Forced(match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::ClusterPool) => WritePath::CiliumNode,
        _ => WritePath::NodeSpec,
    });
    forget_settings(&mut imagined, kept.keys());
    for (node, kept) in kept {
        forget(&mut imagined, node);
        if let (Some((pool, blocks)), false) = (kept, wanted.pins.contains_key(node)) {
            let origin = desired.pools.get(pool).map(|pool| pool.origin.clone());
            wanted.pins.extend(origin.map(|origin| {
                let pin = Pin {
                    node: node.clone(),
                    pool: pool.clone(),
                    blocks: *blocks,
                    origin,
                };
                (node.clone(), pin)
            }));
        }
    }
    let plan = plan(&wanted, &imagined, Vec::new());
    read(plan, kept.keys())
}

fn read<'n>(
    plan: Plan,
    nodes: impl Iterator<Item = &'n NodeName>,
) -> BTreeMap<NodeName, Result<NewBlocks, BlockedReason>> {
    let mut given = BTreeMap::new();
    for change in plan.changes {
        if let Change::Node(change) = change
            && let Some(pool) = change.pool
        {
            let blocks = change.after.into_iter().collect();
            given.insert(change.node, Ok(NewBlocks { pool, blocks }));
        }
    }
    for blocked in plan.blocked {
        if let Target::Node(node) = blocked.target {
            given.insert(node, Err(blocked.reason));
        }
    }
    nodes
        .filter_map(|node| Some((node.clone(), given.remove(node)?)))
        .collect()
}

/// Removes what a node holds. Its blocks stay taken.
fn forget(imagined: &mut Observed, name: &NodeName) {
    if let Some(node) = imagined.nodes.get_mut(name) {
        let node = Arc::make_mut(node);
        imagined.unattributed.append(&mut node.shown);
        node.spec = PerFamily::NONE;
        node.annotation = PerFamily::NONE;
        node.old_annotation = PerFamily::NONE;
        node.unreadable_spec = None;
        node.unreadable_annotation = None;
    }
    if let Some(cilium_node) = imagined.cilium_nodes.remove(name) {
        imagined
            .unattributed
            .extend(cilium_node.pod_cidrs.iter().copied());
        imagined
            .unattributed
            .extend(cilium_node.near.iter().copied());
    }
}

/// Removes the settings that moved the nodes before. Their blocks stay taken.
fn forget_settings<'n>(imagined: &mut Observed, nodes: impl Iterator<Item = &'n NodeName>) {
    let names: BTreeSet<String> = nodes.map(node_config_name).collect();
    let (forgotten, others): (Vec<NodeConfig>, Vec<NodeConfig>) = imagined
        .node_configs
        .iter()
        .cloned()
        .partition(|config| names.contains(&config.name));
    if forgotten.is_empty() {
        return;
    }
    let ranges = forgotten.iter().flat_map(NodeConfig::ranges);
    imagined.unattributed.extend(ranges);
    imagined.node_configs = NodeConfigs::new(others);
}
