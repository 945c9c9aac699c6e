//! CustomResourceDefinitions that the operator of the next release cannot update: etcd may hold
//! objects in a version that the release no longer has.

use super::change::{Cause, Changes, UpgradeCode, listed};
use super::hop::HopView;
use ipam_cilium::observed::ServedKind;
use ipam_cilium::releases::{latest_patch, versions_of};
use ipam_core::model::{CiliumVersion, ObjectRef};

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    for (plural, kind) in hop.before.definitions.iter() {
        match hop.to.patch {
            Some(_) => {
                let lost = lost(plural, kind, hop.to);
                add(
                    plural,
                    &lost,
                    UpgradeCode::StoredVersion,
                    &[hop.to],
                    changes,
                );
            }
            None => patches_to_avoid(hop, plural, kind, changes),
        }
    }
}

/// Stored versions that a release does not have. A release without the kind leaves its definition
/// alone.
fn lost(plural: &str, kind: &ServedKind, release: CiliumVersion) -> Vec<String> {
    let versions = versions_of(plural, release).filter(|versions| !versions.is_empty());
    let is_lost = |stored: &&String| versions.is_some_and(|all| !all.contains(&stored.as_str()));
    kind.stored.iter().filter(is_lost).cloned().collect()
}

/// Of a minor release, its later patch releases count. Those before are named.
fn patches_to_avoid(hop: &HopView<'_>, plural: &str, kind: &ServedKind, changes: &mut Changes) {
    let Some(latest) = latest_patch(hop.to) else {
        return;
    };
    let releases: Vec<CiliumVersion> = (0..=latest)
        .map(|patch| CiliumVersion {
            patch: Some(patch),
            ..hop.to
        })
        .filter(|release| *release > hop.from && !lost(plural, kind, *release).is_empty())
        .collect();
    let Some(last) = releases.last() else {
        return;
    };
    let (lost, code) = match last.patch == Some(latest) {
        true => (lost(plural, kind, *last), UpgradeCode::StoredVersion),
        false => (lost(plural, kind, *last), UpgradeCode::PatchToAvoid),
    };
    add(plural, &lost, code, &releases, changes);
}

fn add(
    plural: &str,
    lost: &[String],
    code: UpgradeCode,
    releases: &[CiliumVersion],
    changes: &mut Changes,
) {
    if lost.is_empty() {
        return;
    }
    let versions = listed(lost);
    let name = format!("{plural}.cilium.io");
    let cause = Cause {
        why: format!(
            "{}: the CustomResourceDefinition no longer has {versions}, and the API server refuses to update it while `status.storedVersions` lists {versions}",
            listed(releases)
        ),
        source: "cilium#47774, cilium#48087; apiextensions-apiserver, pkg/apis/apiextensions/validation",
        before: format!(
            "use a release that has {versions}, or write each object again (kubectl get {plural}.cilium.io -A -o json | kubectl replace -f -) and remove {versions} from the list: kubectl patch crd {name} --subresource status --type merge -p '{{\"status\":{{\"storedVersions\":[\"v2\"]}}}}'"
        ),
    };
    let subject = ObjectRef {
        kind: "CustomResourceDefinition",
        name,
    };
    changes.add(
        code,
        cause,
        subject,
        format!("lists {versions} in status.storedVersions"),
    );
}
