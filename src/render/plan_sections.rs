//! The sections of a report on a plan. Each format has its own choice and order of them.

use std::collections::BTreeMap;

use super::headlines::manifest_diff;
use super::human::{Detail, limit};
use super::model::{Column, Form, Listing, Place, Row, UpTo, aside, below, first, page};
use super::phrase::Phrase;
use super::text::{Paint, count};
use ipam_core::text::{by_name, natural_order};
use ipam_plan::plan::{
    ChangeAction, ChangeDocument, RefusalDocument, Summary, TargetKind, UnapprovedBlockDocument,
};

pub(super) fn refused(refusals: &[RefusalDocument]) -> Listing<'_> {
    let title = Phrase::new("refused: it may not be applied as it is");
    let row = |refusal: &RefusalDocument| {
        let RefusalDocument {
            rule,
            message,
            help,
            waiver: _,
        } = refusal;
        let line = Phrase::new("**refused** ").value(rule).words(": ");
        let line = line.sentence(message).words("; ").sentence(help);
        Row::new([Phrase::prose(message), Phrase::prose(help)])
            .sign(Paint::Red, "!")
            .line(line)
    };
    Listing {
        paint: Paint::Red,
        codes: refusals.iter().map(|one| one.rule.as_str()).collect(),
        ..Listing::new(title, "refusal", &[first(""), aside("")])
            .form(Form::Lines, UpTo(3))
            .rows(refusals, row)
    }
}

/// Blocks that a person must approve.
pub(super) fn unapproved<'p>(
    summary: &Summary,
    changes: &'p [ChangeDocument],
    detail: Detail,
) -> Listing<'p> {
    let row = |(change, block): (&ChangeDocument, &UnapprovedBlockDocument)| {
        Row::new([
            Phrase::of(&change.name),
            Phrase::of(&block.block),
            Phrase::prose(&evidence(block)),
        ])
        .sign(Paint::Red, "!")
        .line(unapproved_block(change, block))
    };
    let title = Phrase::new(&summary.approval_headline().unwrap_or_default());
    let all = unapproved_blocks(changes).collect();
    Listing::new(
        title,
        "unapproved block",
        &[first(""), first(""), below("")],
    )
    .form(Form::Titled, UpTo(2))
    .first_rows(all, limit(detail), row)
}

pub(super) fn unapproved_block(change: &ChangeDocument, block: &UnapprovedBlockDocument) -> Phrase {
    let line = Phrase::new("block ").value(&block.block).words(" of ");
    let line = line.value(&change.name).words(": ");
    line.sentence(&evidence(block))
}

/// Every block that needs approval, with its change.
pub(super) fn unapproved_blocks(
    changes: &[ChangeDocument],
) -> impl Iterator<Item = (&ChangeDocument, &UnapprovedBlockDocument)> {
    let changes = by_name(changes, |change| &change.name).into_iter();
    changes.flat_map(|change| {
        change
            .needs_approval
            .iter()
            .map(move |block| (change, block))
    })
}

/// The field that shows the block, its last writer, and why no pool would give it.
fn evidence(block: &UnapprovedBlockDocument) -> String {
    let UnapprovedBlockDocument {
        block: _,
        source,
        writer,
        code: _,
        reason,
    } = block;
    let writer = writer
        .as_ref()
        .map(|writer| format!(", written by {} at {}", writer.manager, writer.time))
        .unwrap_or_default();
    format!("only {source} shows it{writer}: {reason}")
}

/// Destructive changes of any kind, with the diffs of pools.
pub(super) fn destructive<'p>(changes: &[&'p ChangeDocument]) -> Listing<'p> {
    let row = |c: &ChangeDocument| Row {
        diff: diff(c),
        ..Row::new([
            Phrase::of(&short_name(c.kind, &c.name)),
            Phrase::new(c.action.as_str()),
            Phrase::values(&c.before),
            Phrase::values(&c.after),
            Phrase::prose(&c.reason),
        ])
    };
    let columns = ["object", "action", "before", "after", "why"].map(page);
    let changes = by_name(changes.iter().copied(), |change| &change.name);
    Listing::new(Phrase::new("destructive"), "destructive change", &columns)
        .counted(count(changes.len(), "change"))
        .form(Form::Open, UpTo(6))
        .rows(changes, row)
}

/// LoadBalancer pools with their diffs.
pub(super) fn address_pools<'p>(changes: &[&'p ChangeDocument]) -> Listing<'p> {
    of_objects("LoadBalancer pools", &[TargetKind::AddressPool], changes)
}

pub(super) fn service_pins<'p>(changes: &[&'p ChangeDocument]) -> Listing<'p> {
    of_objects("pinned Services", &[TargetKind::Service], changes)
}

/// `CiliumPodIPPool`s, and the `CiliumNodeConfig`s that select them for nodes.
pub(super) fn pod_pools<'p>(changes: &[&'p ChangeDocument]) -> Listing<'p> {
    let kinds = [TargetKind::PodPool, TargetKind::NodeConfig];
    of_objects("Pod pools", &kinds, changes)
}

/// The `allowed_address_pairs` of ports.
pub(super) fn ports<'p>(changes: &[&'p ChangeDocument]) -> Listing<'p> {
    let row = |c: &ChangeDocument| {
        let added = c.after.iter().map(|range| format!("+{range}"));
        let removed = c.before.iter().map(|range| format!("-{range}"));
        Row::new([
            Phrase::of(&c.target()),
            Phrase::values(&c.after),
            Phrase::values(&c.before),
            Phrase::values(added.chain(removed)),
            Phrase::prose(&c.reason),
        ])
        .sign(Paint::Yellow, "~")
    };
    let title = Phrase::new("Ports of VMs, ").value("allowed_address_pairs");
    let ports = of_kinds(changes, &[TargetKind::Port]);
    let columns = [first("port"), page("allows"), page("no longer allows")];
    let columns = [&columns[..], &[first(""), aside("why")]].concat();
    Listing::new(title, "change", &columns)
        .counted(count(ports.len(), "change"))
        .rows(ports, row)
}

fn of_kinds<'p>(changes: &[&'p ChangeDocument], kinds: &[TargetKind]) -> Vec<&'p ChangeDocument> {
    let of_kinds = changes.iter().copied();
    let of_kinds = of_kinds.filter(|change| kinds.contains(&change.kind));
    by_name(of_kinds, |change| &change.name)
}

/// A row for each object that changes.
fn of_objects<'p>(
    title: &str,
    kinds: &[TargetKind],
    changes: &[&'p ChangeDocument],
) -> Listing<'p> {
    let objects = of_kinds(changes, kinds);
    let has_one_kind = kinds.len() == 1;
    let row = move |c: &ChangeDocument| {
        let name = Phrase::of(&match has_one_kind {
            true => c.name.clone(),
            false => c.target(),
        });
        let action = Phrase::new(c.action.as_str());
        Row {
            diff: diff(c),
            ..Row::new([
                action.clone().words(" ").then(name.clone()),
                name,
                action,
                values(c),
                Phrase::of(c.field()),
                Phrase::prose(&c.reason),
            ])
        }
        .sign_of(c.action)
    };
    let columns = [
        first(""),
        page("object"),
        page("action"),
        first("addresses"),
    ];
    let columns = [&columns[..], &[first(""), aside("why")]].concat();
    Listing::new(Phrase::new(title), "change", &columns)
        .counted(count(objects.len(), "change"))
        .rows(objects, row)
}

fn diff(change: &ChangeDocument) -> Option<(Phrase, Vec<String>)> {
    let title = Phrase::new(change.action.as_str())
        .words(" ")
        .value(&change.name);
    let lines = manifest_diff(change);
    (!lines.is_empty()).then(|| (title.words(":"), lines))
}

impl Row {
    fn sign_of(self, action: ChangeAction) -> Row {
        match action {
            ChangeAction::Assign | ChangeAction::Create => self.sign(Paint::Green, "+"),
            ChangeAction::Release | ChangeAction::Delete => self.sign(Paint::Red, "-"),
            ChangeAction::Update | ChangeAction::Adopt | ChangeAction::Pin => {
                self.sign(Paint::Yellow, "~")
            }
        }
    }
}

/// `10.0.0.0/24 -> 10.1.0.0/24`
fn values(change: &ChangeDocument) -> Phrase {
    let after = match change.after.is_empty() {
        true => Phrase::new("none"),
        false => Phrase::values(&change.after),
    };
    match change.before.is_empty() || change.before == change.after {
        true => after,
        false => Phrase::values(&change.before).words(" -> ").then(after),
    }
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
        let pool = change.pool.as_deref();
        pools.entry(pool).or_default().push(change);
    }
    let mut pools: Vec<PoolChanges<'_>> = pools.into_iter().collect();
    pools.sort_by(|(a, _), (b, _)| natural_order(a.unwrap_or_default(), b.unwrap_or_default()));
    pools
}

/// `490 further pools with 12,345 changes`, of those beyond the limit, and the number of changes.
pub(super) fn further_pools(pools: &[PoolChanges<'_>], detail: Detail) -> Option<(String, usize)> {
    let further = pools.get(limit(detail)..).unwrap_or_default();
    let changes = further.iter().map(|(_, changes)| changes.len()).sum();
    (!further.is_empty()).then(|| {
        let pools = count(further.len(), "further pool");
        (
            format!("{pools} with {}", count(changes, "change")),
            changes,
        )
    })
}

/// Columns of the changes of a pool's nodes.
pub(super) const POOL_COLUMNS: [Column; 4] =
    [first("node"), first("block"), first("field"), first("why")];

/// [`POOL_COLUMNS`] as wide as the widest cell that a terminal shows in any of the pools.
pub(super) fn aligned_columns(pools: &[PoolChanges<'_>], detail: Detail) -> [Column; 4] {
    let shown = pools.iter();
    let shown = shown.flat_map(|(_, changes)| changes.iter().take(limit(detail)));
    let mut widths = [0; 3];
    for row in shown.map(|change| of_node(change)) {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = cell.text().chars().count().max(*width);
        }
    }
    let mut columns = POOL_COLUMNS;
    for (column, width) in columns.iter_mut().zip(widths) {
        column.place = Place::First(width);
    }
    columns
}

/// The changes of the nodes of a pool.
pub(super) fn pool<'p>((pool, changes): PoolChanges<'p>, columns: [Column; 4]) -> Listing<'p> {
    let title = match pool {
        Some(pool) => Phrase::new("pool ").value(pool),
        None => Phrase::new("outside every pool"),
    };
    Listing {
        aligned: true,
        ..Listing::new(title, "change", &columns)
            .counted(count(changes.len(), "change"))
            .rows(changes, of_node)
    }
}

fn of_node(change: &ChangeDocument) -> Row {
    Row::new([
        Phrase::of(&change.name),
        values(change),
        Phrase::of(change.field()),
        Phrase::prose(&change.reason),
    ])
    .sign_of(change.action)
}

/// The name of a node, or `Kind/name` of any other object.
pub(super) fn short_name(kind: TargetKind, name: &str) -> String {
    match kind {
        TargetKind::Node => name.to_owned(),
        _ => format!("{kind}/{name}"),
    }
}
