//! The plan as a comment for a pull request. Always fits: 65,535 characters is the limit of the large Git hosts.

use std::collections::BTreeMap;

use super::human::{Detail, blocked_name, named, short_name};
use super::human_lb::effect_parts;
use super::human_misplaced::by_cause;
use super::manifest_diff::manifest_diff;
use super::text::{count, printable};
use super::{human_pod_pools, human_ports};
use crate::plan::{
    ChangeDocument, FindingDocument, LbSummary, PlanDocument, RefusalDocument, ServiceEffectDocument, Summary,
};

const LIMIT: usize = 65_000;

/// The plan as Markdown. Groups that no longer fit are named with their counts, never cut in the middle.
pub fn markdown(plan: &PlanDocument) -> String {
    let PlanDocument {
        format_version: _,
        intent: _,
        digest,
        source,
        summary: _,
        waivers,
        refusals,
        changes,
        services,
        blocked,
        misplaced,
        drift,
        findings,
    } = plan;
    let mut page = Page { text: headline(plan), left_out: Vec::new() };
    page.refusals(refusals);
    let mut pools: BTreeMap<&str, Vec<&ChangeDocument>> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.kind == "Node") {
        pools.entry(change.pool.as_deref().unwrap_or("(none)")).or_default().push(change);
    }
    let waived = if waivers.is_empty() { String::new() } else { format!(" · waived {}", cell(&waivers.join(", "))) };
    let revision = source.revision.as_deref().map(|id| format!(" at `{}`", cell(id))).unwrap_or_default();
    let tail = format!("\n`{}`{revision} · digest `{}`{waived}\n", cell(&source.directory), digest);
    page.findings(findings);
    page.load_balancing(changes, services);
    for (pool, changes) in &pools {
        let rows: Vec<[String; 4]> = changes
            .iter()
            .map(|c| [c.name.clone(), c.after.join(" "), c.write_path.clone(), c.reason.clone()])
            .collect();
        page.table(
            &format!("pool {pool}, {}", count(changes.len(), "change")),
            ["node", "block", "write path", "why"],
            &rows,
        );
    }
    let rows: Vec<[String; 3]> =
        blocked.iter().map(|b| [blocked_name(b), b.reason.clone(), b.unblock.clone()]).collect();
    page.table(&format!("blocked, {}", count(blocked.len(), "object")), ["object", "why", "way out"], &rows);
    let rows: Vec<[String; 4]> = by_cause(misplaced)
        .into_iter()
        .map(|((_, pool, reason, _), blocks)| {
            let pool = pool.unwrap_or("(none)").to_owned();
            [pool, reason.to_owned(), count(blocks.len(), "block"), named(&blocks, Detail::Short)]
        })
        .collect();
    page.table(&format!("misplaced, {}", count(misplaced.len(), "block")), ["pool", "why", "how many", "nodes"], &rows);
    let rows: Vec<[String; 5]> = drift
        .iter()
        .map(|d| {
            [
                short_name(&d.kind, &d.name),
                d.field.clone(),
                d.seen.clone(),
                d.expected.clone(),
                d.manager.clone().unwrap_or_default(),
            ]
        })
        .collect();
    page.table(
        &format!("drift, {}", count(drift.len(), "field")),
        ["object", "field", "shows", "expected", "written by"],
        &rows,
    );
    page.finish(&tail)
}

/// Faulty files as Markdown, in the place of a plan.
pub fn markdown_findings(findings: &[FindingDocument]) -> String {
    let mut page = Page { text: "### No plan: the files are invalid\n".to_owned(), left_out: Vec::new() };
    page.findings(findings);
    page.finish("")
}

fn headline(plan: &PlanDocument) -> String {
    let Summary {
        assign,
        release,
        update,
        delete,
        moved,
        blocked,
        unchanged,
        irreversible,
        load_balancing,
        pod_pools,
        ports: _,
        misplaced,
        nodes: _,
        errors,
        warnings: _,
        drifted: _,
    } = &plan.summary;
    let irreversible = match irreversible {
        0 => String::new(),
        changes => format!("\n\n{} cannot be undone: {}", count(*changes, "change"), super::why_irreversible(plan)),
    };
    let title = if plan.summary.changes_nothing() { "No changes" } else { "Plan" };
    let misplaced = if *misplaced == 0 { String::new() } else { format!("{misplaced} misplaced, ") };
    let errors = if *errors == 0 { String::new() } else { format!(", {}", count(*errors, "error")) };
    let lb = match lb_headline(load_balancing) {
        text if text.is_empty() => String::new(),
        text => format!("\n\n{text}"),
    };
    let lb = match human_pod_pools::headline(pod_pools) {
        text if text.is_empty() => lb,
        text => format!("{lb}\n\n{text}"),
    };
    format!(
        "### {title}: {assign} to assign, {update} to update, {release} to release, {delete} to delete, {moved} moved\n\n{blocked} blocked, {misplaced}{unchanged} unchanged{errors}{lb}{irreversible}\n"
    )
}

/// The headline of LoadBalancer pools, without colours.
fn lb_headline(summary: &LbSummary) -> String {
    let LbSummary { create, update, adopt, delete, pin, unchanged, lost_addresses } = summary;
    if summary.changes_nothing() {
        return String::new();
    }
    format!(
        "LoadBalancer: {create} to create, {update} to update, {adopt} to adopt, {delete} to delete, {pin} to pin; {unchanged} unchanged; **addresses that would or may go: {lost_addresses}**"
    )
}

struct Page {
    text: String,
    left_out: Vec<String>,
}

impl Page {
    fn refusals(&mut self, refusals: &[RefusalDocument]) {
        for (index, refusal) in refusals.iter().enumerate() {
            let line =
                format!("\n- **refused** {}: {}; {}", cell(&refusal.rule), cell(&refusal.message), cell(&refusal.help));
            if self.text.len() + line.len() > LIMIT / 4 {
                self.left_out.push(count(refusals.len() - index, "refusal"));
                break;
            }
            self.text.push_str(&line);
        }
        self.text.push('\n');
    }

    fn findings(&mut self, findings: &[FindingDocument]) {
        for (index, finding) in findings.iter().enumerate() {
            let place = finding
                .origin
                .as_ref()
                .map(|origin| format!(" (`{}:{}`)", cell(&origin.file), origin.line))
                .unwrap_or_default();
            let line = format!(
                "\n- **{}** {}: {}{place}",
                cell(&finding.severity),
                cell(&finding.rule),
                cell(&finding.message)
            );
            if self.text.len() + line.len() > LIMIT / 4 {
                self.left_out.push(count(findings.len() - index, "finding"));
                break;
            }
            self.text.push_str(&line);
        }
        self.text.push('\n');
    }

    /// Pools with their diffs, pins, and what becomes of Services: those that lose an address come first and are not folded away.
    fn load_balancing(&mut self, changes: &[ChangeDocument], services: &[ServiceEffectDocument]) {
        let (losing, others): (Vec<_>, Vec<_>) = services.iter().partition(|service| !service.loses.is_empty());
        let line = |service: &&ServiceEffectDocument| {
            format!(
                "`{}/{}` {}",
                cell(&service.namespace),
                cell(&service.name),
                cell(&effect_parts(service).join("; "))
            )
        };
        for (index, service) in losing.iter().enumerate() {
            let line = format!("\n- **Service** {}", line(service));
            if self.text.len() + line.len() > LIMIT / 2 {
                self.left_out.push(count(losing.len() - index, "Service that loses an address"));
                break;
            }
            self.text.push_str(&line);
        }
        if !losing.is_empty() {
            self.text.push('\n');
        }
        let of_kind = |kind: &str| changes.iter().filter(|change| change.kind == kind).collect::<Vec<_>>();
        let pools = of_kind("CiliumLoadBalancerIPPool");
        let row = |c: &&ChangeDocument| [c.name.clone(), c.action.clone(), c.after.join(" "), c.reason.clone()];
        let rows: Vec<[String; 4]> = pools.iter().map(row).collect();
        let title = format!("LoadBalancer pools, {}", count(pools.len(), "change"));
        self.table(&title, ["pool", "action", "addresses", "why"], &rows);
        pools.iter().for_each(|change| self.diff(change));
        let objects: Vec<_> = human_pod_pools::KINDS.iter().flat_map(|kind| of_kind(kind)).collect();
        let object = |c: &&ChangeDocument| {
            [format!("{}/{}", c.kind, c.name), c.action.clone(), c.after.join(" "), c.reason.clone()]
        };
        let rows: Vec<[String; 4]> = objects.iter().map(object).collect();
        let title = format!("Pod pools, {}", count(objects.len(), "change"));
        self.table(&title, ["object", "action", "says", "why"], &rows);
        let ports = of_kind(human_ports::KIND);
        let port = |c: &&ChangeDocument| [c.name.clone(), c.after.join(" "), c.before.join(" "), c.reason.clone()];
        let rows: Vec<[String; 4]> = ports.iter().map(port).collect();
        self.table(
            &format!("ports of VMs, {}", count(ports.len(), "change")),
            ["port", "lets out", "no longer", "why"],
            &rows,
        );
        let pins = of_kind("Service");
        let rows: Vec<[String; 4]> = pins.iter().map(row).collect();
        self.table(&format!("pins, {}", count(pins.len(), "change")), ["Service", "action", "addresses", "why"], &rows);
        let row = |s: &&ServiceEffectDocument| [format!("{}/{}", s.namespace, s.name), effect_parts(s).join("; ")];
        let rows: Vec<[String; 2]> = others.iter().map(row).collect();
        self.table(&format!("other effects, {}", count(others.len(), "Service")), ["Service", "what"], &rows);
    }

    fn diff(&mut self, change: &ChangeDocument) {
        let lines: Vec<String> = manifest_diff(change).iter().map(|line| printable(line).into_owned()).collect();
        if lines.is_empty() {
            return;
        }
        // Longer than any row of backticks inside, so that nothing there ends it.
        let longest = lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let (action, name, lines) = (cell(&change.action), cell(&change.name), lines.join("\n"));
        let diff = format!("\n{action} {name}:\n\n{fence}diff\n{lines}\n{fence}\n");
        if self.text.len() + diff.len() + 500 > LIMIT {
            self.left_out.push(format!("the diff of {}", cell(&change.name)));
        } else {
            self.text.push_str(&diff);
        }
    }

    fn table<const N: usize>(&mut self, title: &str, heading: [&str; N], rows: &[[String; N]]) {
        if rows.is_empty() {
            return;
        }
        let mut table = format!(
            "\n<details><summary>{}</summary>\n\n| {} |\n|{}\n",
            cell(title),
            heading.join(" | "),
            "---|".repeat(N)
        );
        for row in rows {
            let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
            table.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        table.push_str("\n</details>\n");
        // Half a thousand characters stay free for the names of what is left out.
        if self.text.len() + table.len() + 500 > LIMIT {
            self.left_out.push(cell(title))
        } else {
            self.text.push_str(&table)
        }
    }

    fn finish(self, tail: &str) -> String {
        let mut text = self.text;
        if !self.left_out.is_empty() {
            let names: String = self.left_out.join("; ").chars().take(400).collect();
            text.push_str(&format!("\nToo long for a comment, see the JSON output: {names}\n"));
        }
        text + tail
    }
}

/// Text that cannot break out of a table cell or become markup.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in super::text::printable(text).chars() {
        match c {
            '\n' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '!' | '~' | '@' => {
                safe.push('\\');
                safe.push(c);
            }
            other => safe.push(other),
        }
    }
    // What a Git host would make a link of.
    safe.replace("://", "&#58;//").replace("www.", "www&#46;")
}
