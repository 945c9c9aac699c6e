//! What a migration keeps of itself in the cluster: the waves, the rules, how far it came, and how
//! a fresh schedule differs from the approved one. The texts of a saved schedule may be hostile,
//! so they are escaped. This module must never know where records are stored.

use std::collections::BTreeMap;
use std::fmt::Debug;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::approved::ApprovedFiles;
use super::document::{LeftBehindDocument, ScheduleDocument};
use super::drain::CheckDocument;
use super::record::{CordonedBefore, Direction, NodeRecord, Phase};
use super::schedule::{NodeMove, Wave};
use super::step::Rules;
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_core::text::joined;

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
        /// The migration stopped after a failure; the failed wave is back where it was.
        Stopped = "stopped",
        /// All nodes get their old blocks back.
        Undoing = "undoing",
        /// All nodes are moved.
        Done = "done",
        /// All nodes have their old blocks again.
        Undone = "undone",
    }
}

ipam_core::serde_as_text! { State: "state of a migration" }

/// The record of a whole migration, as stored in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationRecord {
    pub format_version: String,
    /// Its name, unique in time.
    pub id: String,
    pub schedule: ScheduleDocument,
    pub rules: Rules,
    pub state: State,
    /// The wave that is moved, or the first one that is not; counted from 0.
    pub wave: usize,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Nodes of the failed wave that are not back. Their own records say why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_back: Vec<NodeName>,
    /// What the files said when it was approved.
    pub approved: ApprovedFiles,
    /// The check of moved nodes that was given when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckDocument>,
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
    /// Creates the record of a migration that begins with these files.
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
            rules,
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

    /// Whether no step is left, so that another migration may begin.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Undone)
    }

    pub fn waves(&self) -> &[Wave] {
        &self.schedule.waves
    }

    /// Creates the records of all nodes, before their first step.
    pub fn nodes(&self, now: Timestamp) -> BTreeMap<NodeName, NodeRecord> {
        let moves = self.schedule.moves.iter();
        moves
            .map(|one| (one.node.clone(), self.node(one, now)))
            .collect()
    }

    fn node(&self, one: &NodeMove, now: Timestamp) -> NodeRecord {
        NodeRecord {
            migration: self.id.clone(),
            node: one.node.clone(),
            uid: one.uid.clone(),
            method: one.method,
            pool: one.pool.clone(),
            from: one.from.clone(),
            to: one.to.clone(),
            direction: Direction::Forward,
            phase: Phase::Pending,
            since: now,
            cordoned_before: CordonedBefore::No,
            agent: None,
            saved: None,
            attempts: 0,
            failure: None,
            note: None,
        }
    }
}

impl ScheduleDocument {
    /// What differs in a fresh schedule, one line for each node. Empty if nothing does.
    pub fn differences(&self, fresh: &ScheduleDocument) -> Vec<String> {
        if self.digest == fresh.digest {
            return Vec::new();
        }
        let mut lines = self.of_policy(fresh);
        let now = by_name(&fresh.moves);
        let stays = fresh.left_out.iter().map(|one| (one.node.as_str(), one));
        let stays: BTreeMap<&str, &LeftBehindDocument> = stays.collect();
        for old in &self.moves {
            let new = now.get(old.node.as_str());
            let differs = match new {
                Some(new) => of_move(old, new),
                None => Some(no_longer(old, stays.get(old.node.as_str()).copied())),
            };
            lines.extend(differs.map(|what| format!("node {}: {what}", old.node)));
        }
        let saved = by_name(&self.moves);
        let further = fresh.moves.iter();
        let further = further.filter(|one| !saved.contains_key(one.node.as_str()));
        lines.extend(further.map(|new| {
            let (to, reason) = (block_list(&new.to), new.reason.escape_debug());
            let node = &new.node;
            format!("node {node}: not in the saved schedule, would now move to {to} ({reason})")
        }));
        lines.extend(of_waves(&self.waves, &fresh.waves));
        if lines.is_empty() {
            lines.push("the commands after the last wave differ".to_owned());
        }
        lines
    }

    /// Differences of the Policy and the schedule that are about no single node.
    fn of_policy(&self, fresh: &ScheduleDocument) -> Vec<String> {
        let mut lines = Vec::new();
        let mut differs = |what: &str, now: &dyn Debug, saved: &dyn Debug| {
            lines.push(format!("{what}: {now:?} now, {saved:?} when it was saved"));
        };
        if self.max_unavailable != fresh.max_unavailable {
            let (now, saved) = (&fresh.max_unavailable, &self.max_unavailable);
            differs("`migration.maxUnavailable` of the Policy", now, saved);
        }
        if self.directory != fresh.directory {
            differs("the directory", &fresh.directory, &self.directory);
        }
        if self.request != fresh.request {
            lines.push("the flags ask for something else".to_owned());
        }
        lines
    }
}

fn by_name(moves: &[NodeMove]) -> BTreeMap<&str, &NodeMove> {
    moves.iter().map(|one| (one.node.as_str(), one)).collect()
}

/// `10.0.0.0/24, fd00::/64`, or `no block`.
pub(super) fn block_list(blocks: &[Block]) -> String {
    match blocks.is_empty() {
        true => "no block".to_owned(),
        false => joined(blocks, ", "),
    }
}

/// Why a node of the saved schedule would not move now.
fn no_longer(old: &NodeMove, stays: Option<&LeftBehindDocument>) -> String {
    let was = block_list(&old.to);
    match stays {
        Some(one) => format!(
            "saved to move to {was}, now it stays: {}",
            one.why.escape_debug()
        ),
        None => format!(
            "saved to move to {was}, now it would not move: it is gone, or the files would give it the block that it has"
        ),
    }
}

/// The fields of one node that differ.
fn of_move(old: &NodeMove, new: &NodeMove) -> Option<String> {
    if old.uid != new.uid {
        return Some(format!("it is another object by now (uid {})", new.uid));
    }
    let (old_from, old_to) = (block_list(&old.from), block_list(&old.to));
    let mut parts = Vec::new();
    if old.from != new.from {
        let now = block_list(&new.from);
        parts.push(format!("it holds {now}, not {old_from}"));
    }
    if old.to != new.to {
        let now = block_list(&new.to);
        parts.push(format!("it would move to {now}, not to {old_to}"));
    }
    if old.pool != new.pool {
        parts.push(format!("its pool would be {}, not {}", new.pool, old.pool));
    }
    if old.method != new.method {
        let (now, was) = (new.method, old.method);
        parts.push(format!("its method would be `{now}`, not `{was}`"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Nodes that are in another wave now. If there are none, the order of the waves.
fn of_waves(old: &[Wave], new: &[Wave]) -> Vec<String> {
    let domains =
        |waves: &[Wave]| -> Vec<String> { waves.iter().map(|wave| title(&wave.domain)).collect() };
    let domain_of = |waves: &[Wave]| -> BTreeMap<NodeName, Option<String>> {
        let each = waves.iter().flat_map(|wave| {
            let nodes = wave.nodes.iter();
            nodes.map(|node| (node.clone(), wave.domain.clone()))
        });
        each.collect()
    };
    let now = domain_of(new);
    let moved = domain_of(old).into_iter().filter_map(|(node, was)| {
        let is = now.get(&node).filter(|is| **is != was)?;
        let (is, was) = (title(is), title(&was));
        Some(format!("node {node}: its wave is {is}, not {was}"))
    });
    let lines: Vec<String> = moved.collect();
    if !lines.is_empty() || domains(old) == domains(new) {
        return lines;
    }
    let (is, was) = (domains(new).join(", "), domains(old).join(", "));
    vec![format!("the waves are {is}, not {was}")]
}

fn title(domain: &Option<String>) -> String {
    match domain {
        Some(domain) => domain.escape_debug().to_string(),
        None => "that of no failure domain".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::migration::tests::{blocks, observed_nodes};
    use crate::migration::{Method, MigrationRequest, Workloads, schedule};
    use ipam_desired::Desired;

    fn one(node: &str, to: &str) -> NodeMove {
        NodeMove {
            node: node.parse().unwrap(),
            uid: format!("u-{node}"),
            method: Method::CiliumNode,
            pool: "rack-a".parse().unwrap(),
            from: blocks(&["10.0.0.0/24"]),
            to: blocks(&[to]),
            reason: "in no pool".to_owned(),
            steps: Vec::new(),
            risks: Vec::new(),
            pods: None,
            estimate: SignedDuration::from_secs(90),
        }
    }

    /// A schedule of two nodes in two racks.
    fn saved() -> ScheduleDocument {
        let wave = |domain: &str, node: &str| Wave {
            domain: Some(domain.to_owned()),
            nodes: vec![node.parse().unwrap()],
        };
        let (request, pods) = (MigrationRequest::default(), Workloads::default());
        let empty = schedule(
            &Desired::default(),
            &observed_nodes(&[]),
            &pods,
            &request,
            "pools",
        );
        ScheduleDocument {
            moves: vec![one("n1", "10.1.0.0/24"), one("n2", "10.1.1.0/24")],
            waves: vec![wave("a", "n1"), wave("b", "n2")],
            ..empty
        }
    }

    /// The difference after one edit of the fresh schedule.
    fn after(edit: impl FnOnce(&mut ScheduleDocument)) -> String {
        let mut fresh = saved();
        fresh.digest = "another".to_owned();
        edit(&mut fresh);
        saved().differences(&fresh).join("\n")
    }

    #[test]
    fn each_difference_names_the_node_and_the_field() {
        assert!(saved().differences(&saved()).is_empty());
        type Edit = fn(&mut ScheduleDocument);
        let cases: [(Edit, &str); 11] = [
            (
                |fresh| fresh.moves[0].uid = "new".to_owned(),
                "node n1: it is another object by now (uid new)",
            ),
            (
                |fresh| fresh.moves[0].from = blocks(&["10.0.9.0/24"]),
                "node n1: it holds 10.0.9.0/24, not 10.0.0.0/24",
            ),
            (
                |fresh| fresh.moves[1].to = blocks(&["10.1.9.0/24"]),
                "node n2: it would move to 10.1.9.0/24, not to 10.1.1.0/24",
            ),
            (
                |fresh| fresh.moves[1].pool = "rack-b".parse().unwrap(),
                "node n2: its pool would be rack-b, not rack-a",
            ),
            (
                |fresh| fresh.moves[1].method = Method::NodeObject,
                "node n2: its method would be `node`, not `cilium-node`",
            ),
            (
                |fresh| drop(fresh.moves.pop()),
                "node n2: saved to move to 10.1.1.0/24, now it would not move: it is gone, or the files would give it the block that it has",
            ),
            (
                |fresh| {
                    fresh.moves.pop();
                    fresh.left_out.push(LeftBehindDocument {
                        node: "n2".to_owned(),
                        why: "it is protected".to_owned(),
                        help: String::new(),
                    });
                },
                "node n2: saved to move to 10.1.1.0/24, now it stays: it is protected",
            ),
            (
                |fresh| fresh.moves.push(one("n3", "10.1.2.0/24")),
                "node n3: not in the saved schedule, would now move to 10.1.2.0/24 (in no pool)",
            ),
            (
                |fresh| fresh.waves[1].domain = None,
                "node n2: its wave is that of no failure domain, not b",
            ),
            (
                |fresh| fresh.waves.reverse(),
                "the waves are b, a, not a, b",
            ),
            (
                |fresh| fresh.max_unavailable = 5,
                "`migration.maxUnavailable` of the Policy: 5 now, 1 when it was saved",
            ),
        ];
        for (edit, expected) in cases {
            assert_eq!(after(edit), expected);
        }
    }
}
