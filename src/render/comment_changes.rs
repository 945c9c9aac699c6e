//! Changes of nodes for the comment of a pull request: by pool and failure domain, and the first
//! nodes of each pool.

use std::collections::BTreeMap;

use super::comment_risks::meaning_of_a_move;
use super::human::{Detail, PoolChanges, by_pool, further_pools, limit, short_name};
use super::markdown_page::{Entry, Fold, Page, Table, UpTo, WHOLE};
use super::markup::{Markup, Phrase, code, codes, prose};
use super::natural::{by_name, natural_order};
use super::text::{count, grouped_digits};
use super::written_to::written_to;
use ipam_planner::plan::{ChangeDocument, Intent};

/// Rows of the table by pool and failure domain.
const GROUPS: usize = 40;

/// Rows that a reader takes in at once.
const FEW_GROUPS: usize = 10;

/// Nodes of one pool that have a row.
const NODES: usize = 20;

/// The same, for each of many pools.
const FEW_NODES: usize = 2;

/// Nodes that move, and other changes that need a restart, never folded away. What the first lines
/// tell is not repeated.
pub(super) fn disruptive(
    page: &mut Page<'_>,
    changes: &[&ChangeDocument],
    told: Option<&ChangeDocument>,
    intent: Intent,
) {
    let disruptive = changes.iter().filter(|one| one.hazard == "disruptive");
    let all = by_name(disruptive.copied(), |change| &change.name);
    let (moves, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|change| change.moves_a_block());
    let is_told = told.is_some_and(ChangeDocument::moves_a_block);
    if let (Some(first), false) = (moves.first(), is_told) {
        let meaning = meaning_of_a_move(first, intent).markdown();
        let text = format!("\n**Pods of nodes that move:** {meaning}\n");
        page.part(Entry { text, count: 0 }, "move");
    }
    moving_nodes(page, &without_told(moves, told));
    restarts(page, &without_told(others, told));
}

/// Empty if the first lines tell the only change.
fn without_told<'p>(
    changes: Vec<&'p ChangeDocument>,
    told: Option<&ChangeDocument>,
) -> Vec<&'p ChangeDocument> {
    match (&changes[..], told) {
        ([only], Some(told)) if std::ptr::eq(*only, told) => Vec::new(),
        _ => changes,
    }
}

fn moving_nodes(page: &mut Page<'_>, moves: &[&ChangeDocument]) {
    let row = |c: &&ChangeDocument| {
        let pin = c.origin.as_ref();
        let pin = pin.map(|origin| code(&format!("{}:{}", origin.file, origin.line)));
        [
            code(&c.name),
            codes(&c.before),
            codes(&c.after),
            pin.unwrap_or_else(|| prose(&c.reason)),
        ]
    };
    let mut rows = page.each(moves.iter().take(NODES), |_| 1, row);
    rows.extend(further_rows(moves.len()));
    page.table(Table {
        title: Phrase::new(&format!("moves, {}", count(moves.len(), "node"))),
        heading: ["node", "from", "to", "pinned by"],
        rows,
        noun: "move",
        fold: Fold::Open,
        up_to: UpTo(6),
    });
}

/// Changes that take effect only when an agent restarts, but move nothing.
fn restarts(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let title = Phrase::new(&format!(
        "when the agent restarts, {}",
        count(changes.len(), "change")
    ));
    let name = |c: &ChangeDocument| code(&short_name(&c.kind, &c.name));
    match same(changes, |change| change.reason.clone()) {
        Some(reason) => {
            let row = |c: &&ChangeDocument| [name(c), codes(&c.before), codes(&c.after)];
            let mut rows = page.each(changes.iter().take(NODES), |_| 1, row);
            rows.extend(further_rows(changes.len()));
            page.table(Table {
                title: title.words(": ").sentence(&reason),
                heading: ["object", "before", "after"],
                rows,
                noun: "disruptive change",
                fold: Fold::Open,
                up_to: UpTo(6),
            });
        }
        None => {
            let row = |c: &&ChangeDocument| {
                [name(c), codes(&c.before), codes(&c.after), prose(&c.reason)]
            };
            let mut rows = page.each(changes.iter().take(NODES), |_| 1, row);
            rows.extend(further_rows(changes.len()));
            page.table(Table {
                title,
                heading: ["object", "before", "after", "why"],
                rows,
                noun: "disruptive change",
                fold: Fold::Open,
                up_to: UpTo(6),
            });
        }
    }
}

/// The text that two or more changes have in common.
fn same(changes: &[&ChangeDocument], text: impl Fn(&ChangeDocument) -> String) -> Option<String> {
    let (first, rest) = changes.split_first()?;
    let common = text(first);
    let all = !rest.is_empty() && rest.iter().all(|change| text(change) == common);
    all.then_some(common)
}

/// A row for the changes after the first ones.
fn further_rows<const N: usize>(changes: usize) -> Option<Entry<[Markup; N]>> {
    let count = changes.saturating_sub(NODES);
    let more = format!("… and {} more", grouped_digits(count));
    (count > 0).then(|| Entry {
        text: std::array::from_fn(|cell| prose(if cell == 0 { &more } else { "" })),
        count,
    })
}

/// A row for each pool and failure domain.
pub(super) fn by_pool_and_domain(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let mut groups: BTreeMap<(&str, &str), Vec<&ChangeDocument>> = BTreeMap::new();
    let of_nodes = changes.iter().filter(|change| change.kind == "Node");
    for change in by_name(of_nodes.copied(), |change| &change.name) {
        let pool = change.pool.as_deref().unwrap_or_default();
        let domain = change.failure_domain.as_deref().unwrap_or_default();
        groups.entry((pool, domain)).or_default().push(change);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(one, _), (other, _)| {
        natural_order(one.0, other.0).then_with(|| natural_order(one.1, other.1))
    });
    if groups.len() <= limit(Detail::Short) && each_pool_has_one_domain(&groups) {
        return;
    }
    let changes = groups.iter().map(|(_, changes)| changes.len()).sum();
    let mut rows: Vec<Entry<[Markup; 4]>> = groups.iter().take(GROUPS).map(row).collect();
    rows.extend(further(groups.get(GROUPS..).unwrap_or_default()));
    let fold = match groups.len() {
        0..=FEW_GROUPS => Fold::Open,
        _ => Fold::Folded,
    };
    page.table(Table {
        title: Phrase::new(&format!(
            "by pool and failure domain, {}",
            count(changes, "change")
        )),
        heading: [
            "pool",
            "failure domain",
            "nodes",
            "of them, after a restart",
        ],
        rows,
        noun: "row",
        fold,
        up_to: UpTo(7),
    });
}

/// Then the titles of the pools say it all.
fn each_pool_has_one_domain(groups: &[((&str, &str), Vec<&ChangeDocument>)]) -> bool {
    let mut pools = groups.iter().map(|((pool, _), _)| pool);
    let first = pools.next();
    pools
        .try_fold(first, |before, pool| {
            (before != Some(pool)).then_some(Some(pool))
        })
        .is_some()
}

/// ` in zone-1`, if all are there.
fn in_domain(title: Phrase, changes: &[&ChangeDocument]) -> Phrase {
    let first = changes
        .first()
        .and_then(|one| one.failure_domain.as_deref());
    let is_there = |one: &&ChangeDocument| one.failure_domain.as_deref() == first;
    match first {
        Some(domain) if changes.iter().all(is_there) => title.words(" in ").value(domain),
        _ => title,
    }
}

fn row(((pool, domain), changes): &((&str, &str), Vec<&ChangeDocument>)) -> Entry<[Markup; 4]> {
    let or_none = |name: &str| match name.is_empty() {
        true => prose("–"),
        false => code(name),
    };
    let disruptive = changes.iter().filter(|one| one.hazard == "disruptive");
    Entry::one([
        or_none(pool),
        or_none(domain),
        prose(&grouped_digits(changes.len())),
        prose(&grouped_digits(disruptive.count())),
    ])
}

fn further(groups: &[((&str, &str), Vec<&ChangeDocument>)]) -> Option<Entry<[Markup; 4]>> {
    let changes: usize = groups.iter().map(|(_, changes)| changes.len()).sum();
    let text = |cell| match cell {
        0 => prose(&format!("… and {} more", grouped_digits(groups.len()))),
        2 => prose(&grouped_digits(changes)),
        _ => prose(""),
    };
    (!groups.is_empty()).then(|| Entry::one(std::array::from_fn(text)))
}

/// The first nodes of each pool, folded, without those that [`disruptive`] shows. Pools whose nodes
/// get their blocks in the same way have one table.
pub(super) fn nodes_of_pools(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let quiet = changes.iter().filter(|one| one.hazard != "disruptive");
    let pools = by_pool(quiet.copied());
    let mut alike_pools: Vec<(Way, Vec<PoolChanges<'_>>)> = Vec::new();
    let mut other_changes: Vec<(PoolChanges<'_>, &str)> = Vec::new();
    for (pool, changes) in pools.iter().take(limit(Detail::Short)) {
        let (alike, others) = alike(changes);
        let noun = match alike.is_empty() {
            true => "change",
            false => "other change",
        };
        if let Some(first) = alike.first() {
            let way = Way::of(first, *pool);
            match alike_pools.iter_mut().find(|(known, _)| *known == way) {
                Some((_, pools)) => pools.push((*pool, alike)),
                None => alike_pools.push((way, vec![(*pool, alike)])),
            }
        }
        if !others.is_empty() {
            other_changes.push(((*pool, others), noun));
        }
    }
    for (way, pools) in &alike_pools {
        match &pools[..] {
            [(pool, changes)] => table_of(page, *pool, changes),
            pools => joined(page, way, pools),
        }
    }
    for ((pool, changes), noun) in &other_changes {
        let title = of_pool(*pool, changes, noun);
        table_with_reasons(page, title, changes);
    }
    let further = further_pools(&pools, Detail::Short);
    if let Some(text) = further.map(|further| format!("\n… and {further}\n")) {
        page.part(Entry { text, count: 0 }, "change");
    }
}

/// Why nodes of a pool get their blocks, and where they are written, without the pool's name.
#[derive(PartialEq, Eq)]
struct Way {
    reason: String,
    field: String,
}

impl Way {
    fn of(change: &ChangeDocument, pool: Option<&str>) -> Way {
        let own = format!("pool {}", pool.unwrap_or_default());
        let reason = match change.reason.strip_suffix(&own) {
            Some(before) => format!("{before}its pool"),
            None => change.reason.clone(),
        };
        let field = written_to(change).markdown().to_string();
        Way { reason, field }
    }
}

/// `pool a, 3 changes in zone-1`
fn of_pool(pool: Option<&str>, changes: &[&ChangeDocument], noun: &str) -> Phrase {
    let title = Phrase::new("pool ").value(pool.unwrap_or("(none)"));
    in_domain(
        title.words(&format!(", {}", count(changes.len(), noun))),
        changes,
    )
}

/// The first nodes of each of these pools.
fn joined(page: &mut Page<'_>, way: &Way, pools: &[PoolChanges<'_>]) {
    let each = (NODES / pools.len()).max(FEW_NODES);
    let mut rows: Vec<Entry<[Markup; 3]>> = Vec::new();
    for (pool, changes) in pools {
        for (place, change) in changes.iter().take(each).enumerate() {
            let name = match place {
                0 => of_pool(*pool, changes, "change").markdown(),
                _ => prose(""),
            };
            rows.push(Entry::one([name, code(&change.name), codes(&change.after)]));
        }
        let more = changes.len().saturating_sub(each);
        rows.extend((more > 0).then(|| Entry {
            text: [
                prose(""),
                prose(&format!("… and {} more", grouped_digits(more))),
                prose(""),
            ],
            count: more,
        }));
    }
    let all: usize = pools.iter().map(|(_, changes)| changes.len()).sum();
    let title = Phrase::new(&format!(
        "{}, {}: ",
        count(pools.len(), "pool"),
        count(all, "change")
    ));
    let title = title.sentence(&way.reason).words("; written to ");
    let first = pools.first().and_then(|(_, changes)| changes.first());
    let field = first.map(|change| written_to(change)).unwrap_or_default();
    page.table(Table {
        title: title.then(field),
        heading: ["pool", "node", "block"],
        rows,
        noun: "change",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}

/// The changes that have one reason and one field, if they are at least half, and the others.
fn alike<'p>(changes: &[&'p ChangeDocument]) -> (Vec<&'p ChangeDocument>, Vec<&'p ChangeDocument>) {
    let key = |change: &ChangeDocument| {
        (
            change.reason.clone(),
            written_to(change).markdown().to_string(),
        )
    };
    let mut sizes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for change in changes {
        *sizes.entry(key(change)).or_default() += 1;
    }
    let largest = sizes.into_iter().max_by_key(|(_, size)| *size);
    match largest {
        Some((common, size)) if size > 1 && 2 * size >= changes.len() => changes
            .iter()
            .copied()
            .partition(|change| key(change) == common),
        _ => (Vec::new(), changes.to_vec()),
    }
}

fn table_of(page: &mut Page<'_>, pool: Option<&str>, changes: &[&ChangeDocument]) {
    let Some(first) = changes.first() else {
        return;
    };
    let title = of_pool(pool, changes, "change").words(": ");
    let title = title.sentence(&first.reason).words("; written to ");
    let title = title.then(written_to(first));
    let row = |c: &&ChangeDocument| [code(&c.name), codes(&c.after)];
    let mut rows = page.each(changes.iter().take(NODES), |_| 1, row);
    rows.extend(further_rows(changes.len()));
    page.table(Table {
        title,
        heading: ["node", "block"],
        rows,
        noun: "change",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}

fn table_with_reasons(page: &mut Page<'_>, title: Phrase, changes: &[&ChangeDocument]) {
    let row = |c: &&ChangeDocument| {
        [
            code(&c.name),
            codes(&c.after),
            written_to(c).markdown(),
            prose(&c.reason),
        ]
    };
    let mut rows = page.each(changes.iter().take(NODES), |_| 1, row);
    rows.extend(further_rows(changes.len()));
    page.table(Table {
        title,
        heading: ["node", "block", "written to", "why"],
        rows,
        noun: "change",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}
