//! Protected nodes and pools: their pods are not disturbed.

use std::collections::BTreeSet;

use super::{Refusal, disturbed, ports};
use crate::plan::change::{Action, Change, NodeChange, Reason, node_changes};
use ipam_cilium::observed::{Observed, Protection};
use ipam_core::model::{AddressPoolName, Hazard, NodeName, PoolName, Rule};
use ipam_core::net::{Block, RangeIndex};
use ipam_desired::Desired;

const UNPROTECT: &str = "remove the protection first, in a change of its own";

fn is_disruptive(change: &NodeChange) -> bool {
    change.hazard != Hazard::None || change.action == Action::Release
}

pub(super) fn of_nodes(changes: &[Change], desired: &Desired, observed: &Observed) -> Vec<Refusal> {
    let by_itself = |node: &NodeName| {
        observed
            .nodes
            .get(node)
            .is_some_and(|node| node.protection == Protection::Protected)
    };
    let by_policy = |node: &NodeName| desired.policy.protected.nodes.contains(node);
    let refusal = |(node, what, help): (&NodeName, String, &str)| {
        let by = if by_policy(node) {
            ""
        } else {
            " by its annotation cilium-ipam.io/protected"
        };
        Refusal {
            rule: Rule("protected-node"),
            message: format!("node `{node}` would {what}, and is protected{by}"),
            help: help.to_owned(),
            waiver: None,
        }
    };
    let concerned = node_changes(changes).filter(|change| is_disruptive(change));
    let concerned = concerned.map(|change| (&change.node, harm(change), way_out(change)));
    let disturbed = disturbed(changes).map(|node| (node, "take addresses of another pool"));
    let cut_off = ports(changes).filter(|change| !change.removed.is_empty());
    let cut_off = cut_off.map(|change| (&change.node, "allow fewer addresses on its port"));
    let others = disturbed.chain(cut_off);
    concerned
        .chain(others.map(|(node, what)| (node, what.to_owned(), UNPROTECT)))
        .filter(|(node, ..)| by_policy(node) || by_itself(node))
        .map(refusal)
        .collect()
}

/// What the change would do to its node.
fn harm(change: &NodeChange) -> String {
    let blocks = |blocks: &[Block]| {
        let texts: Vec<String> = blocks.iter().map(Block::to_string).collect();
        texts.join(" ")
    };
    match (change.action, &change.reason) {
        (Action::Release, _) => "lose its block".to_owned(),
        (_, Reason::MovedByPin { from }) => {
            format!("move from {from} to {}", blocks(&change.after))
        }
        _ => "need a restart of its agent".to_owned(),
    }
}

/// A pin is the only cause of a move, and easier to remove than the protection.
fn way_out(change: &NodeChange) -> &'static str {
    match (change.action, &change.reason) {
        (Action::Update | Action::Assign, Reason::MovedByPin { .. }) => {
            "remove the pin, and the node keeps its block; if it is to move, first remove the protection, in a change of its own"
        }
        _ => UNPROTECT,
    }
}

pub(super) fn of_pools(
    changes: &[&NodeChange],
    desired: &Desired,
    observed: &Observed,
) -> Vec<Refusal> {
    let protected = &desired.policy.protected.pools;
    let refusal = |message: String, help: &str| Refusal {
        rule: Rule("protected-pool"),
        message,
        help: format!("{help}remove the protection first, in a change of its own"),
        waiver: None,
    };
    let is_declared = |pool: &PoolName| {
        desired.pools.contains_key(pool) || desired.neutron_pools.contains_key(pool)
    };
    let balancers = desired.address_pools.keys();
    let balancers: BTreeSet<&str> = balancers.map(AddressPoolName::as_str).collect();
    let is_balancer = |pool: &PoolName| balancers.contains(pool.as_str());
    let gone = protected
        .iter()
        .filter(|pool| !is_declared(pool) && !is_balancer(pool));
    let gone = gone.map(|pool| {
        refusal(
            format!("pool `{pool}` is protected, and no file declares it"),
            "bring it back, or ",
        )
    });
    let by_address = RangeIndex::new(protected.iter().flat_map(|name| {
        let ranges = desired
            .pools
            .get(name)
            .into_iter()
            .flat_map(|pool| &pool.ranges);
        ranges.map(move |range| (range.block.range(), (range.block, name)))
    }));
    let held = |change: &NodeChange| {
        let node = observed.nodes.get(&change.node);
        let shown = node.into_iter().flat_map(|node| &node.shown).copied();
        let around = shown.flat_map(|block| {
            let overlapping = by_address.overlapping(&block.range());
            overlapping.filter(move |(_, (cidr, _))| cidr.contains(block))
        });
        around.map(|(_, (_, name))| *name).min()
    };
    let hit = changes.iter().filter(|change| is_disruptive(change));
    let hit = hit.filter_map(|change| {
        let own = change.pool.as_ref().and_then(|pool| protected.get(pool));
        Some((change, own.into_iter().chain(held(change)).min()?))
    });
    let hit = hit.map(|(change, pool)| {
        let message = format!(
            "node `{}` has or would get a block of pool `{pool}`, which is protected, and its pods would be disturbed",
            change.node
        );
        refusal(message, "")
    });
    gone.chain(hit).collect()
}
