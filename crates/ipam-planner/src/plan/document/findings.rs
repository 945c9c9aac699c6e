//! The part of a plan's JSON beside its changes: refusals, blocked changes, misplaced blocks, drift
//! and findings.
//!
//! The limit of a plan as JSON.

use serde::{Deserialize, Serialize};

use super::{OriginDocument, PlanDocument};
use crate::plan::change::TargetKind;
use crate::plan::selection::{Selected, Selection};
use ipam_core::model::{Finding, FindingGroup, Severity};

/// A blocked change as JSON.
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

/// A held block that the files would not give its node today, as JSON.
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
    /// The waiver that would allow it.
    pub waiver: Option<String>,
}

/// Drift as JSON.
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

/// Findings with one cause as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingDocument {
    /// `error`, `warning` or `info`.
    pub severity: Severity,
    /// Stable code.
    pub rule: String,
    /// How many findings this entry stands for: those of one rule with one place in the files and
    /// one way out.
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
    /// The way out.
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

/// The objects to which a plan is limited, as `--target` and `--exclude` name them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionDocument {
    /// Only these; empty for all.
    pub targets: Vec<String>,
    /// Of those, without these.
    pub excluded: Vec<String>,
}

impl SelectionDocument {
    /// `None` for a whole plan.
    pub(super) fn new(selection: &Selection) -> Option<SelectionDocument> {
        let texts = |all: &[Selected]| all.iter().map(ToString::to_string).collect();
        let Selection { targets, excluded } = selection;
        (!selection.is_everything()).then(|| SelectionDocument {
            targets: texts(targets),
            excluded: texts(excluded),
        })
    }

    /// The flags that give this limit: `--target node/n1 --exclude pool/a`.
    pub fn flags(&self) -> String {
        let SelectionDocument { targets, excluded } = self;
        let flag = |name: &'static str, values: &[String]| {
            let flags = values
                .iter()
                .map(move |value| format!("--{name} '{value}'"));
            flags.collect::<Vec<_>>()
        };
        [flag("target", targets), flag("exclude", excluded)]
            .concat()
            .join(" ")
    }
}

impl PlanDocument {
    /// The limit of the plan.
    ///
    /// # Errors
    /// Fails if this version cannot read it.
    pub fn selection(&self) -> Result<Selection, String> {
        let Some(SelectionDocument { targets, excluded }) = &self.selection else {
            return Ok(Selection::default());
        };
        let read = |texts: &[String]| -> Result<Vec<Selected>, String> {
            texts.iter().map(|text| text.parse()).collect()
        };
        Ok(Selection {
            targets: read(targets)?,
            excluded: read(excluded)?,
        })
    }
}
