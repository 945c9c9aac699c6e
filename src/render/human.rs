//! The plan for a person at a terminal: the summary first, then the changes by pool, then what must wait.

use std::collections::BTreeMap;

use super::text::{Paint, count, printable};
use super::{human_lb, human_pod_pools, human_ports};
use crate::plan::{BlockedDocument, ChangeDocument, DriftDocument, PlanDocument, RefusalDocument, Summary};

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first few of each group, and how many more there are.
    Short,
    /// Everything.
    Full,
}

/// Changes of one pool that are shown in short form; more are counted.
const SHOWN: usize = 20;

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
        drift,
        findings: _,
    } = plan;
    let mut text = headline(summary);
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
    text
}

/// `Plan: 3 to assign, …` or `No changes.`
fn headline(summary: &Summary) -> String {
    let Summary {
        assign,
        release,
        update,
        delete,
        moved,
        blocked,
        unchanged,
        irreversible: _,
        load_balancing,
        pod_pools,
        ports,
    } = summary;
    let nodes = count(*unchanged, "node");
    if assign + release + update + delete + ports == 0
        && load_balancing.changes_nothing()
        && pod_pools.changes_nothing()
    {
        let text = match blocked {
            0 => format!("No changes. {nodes} as the files say, 0 moved."),
            _ => format!("No changes. {nodes} as the files say, 0 moved; {blocked} blocked."),
        };
        return format!("{}\n", Paint::Bold.on(&text));
    }
    let text = format!(
        "Plan: {assign} to assign, {update} to update, {release} to release, {delete} to delete, {moved} moved; {blocked} blocked, {unchanged} unchanged.{}",
        if *ports == 0 { String::new() } else { format!(" {} to change.", count(*ports, "port")) }
    );
    format!("{}\n", Paint::Bold.on(&text))
}

pub(super) fn limit(detail: Detail) -> usize {
    match detail {
        Detail::Short => SHOWN,
        Detail::Full => usize::MAX,
    }
}

pub(super) fn more(hidden: usize) -> String {
    if hidden == 0 { String::new() } else { Paint::Dim.on(&format!("    … and {hidden} more; --full shows all\n")) }
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
    let mut reasons: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for entry in blocked {
        reasons.entry((&entry.reason, &entry.unblock)).or_default().push(blocked_name(entry));
    }
    let noun = if blocked.iter().all(|entry| entry.kind == "Node") { "node" } else { "object" };
    let mut text = format!("\n{} ({})\n", Paint::Bold.on("blocked"), count(blocked.len(), noun));
    for ((reason, unblock), names) in reasons {
        let shown = &names[..names.len().min(limit(detail))];
        let rest = names.len() - shown.len();
        let rest = if rest == 0 { String::new() } else { format!(" … and {rest} more") };
        text.push_str(&format!("  {} {}{rest}\n", Paint::Red.on("!"), printable(&shown.join(", "))));
        text.push_str(&format!("      {}\n      {}\n", printable(reason), Paint::Dim.on(&printable(unblock))));
    }
    text
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
