//! The plan as versioned JSON: what `--output json` prints, what a saved plan is, and what every other output is made of.
//!
//! Readers ignore fields that they do not know and refuse another major version. Addresses are text here, and what is read
//! from a file is only ever compared with a fresh plan, never executed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::change::{Action, Blocked, Change, Drift, Edit, Hazard, Reason};
use super::{Plan, digest};
use crate::model::{Finding, Origin};
use crate::net::Block;

/// Version of this format: the major part changes when a reader would misunderstand.
pub const FORMAT_VERSION: &str = "1.0";

/// A plan as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// SHA-256 over the changes, without what may differ harmlessly: resourceVersions, places, reasons.
    pub digest: String,
    /// The files that it was made from.
    pub source: SourceDocument,
    /// Counts.
    pub summary: Summary,
    /// What would be done.
    pub changes: Vec<ChangeDocument>,
    /// What must wait.
    pub blocked: Vec<BlockedDocument>,
    /// Where the cluster differs.
    pub drift: Vec<DriftDocument>,
    /// Results of the checks.
    pub findings: Vec<FindingDocument>,
}

/// The files of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDocument {
    /// The directory as it was given.
    pub directory: String,
    /// SHA-256 over the meaning of the files.
    pub digest: String,
}

/// Counts of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Nodes that get a block.
    pub assign: usize,
    /// Nodes whose block is taken away.
    pub release: usize,
    /// Nodes whose block is written to another field.
    pub update: usize,
    /// Objects that are deleted.
    pub delete: usize,
    /// Held blocks that change.
    pub moved: usize,
    /// Changes that must wait.
    pub blocked: usize,
    /// Nodes that have what they should have.
    pub unchanged: usize,
}

/// A place in the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginDocument {
    /// Path.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line's text, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

/// A change as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeDocument {
    /// `assign` or `update`.
    pub action: String,
    /// Kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The write path.
    pub write_path: String,
    /// CIDRs that the written field shows now.
    pub before: Vec<String>,
    /// CIDRs that it will show.
    pub after: Vec<String>,
    /// The pool.
    pub pool: Option<String>,
    /// Why, for people.
    pub reason: String,
    /// `none` or `disruptive`.
    pub hazard: String,
    /// The fields that are set.
    pub edit: EditDocument,
    /// The object that was seen.
    pub guard: GuardDocument,
    /// The pin or the pool.
    pub origin: Option<OriginDocument>,
}

/// The fields that a change sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EditDocument {
    /// `spec.podCIDR` is the first, `spec.podCIDRs` all.
    #[serde(rename = "spec.podCIDRs")]
    NodeSpec(Vec<String>),
    /// Annotations by key.
    #[serde(rename = "metadata.annotations")]
    NodeAnnotations(BTreeMap<String, String>),
}

/// The object that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardDocument {
    /// UID.
    pub uid: String,
    /// resourceVersion.
    pub resource_version: String,
}

/// A blocked change as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedDocument {
    /// Kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why it must wait.
    pub reason: String,
    /// What would unblock it.
    pub unblock: String,
    /// The pin.
    pub origin: Option<OriginDocument>,
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

/// Why a saved plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// Not JSON, or not a plan.
    #[error("it is not a saved plan: {0}")]
    NotAPlan(#[from] serde_json::Error),
    /// Written by an incompatible version.
    #[error("it has format version {0}, and this program reads {FORMAT_VERSION}")]
    Version(String),
    /// Changed after it was saved.
    #[error("its changes do not match its digest: it was edited or cut off after it was saved")]
    Digest,
}

impl PlanDocument {
    /// The plan as a document; `directory` is where the files are, as it was given.
    pub fn new(plan: &Plan, directory: &str) -> PlanDocument {
        // Every field is named, so that a new one cannot be forgotten here.
        let Plan { changes, blocked, drift, findings, unchanged, desired_digest } = plan;
        let changes: Vec<ChangeDocument> = changes.iter().map(ChangeDocument::from).collect();
        let count = |action: Action| plan.changes.iter().filter(|change| change.action == action).count();
        PlanDocument {
            format_version: FORMAT_VERSION.to_owned(),
            digest: digest_of(&changes),
            source: SourceDocument { directory: directory.to_owned(), digest: desired_digest.clone() },
            summary: Summary {
                assign: count(Action::Assign),
                update: count(Action::Update),
                moved: plan.changes.iter().filter(|change| change.moves_a_block()).count(),
                blocked: blocked.len(),
                unchanged: unchanged.len(),
                release: 0,
                delete: 0,
            },
            changes,
            blocked: blocked.iter().map(BlockedDocument::from).collect(),
            drift: drift.iter().map(DriftDocument::from).collect(),
            findings: findings.iter().map(FindingDocument::from).collect(),
        }
    }

    /// Reads a saved plan.
    ///
    /// # Errors
    /// A file that is no plan, one of another major version, and one that was changed since.
    pub fn parse(json: &str) -> Result<PlanDocument, PlanFileError> {
        #[derive(Deserialize)]
        struct Version {
            format_version: String,
        }
        let Version { format_version } = serde_json::from_str(json)?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&format_version) != major(FORMAT_VERSION) {
            return Err(PlanFileError::Version(format_version.escape_debug().to_string()));
        }
        let document: PlanDocument = serde_json::from_str(json)?;
        if digest_of(&document.changes) == document.digest { Ok(document) } else { Err(PlanFileError::Digest) }
    }
}

impl Change {
    /// Whether a block that the written field shows is replaced by another one.
    fn moves_a_block(&self) -> bool {
        self.before.iter().any(|before| !self.after.contains(before))
    }
}

fn digest_of(changes: &[ChangeDocument]) -> String {
    let mut text = String::new();
    for change in changes {
        text.push_str(&change.identity());
        text.push('\n');
    }
    digest::of_text(&text)
}

impl ChangeDocument {
    /// What makes it this change: everything but what may differ harmlessly between two plans.
    pub fn identity(&self) -> String {
        let ChangeDocument {
            action,
            kind,
            name,
            write_path,
            before,
            after,
            pool,
            reason: _,
            hazard,
            edit,
            guard,
            origin: _,
        } = self;
        format!("{:?}", (action, kind, name, write_path, before, after, pool, hazard, edit, &guard.uid))
    }
}

fn texts(blocks: &[Block]) -> Vec<String> {
    blocks.iter().map(ToString::to_string).collect()
}

impl From<&Origin> for OriginDocument {
    fn from(origin: &Origin) -> OriginDocument {
        OriginDocument { file: origin.file.to_string(), line: origin.line, column: origin.column, snippet: None }
    }
}

impl From<&Change> for ChangeDocument {
    fn from(change: &Change) -> ChangeDocument {
        ChangeDocument {
            action: match change.action {
                Action::Assign => "assign",
                Action::Update => "update",
            }
            .to_owned(),
            kind: "Node".to_owned(),
            name: change.node.to_string(),
            write_path: change.edit.write_path().to_string(),
            before: texts(&change.before),
            after: texts(&change.after),
            pool: change.pool.as_ref().map(ToString::to_string),
            reason: reason_text(change),
            hazard: match change.hazard {
                Hazard::None => "none",
                Hazard::Disruptive => "disruptive",
            }
            .to_owned(),
            edit: match &change.edit {
                Edit::NodeSpec { pod_cidrs } => EditDocument::NodeSpec(texts(pod_cidrs)),
                Edit::NodeAnnotations { values } => EditDocument::NodeAnnotations(
                    values.iter().map(|(key, block)| ((*key).to_owned(), block.to_string())).collect(),
                ),
            },
            guard: GuardDocument {
                uid: change.guard.uid.clone(),
                resource_version: change.guard.resource_version.clone(),
            },
            origin: change.origin.as_ref().map(OriginDocument::from),
        }
    }
}

fn reason_text(change: &Change) -> String {
    let pool = change.pool.as_ref().map(|pool| format!(" of pool {pool}")).unwrap_or_default();
    let restart = match change.hazard {
        Hazard::None => "",
        Hazard::Disruptive => "; takes effect after the agent restarts",
    };
    let why = match &change.reason {
        Reason::Pinned => {
            format!("pinned{}", change.origin.as_ref().map(|origin| format!(" by {origin}")).unwrap_or_default())
        }
        Reason::PinnedInPart => {
            let place = change.origin.as_ref().map(|origin| format!(" by {origin}")).unwrap_or_default();
            format!("one family pinned{place}, the other the lowest free block{pool}")
        }
        Reason::LowestFree { passed_over } if passed_over.is_empty() => format!("lowest free block{pool}"),
        Reason::LowestFree { passed_over } => {
            let better: Vec<String> = passed_over.iter().map(|pool| format!("{} {}", pool.pool, pool.why)).collect();
            format!("lowest free block{pool} ({})", better.join(", "))
        }
        Reason::HeldElsewhere { field } => {
            format!("held already, but only in {field}, which this Cilium does not read")
        }
    };
    why + restart
}

impl From<&Blocked> for BlockedDocument {
    fn from(blocked: &Blocked) -> BlockedDocument {
        BlockedDocument {
            kind: "Node".to_owned(),
            name: blocked.node.to_string(),
            reason: blocked.reason.to_string(),
            unblock: blocked.reason.unblock(),
            origin: blocked.origin.as_ref().map(OriginDocument::from),
        }
    }
}

impl From<&Drift> for DriftDocument {
    fn from(drift: &Drift) -> DriftDocument {
        let (manager, time) = drift.author.clone().unzip();
        DriftDocument {
            kind: "Node".to_owned(),
            name: drift.node.to_string(),
            field: drift.field.to_string(),
            expected: drift.expected.to_string(),
            seen: drift.seen.to_string(),
            manager,
            time,
        }
    }
}

impl From<&Finding> for FindingDocument {
    fn from(finding: &Finding) -> FindingDocument {
        FindingDocument {
            severity: finding.severity.to_string(),
            rule: finding.rule.to_string(),
            subject: finding.subject.as_ref().map(ToString::to_string),
            message: finding.message.clone(),
            help: finding.help.clone(),
            origin: finding.origin.as_ref().map(OriginDocument::from),
            related: finding.related.iter().map(|label| OriginDocument::from(&label.origin)).collect(),
        }
    }
}
