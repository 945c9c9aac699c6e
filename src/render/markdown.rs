//! The plan as a comment for a pull request. Always fits: 65,535 characters is the limit of the
//! large Git hosts.

use super::findings::cut_by;
use super::human::{Detail, by_pool, further_pools, limit};
use super::human_lb::effect_parts;
use super::log_command::log_text;
use super::manifest_diff::manifest_diff;
use super::markup::{Markup, Phrase, code, codes, list, prose};
use super::text::{count, grouped_digits, printable};
use super::{headlines, human_pod_pools, human_ports, markdown_waiting};
use ipam_planner::plan::{
    ChangeDocument, FindingDocument, Intent, LbSummary, PlanDocument, RefusalDocument,
    ServiceEffectDocument, SourceDocument, Summary,
};

/// Bytes of the whole page: the large Git hosts take 65,535 characters.
const LIMIT: usize = 65_000;

/// Bytes for the names of what is left out.
const NAMES: usize = 400;

/// The plan as Markdown. Groups that no longer fit are named with their counts, never cut in the
/// middle.
pub fn markdown(plan: &PlanDocument, detail: Detail) -> String {
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
    let tail = tail(source, digest, waivers);
    let mut page = Page::new(headline(plan), &tail);
    page.refusals(refusals);
    page.findings(findings, detail);
    page.load_balancing(changes, services);
    page.changes_by_pool(changes, detail);
    markdown_waiting::blocked(&mut page, blocked, detail);
    markdown_waiting::misplaced(&mut page, misplaced, detail);
    markdown_waiting::drift(&mut page, drift, detail);
    page.finish()
}

/// What it was made from.
fn tail(source: &SourceDocument, digest: &str, waivers: &[String]) -> String {
    let waived = if waivers.is_empty() {
        String::new()
    } else {
        format!(" · waived {}", codes(waivers))
    };
    let revision = source
        .revision
        .as_deref()
        .map(|id| format!(" at {}", code(id)))
        .unwrap_or_default();
    format!(
        "\n{}{revision} · digest {}{waived}\n",
        code(&source.directory),
        code(digest)
    )
}

/// Faulty files as Markdown, in the place of a plan.
pub fn markdown_findings(findings: &[FindingDocument], detail: Detail) -> String {
    let mut page = Page::new("### No plan: the files are invalid\n".to_owned(), "");
    page.findings(findings, detail);
    page.finish()
}

fn headline(plan: &PlanDocument) -> String {
    let summary = &plan.summary;
    let irreversible = match summary.irreversible {
        0 => String::new(),
        changes => format!(
            "\n\n{} cannot be undone: {}",
            count(changes, "change"),
            super::why_irreversible(plan)
        ),
    };
    let objects = [
        lb_headline(&summary.load_balancing),
        human_pod_pools::headline(&summary.pod_pools),
    ];
    let objects: String = objects
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(|text| format!("\n\n{text}"))
        .collect();
    format!(
        "{}{objects}{irreversible}\n",
        first_lines(summary, plan.intent)
    )
}

fn first_lines(summary: &Summary, intent: Intent) -> String {
    let Summary {
        moved,
        blocked,
        unchanged,
        errors,
        ..
    } = summary;
    let writes = headlines::writes(summary);
    let errors = if *errors == 0 {
        String::new()
    } else {
        format!(", {}", count(*errors, "error"))
    };
    let [moved, blocked, unchanged] = [moved, blocked, unchanged].map(grouped_digits);
    let misplaced = headlines::misplaced(summary);
    match intent {
        Intent::Undo => format!("### Undo: {writes}\n\n{blocked} cannot be taken back{errors}"),
        Intent::Files => {
            let title = if summary.changes_nothing() {
                "No changes"
            } else {
                "Plan"
            };
            format!(
                "### {title}: {writes}, {moved} moved\n\n{blocked} blocked, {misplaced}{unchanged} unchanged{errors}"
            )
        }
    }
}

/// The headline of LoadBalancer pools, without colours.
fn lb_headline(summary: &LbSummary) -> String {
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

pub(super) struct Page<'t> {
    text: String,
    tail: &'t str,
    left_out: Vec<Markup>,
}

impl<'t> Page<'t> {
    fn new(text: String, tail: &'t str) -> Page<'t> {
        Page {
            text,
            tail,
            left_out: Vec::new(),
        }
    }

    /// Whether a part fits into this share of the page, beside the tail and the names of what is
    /// left out.
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
            let RefusalDocument {
                rule,
                message,
                help,
                ..
            } = refusal;
            format!(
                "\n- **refused** {}: {}; {}",
                code(rule),
                prose(message),
                prose(help)
            )
        };
        self.list(&refusals.iter().map(line).collect::<Vec<_>>(), 4, "refusal");
        self.text.push('\n');
    }

    fn findings(&mut self, findings: &[FindingDocument], detail: Detail) {
        let cut = cut_by(findings, detail, |finding| {
            (&finding.severity, &finding.rule)
        });
        let more = cut.hidden.iter().map(|((severity, rule), findings)| {
            let further = findings.iter().map(|finding| finding.count).sum();
            format!(
                "\n- … and {} of {}",
                count(further, &format!("further {severity}")),
                code(rule)
            )
        });
        let lines: Vec<String> = cut
            .shown
            .iter()
            .map(|finding| finding_line(finding))
            .chain(more)
            .collect();
        self.list(&lines, 4, "finding");
        self.text.push('\n');
    }

    fn changes_by_pool(&mut self, changes: &[ChangeDocument], detail: Detail) {
        let pools = by_pool(changes);
        for (pool, changes) in pools.iter().take(limit(detail)) {
            let title = Phrase::new("pool ").value(pool.unwrap_or("(none)"));
            let title = title.words(&format!(", {}", count(changes.len(), "change")));
            let row = |c: &&ChangeDocument| {
                [
                    code(&c.name),
                    codes(&c.after),
                    code(&c.write_path),
                    prose(&c.reason),
                ]
            };
            let rows: Vec<[Markup; 4]> = changes.iter().map(row).collect();
            self.table(title, ["node", "block", "write path", "why"], &rows);
        }
        if let Some(further) = further_pools(&pools, detail) {
            let line = format!("\n… and {further}: see the JSON output, or --full\n");
            self.part(&line, prose(&further));
        }
    }

    /// Pools with their diffs, pins, and what becomes of Services: those that lose an address come
    /// first and are not folded away.
    fn load_balancing(&mut self, changes: &[ChangeDocument], services: &[ServiceEffectDocument]) {
        let (losing, others): (Vec<_>, Vec<_>) = services
            .iter()
            .partition(|service| !service.loses.is_empty());
        let line = |service: &&ServiceEffectDocument| {
            let name = code(&format!("{}/{}", service.namespace, service.name));
            format!("\n- **Service** {name} {}", list(&effect_parts(service)))
        };
        self.list(
            &losing.iter().map(line).collect::<Vec<_>>(),
            2,
            "losing Service",
        );
        if !losing.is_empty() {
            self.text.push('\n');
        }
        let of_kind = |kind: &str| {
            changes
                .iter()
                .filter(|change| change.kind == kind)
                .collect::<Vec<_>>()
        };
        let pools = of_kind("CiliumLoadBalancerIPPool");
        let row = |c: &&ChangeDocument| {
            [
                code(&c.name),
                prose(&c.action),
                codes(&c.after),
                prose(&c.reason),
            ]
        };
        let rows: Vec<[Markup; 4]> = pools.iter().map(row).collect();
        let title = Phrase::new(&format!(
            "LoadBalancer pools, {}",
            count(pools.len(), "change")
        ));
        self.table(title, ["pool", "action", "addresses", "why"], &rows);
        pools.iter().for_each(|change| self.diff(change));
        let objects: Vec<_> = human_pod_pools::KINDS
            .iter()
            .flat_map(|kind| of_kind(kind))
            .collect();
        let object = |c: &&ChangeDocument| {
            [
                code(&format!("{}/{}", c.kind, c.name)),
                prose(&c.action),
                codes(&c.after),
                prose(&c.reason),
            ]
        };
        let rows: Vec<[Markup; 4]> = objects.iter().map(object).collect();
        let title = Phrase::new(&format!("Pod pools, {}", count(objects.len(), "change")));
        self.table(title, ["object", "action", "says", "why"], &rows);
        let ports = of_kind(human_ports::KIND);
        let port = |c: &&ChangeDocument| {
            [
                code(&c.name),
                codes(&c.after),
                codes(&c.before),
                prose(&c.reason),
            ]
        };
        let rows: Vec<[Markup; 4]> = ports.iter().map(port).collect();
        let title = Phrase::new(&format!("ports of VMs, {}", count(ports.len(), "change")));
        self.table(title, ["port", "lets out", "no longer", "why"], &rows);
        let pins = of_kind("Service");
        let rows: Vec<[Markup; 4]> = pins.iter().map(row).collect();
        let title = Phrase::new(&format!("pins, {}", count(pins.len(), "change")));
        self.table(title, ["Service", "action", "addresses", "why"], &rows);
        let row = |s: &&ServiceEffectDocument| {
            [
                code(&format!("{}/{}", s.namespace, s.name)),
                list(&effect_parts(s)),
            ]
        };
        let rows: Vec<[Markup; 2]> = others.iter().map(row).collect();
        let title = Phrase::new(&format!(
            "other effects, {}",
            count(others.len(), "Service")
        ));
        self.table(title, ["Service", "what"], &rows);
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
        self.part(
            &diff,
            Phrase::new("the diff of ").value(&change.name).markdown(),
        );
    }

    /// A table that is folded away.
    pub(super) fn table<const N: usize>(
        &mut self,
        title: Phrase,
        heading: [&str; N],
        rows: &[[Markup; N]],
    ) {
        if rows.is_empty() {
            return;
        }
        let (summary, heading, line) = (title.html(), heading.join(" | "), "---|".repeat(N));
        let mut table =
            format!("\n<details><summary>{summary}</summary>\n\n| {heading} |\n|{line}\n");
        for row in rows {
            let cells: Vec<&str> = row.iter().map(Markup::as_str).collect();
            table.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        table.push_str("\n</details>\n");
        self.part(&table, title.markdown());
    }

    /// A part of the page if it fits, or else its name.
    fn part(&mut self, part: &str, name: Markup) {
        if self.fits(part, 1) {
            self.text.push_str(part)
        } else {
            self.left_out.push(name)
        }
    }

    fn finish(self) -> String {
        let left_out = if self.left_out.is_empty() {
            String::new()
        } else {
            names_of(&self.left_out)
        };
        self.text + &left_out + self.tail
    }
}

fn finding_line(finding: &FindingDocument) -> String {
    let FindingDocument {
        severity,
        rule,
        message,
        origin,
        count: findings,
        other_subjects,
        subject_count,
        ..
    } = finding;
    let place = origin
        .as_ref()
        .map(|origin| format!(" ({})", code(&format!("{}:{}", origin.file, origin.line))));
    let further = match findings.saturating_sub(1) {
        0 => String::new(),
        further => {
            let listed = if other_subjects.is_empty() {
                String::new()
            } else {
                format!(": {}", codes(other_subjects))
            };
            let more = subject_count.saturating_sub(1 + other_subjects.len());
            let more = if more == 0 {
                String::new()
            } else {
                format!(" and {} more", grouped_digits(more))
            };
            format!("; the same {} more{listed}{more}", count(further, "time"))
        }
    };
    format!(
        "\n- **{}** {}: {}{}{further}",
        prose(severity),
        code(rule),
        prose(message),
        place.unwrap_or_default()
    )
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
