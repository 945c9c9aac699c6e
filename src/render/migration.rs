//! The schedule of a migration: its counts, the waves, and what is the same for many nodes once. For
//! a person at a terminal, and as a comment for a pull request.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::causes::grouped;
use super::human::{Detail, SHOWN_DIGITS, limit, named};
use super::markdown_page::{Page, PageLimit};
use super::markup::code;
use super::model::{
    Form, Listing, Report, Row, Section, UpTo, aside, below, first, page as column,
};
use super::phrase::Phrase;
use super::terminal;
use super::text::{Paint, count, grouped_digits, printable};
use ipam_core::net::Block;
use ipam_migrate::migration::{LeftBehindDocument, NodeMove, Phase, ScheduleDocument, Wave};

/// The schedule as text.
pub fn migration(schedule: &ScheduleDocument, detail: Detail) -> String {
    // Every field is named, so that a new one cannot be forgotten here.
    let ScheduleDocument {
        kind: _,
        format_version: _,
        digest,
        directory: _,
        revision: _,
        request: _,
        max_unavailable,
        waves: all_waves,
        moves,
        left_out,
        after,
        remarks,
        estimate_seconds: _,
    } = schedule;
    let mut sections: Vec<Section<'_>> = waves(schedule)
        .take(limit(detail))
        .map(Section::from)
        .collect();
    let hidden = all_waves.get(limit(detail)..).unwrap_or_default();
    if !hidden.is_empty() {
        let nodes = hidden.iter().map(|wave| wave.nodes.len()).sum();
        sections.push(Section::Note(Phrase::new(&format!(
            "… and {} with {}; --show-all shows all",
            count(hidden.len(), "further wave"),
            count(nodes, "node")
        ))));
    }
    if !moves.is_empty() {
        sections.push(Section::Note(Phrase::new(&format!(
            "At most {} of a wave at a time (`migration.maxUnavailable` of the Policy).",
            count(*max_unavailable, "node")
        ))));
    }
    sections.extend([
        why(moves, detail).into(),
        steps(moves).into(),
        risks(moves, detail).into(),
        left_behind(left_out, detail).into(),
        commands("after the last wave, run", after).into(),
    ]);
    if !moves.is_empty() {
        let digest = digest.get(..SHOWN_DIGITS).unwrap_or_default();
        sections.push(Section::Note(Phrase::new("digest ").words(digest)));
    }
    let pods = "The Pods are unknown, because the cluster is a file: evictions, losses and times are not counted.";
    let pods = lacks_pods(schedule).then(|| Paint::Yellow.on(pods));
    let remark = |remark: &String| format!("{} {}", Paint::Yellow.on("!"), printable(remark));
    let report = Report {
        verdict: headline(schedule),
        below: pods.into_iter().chain(remarks.iter().map(remark)).collect(),
        sections,
    };
    terminal::report(report, detail)
}

/// The schedule as Markdown.
pub fn migration_markdown(schedule: &ScheduleDocument, detail: Detail, limit: PageLimit) -> String {
    let tail = format!(
        "\n{} · digest {}\n",
        code(&schedule.directory),
        code(&schedule.digest)
    );
    let unseen = match lacks_pods(schedule) {
        true => "\n\n**The Pods are unknown, because the cluster is a file.**",
        false => "",
    };
    let head = format!("### {}{unseen}\n", headline(schedule));
    let mut page = Page::new(limit, head, &tail);
    let moves = &schedule.moves;
    page.listing(notes(&schedule.remarks));
    page.listing(left_behind(&schedule.left_out, detail));
    page.listing(risks(moves, detail));
    page.listing(why(moves, detail));
    page.listing(steps(moves));
    waves(schedule).for_each(|wave| page.listing(wave));
    page.listing(commands("After the last wave, run:", &schedule.after));
    page.finish()
}

/// The counts of a schedule.
fn headline(schedule: &ScheduleDocument) -> String {
    let (moves, waves) = (schedule.moves.len(), schedule.waves.len());
    let stays = match schedule.left_out.len() {
        0 => String::new(),
        1 => " 1 node that should move stays.".to_owned(),
        left => format!(" {} nodes that should move stay.", grouped_digits(left)),
    };
    match moves {
        0 if schedule.left_out.is_empty() => "Migration: no node has to move.".to_owned(),
        0 => format!("Migration: no node can move.{stays}"),
        _ => format!(
            "Migration: {} in {}, about {}.{stays}",
            count(moves, "node"),
            count(waves, "wave"),
            time(schedule.estimate_seconds)
        ),
    }
}

fn time(seconds: i64) -> String {
    format!("{:#}", SignedDuration::from_secs(seconds))
}

/// Whether the Pods of the cluster are unknown, as those of a cluster file.
fn lacks_pods(schedule: &ScheduleDocument) -> bool {
    schedule.moves.iter().any(|one| one.pods.is_none())
}

/// One listing of moves for each wave, in the order of the waves.
fn waves(schedule: &ScheduleDocument) -> impl Iterator<Item = Listing<'_>> {
    let moves = schedule.moves.iter().map(|one| (one.node.as_str(), one));
    let moves: BTreeMap<&str, &NodeMove> = moves.collect();
    let all = schedule.waves.len();
    let waves = schedule.waves.iter().enumerate();
    waves.map(move |(index, wave)| {
        let number = grouped_digits(index + 1);
        let title = Phrase::new(&format!("wave {number} of {}: ", grouped_digits(all)));
        let title = match &wave.domain {
            Some(domain) => title.value(domain),
            None => title.words("no failure domain"),
        };
        let nodes = wave.nodes.iter();
        let nodes = nodes.filter_map(|node| moves.get(node.as_str()).copied());
        wave_listing(title, wave, nodes.collect())
    })
}

fn wave_listing<'s>(title: Phrase, wave: &Wave, moves: Vec<&'s NodeMove>) -> Listing<'s> {
    let row = |one: &NodeMove| {
        let [from, to] = [&one.from, &one.to].map(Phrase::values);
        let (pods, takes, both) = match one.pods {
            Some(pods) => {
                let takes = time(one.estimate.as_secs());
                let both = format!("{}, about {takes}", count(pods, "Pod"));
                (pods.to_string(), takes, both)
            }
            None => ("?".to_owned(), "?".to_owned(), String::new()),
        };
        // A block that stays is named once.
        let change = match one.from == one.to {
            true => to.clone(),
            false => from.clone().words(" -> ").then(to.clone()),
        };
        Row::new([
            Phrase::of(one.node.as_str()),
            from,
            to,
            change,
            Phrase::of(one.pool.as_str()),
            Phrase::new(&pods),
            Phrase::new(&takes),
            Phrase::new(&both),
        ])
        .sign(Paint::Yellow, "~")
    };
    let columns = [first("node"), column("from"), column("to"), first("")];
    let rest = [
        first("pool"),
        column("Pods"),
        column("takes about"),
        first(""),
    ];
    Listing {
        aligned: true,
        ..Listing::new(title, "node", &[columns, rest].concat())
            .counted(count(wave.nodes.len(), "node"))
            .rows(moves, row)
    }
}

fn notes(remarks: &[String]) -> Listing<'_> {
    let row = |remark: &String| Row::new([Phrase::new("**note** ").sentence(remark)]);
    Listing::new(Phrase::default(), "note", &[])
        .form(Form::Lines, UpTo(3))
        .rows(remarks, row)
}

/// A reason without the block that it names: many nodes have the same one.
fn common_reason(one: &NodeMove) -> &str {
    let of_block = |block: &Block| {
        let block = block.to_string();
        one.reason.strip_prefix(&*block)?.strip_prefix(": ")
    };
    let without = one.from.iter().find_map(of_block);
    without.unwrap_or(&one.reason)
}

/// Each reason of a move, with the nodes that it moves.
fn reasons_of(moves: &[NodeMove]) -> Vec<(String, Vec<String>)> {
    grouped(
        moves
            .iter()
            .map(|one| (common_reason(one).to_owned(), one.node.to_string())),
    )
}

/// Each risk with its nodes. A risk that names Pods is one group for all nodes, with the first few.
fn risks_of(moves: &[NodeMove], detail: Detail) -> Vec<(String, Vec<String>)> {
    let risks = moves
        .iter()
        .flat_map(|one| one.risks.iter().map(move |risk| (risk, &one.node)))
        .map(|(risk, node)| ((risk.clone(), String::new()), node.to_string()));
    let groups = by_head(risks, detail).into_iter();
    groups.map(|((risk, _), nodes)| (risk, nodes)).collect()
}

/// A reason, and what to do about it.
type Cause = (String, String);

/// Texts that differ only after a colon are one group, with the first few of what follows there.
fn by_head(
    causes: impl IntoIterator<Item = (Cause, String)>,
    detail: Detail,
) -> Vec<(Cause, Vec<String>)> {
    let mut details: BTreeMap<Cause, Vec<String>> = BTreeMap::new();
    let mut heads = Vec::new();
    for ((text, help), node) in causes {
        let (head, of_node) = match text.split_once(": ") {
            Some((head, of_node)) => (head.to_owned(), Some(of_node.to_owned())),
            None => (text, None),
        };
        let known = details.entry((head.clone(), help.clone())).or_default();
        known.extend(of_node.filter(|of_node| !known.contains(of_node)));
        heads.push(((head, help), node));
    }
    let groups = grouped(heads).into_iter();
    groups
        .map(|(cause, nodes)| match &details[&cause][..] {
            [] => (cause, nodes),
            all => (
                (format!("{}: {}", cause.0, named(all, detail)), cause.1),
                nodes,
            ),
        })
        .collect()
}

fn why<'p>(moves: &[NodeMove], detail: Detail) -> Listing<'p> {
    by_nodes("why", "why", None, reasons_of(moves), moves, detail)
}

fn risks<'p>(moves: &[NodeMove], detail: Detail) -> Listing<'p> {
    by_nodes(
        "risks",
        "risk",
        Some("!"),
        risks_of(moves, detail),
        moves,
        detail,
    )
}

/// A listing of what nodes have in common, with the names of these nodes. What all nodes have in common
/// needs no names: the waves have them.
fn by_nodes<'p>(
    title: &str,
    word: &'static str,
    sign: Option<&'static str>,
    groups: Vec<(String, Vec<String>)>,
    moves: &[NodeMove],
    detail: Detail,
) -> Listing<'p> {
    let total = moves.len();
    let row = move |(common, nodes): (String, Vec<String>)| {
        let all = count(nodes.len(), "node");
        let names = match total > 1 && nodes.len() == total {
            true => Phrase::new(&format!("all {all}")),
            false => Phrase::new(&format!("{all}: ")).then(Phrase::names(&nodes, detail)),
        };
        let line = Phrase::new(&format!("**{word}** (")).then(names.clone());
        let line = line.words("): ").sentence(&common);
        Row {
            sign: sign.map(|sign| (Paint::Yellow, sign)),
            ..Row::new([names, Phrase::prose(&common)])
                .line(line)
                .of(nodes.len())
        }
    };
    Listing::new(Phrase::new(title), "reason", &[first(""), below("")])
        .form(Form::Lines, UpTo(5))
        .rows(groups, row)
}

/// A listing of each method, with the steps of the method and its number of nodes.
fn steps(moves: &[NodeMove]) -> Listing<'_> {
    let mut methods: BTreeMap<&str, (&[Phase], usize)> = BTreeMap::new();
    for one in moves {
        let method = methods.entry(one.method.as_str());
        let (_, nodes) = method.or_insert((&one.steps, 0));
        *nodes += 1;
    }
    let row = |(method, (steps, nodes)): (&str, (&[Phase], usize))| {
        let steps = steps.iter().map(|step| Phrase::of(step.as_str()));
        let line = Phrase::of(method).words(&format!(" ({}): ", count(nodes, "node")));
        let line = line.then(Phrase::listed(steps, " ", Detail::Full));
        Row::new([line.clone()]).line(Phrase::new("**steps** ").then(line))
    };
    Listing::new(Phrase::new("steps of each node"), "method", &[first("")])
        .form(Form::Lines, UpTo(5))
        .rows(methods, row)
}

/// Nodes that stay, by reason and help.
fn left_behind(left_out: &[LeftBehindDocument], detail: Detail) -> Listing<'_> {
    let causes = left_out
        .iter()
        .map(|one| ((one.why.clone(), one.help.clone()), one.node.clone()));
    let row = move |((why, help), nodes): (Cause, Vec<String>)| {
        let names = Phrase::names(&nodes, detail);
        let line = Phrase::new("**stays** ").then(names.clone()).words(": ");
        let line = line.sentence(&why);
        let line = match help.is_empty() {
            true => line,
            false => line.words("; ").sentence(&help),
        };
        Row::new([names, Phrase::prose(&why), Phrase::prose(&help)])
            .sign(Paint::Red, "!")
            .line(line)
            .of(nodes.len())
    };
    let columns = [first(""), below(""), aside("")];
    Listing::new(Phrase::new("stay"), "node that stays", &columns)
        .counted(count(left_out.len(), "node"))
        .form(Form::Lines, UpTo(3))
        .rows(by_head(causes, detail), row)
}

pub(super) fn commands<'p>(title: &str, commands: &'p [String]) -> Listing<'p> {
    Listing {
        always: usize::MAX,
        ..Listing::new(Phrase::new(title), "command", &[first("")])
            .form(Form::Titled, UpTo(8))
            .rows(commands, |command| Row::new([Phrase::of(command)]))
    }
}
