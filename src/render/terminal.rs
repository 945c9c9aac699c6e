//! A report for a person at a terminal.

use super::human::{Detail, limit};
use super::model::{Column, Listing, Place, Report, Row, Section};
use super::text::{Paint, grouped_digits, pointer_with_codes, printable};

/// The verdict, the sections and the verdict again. `Short` has the first rows of each section.
pub(super) fn report(report: Report<'_>, detail: Detail) -> String {
    let verdict = format!("{}\n", Paint::Bold.on(&printable(&report.verdict)));
    let below = report.below.into_iter().filter(|line| !line.is_empty());
    let below = below.map(|line| format!("{line}\n"));
    let sections = report.sections.into_iter().map(|one| section(one, detail));
    let body: String = below.chain(sections).collect();
    let last = match body.is_empty() {
        true => String::new(),
        false => format!("\n{verdict}"),
    };
    verdict.clone() + &body + &last
}

fn section(section: Section<'_>, detail: Detail) -> String {
    match section {
        Section::Listing(rows) => listing(rows, detail),
        Section::Note(note) => format!("\n{}\n", note.text()),
        Section::Aside(note) => Paint::Dim.on(&format!("\n{}\n", note.text())),
    }
}

/// A listing with title and rows as terminal text; empty without rows.
pub(super) fn listing(listing: Listing<'_>, detail: Detail) -> String {
    let Listing {
        title,
        how_many,
        remark,
        paint,
        columns,
        aligned,
        mut rows,
        always,
        rest,
        codes,
        ..
    } = listing;
    let most = limit(detail).max(always);
    let shown: Vec<Row> = rows.by_ref().take(most).collect();
    if shown.is_empty() {
        return String::new();
    }
    let title = paint.on(&title.text());
    let mut text = match how_many.is_empty() {
        true => format!("\n{title}\n"),
        false => format!("\n{title} ({how_many}{remark})\n"),
    };
    let widths = match aligned {
        true => widths(&columns, &shown),
        false => vec![0; columns.len()],
    };
    for (place, row) in shown.iter().enumerate() {
        text += &row_text(row, shown.get(place + 1), &columns, &widths);
    }
    text += &more(rows.len());
    text += &rest.map_or_else(String::new, |(rest, _)| others(&rest));
    if let Some(line) = pointer_with_codes(codes) {
        text += &format!("  {}\n", Paint::Dim.on(&printable(&line)));
    }
    text
}

/// The line that counts rows which are not shown.
pub(super) fn more(hidden: usize) -> String {
    match hidden {
        0 => String::new(),
        hidden => others(&format!("{} more", grouped_digits(hidden))),
    }
}

fn others(what: &str) -> String {
    let line = format!("    … and {}; --show-all shows all", printable(what));
    format!("{}\n", Paint::Dim.on(&line))
}

fn widths(columns: &[Column], rows: &[Row]) -> Vec<usize> {
    let width = |(column, place): (usize, Place)| {
        let cells = rows.iter().filter(|row| !row.is_rest);
        let cells = cells.filter_map(|row| row.cells.get(column));
        let widest = cells.map(|cell| cell.text().chars().count()).max();
        match place {
            Place::First(least) => widest.unwrap_or_default().max(least),
            Place::Below | Place::Aside | Place::Shared | Place::Page => 0,
        }
    };
    let places = columns.iter().map(|column| column.place);
    places.enumerate().map(width).collect()
}

fn row_text(row: &Row, next: Option<&Row>, columns: &[Column], widths: &[usize]) -> String {
    if row.is_rest {
        let rest = row.cells.first().map(|cell| cell.text());
        return others(&rest.unwrap_or_default());
    }
    let sign = row.sign.map(|(paint, sign)| format!("{} ", paint.on(sign)));
    let cells = || columns.iter().zip(&row.cells).enumerate();
    let head = cells().filter(|(_, (column, _))| matches!(column.place, Place::First(_)));
    let head: Vec<String> = head
        .map(|(at, (_, cell))| format!("{:width$}", cell.text(), width = widths[at]))
        .collect();
    let line = format!("  {}{}", sign.unwrap_or_default(), head.join("  "));
    let mut text = format!("{}\n", line.trim_end());
    for (at, (column, cell)) in cells() {
        let follows = next.filter(|next| !next.is_rest && next.cells.get(at) == Some(cell));
        let cell = cell.text();
        text += &match column.place {
            Place::First(_) | Place::Page => String::new(),
            Place::Below | Place::Aside | Place::Shared if cell.is_empty() => String::new(),
            Place::Shared if follows.is_some() => String::new(),
            Place::Below => format!("      {cell}\n"),
            Place::Aside | Place::Shared => format!("      {}\n", Paint::Dim.on(&cell)),
        };
    }
    for (word, detail) in &row.details {
        let word = match word.is_empty() {
            true => String::new(),
            false => format!("{word:<6} "),
        };
        text += &format!("    {word}{}\n", detail.text());
    }
    for line in row.diff.iter().flat_map(|(_, lines)| lines) {
        text += &format!("      {}\n", diff_line(line));
    }
    text
}

fn diff_line(line: &str) -> String {
    let text = printable(line);
    match line.chars().next() {
        Some('+') => Paint::Green.on(&text),
        Some('-') => Paint::Red.on(&text),
        Some('@') => Paint::Dim.on(&text),
        _ => text.into_owned(),
    }
}
