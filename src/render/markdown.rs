//! The plan as a comment for a pull request. Always fits: 65,535 characters is the limit of the large Git hosts.

use std::collections::BTreeMap;

use super::findings::cut_by;
use super::human::{Detail, blocked_name, named, short_name};
use super::human_lb::effect_parts;
use super::human_misplaced::by_cause;
use super::log_command::log_text;
use super::manifest_diff::manifest_diff;
use super::markup::{Markup, code, codes, html, list, prose};
use super::text::{count, printable};
use super::{human_pod_pools, human_ports};
use crate::plan::{
    ChangeDocument, FindingDocument, LbSummary, PlanDocument, RefusalDocument, ServiceEffectDocument, Summary,
};

/// Bytes of the whole page: the large Git hosts take 65,535 characters.
const LIMIT: usize = 65_000;

/// Bytes for the names of what is left out.
const NAMES: usize = 400;

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
    let waived = if waivers.is_empty() { String::new() } else { format!(" · waived {}", codes(waivers)) };
    let revision = source.revision.as_deref().map(|id| format!(" at {}", code(id))).unwrap_or_default();
    let tail = format!("\n{}{revision} · digest {}{waived}\n", code(&source.directory), code(digest));
    let mut page = Page::new(headline(plan), &tail);
    page.refusals(refusals);
    let mut pools: BTreeMap<&str, Vec<&ChangeDocument>> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.kind == "Node") {
        pools.entry(change.pool.as_deref().unwrap_or("(none)")).or_default().push(change);
    }
    page.findings(findings);
    page.load_balancing(changes, services);
    for (pool, changes) in &pools {
        let rows: Vec<[Markup; 4]> =
            changes.iter().map(|c| [code(&c.name), codes(&c.after), code(&c.write_path), prose(&c.reason)]).collect();
        page.table(
            &format!("pool `{pool}`, {}", count(changes.len(), "change")),
            ["node", "block", "write path", "why"],
            &rows,
        );
    }
    let rows: Vec<[Markup; 3]> =
        blocked.iter().map(|b| [code(&blocked_name(b)), prose(&b.reason), prose(&b.unblock)]).collect();
    page.table(&format!("blocked, {}", count(blocked.len(), "object")), ["object", "why", "way out"], &rows);
    let rows: Vec<[Markup; 4]> = by_cause(misplaced)
        .into_iter()
        .map(|((_, pool, reason, _), blocks)| {
            let some = prose(&named(&blocks, Detail::Short));
            [code(pool.unwrap_or_default()), prose(reason), prose(&count(blocks.len(), "block")), some]
        })
        .collect();
    page.table(&format!("misplaced, {}", count(misplaced.len(), "block")), ["pool", "why", "how many", "nodes"], &rows);
    let rows: Vec<[Markup; 5]> = drift
        .iter()
        .map(|d| {
            let author = d.manager.as_deref().unwrap_or_default();
            [code(&short_name(&d.kind, &d.name)), code(&d.field), code(&d.seen), code(&d.expected), code(author)]
        })
        .collect();
    page.table(
        &format!("drift, {}", count(drift.len(), "field")),
        ["object", "field", "shows", "expected", "written by"],
        &rows,
    );
    page.finish()
}

/// Faulty files as Markdown, in the place of a plan.
pub fn markdown_findings(findings: &[FindingDocument]) -> String {
    let mut page = Page::new("### No plan: the files are invalid\n".to_owned(), "");
    page.findings(findings);
    page.finish()
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

struct Page<'t> {
    text: String,
    tail: &'t str,
    left_out: Vec<Markup>,
}

impl<'t> Page<'t> {
    fn new(text: String, tail: &'t str) -> Page<'t> {
        Page { text, tail, left_out: Vec::new() }
    }

    /// Whether a part fits into this share of the page, beside the tail and the names of what is left out.
    fn fits(&self, part: &str, share: usize) -> bool {
        self.text.len() + part.len() + self.tail.len() + NAMES + 100 <= LIMIT / share
    }

    /// A list, as far as it fits into its share of the page.
    fn list(&mut self, lines: &[String], share: usize, one: &str) {
        for (index, line) in lines.iter().enumerate() {
            if !self.fits(line, share) {
                self.left_out.push(prose(&count(lines.len() - index, one)));
                break;
            }
            self.text.push_str(line);
        }
    }

    fn refusals(&mut self, refusals: &[RefusalDocument]) {
        let line = |refusal: &RefusalDocument| {
            let RefusalDocument { rule, message, help, .. } = refusal;
            format!("\n- **refused** {}: {}; {}", code(rule), prose(message), prose(help))
        };
        self.list(&refusals.iter().map(line).collect::<Vec<_>>(), 4, "refusal");
        self.text.push('\n');
    }

    fn findings(&mut self, findings: &[FindingDocument]) {
        let line = |finding: &FindingDocument| {
            let place = finding.origin.as_ref().map(|origin| format!("{}:{}", origin.file, origin.line));
            let place = place.map(|place| format!(" ({})", code(&place))).unwrap_or_default();
            let FindingDocument { severity, rule, message, .. } = finding;
            format!("\n- **{}** {}: {}{place}", prose(severity), code(rule), prose(message))
        };
        let cut = cut_by(findings, Detail::Short, |finding| (&finding.severity, &finding.rule));
        let more = cut.hidden.iter().map(|((severity, rule), findings)| {
            format!("\n- … and {} of {}", count(findings.len(), &format!("further {severity}")), code(rule))
        });
        let lines: Vec<String> = cut.shown.iter().map(|finding| line(finding)).chain(more).collect();
        self.list(&lines, 4, "finding");
        self.text.push('\n');
    }

    /// Pools with their diffs, pins, and what becomes of Services: those that lose an address come first and are not folded away.
    fn load_balancing(&mut self, changes: &[ChangeDocument], services: &[ServiceEffectDocument]) {
        let (losing, others): (Vec<_>, Vec<_>) = services.iter().partition(|service| !service.loses.is_empty());
        let line = |service: &&ServiceEffectDocument| {
            let name = code(&format!("{}/{}", service.namespace, service.name));
            format!("\n- **Service** {name} {}", list(&effect_parts(service)))
        };
        self.list(&losing.iter().map(line).collect::<Vec<_>>(), 2, "losing Service");
        if !losing.is_empty() {
            self.text.push('\n');
        }
        let of_kind = |kind: &str| changes.iter().filter(|change| change.kind == kind).collect::<Vec<_>>();
        let pools = of_kind("CiliumLoadBalancerIPPool");
        let row = |c: &&ChangeDocument| [code(&c.name), prose(&c.action), codes(&c.after), prose(&c.reason)];
        let rows: Vec<[Markup; 4]> = pools.iter().map(row).collect();
        let title = format!("LoadBalancer pools, {}", count(pools.len(), "change"));
        self.table(&title, ["pool", "action", "addresses", "why"], &rows);
        pools.iter().for_each(|change| self.diff(change));
        let objects: Vec<_> = human_pod_pools::KINDS.iter().flat_map(|kind| of_kind(kind)).collect();
        let object = |c: &&ChangeDocument| {
            [code(&format!("{}/{}", c.kind, c.name)), prose(&c.action), codes(&c.after), prose(&c.reason)]
        };
        let rows: Vec<[Markup; 4]> = objects.iter().map(object).collect();
        let title = format!("Pod pools, {}", count(objects.len(), "change"));
        self.table(&title, ["object", "action", "says", "why"], &rows);
        let ports = of_kind(human_ports::KIND);
        let port = |c: &&ChangeDocument| [code(&c.name), codes(&c.after), codes(&c.before), prose(&c.reason)];
        let rows: Vec<[Markup; 4]> = ports.iter().map(port).collect();
        self.table(
            &format!("ports of VMs, {}", count(ports.len(), "change")),
            ["port", "lets out", "no longer", "why"],
            &rows,
        );
        let pins = of_kind("Service");
        let rows: Vec<[Markup; 4]> = pins.iter().map(row).collect();
        self.table(&format!("pins, {}", count(pins.len(), "change")), ["Service", "action", "addresses", "why"], &rows);
        let row = |s: &&ServiceEffectDocument| [code(&format!("{}/{}", s.namespace, s.name)), list(&effect_parts(s))];
        let rows: Vec<[Markup; 2]> = others.iter().map(row).collect();
        self.table(&format!("other effects, {}", count(others.len(), "Service")), ["Service", "what"], &rows);
    }

    fn diff(&mut self, change: &ChangeDocument) {
        let lines = manifest_diff(change).join("\n");
        if lines.is_empty() {
            return;
        }
        let lines = log_text(&printable(&lines)).into_owned();
        // Longer than any row of backticks inside, so that nothing there ends it.
        let longest = lines.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let (action, name) = (prose(&change.action), code(&change.name));
        let diff = format!("\n{action} {name}:\n\n{fence}diff\n{lines}\n{fence}\n");
        self.part(&diff, prose(&format!("the diff of `{}`", change.name)));
    }

    fn table<const N: usize>(&mut self, title: &str, heading: [&str; N], rows: &[[Markup; N]]) {
        if rows.is_empty() {
            return;
        }
        let (summary, heading, line) = (html(title), heading.join(" | "), "---|".repeat(N));
        let mut table = format!("\n<details><summary>{summary}</summary>\n\n| {heading} |\n|{line}\n");
        for row in rows {
            let cells: Vec<&str> = row.iter().map(Markup::as_str).collect();
            table.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        table.push_str("\n</details>\n");
        self.part(&table, prose(title));
    }

    /// A part of the page if it fits, or else its name.
    fn part(&mut self, part: &str, name: Markup) {
        if self.fits(part, 1) { self.text.push_str(part) } else { self.left_out.push(name) }
    }

    fn finish(self) -> String {
        let left_out = if self.left_out.is_empty() { String::new() } else { names_of(&self.left_out) };
        self.text + &left_out + self.tail
    }
}

/// What is left out, by name as far as there is room, and the number of the others.
fn names_of(left_out: &[Markup]) -> String {
    let mut names = String::new();
    let mut shown = 0;
    for name in left_out {
        if names.len() + name.as_str().len() + 2 > NAMES {
            break;
        }
        names.push_str(if names.is_empty() { "" } else { "; " });
        names.push_str(name.as_str());
        shown += 1;
    }
    let rest = match (left_out.len() - shown, shown) {
        (0, _) => String::new(),
        (others, 0) => count(others, "part"),
        (others, _) => format!("; and {}", count(others, "more part")),
    };
    format!("\nToo long for a comment, see the JSON output: {names}{rest}\n")
}
