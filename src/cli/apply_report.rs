//! What became of an apply: as JSON, as text, and as a failure with its exit code.

use serde::Serialize;

use super::failure::Failure;
use super::undo_file::Undo;
use crate::render::{Paint, count, printable};
use ipam_cluster::ClusterError;
use ipam_controller::Applied;
use ipam_controller::apply::Outcome;
use ipam_core::model::grouped_digits;
use ipam_planner::plan::ChangeDocument;

/// The result as JSON.
#[derive(Serialize)]
pub(super) struct Report {
    format_version: &'static str,
    applied: Vec<Line>,
    not_applied: Vec<Line>,
    unknown: Vec<Line>,
    /// What takes it back, as far as that can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<Undo>,
}

#[derive(Serialize)]
pub(super) struct Line {
    kind: String,
    name: String,
    action: String,
    after: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

pub(super) fn failure_of(
    applied: &Applied,
    report: &Report,
    failure: Option<ClusterError>,
) -> Option<Failure> {
    let left = report.not_applied.len() + report.unknown.len();
    let message = format!(
        "{} of {} not applied",
        grouped_digits(left),
        count(applied.outcomes.len(), "change")
    );
    let all_beaten = applied
        .remaining()
        .all(|(_, outcome)| matches!(outcome, Outcome::Superseded(_)));
    match (applied.applied(), failure) {
        (0, Some(error)) => Some(error.into()),
        (_, Some(error)) => Some(Failure::Partly(format!("{message}: {error}"))),
        (_, None) if left == 0 => None,
        (0, None) if all_beaten => Some(Failure::Beaten(message)),
        (0, None) if report.unknown.is_empty() => Some(Failure::Failed(message)),
        (_, None) => Some(Failure::Partly(message)),
    }
}

pub(super) fn report(applied: &Applied, undo: Option<Undo>) -> Report {
    let mut report = Report {
        format_version: "1.1",
        applied: Vec::new(),
        not_applied: Vec::new(),
        unknown: Vec::new(),
        undo,
    };
    for (change, outcome) in &applied.outcomes {
        let ChangeDocument {
            kind,
            name,
            after,
            action,
            ..
        } = ChangeDocument::from(change);
        let line = |why: &str| Line {
            kind,
            name,
            action,
            after,
            why: why.to_owned(),
        };
        match outcome {
            Outcome::Applied => report.applied.push(line("")),
            Outcome::Superseded(why) => {
                report.not_applied.push(line(&format!("superseded: {why}")))
            }
            Outcome::Refused(why) => report.not_applied.push(line(why)),
            Outcome::NotTried => report
                .not_applied
                .push(line("not tried, because applying stopped before")),
            Outcome::Unknown(why) => report.unknown.push(line(why)),
        }
    }
    report
}

pub(super) fn summary(report: &Report) -> String {
    let Report {
        format_version: _,
        applied,
        not_applied,
        unknown,
        undo,
    } = report;
    let mut text = String::new();
    for (title, lines) in [("not applied", not_applied), ("unknown", unknown)] {
        for line in lines {
            text.push_str(&format!(
                "{} {}/{}  {}  {}\n",
                Paint::Red.on(title),
                line.kind,
                line.name,
                line.after.join(" "),
                printable(&line.why)
            ));
        }
    }
    let counts = format!(
        "Applied {}; {} not applied, {} unknown.",
        count(applied.len(), "change"),
        grouped_digits(not_applied.len()),
        grouped_digits(unknown.len())
    );
    text += &(Paint::Bold.on(&counts) + "\n");
    text + &undo.as_ref().map(undo_lines).unwrap_or_default()
}

fn undo_lines(
    Undo {
        file,
        changes,
        irreversible,
        instead,
    }: &Undo,
) -> String {
    let all = count(changes + irreversible, "change");
    let mut text = match file {
        Some(file) => format!(
            "Undo plan, takes back {} of {all}: {file}\n",
            grouped_digits(changes)
        ),
        None => format!("No undo plan: {all} cannot be taken back.\n"),
    };
    for instead in instead.iter().filter(|_| *irreversible > 0) {
        text += &format!("  by hand: {}\n", printable(instead));
    }
    text
}
