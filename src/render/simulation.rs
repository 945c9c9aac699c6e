//! A simulation, as text for a person at a terminal and as Markdown for a ticket.

use super::human::Detail;
use super::markdown_page::{Page, PageLimit};
use super::markup::prose;
use super::model::{Form, Listing, Report, Row, WHOLE, first};
use super::phrase::Phrase;
use super::terminal;
use super::text::{count, grouped_digits};
use ipam_core::text::joined;
use ipam_plan::simulate::{
    FirstDocument, GivenDocument, GroupDocument, LeftDocument, SimulationDocument, WithoutDocument,
};

/// The simulation as text.
pub fn simulation(document: &SimulationDocument, detail: Detail) -> String {
    let report = Report {
        verdict: verdict(document),
        below: firsts(document),
        sections: listings(document).into_iter().map(Into::into).collect(),
    };
    terminal::report(report, detail)
}

/// The simulation as Markdown.
pub fn simulation_markdown(document: &SimulationDocument, limit: PageLimit) -> String {
    let title = format!("### Simulation: {}\n", prose(&verdict(document)));
    let mut page = Page::new(limit, title, "");
    for line in firsts(document) {
        page.part(&format!("\n{}\n", prose(&line)), 1, "line");
    }
    for listing in listings(document) {
        page.listing(listing);
    }
    page.finish()
}

fn verdict(document: &SimulationDocument) -> String {
    let new: usize = document.groups.iter().map(|group| group.count).sum();
    let left = match document.removed {
        0 => String::new(),
        removed => format!("{} leave; ", count(removed, "node")),
    };
    let without = document.without();
    let joining = match (new, without) {
        (0, _) => "no node joins".to_owned(),
        _ if !document.unknown.is_empty() => format!("{}: unknown", count(new, "new node")),
        (1, 0) => "1 new node gets a block".to_owned(),
        (_, 0) => format!("all {} get a block", count(new, "new node")),
        (1, _) => "1 new node gets no block".to_owned(),
        _ => format!(
            "{} of {} get no block",
            grouped_digits(without),
            count(new, "new node")
        ),
    };
    left + &joining
}

/// The first node without a block, and the first outside its best pool.
fn firsts(document: &SimulationDocument) -> Vec<String> {
    let line = |first: &FirstDocument, what: &str| {
        let number = grouped_digits(first.number);
        format!("New node {number} is the first {what}: {}.", first.why)
    };
    let without = document.first_without.as_ref();
    let outside = document.first_outside.as_ref();
    [
        outside.map(|first| line(first, "outside its best pool")),
        without.map(|first| line(first, "without a block")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn listings(document: &SimulationDocument) -> Vec<Listing<'_>> {
    let listing = |title: &str, noun| {
        Listing::new(Phrase::new(title), noun, &[first("")]).form(Form::Titled, WHOLE)
    };
    let groups = document.groups.iter().flat_map(group_rows);
    let groups: Vec<Row> = groups.collect();
    let left = |left: &LeftDocument| {
        let LeftDocument {
            kind,
            name,
            family,
            free,
            total,
        } = left;
        let [free, total] = [free, total].map(grouped_digits);
        let subject = supplier(kind, name);
        Row::new([subject.words(&format!(": {free} of {total} {family} blocks"))])
    };
    let sentence = |text: &String| Row::new([Phrase::prose(text)]);
    vec![
        listing("New nodes", "node").rows(groups, |row| row),
        listing("Free afterwards", "supply").rows(&document.left, left),
        listing("What to do", "advice").rows(&document.needs, sentence),
        listing("Unknown", "supply").rows(&document.unknown, sentence),
    ]
}

/// A row for each supply and each reason of a group.
fn group_rows(group: &GroupDocument) -> impl Iterator<Item = Row> {
    let labels = joined(
        group
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}")),
        ",",
    );
    let nodes = move |nodes: usize| {
        let nodes = Phrase::new(&count(nodes, "node"));
        match labels.is_empty() {
            true => nodes,
            false => nodes.words(" with ").value(&labels),
        }
    };
    let given = group
        .given
        .iter()
        .map(|GivenDocument { kind, name, nodes }| {
            (*nodes, Phrase::new(" of ").then(supplier(kind, name)))
        });
    let given: Vec<(usize, Phrase)> = given.collect();
    let without = group
        .without
        .iter()
        .map(|WithoutDocument { why, nodes }| (*nodes, Phrase::new(": no block: ").sentence(why)));
    let without: Vec<(usize, Phrase)> = without.collect();
    let number = nodes.clone();
    let given = given
        .into_iter()
        .map(move |(count, of)| Row::new([number(count).words(": a block").then(of)]).of(count));
    let without = without
        .into_iter()
        .map(move |(count, why)| Row::new([nodes(count).then(why)]).of(count));
    given.chain(without)
}

fn supplier(kind: &str, name: &str) -> Phrase {
    match name.is_empty() {
        true => Phrase::new(kind),
        false => Phrase::new(kind).words(" ").value(name),
    }
}
