//! The plan for a person at a terminal: the summary first, then the changes by pool, then what must wait.

use std::collections::BTreeMap;

use super::text::{Paint, count, grouped_digits, printable};
use super::{human_lb, human_misplaced, human_pod_pools, human_ports};
use crate::plan::{BlockedDocument, ChangeDocument, DriftDocument, PlanDocument, RefusalDocument, Summary};

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first few of each group, and how many more there are.
    Short,
    /// Everything.
    Full,
}

/// Lines of one group that are shown in short form; more are counted.
const SHOWN: usize = 10;

/// The plan as text; findings are printed apart from it, as diagnostics.
pub fn human(plan: &PlanDocument, detail: Detail) -> String {
    // Every field is named, so that a new one cannot be forgotten here.
    let PlanDocument {
        format_version: _,
        intent: _,
        digest,
        source,
        summary,
        waivers,
        refusals,
        changes,
        services,
        blocked,
        misplaced,
        drift,
        findings: _,
    } = plan;
    let headline = headline(summary);
    let mut text = headline.clone();
    text.push_str(&human_lb::headline(&summary.load_balancing));
    let pod_pools = human_pod_pools::headline(&summary.pod_pools);
    if !pod_pools.is_empty() {
        text.push_str(&format!("{}\n", Paint::Bold.on(&pod_pools)));
    }
    if !refusals.is_empty() {
        text.push_str(&refused(refusals, detail));
    }
    text.push_str(&human_lb::changes(changes, detail));
    text.push_str(&human_lb::effects(services, detail));
    text.push_str(&human_pod_pools::changes(changes, detail));
    text.push_str(&changes_by_pool(changes, detail));
    text.push_str(&human_ports::changes(changes, detail));
    if !blocked.is_empty() {
        text.push_str(&blocked_by_reason(blocked, detail));
    }
    if !misplaced.is_empty() {
        text.push_str(&human_misplaced::misplaced(misplaced, detail));
    }
    if !drift.is_empty() {
        text.push_str(&drift_lines(drift, detail));
    }
    if summary.irreversible > 0 {
        let what = count(summary.irreversible, "change");
        text.push_str(&format!("\n{what} cannot be undone: {}.\n", super::why_irreversible(plan)));
    }
    if !waivers.is_empty() {
        text.push_str(&format!("\nwaived: {}\n", printable(&waivers.join(", "))));
    }
    if !changes.is_empty() {
        text.push_str(&Paint::Dim.on(&format!("\ndigest {}\n", digest.get(..16).unwrap_or_default())));
    }
    if let Some(revision) = &source.revision {
        let what = format!("files of commit {}", printable(revision));
        text.push_str(&Paint::Dim.on(&if changes.is_empty() { format!("\n{what}\n") } else { format!("{what}\n") }));
    }
    // Long output scrolls the first line away.
    if text != headline {
        text.push_str(&format!("\n{headline}"));
    }
    text
}

/// `Plan: 3 to assign, …` or `No changes.`
fn headline(summary: &Summary) -> String {
    let Summary { assign, release, update, delete, moved, blocked, unchanged, misplaced, ports, .. } = summary;
    let text = if summary.changes_nothing() {
        no_changes(summary)
    } else {
        format!(
            "Plan: {assign} to assign, {update} to update, {release} to release, {delete} to delete, {moved} moved; {blocked} blocked, {}{unchanged} unchanged.{}{}",
            if *misplaced == 0 { String::new() } else { format!("{misplaced} misplaced, ") },
            if *ports == 0 { String::new() } else { format!(" {} to change.", count(*ports, "port")) },
            if summary.errors == 0 { String::new() } else { format!(" {} found.", count(summary.errors, "error")) }
        )
    };
    format!("{}\n", Paint::Bold.on(&text))
}

/// Says that all is as the files say only where nothing speaks against it.
fn no_changes(summary: &Summary) -> String {
    let Summary { moved, unchanged, nodes, blocked, misplaced, drifted, errors, .. } = summary;
    if summary.is_as_the_files_say() {
        return format!("No changes. {} as the files say, {moved} moved.", count(*nodes, "node"));
    }
    let counts = [
        (*misplaced, format!("{} misplaced", grouped_digits(*misplaced))),
        (*blocked, format!("{} blocked", grouped_digits(*blocked))),
        (*drifted, count(*drifted, "drifted field")),
        (*errors, count(*errors, "error")),
    ];
    let counts: Vec<String> = counts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    let good = grouped_digits(*unchanged);
    format!("No changes. {good} of {} as the files say, {moved} moved; {}.", count(*nodes, "node"), counts.join(", "))
}

pub(super) fn limit(detail: Detail) -> usize {
    match detail {
        Detail::Short => SHOWN,
        Detail::Full => usize::MAX,
    }
}

pub(super) fn more(hidden: usize) -> String {
    if hidden == 0 {
        String::new()
    } else {
        Paint::Dim.on(&format!("    … and {} more; --full shows all\n", grouped_digits(hidden)))
    }
}

fn changes_by_pool(changes: &[ChangeDocument], detail: Detail) -> String {
    let mut pools: BTreeMap<Option<&str>, Vec<&ChangeDocument>> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.kind == "Node") {
        pools.entry(change.pool.as_deref()).or_default().push(change);
    }
    let mut text = String::new();
    for (pool, changes) in pools {
        let heading = pool.map_or_else(|| "outside every pool".to_owned(), |pool| format!("pool {}", printable(pool)));
        text.push_str(&format!("\n{} ({})\n", Paint::Bold.on(&heading), count(changes.len(), "change")));
        let shown = &changes[..changes.len().min(limit(detail))];
        let width = |cell: fn(&ChangeDocument) -> String| {
            shown.iter().map(|change| cell(change).chars().count()).max().unwrap_or(0)
        };
        let (names, blocks) = (width(|change| change.name.clone()), width(values));
        for change in shown {
            let (sign, paint) = match change.action.as_str() {
                "assign" => ("+", Paint::Green),
                "release" => ("-", Paint::Red),
                _ => ("~", Paint::Yellow),
            };
            let values = values(change);
            let values = printable(&values);
            let line = format!(
                "  {} {:names$}  {values:blocks$}  {:15}  {}",
                paint.on(sign),
                printable(&change.name),
                printable(&change.write_path),
                printable(&change.reason)
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push_str(&more(changes.len() - shown.len()));
    }
    text
}

pub(super) fn values(change: &ChangeDocument) -> String {
    let after = if change.after.is_empty() { "none".to_owned() } else { change.after.join(" ") };
    if change.before.is_empty() || change.before == change.after {
        after
    } else {
        format!("{} -> {after}", change.before.join(" "))
    }
}

fn refused(refusals: &[RefusalDocument], detail: Detail) -> String {
    let mut text = format!("\n{}\n", Paint::Red.on("refused: it may not be applied as it is"));
    let shown = &refusals[..refusals.len().min(limit(detail))];
    for refusal in shown {
        text.push_str(&format!("  {} {}\n", Paint::Red.on("!"), printable(&refusal.message)));
        text.push_str(&format!("      {}\n", Paint::Dim.on(&printable(&refusal.help))));
    }
    text + &more(refusals.len() - shown.len())
}

fn blocked_by_reason(blocked: &[BlockedDocument], detail: Detail) -> String {
    let mut causes: BTreeMap<(&str, &str), BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for entry in blocked {
        let reasons = causes.entry((&entry.code, &entry.unblock)).or_default();
        reasons.entry(&entry.reason).or_default().push(blocked_name(entry));
    }
    let noun = if blocked.iter().all(|entry| entry.kind == "Node") { "node" } else { "object" };
    let mut text = format!("\n{} ({})\n", Paint::Bold.on("blocked"), count(blocked.len(), noun));
    for ((_, unblock), reasons) in causes {
        let gap = if reasons.len() == 1 { "\n      " } else { "  " };
        for (reason, names) in reasons.iter().take(limit(detail)) {
            let (sign, names) = (Paint::Red.on("!"), named(names, detail));
            text.push_str(&format!("  {sign} {}{gap}{}\n", printable(&names), printable(reason)));
        }
        text.push_str(&more(reasons.values().skip(limit(detail)).map(Vec::len).sum()));
        text.push_str(&format!("      {}\n", Paint::Dim.on(&printable(unblock))));
    }
    text
}

/// Names in one line: the first few, and how many more there are.
pub(super) fn named(names: &[String], detail: Detail) -> String {
    let shown = &names[..names.len().min(limit(detail))];
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} … and {} more", shown.join(", "), grouped_digits(more)),
    }
}

/// Nodes go by their name alone.
pub(super) fn blocked_name(entry: &BlockedDocument) -> String {
    short_name(&entry.kind, &entry.name)
}

/// The same for any object.
pub(super) fn short_name(kind: &str, name: &str) -> String {
    if kind == "Node" { name.to_owned() } else { format!("{kind}/{name}") }
}

fn drift_lines(drift: &[DriftDocument], detail: Detail) -> String {
    let mut text = format!("\n{} ({})\n", Paint::Bold.on("drift"), count(drift.len(), "field"));
    let shown = &drift[..drift.len().min(limit(detail))];
    for entry in shown {
        let author = match (&entry.manager, &entry.time) {
            (Some(manager), Some(time)) => format!(", written by {} at {}", printable(manager), printable(time)),
            _ => String::new(),
        };
        text.push_str(&format!(
            "  {} {}  {} shows {}, expected {}{author}\n",
            Paint::Yellow.on("?"),
            printable(&short_name(&entry.kind, &entry.name)),
            printable(&entry.field),
            printable(&entry.seen),
            printable(&entry.expected)
        ));
    }
    text + &more(drift.len() - shown.len())
}
