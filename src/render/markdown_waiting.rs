//! Blocked, misplaced and drifted objects as tables of the Markdown page: a row for each cause.

use super::causes;
use super::human::{Detail, blocked_name, limit, short_name};
use super::human_misplaced::how_many;
use super::markdown_page::Page;
use super::markup::{Markup, Phrase, code, prose};
use super::text::{count, grouped_digits};
use ipam_planner::plan::{BlockedDocument, DriftDocument, MisplacedDocument};

pub(super) fn blocked(page: &mut Page<'_>, blocked: &[BlockedDocument], detail: Detail) {
    let causes = causes::blocked(blocked, detail);
    let mut rows: Vec<[Markup; 3]> = Vec::new();
    for cause in &causes.shown {
        for (reason, entries) in cause.reasons.iter().take(limit(detail)) {
            let names = named(
                entries.iter().map(|entry| code(&blocked_name(entry))),
                " ",
                detail,
            );
            rows.push([names, prose(reason), prose(cause.unblock)]);
        }
        let further: usize = cause
            .reasons
            .iter()
            .skip(limit(detail))
            .map(|(_, entries)| entries.len())
            .sum();
        if further > 0 {
            rows.push([
                prose(&format!("… and {} more", grouped_digits(further))),
                code(cause.code),
                prose(cause.unblock),
            ]);
        }
    }
    rows.extend(
        causes
            .further()
            .map(|further| [prose(&format!("… and {further}")), prose(""), prose("")]),
    );
    let title = Phrase::new(&format!("blocked, {}", count(blocked.len(), "object")));
    page.table(title, ["object", "why", "way out"], &rows);
}

pub(super) fn misplaced(page: &mut Page<'_>, misplaced: &[MisplacedDocument], detail: Detail) {
    let causes = causes::misplaced(misplaced, detail);
    let row = |cause: &causes::MisplacedCause<'_>| {
        let blocks = cause
            .blocks
            .iter()
            .map(|one| code(&format!("{} {}", one.name, one.block)));
        let how_many = prose(&count(cause.blocks.len(), "block"));
        [
            code(cause.pool.unwrap_or_default()),
            prose(cause.reason),
            how_many,
            named(blocks, " ", detail),
        ]
    };
    let mut rows: Vec<[Markup; 4]> = causes.shown.iter().map(row).collect();
    rows.extend(causes.further().map(|further| {
        [
            prose(&format!("… and {further}")),
            prose(""),
            prose(""),
            prose(""),
        ]
    }));
    let title = Phrase::new(&format!("misplaced, {}", how_many(misplaced)));
    page.table(title, ["pool", "why", "how many", "nodes"], &rows);
}

pub(super) fn drift(page: &mut Page<'_>, drift: &[DriftDocument], detail: Detail) {
    let causes = causes::drift(drift, detail);
    let row = |cause: &causes::DriftCause<'_>| {
        let entries = cause.entries.iter().map(|entry| drifted(entry));
        [
            code(cause.field),
            code(cause.manager.unwrap_or_default()),
            prose(&count(cause.entries.len(), "object")),
            named(entries, "; ", detail),
        ]
    };
    let mut rows: Vec<[Markup; 4]> = causes.shown.iter().map(row).collect();
    rows.extend(causes.further().map(|further| {
        [
            prose(&format!("… and {further}")),
            prose(""),
            prose(""),
            prose(""),
        ]
    }));
    let title = Phrase::new(&format!("drift, {}", count(drift.len(), "field")));
    page.table(title, ["field", "written by", "how many", "objects"], &rows);
}

fn drifted(entry: &DriftDocument) -> Markup {
    let name = short_name(&entry.kind, &entry.name);
    let shows = Phrase::new("").value(&name).words(" shows ");
    let expected = shows.value(&entry.seen).words(", expected ");
    expected.value(&entry.expected).markdown()
}

/// The first few, each of which can be copied alone, and how many more there are.
fn named(all: impl ExactSizeIterator<Item = Markup>, between: &str, detail: Detail) -> Markup {
    let further = all.len().saturating_sub(limit(detail));
    let more = (further > 0).then(|| prose(&format!("and {} more", grouped_digits(further))));
    Markup::joined(all.take(limit(detail)).chain(more), between)
}
