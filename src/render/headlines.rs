//! The counts of a plan in words, for its first lines and its last one.

use super::text::{Paint, count, grouped_digits};
use super::{human_lb, human_pod_pools};
use ipam_planner::plan::{Intent, Summary};

/// The first and the last line of a plan at a terminal.
pub(super) fn of_plan(summary: &Summary, intent: Intent) -> String {
    format!("{}\n", Paint::Bold.on(&sentence(summary, intent)))
}

/// `Plan: 3 to assign, …`, `No changes.` or `Undo: …`
pub(super) fn sentence(summary: &Summary, intent: Intent) -> String {
    match intent {
        Intent::Undo => undo(summary),
        Intent::Files if summary.changes_nothing() => no_changes(summary),
        Intent::Files => changes(summary),
    }
}

/// LoadBalancer pools and pools of Pods; empty without any.
pub(super) fn of_objects(summary: &Summary) -> String {
    let line = |text: String| {
        if text.is_empty() {
            text
        } else {
            format!("{}\n", Paint::Bold.on(&text))
        }
    };
    human_lb::headline(&summary.load_balancing)
        + &line(human_pod_pools::headline(&summary.pod_pools))
}

/// `3 to assign, 0 to update, …`
pub(super) fn writes(summary: &Summary) -> String {
    let Summary {
        assign,
        update,
        release,
        delete,
        ..
    } = summary;
    let of_nodes = [
        (assign, "assign"),
        (update, "update"),
        (release, "release"),
        (delete, "delete"),
    ];
    of_nodes
        .map(|(number, what)| format!("{} to {what}", grouped_digits(number)))
        .join(", ")
}

/// `3 nodes misplaced, `; empty if none is.
pub(super) fn misplaced(summary: &Summary) -> String {
    if summary.misplaced == 0 {
        String::new()
    } else {
        format!("{} misplaced, ", count(summary.misplaced, "node"))
    }
}

fn changes(summary: &Summary) -> String {
    let Summary {
        moved,
        blocked,
        unchanged,
        ..
    } = summary;
    let [moved, blocked, unchanged] = [moved, blocked, unchanged].map(grouped_digits);
    format!(
        "Plan: {}, {moved} moved; {blocked} blocked, {}{unchanged} unchanged.{}",
        writes(summary),
        misplaced(summary),
        ports_and_errors(summary)
    )
}

fn ports_and_errors(summary: &Summary) -> String {
    let ports = if summary.ports == 0 {
        String::new()
    } else {
        format!(" {} to change.", count(summary.ports, "port"))
    };
    let errors = if summary.errors == 0 {
        String::new()
    } else {
        format!(" {} found.", count(summary.errors, "error"))
    };
    ports + &errors
}

/// An undo plan does not count what it leaves unchanged.
fn undo(summary: &Summary) -> String {
    if summary.changes_nothing() && summary.blocked == 0 {
        return "Undo: nothing to take back.".to_owned();
    }
    let blocked = grouped_digits(summary.blocked);
    format!(
        "Undo: {}; {blocked} cannot be taken back.{}",
        writes(summary),
        ports_and_errors(summary)
    )
}

/// Says "as the files say" of all nodes only if no count contradicts it.
fn no_changes(summary: &Summary) -> String {
    let Summary {
        moved,
        unchanged,
        nodes,
        blocked,
        misplaced,
        drifted,
        errors,
        ..
    } = summary;
    let moved = grouped_digits(moved);
    if summary.is_as_the_files_say() {
        return format!(
            "No changes. {} as the files say, {moved} moved.",
            count(*nodes, "node")
        );
    }
    let counts = [
        (
            *misplaced,
            format!("{} misplaced", count(*misplaced, "node")),
        ),
        (*blocked, format!("{} blocked", grouped_digits(blocked))),
        (*drifted, count(*drifted, "drifted field")),
        (*errors, count(*errors, "error")),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(_, text)| text)
        .collect();
    let good = grouped_digits(unchanged);
    format!(
        "No changes. {good} of {} as the files say, {moved} moved; {}.",
        count(*nodes, "node"),
        counts.join(", ")
    )
}
