//! Where the cluster differs from the files, for the comment of a pull request: who wrote it, and
//! what a merge does about it.

use std::collections::{BTreeMap, BTreeSet};

use super::causes;
use super::comment::Occasion;
use super::human::{Detail, short_name};
use super::markdown_page::{Entry, Fold, Page, Table, UpTo};
use super::markdown_waiting::named;
use super::markup::{Markup, Phrase, code, prose};
use super::text::{count, grouped_digits};
use ipam_planner::plan::{ChangeDocument, DriftDocument, PlanDocument};

/// Drift that the plan's own moves do not explain: a node that moves shows its old block until then.
pub(super) fn unplanned(plan: &PlanDocument) -> Vec<&DriftDocument> {
    let moves = plan.changes.iter().filter(|change| change.moves_a_block());
    let moves: BTreeMap<&str, &ChangeDocument> =
        moves.map(|change| (&*change.name, change)).collect();
    let is_own = |drift: &&DriftDocument| {
        let change = moves.get(&*drift.name).filter(|_| drift.kind == "Node");
        change.is_some_and(|change| {
            change.before.contains(&drift.seen) && change.after.contains(&drift.expected)
        })
    };
    plan.drift.iter().filter(|drift| !is_own(drift)).collect()
}

pub(super) fn drift(page: &mut Page<'_>, plan: &PlanDocument, occasion: Occasion) {
    let drift = unplanned(plan);
    if drift.is_empty() {
        return;
    }
    let act = match occasion {
        Occasion::Merge => "a merge",
        Occasion::Apply => "an apply",
    };
    let of_nodes_and_ports = plan.changes.iter().filter(|one| !is_pool(one));
    let changed: BTreeSet<(&str, &str)> = of_nodes_and_ports
        .map(|change| (&*change.kind, &*change.name))
        .collect();
    let causes = causes::drift(drift.iter().copied(), Detail::Short);
    let mut rows: Vec<Entry<[Markup; 4]>> = causes
        .shown
        .iter()
        .map(|cause| row(page, cause, &changed))
        .collect();
    rows.extend(causes.further().map(|further| Entry {
        text: [
            prose(&format!("… and {further}")),
            prose(""),
            prose(""),
            prose(""),
        ],
        count: causes.hidden_objects(),
    }));
    let differ = match drift.len() {
        1 => "1 field".to_owned(),
        several => format!("{} fields", grouped_digits(several)),
    };
    page.table(Table {
        title: Phrase::new(&format!(
            "the cluster differs from Git in {differ}, as it is now"
        )),
        heading: [
            "field",
            "last written by",
            &format!("{act} writes"),
            "objects",
        ],
        rows,
        noun: "drifted field",
        fold: Fold::Open,
        up_to: UpTo(7),
    });
}

fn is_pool(change: &ChangeDocument) -> bool {
    change.kind != "Node" && change.kind != "Port"
}

fn row(
    page: &Page<'_>,
    cause: &causes::DriftCause<'_>,
    changed: &BTreeSet<(&str, &str)>,
) -> Entry<[Markup; 4]> {
    let is_changed = |entry: &&&DriftDocument| changed.contains(&(&*entry.kind, &*entry.name));
    let writes = cause.entries.iter().filter(is_changed).count();
    let writes = match writes {
        0 => "nothing of it".to_owned(),
        all if all == cause.entries.len() => "these objects".to_owned(),
        some => format!(
            "{} of {}",
            grouped_digits(some),
            count(cause.entries.len(), "object")
        ),
    };
    let entries = cause.entries.iter().map(|entry| drifted(entry));
    Entry {
        text: [
            code(cause.field),
            author(cause),
            prose(&writes),
            named(page, entries, "; ", Detail::Short),
        ],
        count: cause.entries.len(),
    }
}

fn author(cause: &causes::DriftCause<'_>) -> Markup {
    let time = match &cause.entries[..] {
        [only] => only.time.as_deref(),
        _ => None,
    };
    match (cause.manager, time) {
        (None, _) => prose("unknown"),
        (Some(manager), None) => code(manager),
        (Some(manager), Some(time)) => {
            let written = Phrase::default().value(manager).words(" at ");
            written.value(time).markdown()
        }
    }
}

fn drifted(entry: &DriftDocument) -> Markup {
    let name = short_name(&entry.kind, &entry.name);
    let shows = Phrase::default().value(&name).words(" shows ");
    let expected = shows.value(&entry.seen).words(", expected ");
    expected.value(&entry.expected).markdown()
}
