//! The plan as a comment for a pull request. It always fits into the limit of the large Git hosts.

use super::causes::cut_by;
use super::headlines;
use super::human::{Detail, limit};
use super::markdown_page::{Page, PageLimit};
use super::markup::{code, prose};
use super::model::{Form, Listing, Row, UpTo};
use super::phrase::Phrase;
use super::plan_causes::{blocked, drift, drifted_objects, misplaced};
use super::plan_sections::{
    POOL_COLUMNS, address_pools, by_pool, destructive, further_pools, pod_pools, pool, ports,
    refused, service_pins, unapproved,
};
use super::plan_services::{losing, other_effects};
use super::text::{count, grouped_digits, pointer};
use ipam_plan::plan::{
    ChangeDocument, FindingDocument, OriginDocument, PlanDocument, SourceDocument,
};

/// The plan as Markdown. Like the text for a terminal, it begins and ends with its verdict.
pub fn markdown(plan: &PlanDocument, detail: Detail, limit: PageLimit) -> String {
    let tail = format!(
        "{}\n{}\n",
        made_from(&plan.source, &plan.digest, &plan.waivers),
        prose(&plan.verdict().line())
    );
    let head = weakened_policy(&plan.weakened) + &headline(plan);
    let mut page = Page::new(limit, head, &tail);
    sections(&mut page, plan, detail);
    page.finish()
}

/// All entries of the plan. The most important come first, because a page that is too long loses
/// its end.
pub(super) fn sections(page: &mut Page<'_>, plan: &PlanDocument, detail: Detail) {
    let PlanDocument {
        format_version: _,
        intent: _,
        digest: _,
        source: _,
        selection: _,
        summary,
        waivers: _,
        refusals,
        weakened: _,
        changes,
        services,
        blocked: waiting,
        misplaced: outside,
        drift: drifted,
        findings,
    } = plan;
    let (worst, other): (Vec<_>, Vec<_>) =
        changes.iter().partition(|change| change.is_destructive());
    page.listing(unapproved(summary, changes, detail));
    page.listing(refused(refusals));
    page.listing(blocked(waiting, detail));
    page.listing(losing(services));
    page.listing(destructive(&worst));
    found(page, findings, detail);
    page.listing(address_pools(&other));
    page.listing(pod_pools(&other));
    page.listing(ports(&other));
    page.listing(service_pins(&other));
    page.listing(other_effects(services));
    changes_by_pool(page, &other, detail);
    page.listing(misplaced(outside, detail));
    let fields = count(drifted.len(), "field");
    page.listing(drift(drifted, detail, ("how many", drifted_objects)).counted(fields));
}

/// What the Policy allows that its base does not, at the very top. The last entry counts those that a
/// comment has no room for.
pub(super) fn weakened_policy(weakened: &[String]) -> String {
    const SHOWN: usize = 30;
    if weakened.is_empty() {
        return String::new();
    }
    let lines = weakened.iter().take(SHOWN);
    let lines: String = lines.map(|what| format!("- {}\n", prose(what))).collect();
    let more = match weakened.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("- and {more} more\n"),
    };
    format!("**The Policy is weakened:**\n\n{lines}{more}\n")
}

/// The directory, the commit, the digest and the waivers.
fn made_from(source: &SourceDocument, digest: &str, waivers: &[String]) -> String {
    let revision = source.revision.as_deref();
    let revision = revision.map(|id| format!(" at {}", code(id)));
    let (revision, waived) = (revision.unwrap_or_default(), waived(waivers));
    let directory = code(&source.directory);
    format!(
        "\n{directory}{revision} · digest {}{waived}\n",
        code(digest)
    )
}

/// ` · waived protected-node`, if so.
pub(super) fn waived(waivers: &[String]) -> String {
    match waivers.is_empty() {
        true => String::new(),
        false => format!(" · waived {}", Phrase::values(waivers).markdown()),
    }
}

/// Findings of invalid files as Markdown, in the place of a plan.
pub fn markdown_findings(findings: &[FindingDocument], detail: Detail, limit: PageLimit) -> String {
    let mut page = Page::new(limit, "### No plan: the files are invalid\n".to_owned(), "");
    found(&mut page, findings, detail);
    page.finish()
}

fn headline(plan: &PlanDocument) -> String {
    let summary = &plan.summary;
    let irreversible = match summary.irreversible {
        0 => String::new(),
        changes => format!(
            "\n\n{} cannot be undone: {}",
            count(changes, "change"),
            super::Irreversible::of(plan).as_str()
        ),
    };
    let balancing = headlines::load_balancing(&summary.load_balancing, plan.losing());
    let balancing = prose(&balancing).to_string();
    let balancing = match summary.load_balancing.lost_addresses {
        0 => balancing,
        _ => format!("**{balancing}**"),
    };
    let pods = prose(&headlines::pod_pools(&summary.pod_pools)).to_string();
    let limited = prose(&headlines::by(plan.selection.as_ref())).to_string();
    let objects: String = [limited, balancing, pods]
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(|text| format!("\n\n{text}"))
        .collect();
    format!(
        "### {}{objects}{irreversible}\n",
        prose(&plan.verdict().line())
    )
}

pub(super) fn found(page: &mut Page<'_>, findings: &[FindingDocument], detail: Detail) {
    let cut = cut_by(findings, detail, |finding| {
        (finding.severity.as_str(), &finding.rule)
    });
    let shown = cut.shown.iter().map(|finding| finding_row(finding));
    let more = cut.hidden.iter().map(|((severity, rule), findings)| {
        let further = findings.iter().map(|finding| finding.count).sum();
        let what = count(further, &format!("further {severity}"));
        let line = Phrase::new(&format!("… and {what} of ")).value(rule);
        Row::new([line]).of(further)
    });
    let rows: Vec<Row> = shown.chain(more).collect();
    let lines = Listing::new(Phrase::default(), "finding", &[]);
    page.listing(lines.form(Form::Lines, UpTo(7)).rows(rows, |row| row));
    pointed_to(page, findings.iter().map(|one| one.rule.as_str()));
}

/// The command that says more about the rules.
pub(super) fn pointed_to<'c>(page: &mut Page<'_>, codes: impl IntoIterator<Item = &'c str>) {
    if let Some(line) = pointer(codes) {
        page.part(&format!("\n{}\n", prose(&line)), 0, "finding");
    }
}

fn changes_by_pool(page: &mut Page<'_>, changes: &[&ChangeDocument], detail: Detail) {
    let mut pools = by_pool(changes.iter().copied());
    let further = further_pools(&pools, detail);
    pools.truncate(limit(detail));
    pools
        .into_iter()
        .for_each(|one| page.listing(pool(one, POOL_COLUMNS)));
    if let Some((further, count)) = further {
        let text = format!("\n… and {further}: see the JSON output, or --show-all\n");
        page.part(&text, count, "change");
    }
}

/// A place in a file, such as `pools/a.yaml:7`.
pub(super) fn place(origin: &OriginDocument) -> String {
    format!("{}:{}", origin.file, origin.line)
}

fn finding_row(finding: &FindingDocument) -> Row {
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
    let mut line = Phrase::new(&format!("**{}** ", severity.as_str()));
    line = line.value(rule).words(": ").sentence(message);
    line = line.at(origin.as_ref().map(place));
    let further = findings.saturating_sub(1);
    if further > 0 {
        line = line.words(&format!("; the same {} more", count(further, "time")));
        let between = if other_subjects.is_empty() { "" } else { ": " };
        line = line.words(between).then(Phrase::values(other_subjects));
        let more = subject_count.saturating_sub(1 + other_subjects.len());
        if more > 0 {
            line = line.words(&format!(" and {} more", grouped_digits(more)));
        }
    }
    Row::new([line]).of(*findings)
}
