//! The plan as a comment for a pull request. It always fits into the limit of the large Git hosts.

use super::findings::cut_by;
use super::human::{Detail, by_pool, further_pools, limit};
use super::human_approval::{evidence, unapproved};
use super::markdown_page::Page;
use super::markup::{Markup, Phrase, code, codes, prose};
use super::text::{count, grouped_digits};
use super::{headlines, human_pod_pools, markdown_objects, markdown_waiting};
use ipam_planner::plan::{
    ChangeDocument, FindingDocument, Intent, PlanDocument, RefusalDocument, SourceDocument,
    Summary, UnapprovedBlockDocument,
};

/// The plan as Markdown. Like the text for a terminal, it begins and ends with its counts.
pub fn markdown(plan: &PlanDocument, detail: Detail) -> String {
    let PlanDocument {
        format_version: _,
        intent,
        digest,
        source,
        summary,
        waivers,
        refusals,
        changes,
        services,
        blocked,
        misplaced,
        drift,
        findings,
    } = plan;
    let counts = headlines::sentence(summary, *intent);
    let tail = format!(
        "{}\n{}\n",
        made_from(source, digest, waivers),
        prose(&counts)
    );
    let mut page = Page::new(headline(plan), &tail);
    refused(&mut page, refusals);
    needs_approval(&mut page, summary, changes, detail);
    found(&mut page, findings, detail);
    markdown_objects::losing_services(&mut page, services);
    markdown_objects::address_pools(&mut page, changes);
    markdown_objects::pod_pools(&mut page, changes);
    markdown_objects::ports(&mut page, changes);
    markdown_objects::service_pins(&mut page, changes);
    markdown_objects::other_services(&mut page, services);
    changes_by_pool(&mut page, changes, detail);
    markdown_waiting::blocked(&mut page, blocked, detail);
    markdown_waiting::misplaced(&mut page, misplaced, detail);
    markdown_waiting::drift(&mut page, drift, detail);
    page.finish()
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
pub fn markdown_findings(findings: &[FindingDocument], detail: Detail) -> String {
    let mut page = Page::new("### No plan: the files are invalid\n".to_owned(), "");
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
            super::why_irreversible(plan)
        ),
    };
    let objects = [
        markdown_objects::lb_headline(&summary.load_balancing),
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

fn refused(page: &mut Page<'_>, refusals: &[RefusalDocument]) {
    let line = |refusal: &RefusalDocument| {
        let RefusalDocument {
            rule,
            message,
            help,
            waiver: _,
        } = refusal;
        format!(
            "\n- **refused** {}: {}; {}",
            code(rule),
            prose(message),
            prose(help)
        )
    };
    page.list(&refusals.iter().map(line).collect::<Vec<_>>(), 4, "refusal");
    page.end_list();
}

/// Blocks that a person must approve, never folded away.
fn needs_approval(
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
    let mut lines: Vec<String> = all.iter().take(limit(detail)).map(line).collect();
    let [first, ..] = &mut lines[..] else {
        return;
    };
    first.insert_str(0, &format!("\n**{headline}**\n"));
    let further = all.len().saturating_sub(limit(detail));
    if let (1.., Some(last)) = (further, lines.last_mut()) {
        last.push_str(&format!("\n- … and {} more", grouped_digits(further)));
    }
    page.list(&lines, 2, "unapproved block");
    page.end_list();
}

fn found(page: &mut Page<'_>, findings: &[FindingDocument], detail: Detail) {
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
    page.list(&lines, 4, "finding");
    page.end_list();
}

fn changes_by_pool(page: &mut Page<'_>, changes: &[ChangeDocument], detail: Detail) {
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
        page.table(title, ["node", "block", "write path", "why"], &rows);
    }
    if let Some(further) = further_pools(&pools, detail) {
        let line = format!("\n… and {further}: see the JSON output, or --full\n");
        page.part(&line, prose(&further));
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
