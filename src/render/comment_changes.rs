//! The first nodes of each pool that get a block, for the comment of a pull request.

use std::collections::BTreeMap;

use super::human::{Detail, PoolChanges, by_pool, further_pools, limit};
use super::markdown_page::{Entry, Fold, Page, Table, WHOLE};
use super::markup::{Markup, Phrase, code, codes, prose};
use super::text::{count, grouped_digits};
use super::written_to::written_to;
use ipam_planner::plan::ChangeDocument;

/// Nodes of one pool that have a row.
pub(super) const NODES: usize = 20;

/// The same, for each of many pools.
const FEW_NODES: usize = 2;

/// A row for the changes after the first ones.
pub(super) fn further_rows<const N: usize>(changes: usize) -> Option<Entry<[Markup; N]>> {
    let count = changes.saturating_sub(NODES);
    let more = format!("… and {} more", grouped_digits(count));
    (count > 0).then(|| Entry {
        text: std::array::from_fn(|cell| prose(if cell == 0 { &more } else { "" })),
        count,
    })
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

/// The first nodes of each pool, folded, without disruptive changes. Pools whose nodes
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
