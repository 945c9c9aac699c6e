//! The schedule of a migration for a person at a terminal: its counts, the waves, and what is the
//! same for many nodes once.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::human::{Detail, SHOWN_DIGITS, limit, named};
use super::text::{Paint, count, grouped_digits, printable};
use ipam_core::net::Block;
use ipam_core::text::joined;
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
        waves,
        moves,
        left_out,
        after,
        remarks,
        estimate_seconds: _,
    } = schedule;
    let first = format!("{}\n", Paint::Bold.on(&headline(schedule)));
    let parts = [
        pods_line(schedule),
        told(remarks),
        text_of_waves(waves, moves, detail),
        at_a_time(moves, *max_unavailable),
        reasons(moves, detail),
        steps(moves),
        risks(moves, detail),
        left_behind(left_out, detail),
        commands("after the last wave, run", after),
        shown_digest(moves, digest),
    ];
    let body = parts.concat();
    // Long output scrolls the first line away.
    let last = if body.is_empty() {
        String::new()
    } else {
        format!("\n{first}")
    };
    first + &body + &last
}

/// The counts of a schedule.
pub(super) fn headline(schedule: &ScheduleDocument) -> String {
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

pub(super) fn time(seconds: i64) -> String {
    format!("{:#}", SignedDuration::from_secs(seconds))
}

/// Whether the Pods of the cluster are unknown, as those of a cluster file.
pub(super) fn lacks_pods(schedule: &ScheduleDocument) -> bool {
    schedule.moves.iter().any(|one| one.pods.is_none())
}

fn pods_line(schedule: &ScheduleDocument) -> String {
    match lacks_pods(schedule) {
        true => format!(
            "{}\n",
            Paint::Yellow.on("The Pods are unknown, because the cluster is a file: evictions, losses and times are not counted.")
        ),
        false => String::new(),
    }
}

fn told(remarks: &[String]) -> String {
    let sign = Paint::Yellow.on("!");
    let lines = remarks
        .iter()
        .map(|remark| format!("{sign} {}\n", printable(remark)));
    lines.collect()
}

fn at_a_time(moves: &[NodeMove], max_unavailable: usize) -> String {
    if moves.is_empty() {
        return String::new();
    }
    format!(
        "\nAt most {} of a wave at a time (`migration.maxUnavailable` of the Policy).\n",
        count(max_unavailable, "node")
    )
}

/// The title of a wave: its number, its failure domain and its size.
pub(super) fn wave_title(number: usize, of: usize, wave: &Wave) -> String {
    let domain = match &wave.domain {
        Some(domain) => printable(domain).into_owned(),
        None => "no failure domain".to_owned(),
    };
    let nodes = count(wave.nodes.len(), "node");
    format!(
        "wave {} of {}: {domain} ({nodes})",
        grouped_digits(number),
        grouped_digits(of)
    )
}

/// The moves of a wave, in its order.
pub(super) fn of_wave<'s>(wave: &Wave, moves: &BTreeMap<&str, &'s NodeMove>) -> Vec<&'s NodeMove> {
    let nodes = wave.nodes.iter();
    nodes
        .filter_map(|node| moves.get(node.as_str()).copied())
        .collect()
}

pub(super) fn moves_by_name(moves: &[NodeMove]) -> BTreeMap<&str, &NodeMove> {
    moves.iter().map(|one| (one.node.as_str(), one)).collect()
}

/// `10.0.0.0/24 -> 10.1.0.0/24`, or the block that stays.
pub(super) fn change(one: &NodeMove) -> String {
    let [from, to] = [&one.from, &one.to].map(|blocks| joined(blocks, " "));
    match from == to {
        true => to,
        false => format!("{from} -> {to}"),
    }
}

fn text_of_waves(waves: &[Wave], moves: &[NodeMove], detail: Detail) -> String {
    let by_name = moves_by_name(moves);
    let mut text = String::new();
    for (index, wave) in waves.iter().take(limit(detail)).enumerate() {
        let title = Paint::Bold.on(&wave_title(index + 1, waves.len(), wave));
        text += &format!("\n{title}\n");
        let moves = of_wave(wave, &by_name);
        text += &rows(&moves[..moves.len().min(limit(detail))]);
        text += &more(moves.len().saturating_sub(limit(detail)), "  ");
    }
    let hidden = waves.iter().skip(limit(detail));
    let (further, nodes) = hidden.fold((0, 0), |(waves, nodes), wave| {
        (waves + 1, nodes + wave.nodes.len())
    });
    if further > 0 {
        text += &format!(
            "\n… and {} with {}; --show-all shows all\n",
            count(further, "further wave"),
            count(nodes, "node")
        );
    }
    text
}

fn rows(moves: &[&NodeMove]) -> String {
    let width = |cell: fn(&NodeMove) -> String| {
        let each = moves.iter().map(|one| cell(one).chars().count());
        each.max().unwrap_or_default()
    };
    let (names, changes) = (width(|one| one.node.to_string()), width(change));
    let pools = width(|one| one.pool.to_string());
    let mut text = String::new();
    for one in moves {
        let pods = match one.pods {
            Some(pods) => format!(
                "  {}, about {}",
                count(pods, "Pod"),
                time(one.estimate.as_secs())
            ),
            None => String::new(),
        };
        let line = format!(
            "  {} {:names$}  {:changes$}  {:pools$}{pods}",
            Paint::Yellow.on("~"),
            one.node,
            change(one),
            one.pool
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn more(hidden: usize, indent: &str) -> String {
    match hidden {
        0 => String::new(),
        hidden => format!(
            "{indent}… and {} more; --show-all shows all\n",
            grouped_digits(hidden)
        ),
    }
}

/// Names by what they have in common, in the order of the first one.
pub(super) fn grouped<K: Ord + Clone>(
    entries: impl IntoIterator<Item = (K, String)>,
) -> Vec<(K, Vec<String>)> {
    let mut groups: Vec<(K, Vec<String>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for (key, name) in entries {
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(name);
    }
    groups
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

/// Each reason with its nodes.
pub(super) fn reasons_of(moves: &[NodeMove]) -> Vec<(String, Vec<String>)> {
    grouped(
        moves
            .iter()
            .map(|one| (common_reason(one).to_owned(), one.node.to_string())),
    )
}

/// Each risk with its nodes. A risk that names Pods is one group for all nodes, with the first few.
pub(super) fn risks_of(moves: &[NodeMove], detail: Detail) -> Vec<(String, Vec<String>)> {
    let risks = moves
        .iter()
        .flat_map(|one| one.risks.iter().map(move |risk| (risk, &one.node)))
        .map(|(risk, node)| ((risk.clone(), String::new()), node.to_string()));
    let groups = by_head(risks, detail).into_iter();
    groups.map(|((risk, _), nodes)| (risk, nodes)).collect()
}

/// A text, and what to do about it.
pub(super) type Cause = (String, String);

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

fn section(title: &str, sign: &str, groups: &[(String, Vec<String>)], detail: Detail) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", Paint::Bold.on(title));
    for (shared, nodes) in groups.iter().take(limit(detail)) {
        let (all, names) = (count(nodes.len(), "node"), named(nodes, detail));
        text += &format!(
            "  {sign}{all}: {}\n      {}\n",
            printable(&names),
            printable(shared)
        );
    }
    text + &more(groups.len().saturating_sub(limit(detail)), "  ")
}

fn reasons(moves: &[NodeMove], detail: Detail) -> String {
    section("why", "", &reasons_of(moves), detail)
}

fn risks(moves: &[NodeMove], detail: Detail) -> String {
    let sign = format!("{} ", Paint::Yellow.on("!"));
    section("risks", &sign, &risks_of(moves, detail), detail)
}

/// Each method, by its text, with its steps and its number of nodes.
pub(super) fn steps_of(moves: &[NodeMove]) -> BTreeMap<&'static str, (&[Phase], usize)> {
    let mut methods: BTreeMap<&str, (&[Phase], usize)> = BTreeMap::new();
    for one in moves {
        let method = methods.entry(one.method.as_str());
        let (_, nodes) = method.or_insert((&one.steps, 0));
        *nodes += 1;
    }
    methods
}

fn steps(moves: &[NodeMove]) -> String {
    let methods = steps_of(moves);
    if methods.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", Paint::Bold.on("steps of each node"));
    for (method, (steps, nodes)) in methods {
        text += &format!(
            "  {} ({}): {}\n",
            method,
            count(nodes, "node"),
            joined(steps, ", ")
        );
    }
    text
}

/// Nodes that stay, by reason and help.
pub(super) fn left_by_cause(
    left_out: &[LeftBehindDocument],
    detail: Detail,
) -> Vec<(Cause, Vec<String>)> {
    let causes = left_out
        .iter()
        .map(|one| ((one.why.clone(), one.help.clone()), one.node.clone()));
    by_head(causes, detail)
}

fn left_behind(left_out: &[LeftBehindDocument], detail: Detail) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    let title = format!("stay ({})", count(left_out.len(), "node"));
    let mut text = format!("\n{}\n", Paint::Bold.on(&title));
    let groups = left_by_cause(left_out, detail);
    for ((why, help), nodes) in groups.iter().take(limit(detail)) {
        text += &format!(
            "  {} {}\n      {}\n",
            Paint::Red.on("!"),
            printable(&named(nodes, detail)),
            printable(why)
        );
        if !help.is_empty() {
            text += &format!("      {}\n", Paint::Dim.on(&printable(help)));
        }
    }
    text + &more(groups.len().saturating_sub(limit(detail)), "  ")
}

pub(super) fn commands(title: &str, commands: &[String]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", Paint::Bold.on(title));
    for command in commands {
        text += &format!("  {}\n", printable(command));
    }
    text
}

fn shown_digest(moves: &[NodeMove], digest: &str) -> String {
    match moves.is_empty() {
        true => String::new(),
        false => format!(
            "\ndigest {}\n",
            digest.get(..SHOWN_DIGITS).unwrap_or_default()
        ),
    }
}
