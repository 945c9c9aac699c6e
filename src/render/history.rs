//! A history as text. Names, messages and files come from strangers: every line is escaped.

use super::human::{Detail, limit};
use super::terminal::more;
use super::text::{Paint, count};
use ipam_core::text::one_line;
use ipam_doctor::explain::Relation;
use ipam_doctor::history::{
    AppliedDocument, AskedDocument, CommitDocument, Edge, GapDocument, HistoryDocument,
    RecordedDocument, UnreadReport,
};

/// Digits of a commit id.
const ID: usize = 12;

/// The history, for people.
pub fn history(history: &HistoryDocument, detail: Detail) -> String {
    let directory = one_line(&history.directory);
    let title = format!("{} in the history of {directory}", history.subject);
    let mut text = heading(&title);
    text.push_str(&line(&format!("up to   {}", commit(&history.commit))));
    text.push_str(&begins(history));
    text.push_str(&heading("documents"));
    if history.asked.is_empty() {
        text.push_str(&line("none that can be read names it or has its addresses"));
    }
    text.push_str(&section(&history.asked, detail, asked));
    if let Some(snapshot) = &history.snapshot {
        let states = count(history.snapshots, "recorded state");
        text.push_str(&heading(&format!("{states} of the cluster in {snapshot}")));
        if history.recorded.is_empty() {
            text.push_str(&line("none that can be read shows it"));
        }
        text.push_str(&section(&history.recorded, detail, recorded));
    } else {
        text.push_str(&heading("recorded states of the cluster"));
        text.push_str(&line("none: the repository has no snapshot"));
    }
    if history.reports > 0 {
        let reports = count(history.reports, "report");
        text.push_str(&heading(&format!("applies, of {reports}")));
        if history.applied.is_empty() {
            text.push_str(&line("none changed it"));
        }
        text.push_str(&section(&history.applied, detail, applied));
    }
    if !history.unread.is_empty() || !history.unread_reports.is_empty() {
        text.push_str(&heading("could not be read, so it may have said more"));
        text.push_str(&section(&history.unread, detail, gap));
        text.push_str(&section(&history.unread_reports, detail, unread_report));
    }
    text
}

fn begins(history: &HistoryDocument) -> String {
    let begins = &history.begins;
    let mut text = line(&format!("begins  {}", commit(&begins.commit)));
    for folder in &begins.moved_from {
        text.push_str(&line(&format!(
            "        with files from {folder}, whose history is not part of this"
        )));
    }
    if let Some(shallow) = &begins.shallow {
        text.push_str(&line(&format!(
            "        the clone is shallow: the history begins at commit {}",
            id(&shallow.commit)
        )));
    }
    text
}

/// The latest items as text, and the number of earlier ones.
fn section<T>(items: &[T], detail: Detail, text: fn(&T) -> String) -> String {
    let earlier = items.len().saturating_sub(limit(detail));
    more(earlier) + &items[earlier..].iter().map(text).collect::<String>()
}

fn heading(text: &str) -> String {
    format!("{}\n", Paint::Bold.on(&one_line(text)))
}

fn line(text: &str) -> String {
    format!("  {}\n", one_line(text))
}

fn id(id: &str) -> &str {
    id.get(..ID).unwrap_or(id)
}

fn time(time: Option<&String>) -> String {
    let time = time.map_or("unknown time", String::as_str);
    let minutes = time.get(..16).unwrap_or(time);
    minutes.replace('T', " ")
}

/// `2026-03-04 09:00  1f2e3d4c5b6a  Ada: Pin worker-7`
fn commit(commit: &CommitDocument) -> String {
    let CommitDocument {
        id: full,
        time: at,
        author,
        email: _,
        subject,
    } = commit;
    format!("{}  {}  {author}: {subject}", time(at.as_ref()), id(full))
}

/// `NodeAssignment/worker-7  spec.podCIDRs 10.20.0.0/24  (within)`
fn subject_line(object: &str, field: &str, value: &str, relation: Option<Relation>) -> String {
    let relation = relation.map(|relation| format!("  ({relation})"));
    let relation = relation.unwrap_or_default();
    line(&format!("{object}  {field} {value}{relation}"))
}

fn asked(asked: &AskedDocument) -> String {
    let AskedDocument {
        document,
        field,
        value,
        relation,
        from,
        until,
        unread_since,
    } = asked;
    let mut text = subject_line(document, field, value, *relation);
    text.push_str(&edge("from ", from));
    match (until, unread_since) {
        (Some(until), _) => text.push_str(&edge("until", until)),
        (None, None) => text.push_str(&line("  until  now")),
        (None, Some(_)) => text.push_str(&line("  until  an unknown time")),
    }
    if let Some(since) = unread_since {
        text.push_str(&line(&format!(
            "         its file cannot be read since {}",
            commit(since)
        )));
    }
    text
}

fn edge(word: &str, edge: &Edge) -> String {
    let Edge {
        commit: made,
        merge,
        pull_request,
        file,
        line: number,
        uncertain,
    } = edge;
    let mut text = line(&format!("  {word}  {}", commit(made)));
    let place = format!("{file}:{number}");
    let request = pull_request
        .as_ref()
        .map(|request| format!("pull request {request}"));
    let merge = merge.as_ref().map(|merge| {
        let (at, id) = (time(merge.time.as_ref()), id(&merge.id));
        format!("merged {at} by {} in {id}", merge.author)
    });
    let parts: Vec<String> = [Some(place), request, merge]
        .into_iter()
        .flatten()
        .collect();
    text.push_str(&line(&format!("         {}", parts.join(", "))));
    if let Some(why) = uncertain {
        text.push_str(&line(&format!("         it may be older: {why}")));
    }
    text
}

fn recorded(recorded: &RecordedDocument) -> String {
    let RecordedDocument {
        object,
        field,
        value,
        relation,
        not_yet,
        first_seen,
        last_seen,
        gone,
        written_by,
    } = recorded;
    let mut text = subject_line(object, field, value, *relation);
    let states = [
        ("not yet   ", not_yet.as_ref()),
        ("first seen", Some(first_seen)),
        ("last seen ", Some(last_seen)),
        ("gone      ", gone.as_ref()),
    ];
    for (word, state) in states {
        if let Some(state) = state {
            text.push_str(&line(&format!("  {word}  {}", commit(state))));
        }
    }
    if let Some(writer) = written_by {
        text.push_str(&line(&format!("  written by  {writer}")));
    }
    text
}

fn applied(applied: &AppliedDocument) -> String {
    let AppliedDocument {
        time: at,
        object,
        action,
        before,
        after,
        relation,
        outcome,
        commit,
        report,
    } = applied;
    let values = match (before.is_empty(), after.is_empty()) {
        (true, _) => after.join(" "),
        (false, true) => before.join(" "),
        (false, false) => format!("{} -> {}", before.join(" "), after.join(" ")),
    };
    let of_outcome = match *outcome {
        "applied" => "",
        _ => ", and it is unknown whether it was written",
    };
    let mut text = subject_line(object, action, &values, *relation);
    let of_commit = commit
        .as_deref()
        .map(|commit| format!("  commit {}", id(commit)));
    text.push_str(&line(&format!(
        "  applied  {}{}{of_outcome}",
        time(Some(at)),
        of_commit.unwrap_or_default()
    )));
    text.push_str(&line(&format!("           by the report {report}")));
    text
}

fn unread_report(unread: &UnreadReport) -> String {
    line(&format!("{}: {}", unread.file, unread.why))
}

fn gap(gap: &GapDocument) -> String {
    let GapDocument {
        file,
        why,
        from,
        until,
    } = gap;
    let mut text = line(&format!("{file}: {}", why));
    text.push_str(&line(&format!("  from   {}", commit(from))));
    let until = until.as_ref().map_or_else(|| "now".to_owned(), commit);
    text.push_str(&line(&format!("  until  {until}")));
    text
}
