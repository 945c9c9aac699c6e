//! The objects of a plan other than nodes, as parts of the Markdown page: LoadBalancer pools, pools
//! of Pods, ports and Services.
//!
//! Blocked, misplaced and drifted objects as tables of the Markdown page: a row for each cause.

use super::causes;
use super::headlines::manifest_diff;
use super::human::{Detail, blocked_name, limit, short_name};
use super::human_lb::{self, effect_parts};
use super::human_misplaced::how_many;
use super::markdown_page::{Entry, Fold, Page, Table, UpTo, WHOLE};
use super::markup::{Markup, Phrase, code, codes, list, prose};
use super::text::{count, grouped_digits, log_text, printable};
use ipam_core::text::by_name;
use ipam_plan::plan::{
    BlockedDocument, ChangeDocument, DriftDocument, MisplacedDocument, ServiceEffectDocument,
    TargetKind,
};

/// Services that lose an address, never folded away.
pub(super) fn losing_services(page: &mut Page<'_>, services: &[ServiceEffectDocument]) {
    let line = |service: &ServiceEffectDocument| {
        format!(
            "\n- **Service** {} {}",
            service_name(service),
            list(&effect_parts(service))
        )
    };
    let losing = services.iter().filter(|one| loses(one));
    page.list(page.each(losing, |_| 1, line), UpTo(5), "losing Service");
}

/// Destructive changes of any kind, never folded away.
pub(super) fn destructive(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let row = |c: &ChangeDocument| {
        [
            code(&short_name(c.kind, &c.name)),
            prose(c.action.as_str()),
            codes(&c.before),
            codes(&c.after),
            prose(&c.reason),
        ]
    };
    let rows = by_name(changes.iter().copied(), |change| &change.name);
    let title = format!("destructive, {}", count(rows.len(), "change"));
    page.table(Table {
        title: Phrase::new(&title),
        heading: ["object", "action", "before", "after", "why"],
        rows: page.each(rows, |_| 1, row),
        noun: "destructive change",
        fold: Fold::Open,
        up_to: UpTo(6),
    });
    of_kind(changes, TargetKind::AddressPool)
        .iter()
        .for_each(|change| diff(page, change));
}

/// LoadBalancer pools with their diffs.
pub(super) fn address_pools(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let pools = of_kind(changes, TargetKind::AddressPool);
    let columns = ["pool", "action", "addresses", "why"];
    changes_table(page, "LoadBalancer pools", columns, &pools, row);
    pools.iter().for_each(|change| diff(page, change));
}

pub(super) fn pod_pools(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let objects: Vec<&ChangeDocument> = human_lb::KINDS
        .iter()
        .flat_map(|kind| of_kind(changes, *kind))
        .collect();
    let row = |c: &ChangeDocument| {
        [
            code(&c.target()),
            prose(c.action.as_str()),
            codes(&c.after),
            prose(&c.reason),
        ]
    };
    let columns = ["object", "action", "says", "why"];
    changes_table(page, "Pod pools", columns, &objects, row);
}

pub(super) fn ports(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let ports = of_kind(changes, TargetKind::Port);
    let row = |c: &ChangeDocument| {
        [
            code(&c.name),
            codes(&c.after),
            codes(&c.before),
            prose(&c.reason),
        ]
    };
    let columns = ["port", "allows", "no longer allows", "why"];
    changes_table(page, "ports of VMs", columns, &ports, row);
}

/// One row for each change, under a title that counts them.
fn changes_table(
    page: &mut Page<'_>,
    what: &str,
    heading: [&str; 4],
    changes: &[&ChangeDocument],
    row: impl Fn(&ChangeDocument) -> [Markup; 4],
) {
    let title = format!("{what}, {}", count(changes.len(), "change"));
    page.table(Table {
        title: Phrase::new(&title),
        heading,
        rows: page.each(changes, |_| 1, |change| row(change)),
        noun: "change",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}

pub(super) fn service_pins(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let pins = of_kind(changes, TargetKind::Service);
    let columns = ["Service", "action", "addresses", "why"];
    changes_table(page, "pins", columns, &pins, row);
}

/// Effects on Services that keep their addresses.
pub(super) fn other_services(page: &mut Page<'_>, services: &[ServiceEffectDocument]) {
    let row =
        |service: &ServiceEffectDocument| [service_name(service), list(&effect_parts(service))];
    let others: Vec<_> = services.iter().filter(|one| !loses(one)).collect();
    let title = format!("other effects, {}", count(others.len(), "Service"));
    page.table(Table {
        title: Phrase::new(&title),
        heading: ["Service", "what"],
        rows: page.each(others, |_| 1, row),
        noun: "other Service",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}

fn loses(service: &ServiceEffectDocument) -> bool {
    !service.loses.is_empty()
}

fn service_name(service: &ServiceEffectDocument) -> Markup {
    code(&format!("{}/{}", service.namespace, service.name))
}

fn of_kind<'c>(changes: &[&'c ChangeDocument], kind: TargetKind) -> Vec<&'c ChangeDocument> {
    let of_kind = changes.iter().copied().filter(|change| change.kind == kind);
    by_name(of_kind, |change| &change.name)
}

fn row(change: &ChangeDocument) -> [Markup; 4] {
    [
        code(&change.name),
        prose(change.action.as_str()),
        codes(&change.after),
        prose(&change.reason),
    ]
}

fn diff(page: &mut Page<'_>, change: &ChangeDocument) {
    let heading = format!("{} {}:", prose(change.action.as_str()), code(&change.name));
    diff_below(page, &heading, change);
}

/// The diff of a pool, below a line of Markdown.
pub(super) fn diff_below(page: &mut Page<'_>, heading: &str, change: &ChangeDocument) {
    let lines = manifest_diff(change).join("\n");
    if lines.is_empty() {
        return;
    }
    let lines = log_text(&printable(&lines)).into_owned();
    // The fence is longer than any row of backticks inside, so that none of them ends it.
    let longest = lines.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let diff = format!("\n{heading}\n\n{fence}diff\n{lines}\n{fence}\n");
    page.part(Entry::one(diff), "diff");
}

pub(super) fn blocked(page: &mut Page<'_>, blocked: &[BlockedDocument], detail: Detail) {
    let causes = causes::blocked(blocked, detail);
    let mut rows: Vec<Entry<[Markup; 3]>> = Vec::new();
    for cause in &causes.shown {
        for (reason, entries) in cause.reasons.iter().take(limit(detail)) {
            let names = named(
                page,
                entries.iter().map(|entry| code(&blocked_name(entry))),
                " ",
                detail,
            );
            rows.push(Entry {
                text: [names, prose(reason), prose(cause.unblock)],
                count: entries.len(),
            });
        }
        let further: usize = cause
            .reasons
            .iter()
            .skip(limit(detail))
            .map(|(_, entries)| entries.len())
            .sum();
        if further > 0 {
            rows.push(Entry {
                text: [
                    prose(&format!("… and {} more", grouped_digits(further))),
                    code(cause.code),
                    prose(cause.unblock),
                ],
                count: further,
            });
        }
    }
    rows.extend(causes.further().map(|further| Entry {
        text: [prose(&format!("… and {further}")), prose(""), prose("")],
        count: causes.hidden_objects(),
    }));
    page.table(Table {
        title: Phrase::new(&format!("blocked, {}", count(blocked.len(), "object"))),
        heading: ["object", "why", "way out"],
        rows,
        noun: "blocked object",
        fold: Fold::Open,
        up_to: UpTo(4),
    });
}

pub(super) fn misplaced(
    page: &mut Page<'_>,
    misplaced: &[MisplacedDocument],
    fold: Fold,
    detail: Detail,
) {
    let causes = causes::misplaced(misplaced, detail);
    let row = |cause: &causes::MisplacedCause<'_>| {
        let blocks = cause
            .blocks
            .iter()
            .map(|one| code(&format!("{} {}", one.name, one.block)));
        let how_many = prose(&count(cause.blocks.len(), "block"));
        let text = [
            code(cause.pool.unwrap_or_default()),
            prose(cause.reason),
            prose(cause.help),
            how_many,
            named(page, blocks, " ", detail),
        ];
        Entry {
            text,
            count: cause.blocks.len(),
        }
    };
    let mut rows: Vec<Entry<[Markup; 5]>> = causes.shown.iter().map(row).collect();
    rows.extend(causes.further().map(|further| Entry {
        text: further_row(&further),
        count: causes.hidden_objects(),
    }));
    page.table(Table {
        title: Phrase::new(&format!("misplaced, {}", how_many(misplaced))),
        heading: ["pool", "why", "way out", "how many", "nodes"],
        rows,
        noun: "misplaced block",
        fold,
        up_to: WHOLE,
    });
}

pub(super) fn drift(page: &mut Page<'_>, drift: &[DriftDocument], detail: Detail) {
    let causes = causes::drift(drift, detail);
    let row = |cause: &causes::DriftCause<'_>| {
        let entries = cause.entries.iter().map(|entry| drifted(entry));
        let text = [
            code(cause.field),
            code(cause.manager.unwrap_or_default()),
            prose(&count(cause.entries.len(), "object")),
            named(page, entries, "; ", detail),
        ];
        Entry {
            text,
            count: cause.entries.len(),
        }
    };
    let mut rows: Vec<Entry<[Markup; 4]>> = causes.shown.iter().map(row).collect();
    rows.extend(causes.further().map(|further| Entry {
        text: further_row(&further),
        count: causes.hidden_objects(),
    }));
    page.table(Table {
        title: Phrase::new(&format!("drift, {}", count(drift.len(), "field"))),
        heading: ["field", "written by", "how many", "objects"],
        rows,
        noun: "drifted field",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}

fn further_row<const N: usize>(further: &str) -> [Markup; N] {
    std::array::from_fn(|cell| match cell {
        0 => prose(&format!("… and {further}")),
        _ => prose(""),
    })
}

fn drifted(entry: &DriftDocument) -> Markup {
    let name = short_name(entry.kind, &entry.name);
    let shows = Phrase::new("").value(&name).words(" shows ");
    let expected = shows.value(&entry.seen).words(", expected ");
    expected.value(&entry.expected).markdown()
}

/// The first few, each of which can be copied alone, and how many more there are. A cell that is
/// longer than a page fits on none, so no further name is made.
pub(super) fn named(
    page: &Page<'_>,
    all: impl ExactSizeIterator<Item = Markup>,
    between: &str,
    detail: Detail,
) -> Markup {
    let further = all.len().saturating_sub(limit(detail));
    let more = (further > 0).then(|| prose(&format!("and {} more", grouped_digits(further))));
    let mut bytes = 0;
    let fits = |name: &Markup| {
        let fits = !page.is_longer(bytes);
        bytes += name.as_str().len();
        fits
    };
    let shown = all.take(limit(detail)).take_while(fits);
    Markup::joined(shown.chain(more), between)
}
