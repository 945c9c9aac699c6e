//! The part of a plan's JSON beside its changes: what is refused, blocked, misplaced or drifted, and what checks found.

use serde::{Deserialize, Serialize};

use super::document::OriginDocument;

/// A blocked change as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedDocument {
    /// Kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Stable code of the reason.
    #[serde(default)]
    pub code: String,
    /// Why it must wait.
    pub reason: String,
    /// What would unblock it.
    pub unblock: String,
    /// The pin.
    pub origin: Option<OriginDocument>,
}

/// A held block that the files would not give its node today, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MisplacedDocument {
    /// Kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The block.
    pub block: String,
    /// The field that shows it.
    pub field: String,
    /// The pool that the block lies in.
    pub pool: Option<String>,
    /// Stable code of the reason.
    pub code: String,
    /// Why, for people.
    pub reason: String,
    /// The way out.
    pub help: String,
    /// The pool in the files.
    pub origin: Option<OriginDocument>,
}

/// Why a plan may not be applied, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalDocument {
    /// Stable code.
    pub rule: String,
    /// What is refused.
    pub message: String,
    /// The way out.
    pub help: String,
    /// The waiver that it would take.
    pub waiver: Option<String>,
}

/// Drift as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftDocument {
    /// Kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The field.
    pub field: String,
    /// What it should show.
    pub expected: String,
    /// What it shows.
    pub seen: String,
    /// Field manager of the last write.
    pub manager: Option<String>,
    /// Time of the last write, RFC 3339.
    pub time: Option<String>,
}

/// A finding as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingDocument {
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// Stable code.
    pub rule: String,
    /// `Kind/name`, where it is about one object.
    pub subject: Option<String>,
    /// Further objects that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_subjects: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub help: String,
    /// The place.
    pub origin: Option<OriginDocument>,
    /// Further places.
    #[serde(default)]
    pub related: Vec<OriginDocument>,
}
