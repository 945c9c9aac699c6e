//! An examination as Markdown: the counts, what is known of Cilium, then each finding with its
//! evidence, its consequence and its fix.

use super::causes::cut;
use super::examination::{counts, lines};
use super::human::Detail;
use super::markdown::pointed_to;
use super::markdown_page::{Page, PageLimit};
use super::markup::prose;
use super::model::{Form, Listing, Row, UpTo, page as column};
use super::phrase::Phrase;
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
    let parts: [Vec<Row>; 3] =
        [Severity::Error, Severity::Warning, Severity::Info].map(|severity| {
            let shown = cut.shown.iter().filter(move |one| one.severity == severity);
            shown.map(|finding| row(finding, detail)).collect()
        });
    let further = cut.further().map(|line| Row::new([Phrase::prose(&line)]));
    // The findings leave room for the table.
    let listing = || Listing::new(Phrase::default(), "finding", &[]).form(Form::Lines, UpTo(7));
    for rows in parts.into_iter().chain([further.collect()]) {
        page.listing(listing().rows(rows, |row| row));
    }
    pointed_to(&mut page, findings.iter().map(|finding| finding.rule.0));
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
        Row::new([
            Phrase::prose(about),
            Phrase::of(value),
            Phrase::new(confidence.as_str()),
            Phrase::prose(evidence),
        ])
    };
    let title = Phrase::new("Cilium, as it is detected");
    let columns = ["what", "value", "certainty", "evidence"].map(column);
    page.listing(Listing::new(title, "conclusion", &columns).rows(conclusions, row));
}

fn row(finding: &Finding, detail: Detail) -> Row {
    let mut line = Phrase::new(&format!("**{}** ", finding.severity));
    line = line
        .value(finding.rule.0)
        .words(": ")
        .sentence(&finding.message);
    line = line.at(finding.origin.as_ref());
    Row {
        details: lines(finding, detail)
            .map(|(word, text)| (word, Phrase::prose(&text)))
            .collect(),
        ..Row::new([line])
    }
}
