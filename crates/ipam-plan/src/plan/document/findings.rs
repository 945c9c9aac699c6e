//! The part of a plan's JSON beside its changes: refusals, blocked changes, misplaced blocks, drift
//! and findings.

use serde::{Deserialize, Serialize};

use super::OriginDocument;
use crate::plan::change::TargetKind;
use ipam_core::model::{Finding, FindingGroup, Severity};

/// A blocked change as JSON: its reason as code, text and fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedDocument {
    /// Kind of the object.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
    /// Stable code of the reason.
    pub code: String,
    /// Why it must wait.
    pub reason: String,
    /// What would unblock it.
    pub unblock: String,
    /// The pin.
    pub origin: Option<OriginDocument>,
}

/// A held block that the files would not give its node today, as JSON: its reason as code, text and
/// fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MisplacedDocument {
    /// Kind of the object.
    pub kind: TargetKind,
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
    /// The fix.
    pub help: String,
    /// The pool in the files.
    pub origin: Option<OriginDocument>,
}

/// Why a plan may not be applied, as JSON. Its code is text: a saved plan may be of a newer version,
/// with codes that this program does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalDocument {
    /// Stable code.
    pub rule: String,
    /// What is refused.
    pub message: String,
    /// The fix.
    pub help: String,
    /// The waiver that would allow it.
    pub waiver: Option<String>,
}

/// Drift of a field or of a port as JSON, with one set of fields for both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftDocument {
    /// Kind of the object.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
    /// The field.
    pub field: String,
    /// The expected value.
    pub expected: String,
    /// The current value.
    pub seen: String,
    /// Field manager of the last write.
    pub manager: Option<String>,
    /// Time of the last write, RFC 3339.
    pub time: Option<String>,
}

/// All findings of one cause as JSON: one rule, one place in the files and one fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingDocument {
    /// `error`, `warning` or `info`.
    pub severity: Severity,
    /// Stable code.
    pub rule: String,
    /// How many findings this entry stands for: those of one rule with one place in the files and
    /// one fix.
    pub count: usize,
    /// `Kind/name` of the first object that it is about, if any.
    pub subject: Option<String>,
    /// Further objects that it is about: nine, or all if the full output was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_subjects: Vec<String>,
    /// How many objects it is about, listed or not.
    pub subject_count: usize,
    /// The message of the first finding.
    pub message: String,
    /// The messages of the other findings, cut as the objects are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_messages: Vec<String>,
    /// The fix.
    pub help: String,
    /// The place.
    pub origin: Option<OriginDocument>,
    /// Further places.
    pub related: Vec<OriginDocument>,
}

/// Subjects of an entry that are listed; more are counted.
const LISTED: usize = 10;

impl FindingDocument {
    /// The finding with its first few objects only. Its counts stay exact.
    #[must_use]
    pub fn cut(mut self) -> FindingDocument {
        self.other_subjects.truncate(LISTED - 1);
        self.further_messages.truncate(LISTED - 1);
        self
    }
}

impl From<&FindingGroup<'_>> for FindingDocument {
    fn from(group: &FindingGroup<'_>) -> FindingDocument {
        let Finding {
            severity,
            rule,
            message,
            help,
            origin,
            related,
            ..
        } = group.first;
        let subjects: Vec<String> = group.subjects().iter().map(ToString::to_string).collect();
        FindingDocument {
            severity: *severity,
            rule: rule.to_string(),
            count: group.count(),
            subject: subjects.first().cloned(),
            other_subjects: subjects.iter().skip(1).cloned().collect(),
            subject_count: subjects.len(),
            message: message.clone(),
            further_messages: group
                .further
                .iter()
                .map(|finding| finding.message.clone())
                .collect(),
            help: help.clone(),
            origin: origin.as_ref().map(OriginDocument::from),
            related: related
                .iter()
                .map(|label| OriginDocument::from(&label.origin))
                .collect(),
        }
    }
}
