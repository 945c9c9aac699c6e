//! Protected nodes and pools: their pods are not disturbed.

use super::{Refusal, disturbed, ports};
use crate::plan::change::{Action, Change, NodeChange, node_changes};
use ipam_cilium::observed::{Observed, Protection};
use ipam_core::model::{Hazard, NodeName, PoolName, Rule};
use ipam_desired::Desired;

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
    let refusal = |(node, what): (&NodeName, &str)| {
        let by = if by_policy(node) {
            ""
        } else {
            " by its annotation cilium-ipam.io/protected"
        };
        Refusal {
            rule: Rule("protected-node"),
            message: format!("node `{node}` would {what}, and is protected{by}"),
            help: "remove the protection first, in a change of its own".to_owned(),
            waiver: None,
        }
    };
    let concerned = node_changes(changes)
        .filter(|change| is_disruptive(change))
        .map(|change| {
            let what = if change.action == Action::Release {
                "lose its block"
            } else {
                "need a restart of its agent"
            };
            (&change.node, what)
        });
    let disturbed = disturbed(changes).map(|node| (node, "take addresses of another pool"));
    let cut_off = ports(changes).filter(|change| !change.removed.is_empty());
    let cut_off = cut_off.map(|change| (&change.node, "allow fewer addresses on its port"));
    concerned
        .chain(disturbed)
        .chain(cut_off)
        .filter(|(node, _)| by_policy(node) || by_itself(node))
        .map(refusal)
        .collect()
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
    let is_balancer = |pool: &PoolName| {
        desired
            .address_pools
            .keys()
            .any(|name| name.as_str() == pool.as_str())
    };
    let gone = protected
        .iter()
        .filter(|pool| !is_declared(pool) && !is_balancer(pool));
    let gone = gone.map(|pool| {
        refusal(
            format!("pool `{pool}` is protected, and no file declares it"),
            "bring it back, or ",
        )
    });
    let holds = |change: &NodeChange, pool: &PoolName| {
        let shown = observed
            .nodes
            .get(&change.node)
            .into_iter()
            .flat_map(|node| &node.shown);
        let pool = desired.pools.get(pool);
        shown
            .copied()
            .any(|block| pool.is_some_and(|pool| pool.contains(block)))
    };
    let hit = changes.iter().filter(|change| is_disruptive(change));
    let hit = hit.filter_map(|change| {
        let concerns =
            |pool: &&PoolName| change.pool.as_ref() == Some(*pool) || holds(change, pool);
        Some((change, protected.iter().find(concerns)?))
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
