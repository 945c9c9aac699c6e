//! Changes of nodes for the comment of a pull request: by pool and failure domain, and the first
//! nodes of each pool.

use std::collections::BTreeMap;

use super::human::{Detail, by_pool, further_pools, limit, short_name};
use super::markdown_page::{Entry, Fold, Page, Table, UpTo, WHOLE};
use super::markdown_waiting::named;
use super::markup::{Markup, Phrase, code, codes, prose};
use super::natural::{by_name, natural_order};
use super::text::{count, grouped_digits};
use ipam_planner::plan::ChangeDocument;

/// Rows of the table by pool and failure domain.
const GROUPS: usize = 40;

/// Nodes of one pool that have a row.
const NODES: usize = 20;

/// The first changes that are felt where Pods run.
pub(super) fn disruptive(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let disruptive = changes.iter().filter(|one| one.hazard == "disruptive");
    let all = by_name(disruptive.copied(), |change| &change.name);
    let row = |c: &&ChangeDocument| {
        [
            code(&short_name(&c.kind, &c.name)),
            codes(&c.before),
            codes(&c.after),
            prose(&c.reason),
        ]
    };
    let rows = page.each(all.iter().take(NODES), |_| 1, row);
    let further = further_rows(all.len());
    page.table(Table {
        title: Phrase::new(&format!("disruptive, {}", count(all.len(), "change"))),
        heading: ["object", "before", "after", "why"],
        rows: rows.into_iter().chain(further).collect(),
        noun: "disruptive change",
        fold: Fold::Open,
        up_to: UpTo(6),
    });
}

/// A row for the changes after the first ones.
fn further_rows(changes: usize) -> Option<Entry<[Markup; 4]>> {
    let count = changes.saturating_sub(NODES);
    let more = format!("… and {} more", grouped_digits(count));
    (count > 0).then(|| Entry {
        text: std::array::from_fn(|cell| prose(if cell == 0 { &more } else { "" })),
        count,
    })
}

/// A row for each pool and failure domain.
pub(super) fn by_pool_and_domain(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let mut groups: BTreeMap<(&str, &str), Vec<&ChangeDocument>> = BTreeMap::new();
    let of_nodes = changes.iter().filter(|change| change.kind == "Node");
    for change in by_name(of_nodes.copied(), |change| &change.name) {
        let pool = change.pool.as_deref().unwrap_or_default();
        let domain = change.failure_domain.as_deref().unwrap_or_default();
        groups.entry((pool, domain)).or_default().push(change);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(one, _), (other, _)| {
        natural_order(one.0, other.0).then_with(|| natural_order(one.1, other.1))
    });
    let changes = groups.iter().map(|(_, changes)| changes.len()).sum();
    let mut rows: Vec<Entry<[Markup; 5]>> = groups
        .iter()
        .take(GROUPS)
        .map(|group| row(page, group))
        .collect();
    rows.extend(further(groups.get(GROUPS..).unwrap_or_default()));
    page.table(Table {
        title: Phrase::new(&format!(
            "by pool and failure domain, {}",
            count(changes, "change")
        )),
        heading: ["pool", "failure domain", "changes", "disruptive", "nodes"],
        rows,
        noun: "row",
        fold: Fold::Open,
        up_to: UpTo(7),
    });
}

fn row(
    page: &Page<'_>,
    ((pool, domain), changes): &((&str, &str), Vec<&ChangeDocument>),
) -> Entry<[Markup; 5]> {
    let or_none = |name: &str| match name.is_empty() {
        true => prose("–"),
        false => code(name),
    };
    let disruptive = changes.iter().filter(|one| one.hazard == "disruptive");
    let names = changes.iter().map(|change| code(&change.name));
    Entry::one([
        or_none(pool),
        or_none(domain),
        prose(&grouped_digits(changes.len())),
        prose(&grouped_digits(disruptive.count())),
        named(page, names, " ", Detail::Short),
    ])
}

fn further(groups: &[((&str, &str), Vec<&ChangeDocument>)]) -> Option<Entry<[Markup; 5]>> {
    let changes: usize = groups.iter().map(|(_, changes)| changes.len()).sum();
    let text = |cell| match cell {
        0 => prose(&format!("… and {} more", grouped_digits(groups.len()))),
        2 => prose(&grouped_digits(changes)),
        _ => prose(""),
    };
    (!groups.is_empty()).then(|| Entry::one(std::array::from_fn(text)))
}

/// The first nodes of each pool, folded.
pub(super) fn nodes_of_pools(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let pools = by_pool(changes.iter().copied());
    for (pool, changes) in pools.iter().take(limit(Detail::Short)) {
        let title = Phrase::new("pool ").value(pool.unwrap_or("(none)"));
        page.table(Table {
            title: title.words(&format!(", {}", count(changes.len(), "change"))),
            heading: ["node", "block", "write path", "why"],
            rows: rows_of(page, changes),
            noun: "change",
            fold: Fold::Folded,
            up_to: WHOLE,
        });
    }
    let further = further_pools(&pools, Detail::Short);
    if let Some(text) = further.map(|further| format!("\n… and {further}\n")) {
        page.part(Entry { text, count: 0 }, "change");
    }
}

fn rows_of(page: &Page<'_>, changes: &[&ChangeDocument]) -> Vec<Entry<[Markup; 4]>> {
    let row = |c: &&ChangeDocument| {
        [
            code(&c.name),
            codes(&c.after),
            code(&c.write_path),
            prose(&c.reason),
        ]
    };
    let mut rows = page.each(changes.iter().take(NODES), |_| 1, row);
    rows.extend(further_rows(changes.len()));
    rows
}
