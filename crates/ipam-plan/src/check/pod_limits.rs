//! Kubelets that accept more Pods than the block of their node has addresses.
//!
//! Pods in the host's network need no address, so a node may never have too many other Pods: the finding
//! is a warning. In ipam `multi-pool`, and with another CNI plugin, no block limits the Pods of a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipam_cilium::observed::{Node, Observed};
use ipam_cilium::pod_addresses::pod_addresses;
use ipam_core::model::{Finding, NodeName, ObjectRef, PoolName, Rule, Severity, named_nodes};
use ipam_core::net::{BlockSize, Family};
use ipam_desired::{Desired, Pool, PoolState};

const RULE: Rule = Rule("pod-limit-over-block");

fn block_limits_pods(observed: &Observed) -> bool {
    observed.is_host_scoped() && observed.chaining_mode().is_none()
}

/// Nodes with a block that is too small, for `doctor`.
pub fn over_held_blocks(observed: &Observed) -> Option<Finding> {
    if !block_limits_pods(observed) {
        return None;
    }
    let mut over = Vec::new();
    let mut fewest = u64::MAX;
    for node in observed.nodes.values() {
        let Some(limit) = node.pod_limit else {
            continue;
        };
        let blocks = observed.pod_blocks_of(&node.name);
        let smallest = blocks
            .iter()
            .min_by_key(|block| pod_addresses(block.size()));
        let Some(block) = smallest.filter(|block| limit > pod_addresses(block.size())) else {
            continue;
        };
        let addresses = pod_addresses(block.size());
        fewest = fewest.min(addresses);
        over.push((
            &node.name,
            format!(
                "Node `{}`: status.allocatable.pods {limit}, and {block} has at most {addresses} addresses for Pods",
                node.name
            ),
        ));
    }
    let names: Vec<&NodeName> = over.iter().map(|(name, _)| *name).collect();
    let (_, further) = names.split_first()?;
    let (noun, accepts, blocks) = match further.is_empty() {
        true => ("kubelet", "accepts", "its block has"),
        false => ("kubelets", "accept", "their blocks have"),
    };
    let message = format!(
        "the {noun} of {} {accepts} more Pods than {blocks} addresses",
        named_nodes(&names)
    );
    let subjects = names.iter().map(|name| ObjectRef::node(name));
    let finding = Finding::new(Severity::Warning, RULE, message).about_all(subjects);
    Some(
        finding
            .seen(over.iter().map(|(_, line)| line.clone()))
            .causes("Pods without hostNetwork beyond that number stay in ContainerCreating: the range is full")
            .help(format!(
                "set `maxPods` of the kubelet to at most {fewest}, or give the node a larger block: use a pool with a shorter `blockSize`, and move the node with `cilium-ipam migrate plan`"
            )),
    )
}

/// Pools that would give nodes blocks that are too small, for plans.
pub(super) fn over_block_size(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if !block_limits_pods(observed) {
        return Vec::new();
    }
    let sizes = desired.pools.values().filter_map(size);
    let fewest = sizes.map(pod_addresses).min().unwrap_or(u64::MAX);
    let mut over: BTreeMap<&PoolName, (u64, Vec<&NodeName>)> = BTreeMap::new();
    let is_high = |node: &&Arc<Node>| node.pod_limit.is_some_and(|limit| limit > fewest);
    for node in observed.nodes.values().filter(is_high) {
        let best = best_pool(desired, node).and_then(|pool| Some((pool, size(pool)?)));
        if let Some((limit, (pool, size))) = node.pod_limit.zip(best)
            && limit > pod_addresses(size)
        {
            let (most, names) = over.entry(&pool.name).or_default();
            *most = limit.max(*most);
            names.push(&node.name);
        }
    }
    let finding = |(name, (most, nodes)): (&PoolName, (u64, Vec<&NodeName>))| {
        let pool = desired.pools.get(name)?;
        let size = size(pool)?;
        let (kubelet, accepts) = match nodes.len() {
            1 => ("the kubelet", "accepts"),
            _ => ("kubelets", "accept"),
        };
        let message = format!(
            "pool `{name}` gives {size} blocks with at most {} addresses for Pods, but {kubelet} of {} {accepts} up to {most}",
            pod_addresses(size),
            named_nodes(&nodes)
        );
        let family = size.family();
        let enough = (1..size.prefix_len()).rev().find_map(|length| {
            let shorter = BlockSize::new(family, length.into()).ok()?;
            (pod_addresses(shorter) >= most).then_some(shorter)
        });
        let shorter = enough.map_or_else(String::new, |size| {
            format!(" of {} or less for new nodes", size.prefix_len())
        });
        let finding = Finding::new(Severity::Warning, RULE, message).about(ObjectRef::pool(name));
        Some(
            finding
                .at(&pool.origin, format!("gives {size}"))
                .help(format!(
                    "set `maxPods` of the kubelet to at most {}, or a `blockSize`{shorter}",
                    pod_addresses(size)
                )),
        )
    };
    over.into_iter().filter_map(finding).collect()
}

/// The size of the pool's blocks with the fewest addresses.
fn size(pool: &Pool) -> Option<BlockSize> {
    let sizes = Family::BOTH.into_iter();
    let sizes = sizes.filter_map(|family| pool.block_size.get(family).copied());
    sizes.min_by_key(|size| pod_addresses(*size))
}

/// The pool that a node gets its block of, if it has room.
fn best_pool<'d>(desired: &'d Desired, node: &Node) -> Option<&'d Pool> {
    let pools = desired.pools.values();
    let matching =
        pools.filter(|pool| pool.state == PoolState::Active && pool.selector.matches(&node.labels));
    matching.min_by(|a, b| Pool::best_first(a, b))
}
