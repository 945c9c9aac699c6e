//! A schedule as versioned JSON: the output of `migrate plan -o json`, and the format of its files.
//!
//! A saved schedule is compared with a fresh one, and never executed by itself.
//!
//! What a person asks a migration for.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::drain::DrainRules;
use super::schedule::{NodeMove, Wave};
use ipam_core::model::NodeName;
use ipam_plan::plan::sha256_hex;

/// Version of this format: the major part changes when a reader would misunderstand.
pub const FORMAT_VERSION: &str = "1.1";

/// The kind by which a file is recognised.
pub(super) const KIND: &str = "MigrationPlan";

/// A schedule as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleDocument {
    /// `MigrationPlan`.
    pub kind: String,
    /// The version of this format.
    pub format_version: String,
    /// SHA-256 over everything that decides what an apply does: the nodes with their UIDs, blocks
    /// and steps, the waves, and what was asked for.
    pub digest: String,
    /// The directory of the files.
    pub directory: String,
    /// Their commit, if they were read from Git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What was asked for.
    pub request: MigrationRequest,
    /// Nodes that are moved at a time.
    pub max_unavailable: usize,
    /// The waves, in order.
    pub waves: Vec<Wave>,
    /// The nodes that move, in the order of the waves.
    pub moves: Vec<NodeMove>,
    /// Nodes that should move and stay, in the order in which people read names.
    pub left_out: Vec<LeftBehindDocument>,
    /// What a person does after the last wave.
    pub after: Vec<String>,
    /// What a person should know of the whole schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// About how long all waves take, in seconds.
    pub estimate_seconds: i64,
}

/// A node that should move and stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehindDocument {
    /// The node.
    pub node: String,
    /// Why it stays.
    pub why: String,
    /// What would let it move.
    pub help: String,
}

/// Why a text is no saved schedule.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleFileError {
    #[error("it is not a schedule of `cilium-ipam migrate plan --out`: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it is a `{}`, not a `{KIND}`", .0.escape_debug())]
    Kind(String),
    #[error(
        "it has format version {}, and this program reads {FORMAT_VERSION}", .0.escape_debug()
    )]
    Version(String),
    #[error("its digest does not match its content: it was edited")]
    Edited,
}

impl ScheduleDocument {
    /// Returns the schedule with the commit of its files.
    #[must_use]
    pub fn of_revision(self, revision: Option<String>) -> ScheduleDocument {
        ScheduleDocument { revision, ..self }
    }

    /// The document with another number of nodes at a time.
    #[must_use]
    pub(super) fn at_a_time(self, max_unavailable: usize) -> ScheduleDocument {
        ScheduleDocument {
            max_unavailable,
            ..self
        }
        .digested()
    }

    /// The document with the digest of its content.
    #[must_use]
    pub(super) fn digested(self) -> ScheduleDocument {
        ScheduleDocument {
            digest: self.computed_digest(),
            ..self
        }
    }

    /// Estimated seconds for the nodes that are not done, one wave after the other.
    pub fn seconds_left(&self, is_done: impl Fn(&NodeName) -> bool) -> i64 {
        let mut moves = self.moves.iter();
        let of_wave = |wave: &Wave| {
            let of_wave = moves.by_ref().take(wave.nodes.len());
            let left = of_wave.filter(|one| !is_done(&one.node));
            let left: Vec<SignedDuration> = left.map(|one| one.estimate).collect();
            let rounds = left.chunks(self.max_unavailable.max(1));
            rounds
                .filter_map(|round| round.iter().max().copied())
                .fold(SignedDuration::ZERO, SignedDuration::saturating_add)
        };
        let waves = self.waves.iter().map(of_wave);
        waves
            .fold(SignedDuration::ZERO, SignedDuration::saturating_add)
            .as_secs()
    }

    /// Reads a saved schedule.
    ///
    /// # Errors
    /// Fails if the text is anything else, of another major version, or was edited.
    pub fn read(text: &str) -> Result<ScheduleDocument, ScheduleFileError> {
        let head: Head = serde_json::from_str(text)?;
        if head.kind != KIND {
            return Err(ScheduleFileError::Kind(head.kind));
        }
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&head.format_version) != major(FORMAT_VERSION) {
            return Err(ScheduleFileError::Version(head.format_version));
        }
        let document: ScheduleDocument = serde_json::from_str(text)?;
        match document.is_unedited() {
            true => Ok(document),
            false => Err(ScheduleFileError::Edited),
        }
    }

    /// Whether the content is what the digest was made of.
    pub fn is_unedited(&self) -> bool {
        self.digest == self.computed_digest()
    }

    /// Reasons, risks and times may change without a change of what happens.
    fn computed_digest(&self) -> String {
        let mut moves: Vec<&NodeMove> = self.moves.iter().collect();
        moves.sort_by(|a, b| a.node.cmp(&b.node));
        let moves: Vec<_> = moves
            .into_iter()
            .map(|one| {
                (
                    &one.node,
                    &one.uid,
                    &one.method,
                    &one.pool,
                    &one.from,
                    &one.to,
                )
            })
            .collect();
        let decided = (
            &self.directory,
            &self.request,
            self.max_unavailable,
            &self.waves,
            moves,
            &self.after,
        );
        sha256_hex(&serde_json::json!(decided).to_string())
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    format_version: String,
}

ipam_core::text_enum! {
    /// How nodes get other blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MethodChoice {
        /// In ipam `cluster-pool` the CiliumNode is re-created; in ipam `kubernetes` a
        /// `CiliumNodeConfig` moves the node.
        #[default]
        Auto = "auto",
        /// In ipam `kubernetes` the Node is re-created.
        RecreateNode = "recreate-node",
    }
}

ipam_core::text_enum! {
    /// What the nodes of a migration move to.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Goal {
        /// Misplaced nodes get the blocks that the files would give them.
        #[default]
        Blocks = "blocks",
        /// All nodes read their blocks from the Node. No block changes.
        ToKubernetes = "kubernetes",
        /// All nodes read their blocks from the CiliumNode. No block changes.
        ToClusterPool = "cluster-pool",
    }
}

ipam_core::serde_as_text! {
    MethodChoice: "choice of a method",
    Goal: "goal",
}

/// What a person asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrationRequest {
    /// `blocks`: misplaced nodes get other blocks. `kubernetes` and `cluster-pool`: Cilium's new
    /// IPAM mode.
    pub goal: Goal,
    /// Only these nodes. Control-plane nodes are moved only if they are among them.
    pub nodes: BTreeSet<NodeName>,
    /// `auto` or `recreate-node`.
    pub method: MethodChoice,
    /// Which Pods may be lost.
    pub drain: DrainRules,
}
