//! How far a migration came: counts, each node, and what to do next.
//!
//! The maintenance windows of a migration: whether one is open, and when the next one opens.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use super::text::printable;
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::Block;
use ipam_desired::WindowState;
use ipam_migrate::migration::{
    ApprovedFiles, Direction, KubeletRestart, Method, MigrationRecord, NodeRecord, Phase, State,
};

/// A migration as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct MigrationStatus {
    /// The name of the migration.
    pub id: String,
    /// `running`, `turning-back`, `stopped`, `undoing`, `done` or `undone`.
    pub state: State,
    /// Why it stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Nodes of the failed wave that are not back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_back: Vec<NodeName>,
    /// The program that carries it out now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_as: Option<String>,
    /// What the whole migration waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The maintenance windows in which nodes begin. Absent if the record does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowsStatus>,
    /// The program of the check that moved nodes must pass, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Why it is unknown what nodes wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// The directory of the files.
    pub directory: String,
    /// Number of waves.
    pub waves: usize,
    /// Waves that are moved completely.
    pub waves_done: usize,
    /// Number of nodes, by how far they came.
    pub counts: MigrationCounts,
    /// All nodes.
    pub nodes: Vec<NodeStatus>,
    /// What a person does next: sentences, and commands.
    pub next: Vec<NextStep>,
}

/// Number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MigrationCounts {
    /// All nodes of the migration.
    pub nodes: usize,
    /// Nodes that have not begun.
    pub pending: usize,
    /// Nodes at a step.
    pub under_way: usize,
    /// Nodes with their new blocks.
    pub moved: usize,
    /// Nodes that have their old blocks again.
    pub back: usize,
    /// Nodes that cannot go on.
    pub failed: usize,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// The number of its wave, counted from 1.
    pub wave: usize,
    /// How it moves.
    pub method: Method,
    /// The pool of the new blocks.
    pub pool: PoolName,
    /// The blocks that it leaves.
    pub from: Vec<Block>,
    /// The blocks that it gets.
    pub to: Vec<Block>,
    /// `forward` or `back`.
    pub direction: Direction,
    /// The step at which it is.
    pub phase: Phase,
    /// When that step began.
    pub since: Timestamp,
    /// What it waits for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Why it cannot go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why nothing is left to do for it, such as that a person deleted the Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextStep {
    /// What it is for.
    pub why: String,
    /// The commands.
    pub commands: Vec<String>,
}

impl MigrationStatus {
    /// The status of a migration. `flags` select the cluster.
    pub fn new(
        record: &MigrationRecord,
        nodes: &BTreeMap<NodeName, NodeRecord>,
        flags: &str,
    ) -> MigrationStatus {
        let mut wave_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, wave) in record.waves().iter().enumerate() {
            wave_of.extend(wave.nodes.iter().map(|node| (node.as_str(), index + 1)));
        }
        let wave = |node: &NodeName| wave_of.get(node.as_str()).copied().unwrap_or_default();
        let mut counts = MigrationCounts::default();
        nodes.values().for_each(|node| counts.add(node));
        MigrationStatus {
            id: record.id.clone(),
            state: record.state,
            note: record.note.clone(),
            not_back: record.not_back.clone(),
            runs_as: None,
            waits_for: None,
            windows: None,
            check: record.check.as_ref().map(|check| check.program.clone()),
            unseen: None,
            directory: record.schedule.directory.clone(),
            waves: record.waves().len(),
            waves_done: match record.state {
                State::Undone => 0,
                _ => record.wave.min(record.waves().len()),
            },
            counts,
            nodes: nodes
                .values()
                .map(|node| NodeStatus::new(node, wave(&node.node)))
                .collect(),
            next: next(record, nodes, flags),
        }
    }

    /// The status with the windows as they are at a time.
    #[must_use]
    pub fn at(self, record: &MigrationRecord, now: Timestamp) -> MigrationStatus {
        let windows = WindowsStatus::new(&record.approved, now);
        let is_due =
            record.state == State::Running && self.counts.pending > 0 && self.counts.under_way == 0;
        let waits_for = windows.as_ref().filter(|_| is_due);
        MigrationStatus {
            waits_for: waits_for.and_then(WindowsStatus::waits_for),
            windows,
            ..self
        }
    }

    /// The status with what nodes wait for.
    #[must_use]
    pub fn waiting(mut self, mut waiting: BTreeMap<NodeName, String>) -> MigrationStatus {
        for node in &mut self.nodes {
            node.waits_for = waiting.remove(&node.node);
        }
        self
    }

    /// What to do next, as text.
    pub fn next_steps(&self) -> String {
        let mut text = String::new();
        for NextStep { why, commands } in &self.next {
            let _ = writeln!(text, "{}:", printable(why));
            for command in commands {
                let _ = writeln!(text, "  {}", printable(command));
            }
        }
        text
    }
}

impl MigrationCounts {
    fn add(&mut self, node: &NodeRecord) {
        self.nodes += 1;
        let count = match (node.phase, node.direction) {
            _ if node.failure.is_some() => &mut self.failed,
            (Phase::Pending, Direction::Forward) => &mut self.pending,
            (Phase::Done, Direction::Forward) => &mut self.moved,
            (Phase::Done, Direction::Back) => &mut self.back,
            _ => &mut self.under_way,
        };
        *count += 1;
    }
}

impl NodeStatus {
    fn new(node: &NodeRecord, wave: usize) -> NodeStatus {
        NodeStatus {
            node: node.node.clone(),
            wave,
            method: node.method,
            pool: node.pool.clone(),
            from: node.from.clone(),
            to: node.to.clone(),
            direction: node.direction,
            phase: node.phase,
            since: node.since,
            waits_for: None,
            failure: node.failure.clone(),
            note: node.note.clone(),
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        let is_pending = self.phase == Phase::Pending && self.direction == Direction::Forward;
        self.failure.is_none() && self.phase != Phase::Done && !is_pending
    }
}

fn next(
    record: &MigrationRecord,
    nodes: &BTreeMap<NodeName, NodeRecord>,
    flags: &str,
) -> Vec<NextStep> {
    let step = |why: &str, commands: Vec<String>| NextStep {
        why: why.to_owned(),
        commands,
    };
    let resume = format!("cilium-ipam migrate resume{flags}");
    let undo = format!("cilium-ipam migrate undo{flags}");
    let waiting = kubelets(record, nodes);
    match record.state {
        State::Running | State::TurningBack | State::Undoing if !waiting.is_empty() => {
            let restart = |node: &&NodeName| format!("ssh {node} sudo systemctl restart kubelet");
            let flag = |node: &&NodeName| format!(" --kubelet-restarted {node}");
            let confirmed: String = waiting.iter().map(flag).collect();
            vec![
                step(
                    "restart the kubelet of each of these nodes",
                    waiting.iter().map(restart).collect(),
                ),
                step(
                    "then continue, with the nodes whose kubelet was restarted",
                    vec![format!("cilium-ipam migrate resume{confirmed}{flags}")],
                ),
            ]
        }
        State::Running => vec![
            step("continue, here or on another machine", vec![resume]),
            step("or move all nodes back", vec![undo]),
        ],
        State::TurningBack | State::Undoing => {
            vec![step("continue, here or on another machine", vec![resume])]
        }
        State::Stopped => vec![
            step("fix the cause, then try the wave again", vec![resume]),
            step("or move all nodes back", vec![undo]),
        ],
        State::Done => {
            let after = &record.schedule.after;
            let after =
                (!after.is_empty()).then(|| step("all nodes are moved; run", after.clone()));
            after.into_iter().collect()
        }
        State::Undone => Vec::new(),
    }
}

/// Nodes whose kubelet a person must restart.
fn kubelets<'n>(
    record: &MigrationRecord,
    nodes: &'n BTreeMap<NodeName, NodeRecord>,
) -> Vec<&'n NodeName> {
    if record.rules.kubelet == KubeletRestart::NotAwaited {
        return Vec::new();
    }
    nodes
        .values()
        .filter(|node| node.phase == Phase::Kubelet && node.failure.is_none())
        .map(|node| &node.node)
        .collect()
}

/// The windows as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WindowsStatus {
    /// The windows of the Policy that was approved. Without one, nodes begin at any time.
    pub windows: Vec<String>,
    /// Whether nodes may begin now.
    pub open: bool,
    /// When the open window closes, if that is within a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// When the next window opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens: Option<String>,
    /// `until` or `opens` in the time zone of the Policy.
    #[serde(skip)]
    local: Option<String>,
}

impl WindowsStatus {
    /// `None` if this program does not understand the windows.
    pub(super) fn new(files: &ApprovedFiles, now: Timestamp) -> Option<WindowsStatus> {
        let text = |at: Timestamp| at.to_string();
        let policy = files.policy()?;
        let (open, until, opens) = match policy.state_at(now) {
            WindowState::Open { until } => (true, until, None),
            WindowState::Closed { opens } => (false, None, opens),
        };
        Some(WindowsStatus {
            windows: files.windows.iter().map(ToString::to_string).collect(),
            open,
            until: until.map(text),
            opens: opens.map(text),
            local: until.or(opens).map(|at| policy.local(at)),
        })
    }

    fn state(&self) -> String {
        match (self.open, &self.local) {
            (true, Some(until)) => format!("open until {until}"),
            (true, None) => "open".to_owned(),
            (false, Some(opens)) => format!("closed, the next one opens at {opens}"),
            (false, None) => "closed, and none opens again".to_owned(),
        }
    }

    /// What nodes that have not begun wait for.
    pub(super) fn waits_for(&self) -> Option<String> {
        (!self.open).then(|| match &self.local {
            Some(opens) => format!("a maintenance window, which opens at {opens}"),
            None => "a maintenance window, and none opens again".to_owned(),
        })
    }

    pub(super) fn text(&self) -> String {
        match self.windows.is_empty() {
            true => String::new(),
            false => format!(
                "  maintenance windows: {}: {}\n",
                printable(&self.windows.join(", ")),
                self.state()
            ),
        }
    }
}
