//! How many nodes of each pool and failure domain change, for the comment of a pull request.
//!
//! Where the cluster differs from the files, for the comment of a pull request: who wrote it, and
//! what a merge does about it.

use std::collections::{BTreeMap, BTreeSet};

use super::comment::Occasion;
use super::human::{Detail, limit};
use super::markdown_page::Page;
use super::model::{Form, Listing, Row, UpTo, page as column};
use super::phrase::Phrase;
use super::text::{count, grouped_digits};
use super::{causes, plan_causes};
use ipam_core::text::natural_order;
use ipam_plan::plan::{ChangeDocument, DriftDocument, PlanDocument, TargetKind};

/// Rows of the table by pool and failure domain.
const GROUPS: usize = 40;

/// Limit of the rows that a reader takes in at once.
const FEW_GROUPS: usize = 10;

/// The changed nodes of one pool in one failure domain.
struct Group<'p> {
    pool: &'p str,
    domain: &'p str,
    nodes: usize,
    /// Nodes whose change takes effect when an agent restarts.
    late: usize,
}

/// A row for each pool and failure domain, or a line if all rows would say the same.
pub(super) fn by_pool_and_domain(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let groups = groups(changes);
    if groups.len() <= limit(Detail::Short) && each_pool_has_one_domain(&groups) {
        return;
    }
    if let Some(text) = all_alike(&groups) {
        return page.part(&text, 0, "row");
    }
    let columns = [
        "pool",
        "failure domain",
        "nodes",
        "take effect when an agent restarts",
    ];
    let is_late = groups.iter().any(|group| group.late > 0);
    let columns = columns.map(column);
    let columns = &columns[..if is_late { 4 } else { 3 }];
    let changes = groups.iter().map(|group| group.nodes).sum();
    let form = match groups.len() {
        0..=FEW_GROUPS => Form::Open,
        _ => Form::Folded,
    };
    let title = Phrase::new("by pool and failure domain");
    page.listing(
        Listing::new(title, "row", columns)
            .counted(count(changes, "change"))
            .form(form, UpTo(7))
            .rest(further(groups.get(GROUPS..).unwrap_or_default()))
            .rows(groups.iter().take(GROUPS), row),
    );
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

/// Whether each pool has one failure domain: then the titles of the pools name it.
fn each_pool_has_one_domain(groups: &[Group<'_>]) -> bool {
    let is_same = |pair: &[Group<'_>]| pair[0].pool == pair[1].pool;
    !groups.windows(2).any(is_same)
}

/// One line that replaces all rows if they have the same number; `None` if they differ.
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

fn row(group: &Group<'_>) -> Row {
    let or_none = |name: &str| match name.is_empty() {
        true => Phrase::new("–"),
        false => Phrase::of(name),
    };
    let number = |number: usize| Phrase::new(&grouped_digits(number));
    Row::new([
        or_none(group.pool),
        or_none(group.domain),
        number(group.nodes),
        number(group.late),
    ])
}

fn further(groups: &[Group<'_>]) -> Option<(String, usize)> {
    let nodes = groups.iter().map(|group| group.nodes).sum();
    let more = || {
        format!(
            "{} more, {}",
            grouped_digits(groups.len()),
            count(nodes, "node")
        )
    };
    (!groups.is_empty()).then(|| (more(), 1))
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
    let heading = match occasion {
        Occasion::Merge => "a merge writes",
        Occasion::Apply => "an apply writes",
    };
    let of_nodes_and_ports = plan.changes.iter().filter(|one| !is_pool(one));
    let changed: BTreeSet<(TargetKind, &str)> = of_nodes_and_ports
        .map(|change| (change.kind, &*change.name))
        .collect();
    let fields = count(drift.len(), "field");
    let title = format!("the cluster differs from Git in {fields}, as it is now");
    let written = |cause: &causes::DriftCause<'_>| {
        let is_changed = |entry: &&&DriftDocument| changed.contains(&(entry.kind, &*entry.name));
        let writes = cause.entries.iter().filter(is_changed).count();
        Phrase::new(&match writes {
            0 => "nothing of it".to_owned(),
            all if all == cause.entries.len() => "these objects".to_owned(),
            some => {
                let all = count(cause.entries.len(), "object");
                format!("{} of {all}", grouped_digits(some))
            }
        })
    };
    page.listing(Listing {
        title: Phrase::new(&title),
        ..plan_causes::drift(drift.iter().copied(), Detail::Short, (heading, written))
            .form(Form::Open, UpTo(7))
    });
}

fn is_pool(change: &ChangeDocument) -> bool {
    !matches!(change.kind, TargetKind::Node | TargetKind::Port)
}
