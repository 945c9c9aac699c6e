//! The block that each node's agent takes when it starts as the next release. Each hop restarts
//! every agent, so blocks that change at any restart are reported as well.

use std::collections::BTreeMap;

use super::HopView;
use super::addresses::Told;
use super::change::{Cause, Changes, UpgradeCode};
use ipam_cilium::observed::{
    AnnotationKeys, AnnotationReads, FamilyUse, Node, Observed, setting_key,
};
use ipam_core::model::{IpamMode, NodeName, ObjectRef};
use ipam_core::net::{Block, Family};

/// The pool of Pods without a choice, if no setting names another.
const DEFAULT_POOL: &str = "default";

/// Checks every node. Returns the blocks that the CiliumNodes show after the hop.
pub(super) fn judge(
    hop: &HopView<'_>,
    told: &mut Told,
    changes: &mut Changes,
) -> BTreeMap<NodeName, Vec<Block>> {
    if hop.is_mode(IpamMode::MultiPool) {
        default_pools(hop, changes);
    }
    if !hop.is_mode(IpamMode::Kubernetes) {
        return BTreeMap::new();
    }
    let mut after = BTreeMap::new();
    for node in hop.before.nodes.values() {
        let mut blocks = Vec::new();
        for family in Family::BOTH {
            blocks.extend(one_family(hop, (node, family), told, changes));
        }
        after.insert(node.name.clone(), blocks);
    }
    after
}

/// What an agent reads from the Node, by family.
fn read(observed: &Observed, node: &Node, family: Family) -> Option<Block> {
    let blocks = observed.read_from_node(node);
    blocks.into_iter().find(|block| block.family() == family)
}

/// Judges one family. Returns the block that the Pods live in after the hop.
fn one_family(
    hop: &HopView<'_>,
    (node, family): (&Node, Family),
    told: &mut Told,
    changes: &mut Changes,
) -> Option<Block> {
    let shown = hop
        .before
        .cilium_node_shows(&node.name, family)
        .map(|(block, _)| block);
    let (today, next) = (
        read(&hop.before, node, family),
        read(&hop.after, node, family),
    );
    // Without a CiliumNode the agent has not started yet.
    let lives = shown.or(today);
    let is_off = hop.after.cilium.use_of(family) == FamilyUse::Off;
    if is_off || lives == next {
        return lives;
    }
    // Every later hop restarts the agent as well.
    if next.is_none() && !told.waiting.insert((node.name.clone(), family)) {
        return lives;
    }
    let cause = match today == next {
        true => at_any_restart(),
        false => by_release(hop, node),
    };
    let (code, effect) = match (lives, next) {
        (Some(lives), Some(next)) => (
            UpgradeCode::BlockChanges,
            format!("its Pods live in {lives}, and the agent takes {next}"),
        ),
        (None, Some(next)) => (UpgradeCode::BlockChanges, format!("the agent takes {next}")),
        (lives, None) => (
            UpgradeCode::BlockMissing,
            format!(
                "the agent waits for a block{}",
                lives.map_or_else(String::new, |block| format!(" instead of {block}"))
            ),
        ),
    };
    changes.add(code, cause, ObjectRef::node(&node.name), effect);
    next.or(lives)
}

fn at_any_restart() -> Cause {
    Cause {
        why: "the Node shows another block than its Pods live in, and each restart of an agent reads the Node".to_owned(),
        source: "pkg/k8s/node.go, ParseNode @ Cilium 1.11 to 1.20; seen on the real agent",
        before: "`cilium-ipam doctor` names both blocks: drain the node and restart its agent, or re-create the Node with the block that its Pods live in".to_owned(),
    }
}

fn by_release(hop: &HopView<'_>, node: &Node) -> Cause {
    let (before, after) = (
        hop.before.annotation_reads(node),
        hop.after.annotation_reads(node),
    );
    match (before, after) {
        (AnnotationReads::Yes(_), AnnotationReads::GateClosed) => Cause {
            why: "from 1.12 on `annotate-k8s-node` is off by default, and later patches of 1.12 and all releases after read the pod-CIDR annotations only if it is on".to_owned(),
            source: "pkg/k8s/node.go, ParseNode @ Cilium 1.12.8; cilium#24420",
            before: "set `annotate-k8s-node: \"true\"` in cilium-config (Helm: `annotateK8sNode=true`)".to_owned(),
        },
        (
            AnnotationReads::Yes(AnnotationKeys::Older),
            AnnotationReads::Yes(AnnotationKeys::Both),
        ) => Cause {
            why: "Cilium 1.13 and later read the annotation `network.cilium.io/ipv*-pod-cidr`, which hides `io.cilium.network.ipv*-pod-cidr`; the two differ".to_owned(),
            source: "pkg/annotation/k8s.go @ Cilium 1.13",
            before: "set both annotations to the block that the Pods live in".to_owned(),
        },
        _ => Cause {
            why: format!("Cilium {} reads another field of the Node", hop.to),
            source: "pkg/k8s/node.go, ParseNode",
            before: "set spec.podCIDRs, or the annotation that is read, to the block that the Pods live in".to_owned(),
        },
    }
}

/// The setting that names the default pool is read from 1.15 on.
fn default_pools(hop: &HopView<'_>, changes: &mut Changes) {
    if !hop.crosses(15) {
        return;
    }
    for node in hop.after.nodes.values() {
        let setting = hop.after.setting(&node.labels, setting_key::DEFAULT_POOL);
        let Some(setting) = setting.filter(|setting| setting.value != DEFAULT_POOL) else {
            continue;
        };
        let cause = Cause {
            why: "Cilium 1.15 and later read `ipam-default-ip-pool`; before, Pods without a choice get addresses of the pool `default`".to_owned(),
            source: "pkg/option/config.go @ Cilium 1.15.19",
            before: "create the CiliumPodIPPool that the setting names, or remove the setting".to_owned(),
        };
        let effect = format!(
            "new Pods get addresses of `{}`, by {}",
            setting.value.escape_debug(),
            setting.source
        );
        let subject = ObjectRef::node(&node.name);
        changes.add(UpgradeCode::DefaultPool, cause, subject, effect);
    }
}
