//! How far a migration came: counts, each node that is under way or failed, and what to do next.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::human::{Detail, limit, named};
use super::migration::{commands, grouped};
use super::natural::by_name;
use super::text::{Paint, count, grouped_digits, printable};
use ipam_core::model::NodeName;
use ipam_planner::migration::{
    Direction, KubeletRestart, MigrationRecord, NodeRecord, Phase, Rules, State,
};

/// A migration as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct MigrationStatus {
    /// The name of the migration.
    pub id: String,
    /// `running`, `turning-back`, `stopped`, `undoing`, `done` or `undone`.
    pub state: String,
    /// Why it stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The program that carries it out now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_as: Option<String>,
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
    pub node: String,
    /// The number of its wave, counted from 1.
    pub wave: usize,
    /// How it moves.
    pub method: String,
    /// The pool of the new blocks.
    pub pool: String,
    /// The blocks that it leaves.
    pub from: Vec<String>,
    /// The blocks that it gets.
    pub to: Vec<String>,
    /// `forward` or `back`.
    pub direction: String,
    /// The step at which it is.
    pub phase: String,
    /// When that step began.
    pub since: String,
    /// Why it cannot go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
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
            state: record.state.to_string(),
            note: record.note.clone(),
            runs_as: None,
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
        let texts = |blocks: &[ipam_core::net::Block]| {
            let texts = blocks.iter().map(ToString::to_string);
            texts.collect()
        };
        NodeStatus {
            node: node.node.to_string(),
            wave,
            method: node.method.to_string(),
            pool: node.pool.to_string(),
            from: texts(&node.from),
            to: texts(&node.to),
            direction: node.direction.to_string(),
            phase: node.phase.to_string(),
            since: node.since.to_string(),
            failure: node.failure.clone(),
        }
    }

    fn is_under_way(&self) -> bool {
        let is_pending = self.phase == "pending" && self.direction == "forward";
        self.failure.is_none() && self.phase != "done" && !is_pending
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
    if Rules::from(record.rules).kubelet == KubeletRestart::NotAwaited {
        return Vec::new();
    }
    nodes
        .values()
        .filter(|node| node.phase == Phase::Kubelet && node.failure.is_none())
        .map(|node| &node.node)
        .collect()
}

/// The status as text.
pub fn migration_status(status: &MigrationStatus, detail: Detail) -> String {
    let MigrationStatus {
        id,
        state,
        note,
        runs_as,
        directory,
        waves,
        waves_done,
        counts,
        nodes,
        next,
    } = status;
    let title = format!("migration {}: {state}", printable(id));
    let mut text = format!("{}\n", Paint::Bold.on(&title));
    if let Some(note) = note {
        text += &format!("  {}\n", Paint::Red.on(&printable(note)));
    }
    text += &format!("  files: {}\n", printable(directory));
    if let Some(runs_as) = runs_as {
        text += &format!("  carried out by {}\n", printable(runs_as));
    }
    text += &format!(
        "  {} of {} done\n  {}\n",
        grouped_digits(waves_done),
        count(*waves, "wave"),
        sentence(counts)
    );
    text += &under_way(nodes, detail);
    text += &failed(nodes, detail);
    for NextStep {
        why,
        commands: lines,
    } in next
    {
        text += &commands(why, lines);
    }
    text
}

fn sentence(counts: &MigrationCounts) -> String {
    let MigrationCounts {
        nodes,
        pending,
        under_way,
        moved,
        back,
        failed,
    } = counts;
    let parts = [
        (moved, "moved"),
        (back, "back"),
        (under_way, "under way"),
        (failed, "failed"),
        (pending, "not begun"),
    ];
    let parts = parts
        .iter()
        .filter(|(number, _)| **number > 0)
        .map(|(number, what)| format!("{} {what}", grouped_digits(*number)));
    format!(
        "{}: {}",
        count(*nodes, "node"),
        parts.collect::<Vec<_>>().join(", ")
    )
}

fn under_way(nodes: &[NodeStatus], detail: Detail) -> String {
    let nodes = by_name(nodes, |one| &one.node);
    let rows: Vec<&&NodeStatus> = nodes.iter().filter(|one| one.is_under_way()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let shown = &rows[..rows.len().min(limit(detail))];
    let width = shown.iter().map(|one| one.node.chars().count()).max();
    let width = width.unwrap_or_default();
    let mut text = format!("\n{}\n", Paint::Bold.on("under way"));
    for one in shown {
        let back = match one.direction.as_str() {
            "back" => " (back)",
            _ => "",
        };
        text += &format!(
            "  {:width$}  {}{back}, since {}\n",
            printable(&one.node),
            printable(&one.phase),
            printable(&one.since)
        );
    }
    match rows.len() - shown.len() {
        0 => text,
        more => text + &format!("  … and {} more; --full shows all\n", grouped_digits(more)),
    }
}

/// Failed nodes by step and reason.
fn failed(nodes: &[NodeStatus], detail: Detail) -> String {
    let nodes = by_name(nodes, |one| &one.node).into_iter();
    let failed = nodes.filter_map(|one| {
        let cause = (one.phase.clone(), one.failure.clone()?);
        Some((cause, one.node.clone()))
    });
    let groups = grouped(failed);
    if groups.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", Paint::Bold.on("failed"));
    for ((phase, why), names) in groups.iter().take(limit(detail)) {
        text += &format!(
            "  {} {}\n      {}: {}\n",
            Paint::Red.on("!"),
            printable(&named(names, detail)),
            printable(phase),
            printable(why)
        );
    }
    match groups.len().saturating_sub(limit(detail)) {
        0 => text,
        more => text + &format!("  … and {} more; --full shows all\n", grouped_digits(more)),
    }
}
