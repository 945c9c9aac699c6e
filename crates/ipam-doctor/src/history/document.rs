//! The history as JSON. Its texts come from commits and files: renderers escape them.

use serde::Serialize;

use super::AppliedDocument;
use crate::explain::Relation;

/// Version of the JSON: fields may be added within 1.
const FORMAT_VERSION: &str = "1.1";

/// The past of one subject.
#[derive(Debug, Serialize)]
pub struct HistoryDocument {
    format_version: &'static str,
    /// Such as `node worker-7` or `10.20.30.0/24`.
    pub subject: String,
    pub directory: String,
    /// The last commit of the history.
    pub commit: CommitDocument,
    /// Where the directory begins.
    pub begins: Beginning,
    /// Documents that named it or covered its addresses, the earliest first.
    pub asked: Vec<AskedDocument>,
    /// The file of the recorded states; absent if the history has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Number of commits that recorded a state.
    pub snapshots: usize,
    /// What recorded states of the cluster showed, the earliest first.
    pub recorded: Vec<RecordedDocument>,
    /// Number of reports of applies that were read.
    pub reports: usize,
    /// What these applies changed, the earliest first.
    pub applied: Vec<AppliedDocument>,
    /// Files and documents that could not be read. What they said is unknown.
    pub unread: Vec<GapDocument>,
    /// Reports that could not be read.
    pub unread_reports: Vec<UnreadReport>,
}

/// A file that is no report of an apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadReport {
    pub file: String,
    pub why: String,
}

/// The first commit that has the directory.
#[derive(Debug, Serialize)]
pub struct Beginning {
    pub commit: CommitDocument,
    /// Directories from which this commit moved unchanged files. Their history is not followed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moved_from: Vec<String>,
    /// Present if earlier commits are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shallow: Option<Shallow>,
}

/// The clone is shallow, so earlier commits are missing.
#[derive(Debug, Serialize)]
pub struct Shallow {
    /// The first commit that the clone has.
    pub commit: String,
}

/// A document that named the subject, from when to when.
#[derive(Debug, Serialize)]
pub struct AskedDocument {
    /// Such as `NodeAssignment/worker-7`.
    pub document: String,
    pub field: String,
    /// As written.
    pub value: String,
    /// How the value lies to the addresses in question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<Relation>,
    pub from: Edge,
    /// `null` if nothing ended it.
    pub until: Option<Edge>,
    /// From this commit on, its file cannot be read, so it may have ended earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_since: Option<CommitDocument>,
}

/// A commit that added or removed something, and the place of it.
#[derive(Debug, Serialize)]
pub struct Edge {
    /// The commit that made the change.
    pub commit: CommitDocument,
    /// The merge that brought it to the branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeDocument>,
    /// The pull request that the message of the merge or of the commit names.
    pub pull_request: Option<String>,
    /// The file; before the change, if it removed the text.
    pub file: String,
    pub line: u32,
    /// Why the change may be older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertain: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct CommitDocument {
    pub id: String,
    /// When it was committed, by the committer's clock.
    pub time: Option<String>,
    pub author: String,
    pub email: String,
    /// First line of the message.
    pub subject: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct MergeDocument {
    pub id: String,
    pub time: Option<String>,
    pub author: String,
    pub subject: String,
}

/// A field of an object, in successive recorded states.
#[derive(Debug, Serialize)]
pub struct RecordedDocument {
    /// Such as `Node/worker-7`.
    pub object: String,
    pub field: String,
    pub value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<Relation>,
    /// The last state before that does not show it; `null` if the first state shows it.
    pub not_yet: Option<CommitDocument>,
    /// The first state that shows it.
    pub first_seen: CommitDocument,
    /// The last state that shows it.
    pub last_seen: CommitDocument,
    /// The next state that can be read, which does not show it; `null` if there is none.
    pub gone: Option<CommitDocument>,
    /// The program that wrote the field, and when, by the last state that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_by: Option<String>,
}

/// A file, or a place in it, that could not be read.
#[derive(Debug, Serialize)]
pub struct GapDocument {
    pub file: String,
    pub why: String,
    pub from: CommitDocument,
    /// The commit that ended it; `null` if it lasts.
    pub until: Option<CommitDocument>,
}

impl HistoryDocument {
    /// A history in which nothing is found yet.
    pub fn new(
        subject: String,
        directory: String,
        commit: CommitDocument,
        begins: Beginning,
    ) -> HistoryDocument {
        HistoryDocument {
            format_version: FORMAT_VERSION,
            subject,
            directory,
            commit,
            begins,
            asked: Vec::new(),
            snapshot: None,
            snapshots: 0,
            recorded: Vec::new(),
            reports: 0,
            applied: Vec::new(),
            unread: Vec::new(),
            unread_reports: Vec::new(),
        }
    }
}
