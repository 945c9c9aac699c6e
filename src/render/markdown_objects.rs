//! The objects of a plan other than nodes, as parts of the Markdown page: LoadBalancer pools, pools
//! of Pods, ports and Services.

use super::human_lb::effect_parts;
use super::log_command::log_text;
use super::manifest_diff::manifest_diff;
use super::markdown_page::Page;
use super::markup::{Markup, Phrase, code, codes, list, prose};
use super::text::{count, grouped_digits, printable};
use super::{human_pod_pools, human_ports};
use ipam_planner::plan::{ChangeDocument, LbSummary, ServiceEffectDocument};

/// The counts of LoadBalancer pools; empty where none changes.
pub(super) fn lb_headline(summary: &LbSummary) -> String {
    let LbSummary {
        create,
        update,
        adopt,
        delete,
        pin,
        unchanged,
        lost_addresses,
    } = summary;
    if summary.changes_nothing() {
        return String::new();
    }
    let [create, update, adopt, delete, pin, unchanged, lost] = [
        create,
        update,
        adopt,
        delete,
        pin,
        unchanged,
        lost_addresses,
    ]
    .map(grouped_digits);
    format!(
        "LoadBalancer: {create} to create, {update} to update, {adopt} to adopt, {delete} to delete, {pin} to pin; {unchanged} unchanged; **addresses that would or may go: {lost}**"
    )
}

/// Services that lose an address: the first part of the page, and never folded away.
pub(super) fn losing_services(page: &mut Page<'_>, services: &[ServiceEffectDocument]) {
    let line = |service: &ServiceEffectDocument| {
        format!(
            "\n- **Service** {} {}",
            service_name(service),
            list(&effect_parts(service))
        )
    };
    let lines: Vec<String> = services.iter().filter(|one| loses(one)).map(line).collect();
    page.list(&lines, 2, "losing Service");
    if !lines.is_empty() {
        page.end_list();
    }
}

/// LoadBalancer pools with their diffs.
pub(super) fn address_pools(page: &mut Page<'_>, changes: &[ChangeDocument]) {
    let pools = of_kind(changes, "CiliumLoadBalancerIPPool");
    let columns = ["pool", "action", "addresses", "why"];
    changes_table(page, "LoadBalancer pools", columns, &pools, row);
    pools.iter().for_each(|change| diff(page, change));
}

pub(super) fn pod_pools(page: &mut Page<'_>, changes: &[ChangeDocument]) {
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

pub(super) fn ports(page: &mut Page<'_>, changes: &[ChangeDocument]) {
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
    columns: [&str; 4],
    changes: &[&ChangeDocument],
    row: impl Fn(&ChangeDocument) -> [Markup; 4],
) {
    let title = format!("{what}, {}", count(changes.len(), "change"));
    let rows: Vec<[Markup; 4]> = changes.iter().map(|change| row(change)).collect();
    page.table(Phrase::new(&title), columns, &rows);
}

pub(super) fn service_pins(page: &mut Page<'_>, changes: &[ChangeDocument]) {
    let pins = of_kind(changes, "Service");
    let columns = ["Service", "action", "addresses", "why"];
    changes_table(page, "pins", columns, &pins, row);
}

/// Effects on Services that keep their addresses.
pub(super) fn other_services(page: &mut Page<'_>, services: &[ServiceEffectDocument]) {
    let row =
        |service: &ServiceEffectDocument| [service_name(service), list(&effect_parts(service))];
    let rows: Vec<[Markup; 2]> = services.iter().filter(|one| !loses(one)).map(row).collect();
    let title = format!("other effects, {}", count(rows.len(), "Service"));
    page.table(Phrase::new(&title), ["Service", "what"], &rows);
}

fn loses(service: &ServiceEffectDocument) -> bool {
    !service.loses.is_empty()
}

fn service_name(service: &ServiceEffectDocument) -> Markup {
    code(&format!("{}/{}", service.namespace, service.name))
}

fn of_kind<'c>(changes: &'c [ChangeDocument], kind: &str) -> Vec<&'c ChangeDocument> {
    changes
        .iter()
        .filter(|change| change.kind == kind)
        .collect()
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
    let lines = manifest_diff(change).join("\n");
    if lines.is_empty() {
        return;
    }
    let lines = log_text(&printable(&lines)).into_owned();
    // The fence is longer than any row of backticks inside, so that none of them ends it.
    let longest = lines.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let (action, name) = (prose(&change.action), code(&change.name));
    let diff = format!("\n{action} {name}:\n\n{fence}diff\n{lines}\n{fence}\n");
    page.part(
        &diff,
        Phrase::new("the diff of ").value(&change.name).markdown(),
    );
}
