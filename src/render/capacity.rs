//! How full a cluster is, as text for a person at a terminal and as Markdown for a ticket.

use std::collections::BTreeMap;

use super::human::Detail;
use super::markdown_page::{Page, PageLimit};
use super::markup::prose;
use super::model::{Form, Listing, Report, Row, WHOLE, first, page};
use super::phrase::Phrase;
use super::terminal;
use super::text::{count, grouped_digits, printable, table};
use ipam_plan::capacity::{
    CapacityDocument, NextDocument, OutsideDocument, RowDocument, UnknownDocument, WaitingDocument,
};

/// The columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    Usual,
    /// Also ranges and the longest free run.
    Wide,
}

type Column = (&'static str, fn(&RowDocument) -> String);

const USUAL: [Column; 10] = [
    ("KIND", |row| row.kind.to_owned()),
    ("NAME", |row| or_dash(&row.name)),
    ("FAMILY", |row| row.family.clone()),
    ("BLOCK", |row| {
        row.block_size
            .map_or_else(|| "-".to_owned(), |size| format!("/{size}"))
    }),
    ("TOTAL", |row| grouped_digits(row.total)),
    ("USED", |row| grouped_digits(row.used)),
    ("RESERVED", |row| grouped_digits(row.reserved)),
    ("FREE", |row| grouped_digits(row.free)),
    ("USE", |row| format!("{} %", row.used_percent)),
    ("TIME LEFT", |row| row.time_left.clone()),
];

const WIDE: [Column; 3] = [
    ("NODES", |row| grouped_digits(row.nodes)),
    ("LONGEST FREE", |row| {
        or_dash(row.longest_free.as_deref().unwrap_or_default())
    }),
    ("RANGES", |row| row.ranges.join(",")),
];

fn or_dash(text: &str) -> String {
    match text.is_empty() {
        true => "-".to_owned(),
        false => printable(text).into_owned(),
    }
}

/// The capacity as text.
pub fn capacity(document: &CapacityDocument, columns: Columns, detail: Detail) -> String {
    let columns = match columns {
        Columns::Usual => USUAL.to_vec(),
        Columns::Wide => [&USUAL[..], &WIDE].concat(),
    };
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let cells = |row: &RowDocument| columns.iter().map(|(_, cell)| cell(row)).collect();
    let rows: Vec<Vec<String>> = document.rows.iter().map(cells).collect();
    let table = match rows.is_empty() {
        true => String::new(),
        false => format!("{}\n", table(headings, &rows)),
    };
    let report = Report {
        verdict: verdict(document),
        below: next(&document.next),
        sections: listings(document, detail)
            .into_iter()
            .map(Into::into)
            .collect(),
    };
    table + &terminal::report(report, detail)
}

/// The capacity as Markdown.
pub fn capacity_markdown(document: &CapacityDocument, detail: Detail, limit: PageLimit) -> String {
    let title = format!("### Capacity: {}\n", prose(&verdict(document)));
    let mut markdown = Page::new(limit, title, "");
    for line in next(&document.next) {
        markdown.part(&format!("\n{}\n", prose(&line)), 1, "line");
    }
    let columns = [&USUAL[..], &WIDE].concat();
    let headings: Vec<_> = columns.iter().map(|(heading, _)| page(heading)).collect();
    let row = |row: &RowDocument| Row::new(columns.iter().map(|(_, cell)| Phrase::of(&cell(row))));
    let supplies = Listing::new(Phrase::new("Pools and ranges"), "row", &headings);
    markdown.listing(supplies.form(Form::Open, WHOLE).rows(&document.rows, row));
    for listing in listings(document, detail) {
        markdown.listing(listing);
    }
    markdown.finish()
}

/// The fullest supply, and what is wrong, in one line.
fn verdict(document: &CapacityDocument) -> String {
    let fullest = document
        .rows
        .iter()
        .rev()
        .max_by_key(|row| (row.used_percent, row.used));
    let mut parts = Vec::new();
    match fullest {
        None => parts.push("no pool and no range is known".to_owned()),
        Some(row) => {
            let left = match row.time_left.as_str() {
                "unknown" => String::new(),
                left => format!(", {left}"),
            };
            let of = [row.kind, &row.name].join(" ");
            let rank = if document.rows.len() > 1 {
                "the fullest is "
            } else {
                ""
            };
            parts.push(format!(
                "{rank}{}: {} used{left}",
                of.trim(),
                row.used_of_usable()
            ));
        }
    }
    let waiting = document.waiting.len();
    if waiting > 0 {
        parts.push(format!("{} without a block", count(waiting, "node")));
    }
    if !document.unknown.is_empty() {
        parts.push(format!(
            "{} unknown",
            grouped_digits(document.unknown.len())
        ));
    }
    parts.join("; ")
}

/// What the next new node gets. An allocator gives a node blocks of all families or none.
fn next(next: &[NextDocument]) -> Vec<String> {
    let full = next.iter().find(|one| one.range.is_none());
    if let Some(full) = full {
        return vec![format!(
            "A new node gets no block: no range has a free {} block.",
            full.family
        )];
    }
    let ranges = next
        .iter()
        .filter_map(|one| Some((one.range.as_ref()?, &one.family)));
    let ranges: Vec<String> = ranges
        .map(|(range, family)| format!("{family} from {range}"))
        .collect();
    match ranges.is_empty() {
        true => Vec::new(),
        false => vec![format!("A new node gets {}.", ranges.join(" and "))],
    }
}

fn listings(document: &CapacityDocument, detail: Detail) -> [Listing<'_>; 3] {
    let mut causes: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for WaitingDocument {
        node,
        families,
        why,
    } in &document.waiting
    {
        let cause = (why.as_str(), families.join(" and "));
        causes.entry(cause).or_default().push(node.clone());
    }
    let number = count(document.waiting.len(), "node");
    let causes: Vec<_> = causes.into_iter().collect();
    let waiting = move |((why, families), nodes): ((&str, String), Vec<String>)| {
        let line = Phrase::names(&nodes, detail).words(&format!(": no {families} block: "));
        Row::new([line.sentence(why)]).of(nodes.len())
    };
    let title = Phrase::new("Nodes without a block");
    let waiting = Listing::new(title, "node", &[first("")])
        .form(Form::Titled, WHOLE)
        .counted(number)
        .rows(causes, waiting);
    let outside = move |OutsideDocument { pool, nodes }: &OutsideDocument| {
        let line = Phrase::names(nodes, detail).words(": best pool ");
        Row::new([line.value(pool)]).of(nodes.len())
    };
    let number = document.outside.iter().map(|one| one.nodes.len()).sum();
    let title = Phrase::new("Nodes outside their best pool");
    let outside = Listing::new(title, "node", &[first("")])
        .form(Form::Titled, WHOLE)
        .counted(count(number, "node"))
        .rows(&document.outside, outside);
    let unknown = |UnknownDocument {
                       kind,
                       name,
                       family,
                       why,
                   }: &UnknownDocument| {
        let family = family.as_deref().map(|family| format!(", {family}"));
        let subject = Phrase::new(kind).words(if name.is_empty() { "" } else { " " });
        let subject = match name.is_empty() {
            true => subject,
            false => subject.value(name),
        };
        Row::new([subject
            .words(&family.unwrap_or_default())
            .words(": ")
            .sentence(why)])
    };
    let title = Phrase::new("Unknown");
    let unknown = Listing::new(title, "supply", &[first("")])
        .form(Form::Titled, WHOLE)
        .rows(&document.unknown, unknown);
    [waiting, outside, unknown]
}
