//! Blocked, misplaced and drifted objects as tables of the Markdown page: a row for each cause.

use super::causes;
use super::human::{Detail, blocked_name, limit, short_name};
use super::human_misplaced::how_many;
use super::markdown_page::{Entry, Fold, Page, Table, UpTo, WHOLE};
use super::markup::{Markup, Phrase, code, prose};
use super::text::{count, grouped_digits};
use ipam_planner::plan::{BlockedDocument, DriftDocument, MisplacedDocument};

pub(super) fn blocked(page: &mut Page<'_>, blocked: &[BlockedDocument], detail: Detail) {
    let causes = causes::blocked(blocked, detail);
    let mut rows: Vec<Entry<[Markup; 3]>> = Vec::new();
    for cause in &causes.shown {
        for (reason, entries) in cause.reasons.iter().take(limit(detail)) {
            let names = named(
                page,
                entries.iter().map(|entry| code(&blocked_name(entry))),
                " ",
                detail,
            );
            rows.push(Entry {
                text: [names, prose(reason), prose(cause.unblock)],
                count: entries.len(),
            });
        }
        let further: usize = cause
            .reasons
            .iter()
            .skip(limit(detail))
            .map(|(_, entries)| entries.len())
            .sum();
        if further > 0 {
            rows.push(Entry {
                text: [
                    prose(&format!("… and {} more", grouped_digits(further))),
                    code(cause.code),
                    prose(cause.unblock),
                ],
                count: further,
            });
        }
    }
    rows.extend(causes.further().map(|further| Entry {
        text: [prose(&format!("… and {further}")), prose(""), prose("")],
        count: causes.hidden_objects(),
    }));
    page.table(Table {
        title: Phrase::new(&format!("blocked, {}", count(blocked.len(), "object"))),
        heading: ["object", "why", "way out"],
        rows,
        noun: "blocked object",
        fold: Fold::Open,
        up_to: UpTo(4),
    });
}

pub(super) fn misplaced(
    page: &mut Page<'_>,
    misplaced: &[MisplacedDocument],
    fold: Fold,
    detail: Detail,
) {
    let causes = causes::misplaced(misplaced, detail);
    let row = |cause: &causes::MisplacedCause<'_>| {
        let blocks = cause
            .blocks
            .iter()
            .map(|one| code(&format!("{} {}", one.name, one.block)));
        let how_many = prose(&count(cause.blocks.len(), "block"));
        let text = [
            code(cause.pool.unwrap_or_default()),
            prose(cause.reason),
            prose(cause.help),
            how_many,
            named(page, blocks, " ", detail),
        ];
        Entry {
            text,
            count: cause.blocks.len(),
        }
    };
    let mut rows: Vec<Entry<[Markup; 5]>> = causes.shown.iter().map(row).collect();
    rows.extend(causes.further().map(|further| Entry {
        text: further_row(&further),
        count: causes.hidden_objects(),
    }));
    page.table(Table {
        title: Phrase::new(&format!("misplaced, {}", how_many(misplaced))),
        heading: ["pool", "why", "way out", "how many", "nodes"],
        rows,
        noun: "misplaced block",
        fold,
        up_to: WHOLE,
    });
}

pub(super) fn drift(page: &mut Page<'_>, drift: &[DriftDocument], detail: Detail) {
    let causes = causes::drift(drift, detail);
    let row = |cause: &causes::DriftCause<'_>| {
        let entries = cause.entries.iter().map(|entry| drifted(entry));
        let text = [
            code(cause.field),
            code(cause.manager.unwrap_or_default()),
            prose(&count(cause.entries.len(), "object")),
            named(page, entries, "; ", detail),
        ];
        Entry {
            text,
            count: cause.entries.len(),
        }
    };
    let mut rows: Vec<Entry<[Markup; 4]>> = causes.shown.iter().map(row).collect();
    rows.extend(causes.further().map(|further| Entry {
        text: further_row(&further),
        count: causes.hidden_objects(),
    }));
    page.table(Table {
        title: Phrase::new(&format!("drift, {}", count(drift.len(), "field"))),
        heading: ["field", "written by", "how many", "objects"],
        rows,
        noun: "drifted field",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}

fn further_row<const N: usize>(further: &str) -> [Markup; N] {
    std::array::from_fn(|cell| match cell {
        0 => prose(&format!("… and {further}")),
        _ => prose(""),
    })
}

fn drifted(entry: &DriftDocument) -> Markup {
    let name = short_name(&entry.kind, &entry.name);
    let shows = Phrase::new("").value(&name).words(" shows ");
    let expected = shows.value(&entry.seen).words(", expected ");
    expected.value(&entry.expected).markdown()
}

/// The first few, each of which can be copied alone, and how many more there are. A cell that is
/// longer than a page fits on none, so no further name is made.
pub(super) fn named(
    page: &Page<'_>,
    all: impl ExactSizeIterator<Item = Markup>,
    between: &str,
    detail: Detail,
) -> Markup {
    let further = all.len().saturating_sub(limit(detail));
    let more = (further > 0).then(|| prose(&format!("and {} more", grouped_digits(further))));
    let mut bytes = 0;
    let fits = |name: &Markup| {
        let fits = !page.is_longer(bytes);
        bytes += name.as_str().len();
        fits
    };
    let shown = all.take(limit(detail)).take_while(fits);
    Markup::joined(shown.chain(more), between)
}
