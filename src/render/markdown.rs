//! The plan as a comment for a pull request. It always fits into the limit of the large Git hosts.

use super::causes::cut_by;
use super::human::{Detail, by_pool, further_pools, limit};
use super::human_misplaced::{evidence, unapproved};
use super::markdown_page::{Entry, Fold, Page, PageLimit, Table, UpTo, WHOLE};
use super::markup::{Phrase, code, codes, prose};
use super::text::{count, grouped_digits, pointer};
use super::{headlines, markdown_objects};
use ipam_plan::plan::{
    ChangeDocument, FindingDocument, PlanDocument, RefusalDocument, SourceDocument, Summary,
    UnapprovedBlockDocument,
};

/// The plan as Markdown. Like the text for a terminal, it begins and ends with its verdict.
pub fn markdown(plan: &PlanDocument, detail: Detail, limit: PageLimit) -> String {
    let PlanDocument {
        format_version: _,
        intent: _,
        digest,
        source,
        selection: _,
        summary,
        waivers,
        refusals,
        weakened,
        changes,
        services,
        blocked,
        misplaced,
        drift,
        findings,
    } = plan;
    let tail = format!(
        "{}\n{}\n",
        made_from(source, digest, waivers),
        prose(&plan.verdict().line())
    );
    let (destructive, other): (Vec<_>, Vec<_>) =
        changes.iter().partition(|change| change.is_destructive());
    let mut page = Page::new(limit, weakened_policy(weakened) + &headline(plan), &tail);
    // The most important first, because a page that is too long loses its end.
    needs_approval(&mut page, summary, changes, detail);
    refused(&mut page, refusals);
    markdown_objects::blocked(&mut page, blocked, detail);
    markdown_objects::losing_services(&mut page, services);
    markdown_objects::destructive(&mut page, &destructive);
    found(&mut page, findings, detail);
    markdown_objects::address_pools(&mut page, &other);
    markdown_objects::pod_pools(&mut page, &other);
    markdown_objects::ports(&mut page, &other);
    markdown_objects::service_pins(&mut page, &other);
    markdown_objects::other_services(&mut page, services);
    changes_by_pool(&mut page, &other, detail);
    markdown_objects::misplaced(&mut page, misplaced, Fold::Folded, detail);
    markdown_objects::drift(&mut page, drift, detail);
    page.finish()
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

fn refused(page: &mut Page<'_>, refusals: &[RefusalDocument]) {
    let line = |refusal: &RefusalDocument| {
        let RefusalDocument {
            rule,
            message,
            help,
            waiver: _,
        } = refusal;
        Entry::one(format!(
            "\n- **refused** {}: {}; {}",
            code(rule),
            prose(message),
            prose(help)
        ))
    };
    page.list(refusals.iter().map(line).collect(), UpTo(3), "refusal");
}

/// Blocks that a person must approve, never folded away.
pub(super) fn needs_approval(
    page: &mut Page<'_>,
    summary: &Summary,
    changes: &[ChangeDocument],
    detail: Detail,
) {
    let Some(headline) = summary.approval_headline() else {
        return;
    };
    let all: Vec<_> = unapproved(changes).collect();
    let line = |(change, block): &(&ChangeDocument, &UnapprovedBlockDocument)| {
        format!(
            "\n- block {} of {}: {}",
            code(&block.block),
            code(&change.name),
            prose(&evidence(block))
        )
    };
    let mut lines = page.each(all.iter().take(limit(detail)), |_| 1, line);
    let [first, ..] = &mut lines[..] else {
        return;
    };
    first.text.insert_str(0, &format!("\n**{headline}**\n"));
    let further = all.len().saturating_sub(limit(detail));
    if further > 0 {
        lines.push(Entry {
            text: format!("\n- … and {} more", grouped_digits(further)),
            count: further,
        });
    }
    page.list(lines, UpTo(2), "unapproved block");
}

pub(super) fn found(page: &mut Page<'_>, findings: &[FindingDocument], detail: Detail) {
    let cut = cut_by(findings, detail, |finding| {
        (finding.severity.as_str(), &finding.rule)
    });
    let more = cut.hidden.iter().map(|((severity, rule), findings)| {
        let further = findings.iter().map(|finding| finding.count).sum();
        let what = count(further, &format!("further {severity}"));
        Entry {
            text: format!("\n- … and {what} of {}", code(rule)),
            count: further,
        }
    });
    let shown = cut.shown.iter().copied();
    let mut lines = page.each(shown, |finding| finding.count, finding_line);
    lines.extend(more);
    page.list(lines, UpTo(7), "finding");
    pointed_to(page, findings);
}

/// The command that says more about the rules.
pub(super) fn pointed_to(page: &mut Page<'_>, findings: &[FindingDocument]) {
    let line = pointer(findings.iter().map(|finding| finding.rule.as_str()));
    if let Some(text) = line.map(|line| format!("\n{}\n", prose(&line))) {
        page.part(Entry { text, count: 0 }, "finding");
    }
}

fn changes_by_pool(page: &mut Page<'_>, changes: &[&ChangeDocument], detail: Detail) {
    let pools = by_pool(changes.iter().copied());
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
        page.table(Table {
            title,
            heading: ["node", "block", "write path", "why"],
            rows: page.each(changes, |_| 1, row),
            noun: "change",
            fold: Fold::Folded,
            up_to: WHOLE,
        });
    }
    if let Some(further) = further_pools(&pools, detail) {
        let further_changes = pools.iter().skip(limit(detail));
        let part = Entry {
            text: format!("\n… and {further}: see the JSON output, or --show-all\n"),
            count: further_changes.map(|(_, changes)| changes.len()).sum(),
        };
        page.part(part, "change");
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
        prose(severity.as_str()),
        code(rule),
        prose(message),
        place.unwrap_or_default()
    )
}
