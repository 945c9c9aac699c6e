//! What a migration keeps of itself in the cluster: the waves, the rules, and how far it came. It
//! must never know where it is stored.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::approved::ApprovedFiles;
use super::as_text;
use super::check::CheckDocument;
use super::document::{MoveDocument, ScheduleDocument, WaveDocument};
use super::drain::DrainRules;
use super::record::{CordonedBefore, Direction, NodeRecord, Phase};
use super::step::{KubeletRestart, Rules};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// Version of the records' format: the major part changes when an older program would
/// misunderstand them.
pub(super) const FORMAT_VERSION: &str = "2.0";

pub(super) fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or_default()
}

ipam_core::text_enum! {
    /// How far a migration came.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// Nodes move, wave by wave.
        Running = "running",
        /// The wave that failed goes back.
        TurningBack = "turning-back",
        /// It stopped after a failure; the failed wave is back where it was.
        Stopped = "stopped",
        /// All nodes go back.
        Undoing = "undoing",
        /// All nodes are moved.
        Done = "done",
        /// All nodes are back where they were.
        Undone = "undone",
    }
}

/// A whole migration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationRecord {
    pub format_version: String,
    /// Its name, unique in time.
    pub id: String,
    pub schedule: ScheduleDocument,
    pub rules: RulesDocument,
    #[serde(with = "as_text")]
    pub state: State,
    /// The wave that is moved, or the first one that is not; counted from 0.
    pub wave: usize,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Nodes of the failed wave that are not back. Their own records say why.
    #[serde(default, with = "as_text::list", skip_serializing_if = "Vec::is_empty")]
    pub not_back: Vec<NodeName>,
    /// What the files said when it was approved.
    pub approved: ApprovedFiles,
    /// The check of moved nodes that was given when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckDocument>,
}

/// The rules as JSON. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RulesDocument {
    pub drain: DrainRules,
    #[serde(with = "as_text")]
    pub kubelet: KubeletRestart,
    pub drain_timeout_seconds: i64,
    pub timeout_seconds: i64,
}

impl From<Rules> for RulesDocument {
    fn from(rules: Rules) -> RulesDocument {
        RulesDocument {
            drain: rules.drain,
            kubelet: rules.kubelet,
            drain_timeout_seconds: rules.drain_timeout.as_secs(),
            timeout_seconds: rules.timeout.as_secs(),
        }
    }
}

impl From<RulesDocument> for Rules {
    fn from(document: RulesDocument) -> Rules {
        Rules {
            drain: document.drain,
            kubelet: document.kubelet,
            drain_timeout: SignedDuration::from_secs(document.drain_timeout_seconds),
            timeout: SignedDuration::from_secs(document.timeout_seconds),
        }
    }
}

/// Why a stored record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MigrationRecordError {
    #[error("it is not what cilium-ipam wrote: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it has format version {}, and this program reads {FORMAT_VERSION}", .0.escape_debug())]
    Version(String),
    #[error("{seen} of its {wanted} parts exist: the others were deleted")]
    Parts { seen: usize, wanted: u64 },
    #[error("the digest of its schedule does not match: it was edited")]
    Edited,
}

impl MigrationRecord {
    /// The record of a migration that begins with these files.
    pub fn new(
        id: String,
        schedule: ScheduleDocument,
        files: ApprovedFiles,
        rules: Rules,
    ) -> MigrationRecord {
        MigrationRecord {
            format_version: FORMAT_VERSION.to_owned(),
            id,
            schedule: schedule.at_a_time(files.max_unavailable),
            rules: rules.into(),
            state: State::Running,
            wave: 0,
            note: None,
            not_back: Vec::new(),
            approved: files,
            check: None,
        }
    }

    /// The record with the files that were approved: their windows and numbers hold from now on.
    #[must_use]
    pub fn with_files(self, files: ApprovedFiles) -> MigrationRecord {
        MigrationRecord {
            schedule: self.schedule.at_a_time(files.max_unavailable),
            approved: files,
            ..self
        }
    }

    /// The record with the check that moved nodes must pass.
    #[must_use]
    pub fn with_check(self, check: Option<CheckDocument>) -> MigrationRecord {
        MigrationRecord { check, ..self }
    }

    /// Whether nothing is left to do, so that another migration may begin.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Undone)
    }

    pub fn waves(&self) -> &[WaveDocument] {
        &self.schedule.waves
    }

    /// The records of all nodes, before their first step.
    ///
    /// # Errors
    /// Fails if a name or a block in the schedule is not one.
    pub fn nodes(&self, now: Timestamp) -> Result<BTreeMap<NodeName, NodeRecord>, String> {
        let moves = self.schedule.moves.iter();
        moves
            .map(|one| {
                let record = self.node(one, now)?;
                Ok((record.node.clone(), record))
            })
            .collect()
    }

    fn node(&self, one: &MoveDocument, now: Timestamp) -> Result<NodeRecord, String> {
        let invalid =
            |text: &str| format!("`{}` in the schedule is not valid", text.escape_debug());
        let blocks = |texts: &[String]| -> Result<Vec<Block>, String> {
            let read = |text: &String| text.parse().map_err(|_| invalid(text));
            texts.iter().map(read).collect()
        };
        Ok(NodeRecord {
            migration: self.id.clone(),
            node: one.node.parse().map_err(|_| invalid(&one.node))?,
            uid: one.uid.clone(),
            method: one.method.parse().map_err(|()| invalid(&one.method))?,
            pool: one.pool.parse().map_err(|_| invalid(&one.pool))?,
            from: blocks(&one.from)?,
            to: blocks(&one.to)?,
            direction: Direction::Forward,
            phase: Phase::Pending,
            since: now,
            cordoned_before: CordonedBefore::No,
            agent: None,
            saved: None,
            attempts: 0,
            failure: None,
            note: None,
        })
    }
}
