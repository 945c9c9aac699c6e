//! The objects of a plan other than nodes, as parts of the Markdown page: LoadBalancer pools, pools
//! of Pods, ports and Services.

use super::human::short_name;
use super::human_lb::effect_parts;
use super::log_command::log_text;
use super::manifest_diff::manifest_diff;
use super::markdown_page::{Entry, Fold, Page, Table, UpTo, WHOLE};
use super::markup::{Markup, Phrase, code, codes, list, prose};
use super::natural::by_name;
use super::text::{count, printable};
use super::{human_pod_pools, human_ports};
use ipam_planner::plan::{ChangeDocument, ServiceEffectDocument};

pub(super) const ADDRESS_POOL: &str = "CiliumLoadBalancerIPPool";

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
            code(&short_name(&c.kind, &c.name)),
            prose(&c.action),
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
    of_kind(changes, ADDRESS_POOL)
        .iter()
        .for_each(|change| diff(page, change));
}

/// LoadBalancer pools with their diffs.
pub(super) fn address_pools(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let pools = of_kind(changes, ADDRESS_POOL);
    let columns = ["pool", "action", "addresses", "why"];
    changes_table(page, "LoadBalancer pools", columns, &pools, row);
    pools.iter().for_each(|change| diff(page, change));
}

pub(super) fn pod_pools(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let objects: Vec<&ChangeDocument> = human_pod_pools::KINDS
        .iter()
        .flat_map(|kind| of_kind(changes, kind))
        .collect();
    let row = |c: &ChangeDocument| {
        [
            code(&format!("{}/{}", c.kind, c.name)),
            prose(&c.action),
            codes(&c.after),
            prose(&c.reason),
        ]
    };
    let columns = ["object", "action", "says", "why"];
    changes_table(page, "Pod pools", columns, &objects, row);
}

pub(super) fn ports(page: &mut Page<'_>, changes: &[&ChangeDocument]) {
    let ports = of_kind(changes, human_ports::KIND);
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
    let pins = of_kind(changes, "Service");
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

fn of_kind<'c>(changes: &[&'c ChangeDocument], kind: &str) -> Vec<&'c ChangeDocument> {
    let of_kind = changes.iter().copied().filter(|change| change.kind == kind);
    by_name(of_kind, |change| &change.name)
}

fn row(change: &ChangeDocument) -> [Markup; 4] {
    [
        code(&change.name),
        prose(&change.action),
        codes(&change.after),
        prose(&change.reason),
    ]
}

fn diff(page: &mut Page<'_>, change: &ChangeDocument) {
    let heading = format!("{} {}:", prose(&change.action), code(&change.name));
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
