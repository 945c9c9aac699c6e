//! What the next operator does to the blocks of nodes in ipam `cluster-pool`.

use super::change::{Cause, Changes, UpgradeCode, listed};
use super::hop::HopView;
use ipam_cilium::observed::{CiliumNode, Node, OperatorAttention, OperatorBlocks, OperatorRefusal};
use ipam_core::model::{IpamMode, ObjectRef};
use ipam_core::net::Family;

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    if hop.is_mode(IpamMode::ClusterPool) || hop.is_mode(IpamMode::MultiPool) {
        ignored(hop, changes);
    }
    if hop.is_mode(IpamMode::ClusterPool) {
        stripped(hop, changes);
    }
}

fn is_ignored(hop: &HopView<'_>, node: &Node) -> bool {
    let cilium_node = hop.after.cilium_nodes.get(&node.name);
    let attention = cilium_node.map_or(node.attention, |seen| seen.attention);
    attention == OperatorAttention::Ignored
}

/// From 1.18 on the operator skips annotated nodes.
fn ignored(hop: &HopView<'_>, changes: &mut Changes) {
    if !hop.crosses(18) {
        return;
    }
    for node in hop
        .after
        .nodes
        .values()
        .filter(|node| is_ignored(hop, node))
    {
        let cause = Cause {
            why: "the operator of Cilium 1.18 and later skips CiliumNodes with `ipam.cilium.io/ignore: \"true\"`: it gives them no block, and does not reserve the one they have".to_owned(),
            source: "operator/cmd/cilium_node.go @ Cilium 1.18",
            before: "remove the annotation, or move the node's block out of the operator's ranges".to_owned(),
        };
        let blocks = hop.after.pod_blocks_of(&node.name);
        let effect = match &blocks[..] {
            [] => "gets no block from the operator".to_owned(),
            blocks => format!("{} may be given to another node", listed(blocks)),
        };
        let subject = ObjectRef::node(&node.name);
        changes.add(UpgradeCode::NodeManagement, cause, subject, effect);
    }
}

/// From 1.19.3 on the operator takes a duplicate family away from a node with two families.
fn stripped(hop: &HopView<'_>, changes: &mut Changes) {
    if !hop.crosses_patch(19, 3) {
        return;
    }
    let operator_blocks = OperatorBlocks::new(&hop.after);
    for node in hop.after.cilium_nodes.values() {
        for effect in stripped_families(hop, node, &operator_blocks) {
            let cause = Cause {
                why: "the operator of Cilium 1.19.3 and later removes a family from a CiliumNode with two if its block is held by another node; before, it reported an error".to_owned(),
                source: "operator/pkg/ipam/allocator/podcidr @ Cilium 1.19.3; seen on the real operator",
                before: "give one of the nodes another block: `cilium-ipam doctor` names both".to_owned(),
            };
            let subject = ObjectRef {
                kind: "CiliumNode",
                name: node.name.to_string(),
            };
            changes.add(UpgradeCode::NodeManagement, cause, subject, effect);
        }
    }
}

fn stripped_families(
    hop: &HopView<'_>,
    node: &CiliumNode,
    operator_blocks: &OperatorBlocks,
) -> Vec<String> {
    let has = |family: Family| node.pod_cidrs.iter().any(|block| block.family() == family);
    if !Family::BOTH.into_iter().all(has) {
        return Vec::new();
    }
    let taken = |block: &ipam_core::net::Block| {
        let refusal = operator_blocks.cluster_pool_refusal(&hop.after, *block, &node.name)?;
        match refusal {
            OperatorRefusal::Taken(block, other) => {
                Some(format!("may lose {block}, which `{other}` holds as well"))
            }
            _ => None,
        }
    };
    node.pod_cidrs.iter().filter_map(taken).collect()
}
