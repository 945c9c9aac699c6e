//! Objects of Cilium in the files that the next release refuses, or takes with a warning: their API
//! version is gone or deprecated, or a field is.
//!
//! CustomResourceDefinitions that the operator of the next release cannot update: etcd may hold
//! objects in a version that the release no longer has.

use super::HopView;
use super::change::{Cause, Changes, FileEdit, UpgradeCode, listed};
use ipam_cilium::api_versions::{CiliumApi, LOST_FIELDS, LostField, versions_of};
use ipam_cilium::observed::ServedKind;
use ipam_core::model::{CiliumVersion, ObjectRef};
use ipam_desired::CiliumManifest;

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    for manifest in hop.manifests {
        let Some(api) = CiliumApi::of_kind(&manifest.kind) else {
            continue;
        };
        let judge = OneManifest { hop, api, manifest };
        if judge.is_served(hop.from) {
            judge.version(changes);
            judge.fields(changes);
        }
    }
}

/// An object of the files in one hop.
struct OneManifest<'h> {
    hop: &'h HopView<'h>,
    api: &'static CiliumApi,
    manifest: &'h CiliumManifest,
}

impl OneManifest<'_> {
    /// Versions of releases before the table count as served.
    fn is_served(&self, release: CiliumVersion) -> bool {
        let served = self.api.served(release);
        served.is_none_or(|versions| versions.contains(&&*self.manifest.version))
    }

    fn is_deprecated(&self, release: CiliumVersion) -> bool {
        self.api.deprecated(release) == Some(&*self.manifest.version)
    }

    fn version(&self, changes: &mut Changes) {
        let CiliumManifest { kind, version, .. } = self.manifest;
        if let Some(bad) = self.hop.bad_releases(|release| !self.is_served(release)) {
            let cause = Cause {
                why: format!(
                    "{}: the API server does not serve {kind} in `cilium.io/{version}`, and refuses the file",
                    listed(&bad.releases)
                ),
                source: self.api.source,
                before: self.rewrite(bad.last),
            };
            let effect = format!("has `cilium.io/{version}`, which is not served");
            self.add(
                bad.code(UpgradeCode::ManifestVersion),
                cause,
                effect,
                changes,
            );
            return;
        }
        let to = self.after();
        if self.is_deprecated(to) && !self.is_deprecated(self.hop.from) {
            let cause = Cause {
                why: format!(
                    "from {} on, `cilium.io/{version}` of {kind} is deprecated",
                    self.hop.to
                ),
                source: self.api.source,
                before: self.rewrite(to),
            };
            let effect = format!("has `cilium.io/{version}`, which is deprecated");
            self.add(UpgradeCode::ManifestDeprecated, cause, effect, changes);
        }
    }

    fn after(&self) -> CiliumVersion {
        super::with_latest_patch(self.hop.to)
    }

    /// What to write in place of the version.
    fn rewrite(&self, release: CiliumVersion) -> String {
        let stored = self.api.served(release).and_then(<[_]>::first);
        let Some(new) = stored.filter(|stored| **stored != self.manifest.version) else {
            return match self.api.successors {
                "" => "remove the object".to_owned(),
                successors => format!("write {successors} instead"),
            };
        };
        let known = self.api.served(self.hop.from);
        let when = match known.is_some_and(|versions| versions.contains(new)) {
            true => "",
            false => "after the hop, ",
        };
        let lost = self.lost(|field| field.version == *new && field.minor <= release.minor);
        let orders = lost.map(|field| format!(", and {}", field.instead));
        format!(
            "{when}write `apiVersion: cilium.io/{new}`{}",
            orders.collect::<String>()
        )
    }

    /// Fields of the object that a version of its kind no longer has, limited by `filter`.
    fn lost(
        &self,
        filter: impl Fn(&LostField) -> bool,
    ) -> impl Iterator<Item = &'static LostField> {
        LOST_FIELDS
            .iter()
            .filter(move |field| field.kind == self.manifest.kind && filter(field))
            .filter(|field| self.manifest.has(field.path))
    }

    fn fields(&self, changes: &mut Changes) {
        // Of a pool in the cluster, the judge of pools tells the same.
        let is_told = self
            .hop
            .before
            .address_pools
            .contains_key(&*self.manifest.name)
            && self.manifest.kind == "CiliumLoadBalancerIPPool";
        let version = &self.manifest.version;
        let lost = self.lost(|field| field.version == *version && self.hop.crosses(field.minor));
        for field in lost.filter(|_| !is_told) {
            let cause = Cause {
                why: format!(
                    "from 1.{} on, `cilium.io/{version}` of {} has no `{}`: the API server refuses or drops the field",
                    field.minor, field.kind, field.path
                ),
                source: field.source,
                before: format!("with the hop, {}", field.instead),
            };
            let effect = format!("loses `{}`", field.path);
            self.add(UpgradeCode::ManifestField, cause, effect, changes);
        }
    }

    fn add(&self, code: UpgradeCode, cause: Cause, effect: String, changes: &mut Changes) {
        let edit = FileEdit {
            origin: self.manifest.origin.clone(),
            edit: cause.before.clone(),
        };
        let subject = ObjectRef {
            kind: self.api.kind,
            name: self.manifest.name.clone(),
        };
        changes.add_edit(code, cause.clone(), edit);
        changes.add(code, cause, subject, effect);
    }
}

pub(super) fn judge_definitions(hop: &HopView<'_>, changes: &mut Changes) {
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

/// Adds definitions with stored versions that keep the running release from updating them.
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
