//! An upgrade as versioned JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{FileEdit, Hop, Unjudged, Upgrade, UpgradeChange, UpgradeCode};
use ipam_cilium::observed::Evidence;
use ipam_core::model::{ObjectRef, count};

/// Version of this format: the major part changes when a reader would misunderstand.
pub const FORMAT_VERSION: &str = "1.0";

/// An upgrade as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct UpgradeDocument {
    /// The version of this format.
    pub format_version: &'static str,
    /// The running version.
    pub from: String,
    /// How the running version is known.
    pub from_source: String,
    /// The version to which Cilium is upgraded.
    pub to: String,
    /// Counts.
    pub summary: UpgradeSummary,
    /// The hops, one for each minor release. Empty if `to` runs already.
    pub hops: Vec<HopDocument>,
    /// Parts of the cluster that could not be checked. Something may change there.
    pub unjudged: Vec<Unjudged>,
}

/// Counts of all hops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpgradeSummary {
    /// Entries.
    pub changes: usize,
    /// Services that an entry names.
    pub services: usize,
    /// Nodes that an entry names.
    pub nodes: usize,
    /// Other objects that an entry names.
    pub others: usize,
    /// Parts that could not be checked.
    pub unjudged: usize,
}

/// One hop of an upgrade, as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct HopDocument {
    /// The version before.
    pub from: String,
    /// The version after.
    pub to: String,
    /// What changes, the worst first.
    pub changes: Vec<UpgradeChangeDocument>,
}

/// What changes for one cause.
#[derive(Clone, Debug, Serialize)]
pub struct UpgradeChangeDocument {
    /// The code.
    pub code: &'static str,
    /// What changes, with the number of objects.
    pub message: String,
    /// Why.
    pub why: String,
    /// Where Cilium's sources, documentation or issues show it.
    pub source: &'static str,
    /// What to do before the hop.
    pub before: String,
    /// Number of objects.
    pub object_count: usize,
    /// The objects, by kind and name: the first ten, unless `--show-all` is given.
    pub objects: Vec<ObjectDocument>,
    /// Lines of the files to change before the hop.
    pub files: Vec<FileEditDocument>,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectDocument {
    /// Its kind.
    pub kind: &'static str,
    /// Its name; of a Service as `NAMESPACE/NAME`.
    pub name: String,
    /// The effect on it.
    pub effect: String,
}

/// A line of the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileEditDocument {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What to change.
    pub edit: String,
}

impl Upgrade {
    /// The upgrade as JSON, with at most this number of objects and lines for each entry.
    pub fn document(&self, most: usize) -> UpgradeDocument {
        let Upgrade {
            from,
            evidence,
            to,
            hops,
            unjudged,
        } = self;
        UpgradeDocument {
            format_version: FORMAT_VERSION,
            from: from.to_string(),
            from_source: match evidence {
                Evidence::Flag => "--from".to_owned(),
                seen => seen.to_string(),
            },
            to: to.to_string(),
            summary: self.summary(),
            hops: hops.iter().map(|hop| hop.document(most)).collect(),
            unjudged: unjudged.clone(),
        }
    }

    fn summary(&self) -> UpgradeSummary {
        let changes: Vec<&UpgradeChange> = self.hops.iter().flat_map(|hop| &hop.changes).collect();
        let mut by_kind: BTreeMap<&str, BTreeSet<&ObjectRef>> = BTreeMap::new();
        for subject in changes.iter().flat_map(|change| change.effects.keys()) {
            let group = match subject.kind {
                "Service" => "Service",
                "Node" | "CiliumNode" => "Node",
                _ => "other",
            };
            by_kind.entry(group).or_default().insert(subject);
        }
        let number = |kind: &str| by_kind.get(kind).map_or(0, BTreeSet::len);
        UpgradeSummary {
            changes: changes.len(),
            services: number("Service"),
            nodes: number("Node"),
            others: number("other"),
            unjudged: self.unjudged.len(),
        }
    }
}

impl Hop {
    fn document(&self, most: usize) -> HopDocument {
        HopDocument {
            from: self.from.to_string(),
            to: self.to.to_string(),
            changes: self
                .changes
                .iter()
                .map(|change| change.document(most))
                .collect(),
        }
    }
}

impl UpgradeChange {
    fn document(&self, most: usize) -> UpgradeChangeDocument {
        let object = |(subject, effect): (&ObjectRef, &String)| ObjectDocument {
            kind: subject.kind,
            name: subject.name.clone(),
            effect: effect.clone(),
        };
        UpgradeChangeDocument {
            code: self.code.as_str(),
            message: self.message(),
            why: self.cause.why.clone(),
            source: self.cause.source,
            before: self.cause.before.clone(),
            object_count: self.effects.len(),
            objects: self.effects.iter().take(most).map(object).collect(),
            files: self
                .files
                .iter()
                .take(most)
                .map(FileEdit::document)
                .collect(),
        }
    }

    /// `3 Services lose an address`.
    pub fn message(&self) -> String {
        let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
        for subject in self.effects.keys() {
            *by_kind.entry(subject.kind).or_default() += 1;
        }
        let is_one = self.effects.len() == 1;
        let counts = by_kind
            .into_iter()
            .map(|(kind, number)| plural(kind, number));
        let objects = super::change::listed(counts);
        let [one, many] = words(self.code);
        format!("{objects} {}", if is_one { one } else { many })
    }
}

/// `1 Policy`, `2 Policies`.
fn plural(kind: &str, number: usize) -> String {
    match (kind.strip_suffix('y'), number) {
        (_, 1) | (None, _) => count(number, kind),
        (Some(stem), _) => format!("{} {stem}ies", ipam_core::model::grouped_digits(number)),
    }
}

/// What one object does, and what several do.
fn words(code: UpgradeCode) -> [&'static str; 2] {
    match code {
        UpgradeCode::BadRelease => [
            "meets a fault of this release",
            "meet a fault of this release",
        ],
        UpgradeCode::StoredVersion => ["cannot be updated", "cannot be updated"],
        UpgradeCode::ManifestVersion => [
            "in the files is no longer served",
            "in the files are no longer served",
        ],
        UpgradeCode::ManifestField => ["in the files loses a field", "in the files lose fields"],
        UpgradeCode::ManifestDeprecated => [
            "in the files has a deprecated API version",
            "in the files have deprecated API versions",
        ],
        UpgradeCode::AddressLost => ["loses an address", "lose addresses"],
        UpgradeCode::AddressMayMove => ["may lose an address", "may lose addresses"],
        UpgradeCode::BlockRemoved => ["may lose its block", "may lose their block"],
        UpgradeCode::BlockChanges => ["takes another block", "take other blocks"],
        UpgradeCode::BlockMissing => ["finds no block", "find no block"],
        UpgradeCode::NodeAnnouncement => ["announces something else", "announce something else"],
        UpgradeCode::ServiceAnnouncement => [
            "is announced in another way",
            "are announced in another way",
        ],
        UpgradeCode::ServiceClass => [
            "changes its controller of addresses",
            "change their controller of addresses",
        ],
        UpgradeCode::Setting => [
            "has a setting that is no longer read",
            "have settings that are no longer read",
        ],
        UpgradeCode::PoolField => ["loses its ranges", "lose their ranges"],
        UpgradeCode::NodeManagement => [
            "is treated in another way by the operator",
            "are treated in another way by the operator",
        ],
        UpgradeCode::DefaultPool => ["has another default pool", "have another default pool"],
        UpgradeCode::FirstLast => [
            "gives out first and last addresses",
            "give out first and last addresses",
        ],
        UpgradeCode::AddressGained => ["gets an address", "get addresses"],
        UpgradeCode::PoolChoice => [
            "may get addresses of another pool",
            "may get addresses of other pools",
        ],
        UpgradeCode::WritePath => ["is written to another field", "are written to other fields"],
        UpgradeCode::ConditionNames => ["has other condition names", "have other condition names"],
        UpgradeCode::PatchToAvoid => [
            "would meet a fault of a patch release",
            "would meet a fault of a patch release",
        ],
    }
}

impl FileEdit {
    fn document(&self) -> FileEditDocument {
        FileEditDocument {
            file: self.origin.file.to_string(),
            line: self.origin.line,
            edit: self.edit.clone(),
        }
    }
}
