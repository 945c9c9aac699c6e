//! The plan for a person at a terminal: the summary, the changes by pool, then blocked, misplaced
//! and drifted objects, and the summary again.

use std::collections::BTreeMap;

use super::text::{Paint, count, grouped_digits, pointer_with_codes, printable};
use super::{causes, headlines, human_lb, human_misplaced};
use ipam_core::text::{by_name, natural_order};
use ipam_plan::plan::{
    BlockedDocument, ChangeAction, ChangeDocument, PlanDocument, RefusalDocument, SourceDocument,
    TargetKind,
};

/// Length of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first few of each group, and the number of the others.
    Short,
    /// Everything.
    Full,
}

/// Digits of a digest that people compare; `--expect-digest` requires as many.
pub const SHOWN_DIGITS: usize = 32;

/// Groups, and lines of one group, in short form; more are counted.
const SHOWN: usize = 10;

/// The plan as text, from its verdict to its verdict, without its findings: they are printed as diagnostics.
pub fn human(plan: &PlanDocument, detail: Detail) -> String {
    // Every field is named, so that a new one cannot be forgotten here.
    let PlanDocument {
        format_version: _,
        intent: _,
        digest,
        source,
        selection,
        summary,
        waivers,
        refusals,
        weakened,
        changes,
        services,
        blocked,
        misplaced,
        drift,
        findings: _,
    } = plan;
    let headline = format!("{}\n", Paint::Bold.on(&printable(&plan.verdict().line())));
    let parts = [
        match headlines::by(selection.as_ref()) {
            line if line.is_empty() => line,
            line => format!("{line}\n"),
        },
        headlines::of_objects(summary, plan.losing()),
        refused(refusals, detail),
        human_misplaced::blocks(summary, changes, detail),
        human_lb::changes(changes, detail),
        human_lb::effects(services, detail),
        human_lb::pod_pool_changes(changes, detail),
        changes_by_pool(changes, detail),
        human_lb::port_changes(changes, detail),
        blocked_by_reason(blocked, detail),
        human_misplaced::misplaced(misplaced, detail),
        human_misplaced::drift(drift, detail),
        irreversible(plan),
        waived(waivers),
        made_from(changes, digest, source),
    ];
    let body = parts.concat();
    // Long output scrolls the first line away.
    let last = if body.is_empty() {
        String::new()
    } else {
        format!("\n{headline}")
    };
    weakened_policy(weakened) + &headline + &body + &last
}

fn weakened_policy(weakened: &[String]) -> String {
    if weakened.is_empty() {
        return String::new();
    }
    let lines = weakened
        .iter()
        .map(|what| format!("  {}\n", printable(what)));
    let title = Paint::Bold.on("The Policy is weakened:");
    format!("{title}\n{}\n", lines.collect::<String>())
}

fn irreversible(plan: &PlanDocument) -> String {
    match plan.summary.irreversible {
        0 => String::new(),
        changes => format!(
            "\n{} cannot be undone: {}.\n",
            count(changes, "change"),
            super::Irreversible::of(plan).as_str()
        ),
    }
}

fn waived(waivers: &[String]) -> String {
    if waivers.is_empty() {
        String::new()
    } else {
        format!("\nwaived: {}\n", printable(&waivers.join(", ")))
    }
}

/// The digest of the changes and the commit of the files.
fn made_from(changes: &[ChangeDocument], digest: &str, source: &SourceDocument) -> String {
    let digest = format!("digest {}", digest.get(..SHOWN_DIGITS).unwrap_or_default());
    let commit = source
        .revision
        .as_deref()
        .map(|id| format!("files of commit {}", printable(id)));
    let lines: Vec<String> = (!changes.is_empty())
        .then_some(digest)
        .into_iter()
        .chain(commit)
        .collect();
    if lines.is_empty() {
        String::new()
    } else {
        Paint::Dim.on(&format!("\n{}\n", lines.join("\n")))
    }
}

pub(crate) fn limit(detail: Detail) -> usize {
    match detail {
        Detail::Short => SHOWN,
        Detail::Full => usize::MAX,
    }
}

pub(super) fn more(hidden: usize) -> String {
    if hidden == 0 {
        String::new()
    } else {
        Paint::Dim.on(&format!(
            "    … and {} more; --show-all shows all\n",
            grouped_digits(hidden)
        ))
    }
}

/// The line that counts the groups that are not shown.
pub(super) fn further(of_groups: Option<String>) -> String {
    of_groups
        .map(|groups| {
            Paint::Dim.on(&format!(
                "  … and {}; --show-all shows all\n",
                printable(&groups)
            ))
        })
        .unwrap_or_default()
}

/// A pool and its changes.
pub(super) type PoolChanges<'p> = (Option<&'p str>, Vec<&'p ChangeDocument>);

/// The changes of these nodes by pool, both in natural order.
pub(super) fn by_pool<'p>(
    changes: impl IntoIterator<Item = &'p ChangeDocument>,
) -> Vec<PoolChanges<'p>> {
    let mut pools: BTreeMap<Option<&str>, Vec<&ChangeDocument>> = BTreeMap::new();
    let of_nodes = changes.into_iter().filter(|change| change.is_of_node());
    for change in by_name(of_nodes, |change| &change.name) {
        pools
            .entry(change.pool.as_deref())
            .or_default()
            .push(change);
    }
    let mut pools: Vec<PoolChanges<'_>> = pools.into_iter().collect();
    pools.sort_by(|(a, _), (b, _)| natural_order(a.unwrap_or_default(), b.unwrap_or_default()));
    pools
}

/// `490 further pools with 12,345 changes`, of those beyond the limit.
pub(super) fn further_pools(pools: &[PoolChanges<'_>], detail: Detail) -> Option<String> {
    let further = pools.get(limit(detail)..).unwrap_or_default();
    let changes = further.iter().map(|(_, changes)| changes.len()).sum();
    (!further.is_empty()).then(|| {
        format!(
            "{} with {}",
            count(further.len(), "further pool"),
            count(changes, "change")
        )
    })
}

fn changes_by_pool(changes: &[ChangeDocument], detail: Detail) -> String {
    let pools = by_pool(changes);
    let mut text = String::new();
    for (pool, changes) in pools.iter().take(limit(detail)) {
        text.push_str(&changes_of_pool(*pool, changes, detail));
    }
    match further(further_pools(&pools, detail)) {
        line if line.is_empty() => text,
        line => format!("{text}\n{line}"),
    }
}

fn changes_of_pool(pool: Option<&str>, changes: &[&ChangeDocument], detail: Detail) -> String {
    let heading = pool.map_or_else(
        || "outside every pool".to_owned(),
        |pool| format!("pool {}", printable(pool)),
    );
    let mut text = format!(
        "\n{} ({})\n",
        Paint::Bold.on(&heading),
        count(changes.len(), "change")
    );
    let shown = &changes[..changes.len().min(limit(detail))];
    let width = |cell: fn(&ChangeDocument) -> String| {
        shown
            .iter()
            .map(|c| cell(c).chars().count())
            .max()
            .unwrap_or(0)
    };
    let (names, blocks) = (width(|change| change.name.clone()), width(values));
    for change in shown {
        let line = format!(
            "  {} {:names$}  {:blocks$}  {:15}  {}",
            sign(change.action),
            printable(&change.name),
            printable(&values(change)),
            printable(&change.write_path),
            printable(&change.reason)
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text + &more(changes.len() - shown.len())
}

pub(super) fn sign(action: ChangeAction) -> String {
    match action {
        ChangeAction::Assign | ChangeAction::Create => Paint::Green.on("+"),
        ChangeAction::Release | ChangeAction::Delete => Paint::Red.on("-"),
        ChangeAction::Update | ChangeAction::Adopt | ChangeAction::Pin => Paint::Yellow.on("~"),
    }
}

pub(super) fn values(change: &ChangeDocument) -> String {
    let after = if change.after.is_empty() {
        "none".to_owned()
    } else {
        change.after.join(" ")
    };
    if change.before.is_empty() || change.before == change.after {
        after
    } else {
        format!("{} -> {after}", change.before.join(" "))
    }
}

fn refused(refusals: &[RefusalDocument], detail: Detail) -> String {
    if refusals.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{}\n",
        Paint::Red.on("refused: it may not be applied as it is")
    );
    let shown = &refusals[..refusals.len().min(limit(detail))];
    for refusal in shown {
        text.push_str(&format!(
            "  {} {}\n",
            Paint::Red.on("!"),
            printable(&refusal.message)
        ));
        text.push_str(&format!(
            "      {}\n",
            Paint::Dim.on(&printable(&refusal.help))
        ));
    }
    text += &more(refusals.len() - shown.len());
    text + &codes_of(refusals.iter().map(|refusal| refusal.rule.as_str()))
}

/// The line that points to the pages of these codes.
pub(super) fn codes_of<'c>(codes: impl IntoIterator<Item = &'c str>) -> String {
    let line = pointer_with_codes(codes).unwrap_or_default();
    format!("  {}\n", Paint::Dim.on(&printable(&line)))
}

fn blocked_by_reason(blocked: &[BlockedDocument], detail: Detail) -> String {
    if blocked.is_empty() {
        return String::new();
    }
    let noun = if blocked.iter().all(|entry| entry.kind == TargetKind::Node) {
        "node"
    } else {
        "object"
    };
    let mut text = format!(
        "\n{} ({})\n",
        Paint::Bold.on("blocked"),
        count(blocked.len(), noun)
    );
    let causes = causes::blocked(blocked, detail);
    for cause in &causes.shown {
        let gap = if cause.reasons.len() == 1 {
            "\n      "
        } else {
            "  "
        };
        for (reason, entries) in cause.reasons.iter().take(limit(detail)) {
            let names: Vec<String> = entries.iter().map(|entry| blocked_name(entry)).collect();
            let (sign, names) = (Paint::Red.on("!"), named(&names, detail));
            text.push_str(&format!(
                "  {sign} {}{gap}{}\n",
                printable(&names),
                printable(reason)
            ));
        }
        text.push_str(&more(
            cause
                .reasons
                .iter()
                .skip(limit(detail))
                .map(|(_, entries)| entries.len())
                .sum(),
        ));
        text.push_str(&format!(
            "      {}\n",
            Paint::Dim.on(&printable(cause.unblock))
        ));
    }
    text += &further(causes.further());
    text + &codes_of(blocked.iter().map(|entry| entry.code.as_str()))
}

/// Names in one line: the first few, and the number of the others.
pub(crate) fn named(names: &[String], detail: Detail) -> String {
    let shown = &names[..names.len().min(limit(detail))];
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} … and {} more", shown.join(", "), grouped_digits(more)),
    }
}

pub(super) fn blocked_name(entry: &BlockedDocument) -> String {
    short_name(entry.kind, &entry.name)
}

/// The name of a node, or `Kind/name` of any other object.
pub(super) fn short_name(kind: TargetKind, name: &str) -> String {
    match kind {
        TargetKind::Node => name.to_owned(),
        _ => format!("{kind}/{name}"),
    }
}
