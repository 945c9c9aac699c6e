//! How many nodes of each pool and failure domain change, for the comment of a pull request.
//!
//! Where the cluster differs from the files, for the comment of a pull request: who wrote it, and
//! what a merge does about it.

use std::collections::{BTreeMap, BTreeSet};

use super::causes;
use super::comment::Occasion;
use super::human::{Detail, limit, short_name};
use super::markdown_page::{Entry, Fold, Page, Table, UpTo};
use super::markup::{Markup, Phrase, code, prose};
use super::text::{count, grouped_digits};
use ipam_core::text::natural_order;
use ipam_plan::plan::{ChangeDocument, DriftDocument, PlanDocument, TargetKind};

/// Rows of the table by pool and failure domain.
const GROUPS: usize = 40;

/// Rows that a reader takes in at once.
const FEW_GROUPS: usize = 10;

/// The changed nodes of one pool in one failure domain.
struct Group<'p> {
    pool: &'p str,
    domain: &'p str,
    nodes: usize,
    /// Those whose change takes effect when an agent restarts.
    late: usize,
}

/// A row for each pool and failure domain, or a line if all rows would say the same.
pub(super) fn by_pool_and_domain(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let groups = groups(changes);
    if groups.len() <= limit(Detail::Short) && each_pool_has_one_domain(&groups) {
        return;
    }
    if let Some(text) = all_alike(&groups) {
        return page.part(Entry { text, count: 0 }, "row");
    }
    match groups.iter().any(|group| group.late > 0) {
        true => {
            let heading = [
                "pool",
                "failure domain",
                "nodes",
                "take effect when an agent restarts",
            ];
            let row = |group: &Group<'_>| {
                let [pool, domain, nodes] = row(group);
                [pool, domain, nodes, prose(&grouped_digits(group.late))]
            };
            table(page, &groups, heading, row);
        }
        false => table(page, &groups, ["pool", "failure domain", "nodes"], row),
    }
}

fn groups<'p>(changes: &[&'p ChangeDocument]) -> Vec<Group<'p>> {
    let mut sizes: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.is_of_node()) {
        let pool = change.pool.as_deref().unwrap_or_default();
        let domain = change.failure_domain.as_deref().unwrap_or_default();
        let (nodes, late) = sizes.entry((pool, domain)).or_default();
        *nodes += 1;
        *late += usize::from(change.is_disruptive());
    }
    let group = |((pool, domain), (nodes, late))| Group {
        pool,
        domain,
        nodes,
        late,
    };
    let mut groups: Vec<Group<'p>> = sizes.into_iter().map(group).collect();
    groups.sort_by(|one, other| {
        natural_order(one.pool, other.pool).then_with(|| natural_order(one.domain, other.domain))
    });
    groups
}

/// Then the titles of the pools say it all.
fn each_pool_has_one_domain(groups: &[Group<'_>]) -> bool {
    let is_same = |pair: &[Group<'_>]| pair[0].pool == pair[1].pool;
    !groups.windows(2).any(is_same)
}

/// One line in place of rows with the same number.
fn all_alike(groups: &[Group<'_>]) -> Option<String> {
    let (first, last) = (groups.first()?, groups.last()?);
    let is_alike = |group: &Group<'_>| group.nodes == first.nodes && group.late == 0;
    if groups.len() <= FEW_GROUPS || !groups.iter().all(is_alike) {
        return None;
    }
    let all = match each_pool_has_one_domain(groups) {
        true => format!(
            "{}, each of them in one failure domain",
            count(groups.len(), "pool")
        ),
        false => format!(
            "{} of a pool and a failure domain",
            count(groups.len(), "pair")
        ),
    };
    let line = Phrase::new(&format!(
        "{} in each of {all}, from ",
        count(first.nodes, "node")
    ));
    let line = named(line, first).words(" to ");
    let line = named(line, last).markdown();
    Some(format!("\n**By pool and failure domain:** {line}\n"))
}

fn named(phrase: Phrase, group: &Group<'_>) -> Phrase {
    let phrase = phrase.value(match group.pool {
        "" => "(none)",
        pool => pool,
    });
    match group.domain {
        "" => phrase,
        domain => phrase.words(" in ").value(domain),
    }
}

fn table<const N: usize>(
    page: &mut Page<'_>,
    groups: &[Group<'_>],
    heading: [&str; N],
    row: impl Fn(&Group<'_>) -> [Markup; N],
) {
    let changes = groups.iter().map(|group| group.nodes).sum();
    let shown = groups.iter().take(GROUPS);
    let mut rows: Vec<Entry<[Markup; N]>> = shown.map(|group| Entry::one(row(group))).collect();
    rows.extend(further(groups.get(GROUPS..).unwrap_or_default()));
    page.table(Table {
        title: Phrase::new(&format!(
            "by pool and failure domain, {}",
            count(changes, "change")
        )),
        heading,
        rows,
        noun: "row",
        fold: match groups.len() {
            0..=FEW_GROUPS => Fold::Open,
            _ => Fold::Folded,
        },
        up_to: UpTo(7),
    });
}

fn row(group: &Group<'_>) -> [Markup; 3] {
    let or_none = |name: &str| match name.is_empty() {
        true => prose("–"),
        false => code(name),
    };
    let nodes = prose(&grouped_digits(group.nodes));
    [or_none(group.pool), or_none(group.domain), nodes]
}

fn further<const N: usize>(groups: &[Group<'_>]) -> Option<Entry<[Markup; N]>> {
    let sum = |part: fn(&Group<'_>) -> usize| {
        let all: usize = groups.iter().map(part).sum();
        prose(&grouped_digits(all))
    };
    let text = |cell| match cell {
        0 => prose(&format!("… and {} more", grouped_digits(groups.len()))),
        2 => sum(|group| group.nodes),
        3 => sum(|group| group.late),
        _ => prose(""),
    };
    (!groups.is_empty()).then(|| Entry::one(std::array::from_fn(text)))
}

/// Drift that the plan's own moves do not explain: a node that moves shows its old block until then.
pub(super) fn unplanned(plan: &PlanDocument) -> Vec<&DriftDocument> {
    let moves = plan.changes.iter().filter(|change| change.moves_a_block());
    let moves: BTreeMap<&str, &ChangeDocument> =
        moves.map(|change| (&*change.name, change)).collect();
    let is_own = |drift: &&DriftDocument| {
        let change = moves
            .get(&*drift.name)
            .filter(|_| drift.kind == TargetKind::Node);
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
    let changed: BTreeSet<(TargetKind, &str)> = of_nodes_and_ports
        .map(|change| (change.kind, &*change.name))
        .collect();
    let causes = causes::drift(drift.iter().copied(), Detail::Short);
    let mut rows: Vec<Entry<[Markup; 4]>> = causes
        .shown
        .iter()
        .map(|cause| drift_row(page, cause, &changed))
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
    !matches!(change.kind, TargetKind::Node | TargetKind::Port)
}

fn drift_row(
    page: &Page<'_>,
    cause: &causes::DriftCause<'_>,
    changed: &BTreeSet<(TargetKind, &str)>,
) -> Entry<[Markup; 4]> {
    let is_changed = |entry: &&&DriftDocument| changed.contains(&(entry.kind, &*entry.name));
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
            super::markdown_objects::named(page, entries, "; ", Detail::Short),
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
    let name = short_name(entry.kind, &entry.name);
    let shows = Phrase::default().value(&name).words(" shows ");
    let expected = shows.value(&entry.seen).words(", expected ");
    expected.value(&entry.expected).markdown()
}
