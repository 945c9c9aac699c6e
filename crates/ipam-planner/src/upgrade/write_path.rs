//! What changes for the files: the field to which `cilium-ipam` writes blocks.

use super::change::{Cause, Changes, FileEdit, UpgradeCode};
use super::hop::HopView;
use ipam_cilium::observed::{AnnotationKeys, AnnotationReads};
use ipam_core::model::{IpamMode, ObjectRef, WritePath, WritePathChoice};

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
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
