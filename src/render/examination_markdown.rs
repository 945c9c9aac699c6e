//! An examination as Markdown: the counts, what is known of Cilium, then each finding with its
//! evidence, its consequence and its fix.

use super::causes::cut;
use super::examination::{counts, lines};
use super::human::Detail;
use super::markdown_page::{Entry, Fold, Page, PageLimit, Table, UpTo, WHOLE};
use super::markup::{Phrase, code, prose};
use super::text::pointer;
use ipam_core::model::{Finding, Severity};
use ipam_doctor::doctor::Conclusion;

/// The examination as Markdown.
pub fn examination_markdown(
    conclusions: &[Conclusion],
    findings: &[Finding],
    detail: Detail,
    limit: PageLimit,
) -> String {
    let counts = counts(findings).unwrap_or_else(|| "nothing found".to_owned());
    let mut page = Page::new(limit, format!("### Doctor: {}\n", prose(&counts)), "");
    let cut = cut(findings, detail);
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let shown = cut.shown.iter().filter(|one| one.severity == severity);
        let entries = page.each(shown, |_| 1, |finding| finding_text(finding, detail));
        // Findings of a severity leave room for the table.
        page.list(entries, UpTo(7), "finding");
    }
    let further = cut
        .further()
        .map(|line| Entry::one(format!("\n- {}", prose(&line))));
    page.list(further.collect(), UpTo(7), "finding");
    let pointer = pointer(findings.iter().map(|finding| finding.rule.0));
    if let Some(line) = pointer {
        let text = format!("\n{}\n", prose(&line));
        page.part(Entry { text, count: 0 }, "finding");
    }
    cilium(&mut page, conclusions);
    page.finish()
}

fn cilium(page: &mut Page<'_>, conclusions: &[Conclusion]) {
    let row = |conclusion: &Conclusion| {
        let Conclusion {
            about,
            value,
            evidence,
            confidence,
        } = conclusion;
        [
            prose(about),
            code(value),
            prose(confidence.as_str()),
            prose(evidence),
        ]
    };
    page.table(Table {
        title: Phrase::new("Cilium, as it is detected"),
        heading: ["what", "value", "certainty", "evidence"],
        rows: page.each(conclusions, |_| 1, row),
        noun: "conclusion",
        fold: Fold::Folded,
        up_to: WHOLE,
    });
}

fn finding_text(finding: &Finding, detail: Detail) -> String {
    let place = finding.origin.as_ref();
    let place = place.map(|origin| format!(" ({})", code(&origin.to_string())));
    let mut text = format!(
        "\n- **{}** {}: {}{}",
        finding.severity,
        code(finding.rule.0),
        prose(&finding.message),
        place.unwrap_or_default()
    );
    for (word, line) in lines(finding, detail) {
        text.push_str(&format!("\n  - {word}: {}", prose(&line)));
    }
    text
}
