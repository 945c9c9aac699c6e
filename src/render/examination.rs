//! The findings of an examination as text, JSON and SARIF.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::causes::cut;
use super::finding_formats::{IN_REPORT, OmittedDocument, first};
use super::human::{Detail, limit};
use super::text::{Paint, count, grouped_digits, pointer, printable, table};
use ipam_core::model::{Finding, FindingGroup, Origin, Severity, grouped};
use ipam_core::rules::{self, markdown};
use ipam_doctor::doctor::Conclusion;

/// Version of the JSON. Fields may be added within 1.
const FORMAT_VERSION: &str = "1.1";

/// Lines of evidence of one finding in a text in short form.
const EVIDENCE: usize = 5;

/// An examination as JSON.
#[derive(Debug, Serialize)]
pub struct ExaminationDocument {
    format_version: &'static str,
    cluster: Vec<Conclusion>,
    summary: Summary,
    /// At most [`IN_REPORT`] entries of each rule, or all with `--show-all`.
    findings: Vec<ExaminationFinding>,
    /// The number of the others, by rule.
    omitted: Vec<OmittedDocument>,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    error: usize,
    warning: usize,
    info: usize,
}

#[derive(Debug, Serialize)]
struct ExaminationFinding {
    rule: &'static str,
    severity: &'static str,
    /// Number of findings in this entry: those of one rule with one place in the files and one
    /// fix.
    count: usize,
    /// `Kind/name` of the first object.
    subject: Option<String>,
    /// Further objects: at most nine, or all with `--show-all`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_subjects: Vec<String>,
    /// Number of all objects, listed or not.
    subject_count: usize,
    /// Message of the first finding.
    message: String,
    /// Messages of the others: at most nine, or all with `--show-all`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further_messages: Vec<String>,
    /// Evidence: at most ten lines of each of the first ten findings, or all with `--show-all`.
    evidence: Vec<String>,
    /// Consequence of the first finding.
    consequence: String,
    /// Consequences of the others, in the order of their messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further_consequences: Vec<String>,
    fix: String,
    /// `file:line`, for a finding about a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

impl ExaminationDocument {
    /// Builds the document, with one entry for each cause.
    pub fn new(
        conclusions: &[Conclusion],
        findings: &[Finding],
        detail: Detail,
    ) -> ExaminationDocument {
        let (shown, omitted) = first(
            grouped(findings),
            if detail == Detail::Full {
                usize::MAX
            } else {
                IN_REPORT
            },
        );
        ExaminationDocument {
            format_version: FORMAT_VERSION,
            cluster: conclusions.to_vec(),
            summary: Summary::of(findings),
            findings: shown
                .iter()
                .map(|group| ExaminationFinding::new(group, detail))
                .collect(),
            omitted,
        }
    }
}

impl Summary {
    fn of(findings: &[Finding]) -> Summary {
        let mut summary = Summary::default();
        for finding in findings {
            match finding.severity {
                Severity::Error => summary.error += 1,
                Severity::Warning => summary.warning += 1,
                Severity::Info => summary.info += 1,
            }
        }
        summary
    }
}

impl ExaminationFinding {
    fn new(group: &FindingGroup<'_>, detail: Detail) -> ExaminationFinding {
        let (first, subjects) = (group.first, group.subjects());
        let listed = || group.findings().take(limit(detail));
        let mut names = subjects.iter().take(limit(detail)).map(ToString::to_string);
        ExaminationFinding {
            rule: first.rule.0,
            severity: first.severity.as_str(),
            count: group.count(),
            subject: names.next(),
            other_subjects: names.collect(),
            subject_count: subjects.len(),
            message: first.message.clone(),
            further_messages: listed().skip(1).map(|one| one.message.clone()).collect(),
            evidence: listed()
                .flat_map(|one| one.evidence.iter().take(limit(detail)).cloned())
                .collect(),
            consequence: first.consequence.clone(),
            further_consequences: listed()
                .skip(1)
                .map(|one| one.consequence.clone())
                .collect(),
            fix: first.help.clone(),
            origin: first.origin.as_ref().map(Origin::to_string),
        }
    }
}

/// An examination as text: the conclusions about Cilium, then each finding with its evidence, its
/// consequence and its fix.
pub fn examination(conclusions: &[Conclusion], findings: &[Finding], detail: Detail) -> String {
    let row = |conclusion: &Conclusion| {
        let Conclusion {
            about,
            value,
            evidence,
            confidence,
        } = conclusion;
        [
            about.to_string(),
            value.clone(),
            confidence.as_str().to_owned(),
            evidence.clone(),
        ]
        .map(|cell| printable(&cell).into_owned())
    };
    let rows: Vec<[String; 4]> = conclusions.iter().map(row).collect();
    let mut text = table(["CILIUM", "VALUE", "CERTAINTY", "EVIDENCE"], &rows);
    let cut = cut(findings, detail);
    grouped(cut.shown.iter().copied())
        .iter()
        .for_each(|group| text.push_str(&group_text(group, detail)));
    cut.further()
        .for_each(|line| text.push_str(&format!("\n{line}")));
    let pointer = pointer(findings.iter().map(|finding| finding.rule.0));
    pointer
        .iter()
        .for_each(|line| text.push_str(&format!("\n{line}\n")));
    let counts = counts(findings).unwrap_or_else(|| "Nothing found".to_owned());
    text.push_str(&format!("\n{}\n", Paint::Bold.on(&format!("{counts}."))));
    text
}

/// How many findings of each severity there are, if any.
pub(super) fn counts(findings: &[Finding]) -> Option<String> {
    if findings.is_empty() {
        return None;
    }
    let Summary {
        error,
        warning,
        info,
    } = Summary::of(findings);
    Some(format!(
        "{}, {}, {}",
        count(error, "error"),
        count(warning, "warning"),
        count(info, "info")
    ))
}

/// Findings with one cause. An impact or a fix that the next of them has, too, is shown there.
fn group_text(group: &FindingGroup<'_>, detail: Detail) -> String {
    let mut text = String::from("\n");
    let mut findings = group.findings().peekable();
    while let Some(finding) = findings.next() {
        text.push_str(&head(finding));
        let next = findings.peek();
        for (word, line) in lines(finding, detail) {
            if next.is_none_or(|next| *line != next.consequence && *line != next.help) {
                text.push_str(&format!("  {word:<6} {}\n", printable(&line)));
            }
        }
    }
    text
}

/// Severity, rule, message and place.
fn head(finding: &Finding) -> String {
    let paint = match finding.severity {
        Severity::Error => Paint::Red,
        Severity::Warning => Paint::Yellow,
        Severity::Info => Paint::Dim,
    };
    let head = paint.on(&format!("{}[{}]", finding.severity, finding.rule));
    let place = finding
        .origin
        .as_ref()
        .map(|origin| format!(" ({origin})"))
        .unwrap_or_default();
    let (message, place) = (printable(&finding.message), printable(&place));
    format!("{head} {message}{place}\n")
}

/// Evidence, consequence and fix, each with its word. Evidence beyond [`EVIDENCE`] is counted.
pub(super) fn lines(
    finding: &Finding,
    detail: Detail,
) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
    let most = match detail {
        Detail::Short => EVIDENCE,
        Detail::Full => usize::MAX,
    };
    let hidden = finding.evidence.len().saturating_sub(most);
    let further = (hidden > 0).then(|| {
        let further = format!(
            "… and {} more; --show-all shows all",
            grouped_digits(hidden)
        );
        ("seen", Cow::Owned(further))
    });
    let seen = finding.evidence.iter().take(most);
    let rest = [("impact", &finding.consequence), ("fix", &finding.help)];
    seen.map(|line| ("seen", Cow::Borrowed(line.as_str())))
        .chain(further)
        .chain(rest.map(|(word, line)| (word, Cow::Borrowed(line.as_str()))))
        .filter(|(_, line)| !line.is_empty())
}

/// An examination as SARIF 2.1.0, for code scanning. A finding about no file gets `place`: scanners
/// refuse a result without a place.
pub fn sarif(findings: &[Finding], place: &str, detail: Detail) -> Value {
    let mut rules: Vec<&str> = findings.iter().map(|finding| finding.rule.0).collect();
    rules.sort_unstable();
    rules.dedup();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "cilium-ipam",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.into_iter().map(sarif_rule).collect::<Vec<_>>(),
            }},
            "results": grouped(findings).iter().map(|group| sarif_result(group, place, detail)).collect::<Vec<_>>(),
        }],
    })
}

/// A rule with its page, which code scanning shows beside each result.
fn sarif_rule(rule: &str) -> Value {
    match rules::page(rule) {
        Some(page) => {
            let text = markdown::page(page);
            json!({
                "id": rule,
                "shortDescription": {"text": page.summary},
                "help": {"text": text, "markdown": text},
            })
        }
        None => json!({"id": rule}),
    }
}

fn sarif_result(group: &FindingGroup<'_>, place: &str, detail: Detail) -> Value {
    let finding = group.first;
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let subjects = group.subjects();
    let logical = subjects
        .iter()
        .take(limit(detail))
        .map(|subject| json!({"fullyQualifiedName": subject.to_string()}));
    let logical: Vec<Value> = logical.collect();
    let (file, line, column) = finding
        .origin
        .as_ref()
        .map_or((place, 1, 1), |at| (&*at.file, at.line, at.column));
    let physical = json!({"artifactLocation": {"uri": file}, "region": {"startLine": line, "startColumn": column}});
    let mut location = json!({"physicalLocation": physical});
    if !logical.is_empty() {
        location["logicalLocations"] = logical.into();
    }
    json!({
        "ruleId": finding.rule.0,
        "level": level,
        "occurrenceCount": group.count(),
        "message": {"text": sentences(finding, detail)},
        "locations": [location],
    })
}

/// Message, evidence, consequence and fix in one text.
pub(super) fn sentences(finding: &Finding, detail: Detail) -> String {
    let mut text = finding.message.clone();
    for (word, line) in lines(finding, detail) {
        text.push_str(&format!("\n{word}: {line}"));
    }
    text
}
