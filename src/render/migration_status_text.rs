//! How far a migration came, for a person at a terminal: counts, and each node that is under way or
//! failed.

use super::causes::grouped;
use super::human::{Detail, named};
use super::migration::commands;
use super::migration_status::{MigrationCounts, MigrationStatus, NodeStatus, WindowsStatus};
use super::model::{Listing, Row, below, first};
use super::phrase::Phrase;
use super::terminal;
use super::text::{Paint, count, grouped_digits, printable};
use ipam_core::model::NodeName;
use ipam_core::text::by_name;
use ipam_migrate::migration::Direction;

/// The status as text.
pub fn migration_status(status: &MigrationStatus, detail: Detail) -> String {
    // Every field is named, so that a new one cannot be forgotten here.
    let MigrationStatus {
        id,
        state,
        note,
        not_back,
        runs_as,
        waits_for,
        windows,
        directory,
        check,
        unseen,
        waves,
        waves_done,
        counts,
        nodes,
        next,
    } = status;
    let title = format!("migration {}: {state}", printable(id));
    let mut text = format!("{}\n", Paint::Bold.on(&title));
    let red = |line: &str| format!("  {}\n", Paint::Red.on(&printable(line)));
    let line = |what: &str, value: &Option<String>| {
        let value = value.as_ref();
        value.map_or_else(String::new, |value| {
            format!("  {what} {}\n", printable(value))
        })
    };
    text += &note.as_deref().map_or_else(String::new, red);
    if !not_back.is_empty() {
        let names: Vec<String> = not_back.iter().map(NodeName::to_string).collect();
        text += &red(&format!("not back: {}", named(&names, detail)));
    }
    text += &format!("  files: {}\n", printable(directory));
    text += &line("carried out by", runs_as);
    text += &windows
        .as_ref()
        .map_or_else(String::new, WindowsStatus::text);
    text += &line("waits for", waits_for);
    text += &line("each moved node must pass your check:", check);
    text += &format!(
        "  {} of {} done\n  {}\n",
        grouped_digits(waves_done),
        count(*waves, "wave"),
        sentence(counts)
    );
    text += &terminal::listing(under_way(nodes), detail);
    text += &line("what they wait for is unknown:", unseen);
    let failure = |one: &NodeStatus| Some(format!("{}: {}", one.phase, one.failure.as_ref()?));
    let failed = by_cause("failed", Paint::Red, nodes, failure, detail);
    text += &terminal::listing(failed, detail);
    // Nodes with a note need no further step.
    let note = |one: &NodeStatus| one.note.clone();
    let left = by_cause("left as they are", Paint::Yellow, nodes, note, detail);
    text += &terminal::listing(left, detail);
    for step in next {
        text += &terminal::listing(commands(&step.why, &step.commands), detail);
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

fn under_way(nodes: &[NodeStatus]) -> Listing<'_> {
    let nodes = by_name(nodes, |one| one.node.as_str()).into_iter();
    let nodes: Vec<&NodeStatus> = nodes.filter(|one| one.is_under_way()).collect();
    let row = |one: &NodeStatus| {
        let back = match one.direction {
            Direction::Back => " (back)",
            Direction::Forward => "",
        };
        let waits = one.waits_for.as_ref();
        let waits = waits.map(|waits_for| Phrase::new("waits: ").sentence(waits_for));
        Row::new([
            Phrase::of(one.node.as_str()),
            Phrase::new(&format!("{}{back}, since {}", one.phase, one.since)),
            waits.unwrap_or_default(),
        ])
    };
    Listing {
        aligned: true,
        ..Listing::new(
            Phrase::new("under way"),
            "node",
            &[first(""), first(""), below("")],
        )
        .rows(nodes, row)
    }
}

/// A listing of nodes, grouped by a cause.
fn by_cause<'p>(
    title: &str,
    paint: Paint,
    nodes: &'p [NodeStatus],
    cause: impl Fn(&NodeStatus) -> Option<String>,
    detail: Detail,
) -> Listing<'p> {
    let nodes = by_name(nodes, |one| one.node.as_str()).into_iter();
    let groups = grouped(nodes.filter_map(|one| Some((cause(one)?, one.node.to_string()))));
    let row = move |(why, names): (String, Vec<String>)| {
        Row::new([Phrase::names(&names, detail), Phrase::prose(&why)]).sign(paint, "!")
    };
    Listing::new(Phrase::new(title), "cause", &[first(""), below("")]).rows(groups, row)
}
