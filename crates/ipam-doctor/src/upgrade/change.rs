//! What an upgrade changes: one entry for each cause, with its objects. Knows no rules.

use std::collections::{BTreeMap, BTreeSet};

use ipam_core::model::{ObjectRef, Origin};

ipam_core::text_enum! {
    /// What changes. The text is printed, and stands in JSON. The worst come first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum UpgradeCode {
        /// The release breaks a feature that objects of the cluster need.
        BadRelease = "upgrade-bad-release",
        /// The API server refuses the update of a CustomResourceDefinition.
        StoredVersion = "upgrade-stored-version",
        /// The release no longer serves the API version of an object in the files.
        ManifestVersion = "upgrade-manifest-version",
        /// The release no longer knows a field of an object in the files.
        ManifestField = "upgrade-manifest-field",
        /// A Service loses an address.
        AddressLost = "upgrade-address-lost",
        /// A Service may lose an address.
        AddressMayMove = "upgrade-address-may-move",
        /// The operator removes the block of a running node when it starts.
        BlockRemoved = "upgrade-block-removed",
        /// A node's agent takes another block.
        BlockChanges = "upgrade-block-changes",
        /// A node's agent finds no block, and waits.
        BlockMissing = "upgrade-block-missing",
        /// A node announces other blocks, or none.
        NodeAnnouncement = "upgrade-node-announcement",
        /// A Service's addresses are announced no longer, or from now on.
        ServiceAnnouncement = "upgrade-service-announcement",
        /// LB-IPAM serves a Service no longer, or from now on.
        ServiceClass = "upgrade-service-class",
        /// A setting is no longer read, or is read from now on.
        Setting = "upgrade-setting",
        /// A field of a pool is no longer read.
        PoolField = "upgrade-pool-field",
        /// The operator stops managing a node's blocks.
        NodeManagement = "upgrade-node-management",
        /// Pods of a node get addresses of another pool.
        DefaultPool = "upgrade-default-pool",
        /// The first and the last address of a CIDR are given out.
        FirstLast = "upgrade-first-last",
        /// A waiting Service gets an address.
        AddressGained = "upgrade-address-gained",
        /// New addresses may come from another pool.
        PoolChoice = "upgrade-pool-choice",
        /// The files are written to another field.
        WritePath = "upgrade-write-path",
        /// Conditions and reasons have other names.
        ConditionNames = "upgrade-condition-names",
        /// The API version of an object in the files is deprecated.
        ManifestDeprecated = "upgrade-manifest-deprecated",
        /// A patch release of this minor release to avoid.
        PatchToAvoid = "upgrade-patch-to-avoid",
    }
}

/// Why something changes in an upgrade, and what avoids it. Objects with an equal cause are one
/// entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// A sentence without a full stop.
    pub why: String,
    /// Where Cilium's sources, documentation or issues show the change.
    pub source: &'static str,
    /// What to do before the hop.
    pub before: String,
}

/// A line of the files to change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileEdit {
    pub origin: Origin,
    pub edit: String,
}

/// One entry of an upgrade: objects that change for the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeChange {
    pub code: UpgradeCode,
    pub cause: Cause,
    /// Each object, with the effect of the upgrade on it.
    pub effects: BTreeMap<ObjectRef, String>,
    /// Lines of the files to change before the hop.
    pub files: BTreeSet<FileEdit>,
}

/// The entries of one hop of an upgrade, while they are collected.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<(UpgradeCode, Cause), UpgradeChange>);

impl Changes {
    pub(super) fn add(&mut self, code: UpgradeCode, cause: Cause, on: ObjectRef, effect: String) {
        self.entry(code, cause).effects.insert(on, effect);
    }

    pub(super) fn add_edit(&mut self, code: UpgradeCode, cause: Cause, edit: FileEdit) {
        self.entry(code, cause).files.insert(edit);
    }

    fn entry(&mut self, code: UpgradeCode, cause: Cause) -> &mut UpgradeChange {
        let key = (code, cause.clone());
        self.0.entry(key).or_insert_with(|| UpgradeChange {
            code,
            cause,
            effects: BTreeMap::new(),
            files: BTreeSet::new(),
        })
    }

    /// The entries, the worst first.
    pub(super) fn finish(self) -> Vec<UpgradeChange> {
        self.0.into_values().collect()
    }
}

/// `a, b and c`.
pub(super) fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => texts.join(""),
    }
}
