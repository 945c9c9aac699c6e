//! CustomResourceDefinitions that the operator of the next release cannot update: etcd may hold
//! objects in a version that the release no longer has.

use super::change::{Cause, Changes, UpgradeCode, listed};
use super::hop::HopView;
use ipam_cilium::api_versions::versions_of;
use ipam_cilium::observed::ServedKind;
use ipam_core::model::{CiliumVersion, ObjectRef};

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    for (plural, kind) in hop.before.definitions.iter() {
        let is_bad = |release| !lost(plural, kind, release).is_empty();
        let Some(bad) = hop.bad_releases(is_bad) else {
            continue;
        };
        let lost = lost(plural, kind, bad.last);
        let code = bad.code(UpgradeCode::StoredVersion);
        add(plural, &lost, code, &bad.releases, changes);
    }
}

/// Those that the operator of the running release cannot update.
pub(super) fn of_running(hop: &HopView<'_>, changes: &mut Changes) {
    for (plural, kind) in hop.before.definitions.iter() {
        let lost = lost(plural, kind, hop.from);
        if !lost.is_empty() {
            add(
                plural,
                &lost,
                UpgradeCode::StoredVersion,
                &[hop.from],
                changes,
            );
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

fn add(
    plural: &str,
    lost: &[String],
    code: UpgradeCode,
    releases: &[CiliumVersion],
    changes: &mut Changes,
) {
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
