//! Blocked, misplaced and drifted objects as sections of a report: a row for each cause.

use super::causes::{self, DriftCause};
use super::human::{Detail, limit};
use super::model::{Form, Listing, Row, UpTo, WHOLE, aside, below, first, page, shared};
use super::phrase::Phrase;
use super::plan_sections::short_name;
use super::text::{Paint, count, grouped_digits};
use ipam_plan::plan::{BlockedDocument, DriftDocument, MisplacedDocument, TargetKind};

/// Blocked objects: a row for each cause and reason.
pub(super) fn blocked(blocked: &[BlockedDocument], detail: Detail) -> Listing<'_> {
    let noun = match blocked.iter().all(|entry| entry.kind == TargetKind::Node) {
        true => "node",
        false => "object",
    };
    let causes = causes::blocked(blocked, detail);
    let mut rows = Vec::new();
    for cause in &causes.shown {
        let unblock = Phrase::prose(cause.unblock);
        let (shown, hidden) = cause
            .reasons
            .split_at(cause.reasons.len().min(limit(detail)));
        for (reason, entries) in shown {
            let names = entries
                .iter()
                .map(|entry| short_name(entry.kind, &entry.name));
            let names = Phrase::names(&names.collect::<Vec<_>>(), detail);
            let row = Row::new([names, Phrase::prose(reason), unblock.clone()]);
            rows.push(row.sign(Paint::Red, "!").of(entries.len()));
        }
        let hidden: usize = hidden.iter().map(|(_, entries)| entries.len()).sum();
        if hidden > 0 {
            let more = Phrase::new(&format!("… and {} more", grouped_digits(hidden)));
            let row = Row::new([more, Phrase::of(cause.code), unblock]).of(hidden);
            rows.push(Row {
                is_rest: true,
                ..row
            });
        }
    }
    let rest = causes
        .further()
        .map(|further| (further, causes.hidden_objects()));
    let columns = [first("object"), below("why"), shared("fix")];
    Listing {
        always: usize::MAX,
        codes: blocked.iter().map(|entry| entry.code.as_str()).collect(),
        ..Listing::new(Phrase::new("blocked"), "blocked object", &columns)
            .counted(count(blocked.len(), noun))
            .form(Form::Open, UpTo(4))
            .rows(rows, |row| row)
            .rest(rest)
    }
}

/// Misplaced blocks: a row for each cause.
pub(super) fn misplaced(misplaced: &[MisplacedDocument], detail: Detail) -> Listing<'_> {
    let causes = causes::misplaced(misplaced, detail);
    let rest = causes
        .further()
        .map(|further| (further, causes.hidden_objects()));
    let row = move |cause: causes::MisplacedCause<'_>| {
        let how_many = Phrase::new(&count(cause.blocks.len(), "block"));
        let pool = Phrase::of(cause.pool.unwrap_or_default());
        let place = match cause.pool {
            Some(_) => how_many.clone().words(" of pool ").then(pool.clone()),
            None => how_many.clone(),
        };
        let blocks = cause.blocks.iter();
        let blocks = blocks.map(|one| format!("{} {}", one.name, one.block));
        let reason = Phrase::prose(cause.reason);
        Row::new([
            pool,
            place.words(": ").then(reason.clone()),
            reason,
            how_many,
            Phrase::names(&blocks.collect::<Vec<_>>(), detail),
            Phrase::prose(cause.help),
        ])
        .sign(Paint::Yellow, "!")
        .of(cause.blocks.len())
    };
    let mut nodes: Vec<&str> = misplaced.iter().map(|one| one.name.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let columns = [page("pool"), first(""), page("why"), page("how many")];
    let columns = [&columns[..], &[below("nodes"), aside("fix")]].concat();
    Listing {
        remark: "; the block of a node never moves automatically",
        codes: misplaced.iter().map(|one| one.code.as_str()).collect(),
        ..Listing::new(Phrase::new("misplaced"), "misplaced block", &columns)
            // A node may have one block of each family.
            .counted(format!(
                "{} of {}",
                count(misplaced.len(), "block"),
                count(nodes.len(), "node")
            ))
            .rows(causes.shown, row)
            .rest(rest)
    }
}

/// Drift by field and author. `column` is one of a page: its heading, and its cell.
pub(super) fn drift<'p>(
    drift: impl IntoIterator<Item = &'p DriftDocument>,
    detail: Detail,
    column: (&'static str, impl Fn(&DriftCause<'_>) -> Phrase + 'p),
) -> Listing<'p> {
    let (heading, cell) = column;
    let causes = causes::drift(drift, detail);
    let rest = causes
        .further()
        .map(|further| (further, causes.hidden_objects()));
    let row = move |cause: DriftCause<'p>| {
        let (author, objects) = (author(&cause), drifted(&cause, detail));
        let is_known = cause.manager.is_some();
        let author_last = match is_known {
            true => Phrase::new(", written by ").then(author.clone()),
            false => Phrase::default(),
        };
        let (line, below) = match cause.entries[..] {
            [only] => {
                let line = Phrase::of(&short_name(only.kind, &only.name)).words("  ");
                let line = line.value(cause.field).words(" shows ").value(&only.seen);
                let line = line.words(", expected ").value(&only.expected);
                (line, Phrase::default())
            }
            _ => {
                let number = count(cause.entries.len(), "object");
                let line = Phrase::new(&number).words(": ").value(cause.field);
                (line.words(" differs"), objects.clone())
            }
        };
        Row::new([
            Phrase::of(cause.field),
            author,
            cell(&cause),
            line.then(author_last),
            below,
            objects,
        ])
        .sign(Paint::Yellow, "?")
        .of(cause.entries.len())
    };
    let columns = [page("field"), page("last written by"), page(heading)];
    let columns = [&columns[..], &[first(""), below(""), page("objects")]].concat();
    Listing::new(Phrase::new("drift"), "drifted field", &columns)
        .form(Form::Folded, WHOLE)
        .rows(causes.shown, row)
        .rest(rest)
}

/// How many objects have a cause of drift.
pub(super) fn drifted_objects(cause: &DriftCause<'_>) -> Phrase {
    Phrase::new(&count(cause.entries.len(), "object"))
}

fn author(cause: &DriftCause<'_>) -> Phrase {
    let time = match &cause.entries[..] {
        [only] => only.time.as_deref(),
        _ => None,
    };
    match (cause.manager, time) {
        (None, _) => Phrase::new("unknown"),
        (Some(manager), None) => Phrase::of(manager),
        (Some(manager), Some(time)) => Phrase::of(manager).words(" at ").value(time),
    }
}

fn drifted(cause: &DriftCause<'_>, detail: Detail) -> Phrase {
    let one = |entry: &&DriftDocument| {
        let shows = Phrase::of(&short_name(entry.kind, &entry.name)).words(" shows ");
        let expected = shows.value(&entry.seen).words(" (expected ");
        expected.value(&entry.expected).words(")")
    };
    Phrase::listed(cause.entries.iter().map(one), "; ", detail)
}
