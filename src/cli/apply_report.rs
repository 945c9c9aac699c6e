//! The result of an apply: as JSON, as text, and as a failure with its exit code.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::apply_saved::Approved;
use super::failure::Failure;
use super::output::{self, Capped};
use super::undo_file::Undo;
use crate::render::{Detail, LeftChange, Paint, count, grouped, named, printable};
use ipam_cluster::{ClusterError, replace_private_file};
use ipam_controller::Applied;
use ipam_controller::apply::Outcome;
use ipam_core::model::grouped_digits;
use ipam_plan::plan::{ChangeAction, ChangeDocument, TargetKind};

/// The result as JSON.
#[derive(Serialize)]
pub(super) struct Report {
    format_version: &'static str,
    /// When the writes began.
    began: String,
    /// The directory as it was given.
    directory: String,
    /// The commit of the files; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    applied: Vec<Line>,
    not_applied: Vec<Line>,
    unknown: Vec<Line>,
    /// Number of objects that are blocked in the plan: their changes were not due.
    blocked: usize,
    /// The undo plan; absent if nothing was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<Undo>,
}

impl Report {
    /// Writes the report into the file of `--report-out`.
    pub(super) fn keep_in(&self, file: Option<&Path>) -> Result<(), Failure> {
        let Some(file) = file else {
            return Ok(());
        };
        replace_private_file(file, &output::json_text(self)?)
            .map_err(|error| unwritable_report(file, &error))
    }
}

#[derive(Serialize)]
pub(super) struct Line {
    kind: TargetKind,
    name: String,
    action: ChangeAction,
    before: Vec<String>,
    after: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

/// When and from what an apply was made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) began: Timestamp,
    pub(super) directory: String,
    pub(super) commit: Option<String>,
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
        count(report.applied.len() + left, "change")
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

pub(super) fn report(
    made: Made,
    applied: &Applied,
    approved: &Approved,
    undo: Option<Undo>,
) -> Report {
    let Made {
        began,
        directory,
        commit,
    } = made;
    let mut report = Report {
        format_version: "1.3",
        began: began.to_string(),
        directory,
        commit,
        applied: Vec::new(),
        not_applied: Vec::new(),
        unknown: Vec::new(),
        blocked: approved.blocked,
        undo,
    };
    for (change, outcome) in &applied.outcomes {
        let line = |why: &str| Line::new(ChangeDocument::from(change), why);
        match outcome {
            Outcome::Applied => report.applied.push(line("")),
            Outcome::Superseded(why) => {
                report.not_applied.push(line(&format!("superseded: {why}")))
            }
            Outcome::Refused(why) | Outcome::NotSent(why) => report.not_applied.push(line(why)),
            Outcome::NotTried => report
                .not_applied
                .push(line("not tried, because applying stopped before")),
            Outcome::Unknown(why) => report.unknown.push(line(why)),
        }
    }
    let held_back = approved.held_back.iter().map(|blocked| {
        let (reason, unblock) = (&blocked.reason, &blocked.unblock);
        let why = format!("blocked: {reason}; fix: {unblock}");
        Line::new(blocked.change.clone(), &why)
    });
    report.not_applied.extend(held_back);
    report
}

impl Report {
    /// The counts in one sentence.
    pub(super) fn counts(&self) -> String {
        let blocked = match self.blocked {
            0 => String::new(),
            blocked => format!(", {} blocked", grouped_digits(blocked)),
        };
        format!(
            "Applied {}; {} not applied, {} unknown{blocked}.",
            count(self.applied.len(), "change"),
            grouped_digits(self.not_applied.len()),
            grouped_digits(self.unknown.len())
        )
    }

    /// Number of changes that were made, or of which that is unknown.
    pub(super) fn written(&self) -> usize {
        self.applied.len() + self.unknown.len()
    }

    /// The changes that were not made, or of which that is unknown.
    pub(super) fn left(&self) -> Vec<LeftChange> {
        let unknown = self.unknown.iter().map(|line| (line, "unknown: "));
        let left = self.not_applied.iter().map(|line| (line, ""));
        let all = left.chain(unknown);
        all.map(|(line, label)| LeftChange {
            kind: line.kind,
            name: line.name.clone(),
            after: line.after.clone(),
            why: format!("{label}{}", line.why),
        })
        .collect()
    }
}

impl Line {
    fn new(change: ChangeDocument, why: &str) -> Line {
        let ChangeDocument {
            kind,
            name,
            before,
            after,
            action,
            ..
        } = change;
        Line {
            kind,
            name,
            action,
            before,
            after,
            why: why.to_owned(),
        }
    }
}

pub(super) fn summary(report: &Report, detail: Detail) -> String {
    let Report {
        format_version: _,
        began: _,
        directory: _,
        commit: _,
        applied: _,
        not_applied,
        unknown,
        blocked: _,
        undo,
    } = report;
    let mut text = String::new();
    for (title, lines) in [("not applied", not_applied), ("unknown", unknown)] {
        text += &failed_lines(title, lines, detail);
    }
    text += &(Paint::Bold.on(&report.counts()) + "\n");
    text + &undo.as_ref().map(undo_lines).unwrap_or_default()
}

/// Failed changes as lines: one line per cause in short form, one line per change in full form.
fn failed_lines(title: &str, lines: &[Line], detail: Detail) -> String {
    let title = Paint::Red.on(title);
    let one = |line: &Line| {
        let (kind, name, after) = (&line.kind, &line.name, line.after.join(" "));
        format!("{title} {kind}/{name}  {after}  {}\n", printable(&line.why))
    };
    if detail == Detail::Full {
        return lines.iter().map(one).collect();
    }
    let causes = Capped::new(grouped(lines.iter().map(|line| (&line.why, line))), detail);
    let mut text = String::new();
    for (why, group) in &causes.shown {
        if let [only] = group.as_slice() {
            text += &one(only);
            continue;
        }
        let names: Vec<String> = group
            .iter()
            .map(|line| format!("{}/{}", line.kind, line.name))
            .collect();
        text += &format!("{title} {}  {}\n", named(&names, detail), printable(why));
    }
    let shown: usize = causes.shown.iter().map(|(_, group)| group.len()).sum();
    if lines.len() > shown {
        let further = grouped_digits(lines.len() - shown);
        text += &format!("{title} … and {further} more; --show-all shows all\n");
    }
    text
}

fn undo_lines(
    Undo {
        file,
        changes,
        irreversible,
        of_files,
        instead,
    }: &Undo,
) -> String {
    let all = count(changes + irreversible, "change");
    let mut text = match file {
        Some(file) => format!(
            "Undo plan, takes back {} of {all}: {file}\n",
            grouped_digits(changes)
        ),
        None if *irreversible > 0 => format!("No undo plan: {all} cannot be taken back.\n"),
        None => String::new(),
    };
    if *of_files > 0 {
        let what = count(*of_files, "change");
        let verb = if *of_files == 1 { "follows" } else { "follow" };
        text += &format!(
            "{what} of pools, Services or address pairs {verb} the files: revert the files and apply.\n"
        );
    }
    for instead in instead.iter().filter(|_| *irreversible > 0) {
        text += &format!("  by hand: {}\n", printable(instead));
    }
    text
}

pub(super) fn unwritable_report(file: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!(
        "the report cannot be written to {}: {error}",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize, why: &str) -> Line {
        Line {
            kind: TargetKind::Node,
            name: format!("n{number}"),
            action: ChangeAction::Assign,
            before: Vec::new(),
            after: vec![format!("10.0.{number}.0/24")],
            why: why.to_owned(),
        }
    }

    #[test]
    fn failed_changes_are_grouped_by_cause() {
        let mut lines: Vec<Line> = (0..2_000).map(|number| line(number, "refused")).collect();
        lines.push(line(2_000, "no permission"));
        let text = failed_lines("not applied", &lines, Detail::Short);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.contains("Node/n9 … and 1,990 more  refused\n"),
            "{text}"
        );
        assert!(
            text.contains("Node/n2000  10.0.2000.0/24  no permission\n"),
            "{text}"
        );
        let full = failed_lines("not applied", &lines, Detail::Full);
        assert_eq!(full.lines().count(), 2_001);
    }

    #[test]
    fn many_causes_are_capped() {
        let lines: Vec<Line> = (0..30)
            .map(|number| line(number, &format!("why {number}")))
            .collect();
        let text = failed_lines("unknown", &lines, Detail::Short);
        assert_eq!(text.lines().count(), 11, "{text}");
        assert!(
            text.ends_with(" … and 20 more; --show-all shows all\n"),
            "{text}"
        );
    }
}
