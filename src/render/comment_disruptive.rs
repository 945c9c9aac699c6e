//! Changes that running Pods feel, for the comment of a pull request: nodes that move, and other
//! changes that take effect when an agent restarts.
//!
//! A node that moves to another block, for the comment of a pull request: what it means for Pods,
//! how it comes about, and the ways out and back.
//!
//! The first nodes of each pool that get a block, for the comment of a pull request.

use std::collections::BTreeMap;

use super::comment::Occasion;
use super::headlines::written_to;
use super::human::{Detail, limit};
use super::markdown::place;
use super::markdown_page::Page;
use super::model::{Form, Listing, Row, UpTo, page as column};
use super::phrase::Phrase;
use super::plan_sections::{PoolChanges, by_pool, further_pools, short_name};
use super::text::{count, grouped_digits};
use ipam_core::text::by_name;
use ipam_plan::plan::{ChangeDocument, EditDocument, Intent};

/// Nodes that move, and other changes that need a restart, never folded away. What the first lines
/// tell is not repeated.
pub(super) fn disruptive(
    page: &mut Page<'_>,
    changes: &[&ChangeDocument],
    told: Option<&ChangeDocument>,
    intent: Intent,
) {
    let disruptive = changes.iter().filter(|one| one.is_disruptive());
    let all = by_name(disruptive.copied(), |change| &change.name);
    let (moves, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|change| change.moves_a_block());
    let is_told = told.is_some_and(ChangeDocument::moves_a_block);
    if let (Some(first), false) = (moves.first(), is_told) {
        let text: String = what_it_means(first, intent)
            .iter()
            .map(|(question, answer)| format!("\n- **{question}:** {}", answer.markdown()))
            .collect();
        let text = match text.is_empty() {
            true => text,
            false => format!("\n**Each node that moves:**\n{text}\n"),
        };
        page.part(&text, 0, "move");
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
    let row = |c: &ChangeDocument| {
        let pin = c.origin.as_ref().map(|origin| Phrase::of(&place(origin)));
        let pin = pin.unwrap_or_else(|| Phrase::prose(&c.reason));
        let [before, after] = [&c.before, &c.after].map(Phrase::values);
        Row::new([Phrase::of(&c.name), before, after, pin])
    };
    let title = Phrase::new("move when their agents restart");
    let columns = ["node", "from", "to", "pinned by"].map(column);
    page.listing(
        Listing::new(title, "move", &columns)
            .counted(count(moves.len(), "node"))
            .form(Form::Open, UpTo(6))
            .first_rows(moves.to_vec(), NODES, row),
    );
}

/// Changes that take effect only when an agent restarts, but move nothing.
fn restarts(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let title = Phrase::new(&format!(
        "when the agent restarts, {}",
        count(changes.len(), "change")
    ));
    let columns = ["object", "before", "after", "why"].map(column);
    let (title, columns) = match same(changes, |change| change.reason.clone()) {
        Some(reason) => (title.words(": ").sentence(&reason), &columns[..3]),
        None => (title, &columns[..]),
    };
    let row = |c: &ChangeDocument| {
        let [before, after] = [&c.before, &c.after].map(Phrase::values);
        let name = Phrase::of(&short_name(c.kind, &c.name));
        Row::new([name, before, after, Phrase::prose(&c.reason)])
    };
    page.listing(
        Listing::new(title, "disruptive change", columns)
            .form(Form::Open, UpTo(6))
            .first_rows(changes.to_vec(), NODES, row),
    );
}

/// The text that two or more changes have in common.
fn same(changes: &[&ChangeDocument], text: impl Fn(&ChangeDocument) -> String) -> Option<String> {
    let (first, rest) = changes.split_first()?;
    let common = text(first);
    let all = !rest.is_empty() && rest.iter().all(|change| text(change) == common);
    all.then_some(common)
}

const OF_A_MOVE: &str = "they keep their addresses until the node's Cilium agent restarts. No job restarts it: a person, a reboot or an upgrade does. Pods that still have an address of the old block then lose their network, until they are created again.";

const BY_A_SETTING: &str = "the new block is written to a `CiliumNodeConfig` for this node. Its agent reads that when it starts, and takes this block in place of the one in `Node.spec.podCIDRs`. That field can be written only once, so it keeps showing the old block, and no other node gets that block.";

/// A drain leaves the Pods of DaemonSets on the node, so they have to be deleted separately.
const AFTER_A_DRAIN: &str = ", restart its agent after the apply job, delete the Pods that a drain leaves (those of DaemonSets), and then uncordon it";

/// Questions of a reader about a move, with the known answers.
pub(super) fn answers(
    change: &ChangeDocument,
    intent: Intent,
    occasion: Occasion,
) -> Vec<(&'static str, Phrase)> {
    let fix = ("Fix", fix(change, intent, occasion));
    match (&change.edit, intent) {
        (EditDocument::NodeConfig(_), Intent::Files) => {
            let mut answers = what_it_means(change, intent);
            answers.extend([fix, ("Way back", way_back(change))]);
            answers
        }
        (EditDocument::NodeConfig(_), Intent::Undo) => {
            let mut answers = what_it_means(change, intent);
            answers.push(fix);
            answers
        }
        _ => vec![fix],
    }
}

/// The effect on running Pods, and how the node learns of its block, where they are known.
pub(super) fn what_it_means(
    change: &ChangeDocument,
    intent: Intent,
) -> Vec<(&'static str, Phrase)> {
    let pods = ("Pods", Phrase::default().sentence(OF_A_MOVE));
    match (&change.edit, intent) {
        (EditDocument::NodeConfig(_), Intent::Files) => {
            vec![pods, ("How", Phrase::default().sentence(BY_A_SETTING))]
        }
        (EditDocument::NodeConfig(_), Intent::Undo) => vec![pods],
        _ => Vec::new(),
    }
}

fn fix(change: &ChangeDocument, intent: Intent, occasion: Occasion) -> Phrase {
    let before = match occasion {
        Occasion::Merge => "the merge",
        Occasion::Apply => "the apply",
    };
    let drain = format!("drain the node before {before}{AFTER_A_DRAIN}");
    match intent {
        Intent::Undo => Phrase::new(&drain),
        Intent::Files => Phrase::new("remove the pin, and the node keeps ")
            .value(&change.before.join(" "))
            .words("; or ")
            .words(&drain),
    }
}

/// The node has both blocks from then on, so a removed pin moves nothing.
fn way_back(change: &ChangeDocument) -> Phrase {
    Phrase::new("pin ")
        .value(&change.before.join(" "))
        .words(" in place of the new block, or apply the undo plan, which takes back all of the apply that can be undone; then drain the node and restart its agent again. Once the block is written, removing the pin is not enough")
}

/// Maximum number of nodes per pool that get a table row.
const NODES: usize = 20;

/// Nodes of each pool that have a row, if there are many pools.
const FEW_NODES: usize = 2;

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
    let quiet = changes.iter().filter(|one| !one.is_disruptive());
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
        table(page, title, 4, changes);
    }
    let further = further_pools(&pools, Detail::Short);
    if let Some(text) = further.map(|(further, _)| format!("\n… and {further}\n")) {
        page.part(&text, 0, "change");
    }
}

/// Why nodes of a pool get their blocks, and where the blocks are written, without the pool's name.
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
        let field = written_to(change).text();
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

/// Adds the first nodes of each of these pools to the page.
fn joined(page: &mut Page<'_>, way: &Way, pools: &[PoolChanges<'_>]) {
    let each = (NODES / pools.len()).max(FEW_NODES);
    let none = Phrase::default;
    let mut rows: Vec<Row> = Vec::new();
    for (pool, changes) in pools {
        let mut name = of_pool(*pool, changes, "change");
        for change in changes.iter().take(each) {
            let (node, block) = (Phrase::of(&change.name), Phrase::values(&change.after));
            rows.push(Row::new([std::mem::take(&mut name), node, block]));
        }
        let more = changes.len().saturating_sub(each);
        let further = Phrase::new(&format!("… and {} more", grouped_digits(more)));
        rows.extend((more > 0).then(|| Row::new([none(), further, none()]).of(more)));
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
    let columns = ["pool", "node", "block"].map(column);
    page.listing(Listing::new(title.then(field), "change", &columns).rows(rows, |row| row));
}

/// The changes that have one reason and one field, if they are at least half, and the others.
fn alike<'p>(changes: &[&'p ChangeDocument]) -> (Vec<&'p ChangeDocument>, Vec<&'p ChangeDocument>) {
    let key = |change: &ChangeDocument| (change.reason.clone(), written_to(change).text());
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
    table(page, title.then(written_to(first)), 2, changes);
}

/// The first nodes, with this number of columns.
fn table(page: &mut Page<'_>, title: Phrase, columns: usize, changes: &[&ChangeDocument]) {
    let row = |c: &ChangeDocument| {
        let (name, blocks) = (Phrase::of(&c.name), Phrase::values(&c.after));
        Row::new([name, blocks, written_to(c), Phrase::prose(&c.reason)])
    };
    let all = ["node", "block", "written to", "why"].map(column);
    let listing = Listing::new(title, "change", &all[..columns]);
    page.listing(listing.first_rows(changes.to_vec(), NODES, row));
}
