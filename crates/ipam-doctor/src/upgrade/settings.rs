//! Settings that the next release no longer reads.
//!
//! What changes for the files: the field to which `cilium-ipam` writes blocks.
//!
//! What the next operator does to the blocks of nodes in ipam `cluster-pool`.

use super::addresses::Told;
use super::change::{Cause, Changes, FileEdit, UpgradeCode, listed};
use super::{HopView, with_latest_patch};
use ipam_cilium::observed::{
    AnnotationKeys, AnnotationReads, Node, OperatorAttention, setting_key,
};
use ipam_core::model::{IpamMode, ObjectRef, WritePath, WritePathChoice};
use ipam_plan::check::shared_slots;

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    if hop.crosses(15) {
        tunnel(hop, changes);
        mode(hop, changes);
    }
}

fn setting<'h>(hop: &'h HopView<'_>, key: &str) -> Option<&'h str> {
    hop.before.common_setting(key).map(|setting| setting.value)
}

fn cilium_config() -> ObjectRef {
    ObjectRef {
        kind: "ConfigMap",
        name: "cilium-config".to_owned(),
    }
}

/// `tunnel` gave way to `routing-mode` and `tunnel-protocol`, which exist from 1.14 on.
fn tunnel(hop: &HopView<'_>, changes: &mut Changes) {
    let Some(value) = setting(hop, setting_key::TUNNEL) else {
        return;
    };
    let (effect, wanted) = match value {
        "disabled" if setting(hop, setting_key::ROUTING_MODE).is_none() => (
            "Pods are routed through tunnels instead of natively",
            "routing-mode: native",
        ),
        "geneve" => (
            "tunnels use VXLAN instead of Geneve",
            "tunnel-protocol: geneve",
        ),
        _ => return,
    };
    let cause = Cause {
        why: "Cilium 1.15 and later do not read `tunnel`".to_owned(),
        source: "Cilium 1.15.19, Documentation/operations/upgrade.rst",
        before: format!("at 1.14, set `{wanted}` in cilium-config instead of `tunnel: {value}`"),
    };
    changes.add(
        UpgradeCode::Setting,
        cause,
        cilium_config(),
        effect.to_owned(),
    );
}

fn mode(hop: &HopView<'_>, changes: &mut Changes) {
    if setting(hop, setting_key::IPAM) != Some(IpamMode::V2BETA) {
        return;
    }
    let cause = Cause {
        why: format!("the IPAM mode `{}` ends with 1.14", IpamMode::V2BETA),
        source: "pkg/ipam/option/option.go @ Cilium 1.15.19",
        before: "move the nodes to `cluster-pool` or `multi-pool`: Cilium has no migration, so re-create the nodes".to_owned(),
    };
    let effect = "agents and operator fail to start".to_owned();
    changes.add(UpgradeCode::Setting, cause, cilium_config(), effect);
}

pub(super) fn judge_write_path(hop: &HopView<'_>, changes: &mut Changes) {
    let Some(desired) = hop.desired else { return };
    let choice = desired.policy.write_path;
    if choice == WritePathChoice::Forced(WritePath::NodeAnnotation) {
        annotations(hop, changes);
    }
    let has_pools = !desired.pools.is_empty();
    if has_pools && hop.is_mode(IpamMode::MultiPool) && hop.crosses(15) {
        let cause = Cause {
            why: "from 1.15 on `multi-pool` has a default pool for each node, so pools of the files become CiliumPodIPPools and CiliumNodeConfigs".to_owned(),
            source: "pkg/option/config.go @ Cilium 1.15.19",
            before: "nothing; run `cilium-ipam plan` after the hop".to_owned(),
        };
        let effect = "is no longer blocked".to_owned();
        for name in desired.pools.keys() {
            let subject = ObjectRef::pool(name);
            changes.add(
                UpgradeCode::WritePath,
                cause.clone(),
                subject,
                effect.clone(),
            );
        }
    }
}

/// `writePath: node-annotation`: whether annotations are read, and which keys.
fn annotations(hop: &HopView<'_>, changes: &mut Changes) {
    if !hop.is_mode(IpamMode::Kubernetes) {
        return;
    }
    let before = hop.before.common_annotation_reads();
    let after = hop.after.common_annotation_reads();
    if before == after {
        return;
    }
    let (effect, remedy) = match after {
        AnnotationReads::Yes(AnnotationKeys::Both) => (
            "`node-annotation` writes both annotations",
            "nothing; run `cilium-ipam plan` after the hop",
        ),
        AnnotationReads::Yes(AnnotationKeys::Older) => (
            "`node-annotation` writes the older annotation",
            "nothing; run `cilium-ipam plan` after the hop",
        ),
        AnnotationReads::GateClosed | AnnotationReads::VersionUnknown => (
            "`node-annotation` is blocked: agents do not read annotations",
            "set `annotate-k8s-node: \"true\"` in cilium-config, or remove `writePath` from the Policy",
        ),
    };
    let cause = Cause {
        why: format!("Cilium {} reads other annotations of Nodes", hop.to),
        source: "pkg/annotation/k8s.go and pkg/k8s/node.go @ Cilium 1.12, 1.13",
        before: remedy.to_owned(),
    };
    let subject = ObjectRef {
        kind: "IPAMPolicy",
        name: "writePath".to_owned(),
    };
    changes.add(
        UpgradeCode::WritePath,
        cause.clone(),
        subject,
        effect.to_owned(),
    );
    if let Some(origin) = hop
        .desired
        .and_then(|desired| desired.policy.origin.clone())
    {
        let edit = "the Policy with `writePath: node-annotation`".to_owned();
        changes.add_edit(UpgradeCode::WritePath, cause, FileEdit { origin, edit });
    }
}

pub(super) fn judge_management(hop: &HopView<'_>, told: &mut Told, changes: &mut Changes) {
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

/// The operators of later releases remove blocks that share a slot, where older ones set an error.
/// They do so at every start, so each block is reported only at the first hop to such a release.
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
