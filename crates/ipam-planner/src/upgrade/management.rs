//! What the next operator does to the blocks of nodes in ipam `cluster-pool`.

use super::addresses::Told;
use super::change::{Cause, Changes, UpgradeCode, listed};
use super::hop::HopView;
use super::path::with_latest_patch;
use crate::check::shared_slots;
use ipam_cilium::observed::{Node, OperatorAttention};
use ipam_core::model::{IpamMode, ObjectRef};

pub(super) fn judge(hop: &HopView<'_>, told: &mut Told, changes: &mut Changes) {
    if hop.is_mode(IpamMode::ClusterPool) || hop.is_mode(IpamMode::MultiPool) {
        ignored(hop, changes);
    }
    removed(hop, told, changes);
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

/// Later releases remove blocks that share a slot, where older ones set an error. Any start of such
/// an operator does, so each block is told at the first hop that ends at one.
fn removed(hop: &HopView<'_>, told: &mut Told, changes: &mut Changes) {
    let release = with_latest_patch(hop.to);
    for removal in hop.after.removed_at_operator_start(release) {
        let cause = Cause {
            why: format!(
                "when it starts, the operator of Cilium {} removes the {} pod CIDRs of {}: {}",
                hop.to,
                removal.family,
                shared_slots::losers(&removal),
                shared_slots::why(&removal)
            ),
            source: "podcidr.go, reuseIPNets @ Cilium 1.17.15, 1.18.9, 1.19.3 and 1.20.0; cilium#44832; seen on the real operators",
            before: shared_slots::fix(&removal),
        };
        for (name, blocks) in &removal.candidates {
            if !told.removed.insert((name.clone(), removal.family)) {
                continue;
            }
            let effect = format!("may lose {}", listed(blocks));
            let subject = ObjectRef::node(name);
            changes.add(UpgradeCode::BlockRemoved, cause.clone(), subject, effect);
        }
    }
}
