//! What an upgrade of Cilium changes, for a person at a terminal.
//!
//! What an upgrade of Cilium changes, as Markdown for a change ticket.

use super::markdown_page::{Entry, Page, PageLimit};
use super::markup::prose;
use super::model::{Form, Listing, Row, UpTo, WHOLE};
use super::phrase::Phrase;
use super::text::{Paint, count, grouped_digits, pointer, printable};
use ipam_doctor::upgrade::{
    HopDocument, ObjectDocument, Unjudged, UpgradeChangeDocument, UpgradeDocument, UpgradeSummary,
};

/// Objects, and lines of the files, of one entry in short form; more are counted.
pub const MOST_OBJECTS: usize = 10;

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
    let mut text = format!(
        "{}\n",
        Paint::Bold.on(&format!("{headline} (running version by {from_source})"))
    );
    for hop in hops {
        text.push_str(&hop_text(hop, unjudged.len()));
    }
    text.push_str(&unjudged_text(unjudged));
    let codes = hops
        .iter()
        .flat_map(|hop| &hop.changes)
        .map(|change| change.code);
    let pointer = pointer(codes);
    pointer
        .iter()
        .for_each(|line| text.push_str(&format!("\n{line}\n")));
    if !hops.is_empty() {
        text.push_str(&format!("\n{}\n", Paint::Bold.on(&headline)));
    }
    text
}

/// `Cilium 1.15.19 to 1.19, 4 hops: 2 changes, for 3 Services and 1 node`.
pub(super) fn headline(document: &UpgradeDocument) -> String {
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
        (0, 0) => format!("{way}: {}", nothing(from, to, 0)),
        (0, parts) => format!(
            "{way}: nothing was found, but {} could not be judged",
            count(*parts, "part")
        ),
        (changes, 0) => format!(
            "{way}: {}, for {}",
            count(*changes, "change"),
            objects.join(", ")
        ),
        (changes, parts) => format!(
            "{way}: {}, for {}; {} could not be judged",
            count(*changes, "change"),
            objects.join(", "),
            count(*parts, "part")
        ),
    }
}

/// A minor release stands for its later patch releases if one of them runs.
pub(super) fn target(from: &str, to: &str) -> String {
    match is_within_minor(from, to) {
        true => format!("a later patch release of {to}"),
        false => to.to_owned(),
    }
}

fn is_within_minor(from: &str, to: &str) -> bool {
    let patch = from.strip_prefix(to);
    patch.is_some_and(|patch| patch.starts_with('.'))
}

/// The text for a hop without changes, if this number of parts of the upgrade could not be judged.
pub(super) fn nothing(from: &str, to: &str, unjudged: usize) -> &'static str {
    match (is_within_minor(from, to), unjudged) {
        (true, _) => "no difference between these patch releases is known to this program",
        (false, 0) => "nothing changes",
        (false, _) => "nothing was found",
    }
}

fn hop_text(hop: &HopDocument, unjudged: usize) -> String {
    let HopDocument { from, to, changes } = hop;
    let head = format!("{from} to {}", target(from, to));
    let mut text = format!("\n{}\n", Paint::Bold.on(&head));
    if changes.is_empty() {
        text.push_str(&format!("  {}\n", nothing(from, to, unjudged)));
    }
    for change in changes {
        text.push_str(&change_text(change));
    }
    text
}

fn change_text(change: &UpgradeChangeDocument) -> String {
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
    let head = Paint::Yellow.on(code);
    let mut text = format!("  {head} {}\n", printable(message));
    for object in objects {
        text.push_str(&format!(
            "    {} {}: {}\n",
            object.kind,
            printable(&object.name),
            printable(&object.effect)
        ));
    }
    if *object_count > objects.len() {
        let more = grouped_digits(object_count - objects.len());
        text.push_str(&format!("    … and {more} more; --show-all shows all\n"));
    }
    for (word, line) in [
        ("why", why.as_str()),
        ("source", source),
        ("before", before.as_str()),
    ] {
        text.push_str(&format!("    {word:<7}{}\n", printable(line)));
    }
    for file in files {
        let place = format!("{}:{}: {}", file.file, file.line, file.edit);
        text.push_str(&format!("    file   {}\n", printable(&place)));
    }
    text
}

fn unjudged_text(unjudged: &[Unjudged]) -> String {
    if unjudged.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{}\n",
        Paint::Red.on("Could not be judged: something may change there")
    );
    for Unjudged { what, why, hides } in unjudged {
        let line = format!("{what}: {why}; this hides {hides}");
        text.push_str(&format!("  {}\n", printable(&line)));
    }
    text
}

/// The upgrade as Markdown.
pub fn upgrade_markdown(document: &UpgradeDocument, limit: PageLimit) -> String {
    let tail = format!("\nRunning version by {}.\n", prose(&document.from_source));
    let mut page = Page::new(
        limit,
        format!("### {}\n", prose(&headline(document))),
        &tail,
    );
    unjudged(&mut page, &document.unjudged);
    let hops = document.hops.len().max(1);
    for (index, hop) in document.hops.iter().enumerate() {
        // Each hop leaves room for those after it.
        let eighths = WHOLE.0.saturating_sub(hops - 1 - index).max(2);
        one_hop(&mut page, hop, document.unjudged.len(), UpTo(eighths));
    }
    page.finish()
}

fn unjudged(page: &mut Page<'_>, parts: &[Unjudged]) {
    let row = |Unjudged { what, why, hides }: &Unjudged| {
        let line = Phrase::new("**not judged** ")
            .value(what)
            .words(": ")
            .sentence(why);
        Row::new([line.words("; this hides ").sentence(hides)])
    };
    let listing = Listing::new(Phrase::default(), "part", &[]);
    page.listing(listing.form(Form::Lines, UpTo(2)).rows(parts, row));
}

fn one_hop(page: &mut Page<'_>, hop: &HopDocument, unjudged: usize, up_to: UpTo) {
    let HopDocument { from, to, changes } = hop;
    let nothing = match changes.is_empty() {
        true => format!("\n{}.\n", capitalized(nothing(from, to, unjudged))),
        false => String::new(),
    };
    let title = format!("\n#### {from} to {}\n{nothing}", target(from, to));
    page.part(Entry::one(title), "hop");
    let listing = Listing::new(Phrase::default(), "change", &[]);
    page.listing(listing.form(Form::Lines, up_to).rows(changes, change_row));
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

fn change_row(change: &UpgradeChangeDocument) -> Row {
    let UpgradeChangeDocument {
        code: name,
        message,
        why,
        source,
        before,
        object_count,
        objects,
        files,
    } = change;
    let mut line = Phrase::new("[ ] **").sentence(message).words("** (");
    line = line.value(name).words(")");
    for ObjectDocument { kind, name, effect } in objects {
        line = line.words(&format!("\n  - {kind} ")).value(name);
        line = line.words(": ").sentence(effect);
    }
    if *object_count > objects.len() {
        let more = grouped_digits(object_count - objects.len());
        line = line.words(&format!("\n  - … and {more} more"));
    }
    line = line.words("\n  - why: ").sentence(why);
    line = line.words("\n  - source: ").sentence(source);
    line = line.words("\n  - **before the hop:** ").sentence(before);
    for file in files {
        let place = format!("{}:{}", file.file, file.line);
        line = line
            .words("\n  - ")
            .value(&place)
            .words(": ")
            .sentence(&file.edit);
    }
    Row::new([line])
}
