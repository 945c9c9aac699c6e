//! What an upgrade of Cilium changes, for a person at a terminal.
//!
//! What an upgrade of Cilium changes, as Markdown for a change ticket.

use super::human::Detail;
use super::markdown_page::{Page, PageLimit};
use super::markup::prose;
use super::model::{Form, Listing, Row, UpTo, WHOLE, first};
use super::phrase::Phrase;
use super::terminal;
use super::text::{Paint, count, grouped_digits, pointer};
use ipam_doctor::upgrade::{
    HopDocument, ObjectDocument, Unjudged, UpgradeChangeDocument, UpgradeDocument, UpgradeSummary,
};

/// The upgrade as text.
pub fn upgrade(document: &UpgradeDocument) -> String {
    // Every field is named, so that a new one cannot be forgotten here.
    let UpgradeDocument {
        format_version: _,
        from: _,
        from_source,
        to: _,
        summary: _,
        hops,
        unjudged,
    } = document;
    let headline = headline(document);
    let first = format!("{headline} (running version by {from_source})");
    let mut text = format!("{}\n", Paint::Bold.on(&first));
    for one in hops {
        text += &terminal::listing(hop(one, unjudged.len(), WHOLE), Detail::Full);
    }
    text += &terminal::listing(unjudged_parts(unjudged), Detail::Full);
    let codes = hops.iter().flat_map(|hop| &hop.changes);
    if let Some(line) = pointer(codes.map(|change| change.code)) {
        text += &format!("\n{line}\n");
    }
    if !hops.is_empty() {
        text += &format!("\n{}\n", Paint::Bold.on(&headline));
    }
    text
}

/// `Cilium 1.15.19 to 1.19, 4 hops: 2 changes, for 3 Services and 1 node`.
fn headline(document: &UpgradeDocument) -> String {
    let UpgradeDocument {
        from,
        to,
        summary,
        hops,
        ..
    } = document;
    if hops.is_empty() {
        return format!("Cilium {from} runs already: nothing changes");
    }
    let way = format!(
        "Cilium {from} to {}, {}",
        target(from, to),
        count(hops.len(), "hop")
    );
    let UpgradeSummary {
        changes,
        services,
        nodes,
        others,
        unjudged,
    } = summary;
    let counts = [
        (services, "Service"),
        (nodes, "node"),
        (others, "other object"),
    ];
    let objects: Vec<String> = counts
        .into_iter()
        .filter(|(number, _)| **number > 0)
        .map(|(number, noun)| count(*number, noun))
        .collect();
    match (changes, unjudged) {
        (0, 0) => format!("{way}: {}", nothing_changes(from, to, 0)),
        (0, parts) => format!(
            "{way}: nothing was found, but {} could not be checked",
            count(*parts, "part")
        ),
        (changes, 0) => format!(
            "{way}: {}, for {}",
            count(*changes, "change"),
            objects.join(", ")
        ),
        (changes, parts) => format!(
            "{way}: {}, for {}; {} could not be checked",
            count(*changes, "change"),
            objects.join(", "),
            count(*parts, "part")
        ),
    }
}

/// A minor release stands for its later patch releases if one of them runs.
fn target(from: &str, to: &str) -> String {
    match is_within_minor(from, to) {
        true => format!("a later patch release of {to}"),
        false => to.to_owned(),
    }
}

fn is_within_minor(from: &str, to: &str) -> bool {
    let patch = from.strip_prefix(to);
    patch.is_some_and(|patch| patch.starts_with('.'))
}

/// The text for a hop without changes, if this number of parts of the upgrade could not be checked.
fn nothing_changes(from: &str, to: &str, unjudged: usize) -> &'static str {
    match (is_within_minor(from, to), unjudged) {
        (true, _) => "no difference between these patch releases is known to this program",
        (false, 0) => "nothing changes",
        (false, _) => "nothing was found",
    }
}

/// The upgrade as Markdown.
pub fn upgrade_markdown(document: &UpgradeDocument, limit: PageLimit) -> String {
    let tail = format!("\nRunning version by {}.\n", prose(&document.from_source));
    let mut page = Page::new(
        limit,
        format!("### {}\n", prose(&headline(document))),
        &tail,
    );
    page.listing(unjudged_parts(&document.unjudged));
    let hops = document.hops.len().max(1);
    for (index, one) in document.hops.iter().enumerate() {
        // Each hop leaves room on the page for the hops after it.
        let eighths = WHOLE.0.saturating_sub(hops - 1 - index).max(2);
        page.listing(hop(one, document.unjudged.len(), UpTo(eighths)));
    }
    page.finish()
}

fn unjudged_parts(parts: &[Unjudged]) -> Listing<'_> {
    let row = |Unjudged { what, why, hides }: &Unjudged| {
        let part = Phrase::of(what).words(": ").sentence(why);
        let part = part.words("; this hides ").sentence(hides);
        let line = Phrase::new("**not checked** ").then(part.clone());
        Row::new([part]).line(line)
    };
    let title = Phrase::new("Could not be judged: something may change there");
    Listing {
        paint: Paint::Red,
        ..Listing::new(title, "part", &[first("")])
            .form(Form::Lines, UpTo(2))
            .rows(parts, row)
    }
}

fn hop(hop: &HopDocument, unjudged: usize, up_to: UpTo) -> Listing<'_> {
    let HopDocument { from, to, changes } = hop;
    let nothing = changes.is_empty();
    let nothing = nothing.then(|| Row::new([Phrase::new(nothing_changes(from, to, unjudged))]));
    let rows: Vec<Row> = changes.iter().map(change_row).chain(nothing).collect();
    let title = Phrase::new(&format!("{from} to {}", target(from, to)));
    Listing::new(title, "change", &[first("")])
        .form(Form::Headed, up_to)
        .rows(rows, |row| row)
}

fn change_row(change: &UpgradeChangeDocument) -> Row {
    let UpgradeChangeDocument {
        code,
        message,
        why,
        source,
        before,
        object_count,
        objects,
        files,
    } = change;
    let object = |ObjectDocument { kind, name, effect }: &ObjectDocument| {
        let name = Phrase::new(&format!("{kind} ")).value(name);
        ("", name.words(": ").sentence(effect))
    };
    let more = object_count.saturating_sub(objects.len());
    let more =
        (more > 0).then(|| format!("… and {} more; --show-all shows all", grouped_digits(more)));
    let reasons = [("why", &**why), ("source", source), ("before", before)];
    let reasons = reasons.map(|(word, text)| (word, Phrase::prose(text)));
    let files = files.iter().map(|file| {
        let place = format!("{}:{}", file.file, file.line);
        ("file", Phrase::of(&place).words(": ").sentence(&file.edit))
    });
    let details = objects.iter().map(object);
    let details = details.chain(more.map(|more| ("", Phrase::new(&more))));
    let line = Phrase::new("[ ] **").sentence(message).words("** (");
    Row {
        details: details.chain(reasons).chain(files).collect(),
        ..Row::new([Phrase::prose(message)])
            .sign(Paint::Yellow, code)
            .line(line.value(code).words(")"))
    }
}
