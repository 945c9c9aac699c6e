//! Drift for a person at a terminal, by field and author.

use super::causes::{self, DriftCause};
use super::human::{Detail, further, named, short_name};
use super::text::{Paint, count, printable};
use ipam_planner::plan::DriftDocument;

/// Empty where nothing drifted.
pub(super) fn drift(drift: &[DriftDocument], detail: Detail) -> String {
    if drift.is_empty() {
        return String::new();
    }
    let heading = Paint::Bold.on("drift");
    let mut text = format!("\n{heading} ({})\n", count(drift.len(), "field"));
    let causes = causes::drift(drift, detail);
    for cause in &causes.shown {
        text.push_str(&of_cause(cause, detail));
    }
    text + &further(causes.further())
}

fn of_cause(cause: &DriftCause<'_>, detail: Detail) -> String {
    let sign = Paint::Yellow.on("?");
    if let [only] = cause.entries[..] {
        let author = match (&only.manager, &only.time) {
            (Some(manager), Some(time)) => format!(", written by {manager} at {time}"),
            (Some(_) | None, _) => String::new(),
        };
        let name = short_name(&only.kind, &only.name);
        let line = format!(
            "{name}  {} shows {}, expected {}{author}",
            only.field, only.seen, only.expected
        );
        return format!("  {sign} {}\n", printable(&line));
    }
    let author = cause
        .manager
        .map(|manager| format!(", written by {manager}"))
        .unwrap_or_default();
    let what = format!(
        "{}: {} differs{author}",
        count(cause.entries.len(), "object"),
        cause.field
    );
    let one = |entry: &&DriftDocument| {
        let name = short_name(&entry.kind, &entry.name);
        format!("{name} shows {} (expected {})", entry.seen, entry.expected)
    };
    let objects: Vec<String> = cause.entries.iter().map(one).collect();
    format!(
        "  {sign} {}\n      {}\n",
        printable(&what),
        printable(&named(&objects, detail))
    )
}
