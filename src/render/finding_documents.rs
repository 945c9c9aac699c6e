//! Findings as JSON: the first ones of each rule, each with its line of the file, and the exact
//! number of the others.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::excerpt::{Sources, sentence};
use super::human::Detail;
use ipam_config::documents::Documents;
use ipam_core::model::{Finding, FindingGroup, Rule, Severity, grouped};
use ipam_planner::plan::FindingDocument;

/// Findings of one rule in a report; more are counted.
pub(super) const IN_REPORT: usize = 100;

/// Findings of one rule in an event; more are counted.
const IN_EVENT: usize = 10;

/// Findings as JSON, and the number of those that are left out.
#[derive(Clone, Debug, Serialize)]
pub struct FindingDocuments {
    /// The first ones of each rule.
    pub findings: Vec<FindingDocument>,
    /// The number of the others, by rule.
    pub omitted: Vec<OmittedDocument>,
}

/// Number of findings of one rule that are left out.
#[derive(Clone, Debug, Serialize)]
pub struct OmittedDocument {
    /// `error`, `warning` or `info`.
    pub severity: &'static str,
    /// Stable code.
    pub rule: &'static str,
    pub count: usize,
}

/// An entry that is counted by severity and rule.
pub(super) trait Counted {
    fn rule(&self) -> (Severity, Rule);
    fn findings(&self) -> usize;
}

impl Counted for &Finding {
    fn rule(&self) -> (Severity, Rule) {
        (self.severity, self.rule)
    }

    fn findings(&self) -> usize {
        1
    }
}

impl Counted for FindingGroup<'_> {
    fn rule(&self) -> (Severity, Rule) {
        (self.first.severity, self.first.rule)
    }

    fn findings(&self) -> usize {
        self.count()
    }
}

/// The first ones of each severity and rule, and the numbers of the others.
pub(super) fn first<T: Counted>(
    all: impl IntoIterator<Item = T>,
    most: usize,
) -> (Vec<T>, Vec<OmittedDocument>) {
    let (mut entries, mut omitted) = (BTreeMap::new(), BTreeMap::new());
    let mut is_shown = |one: &T| {
        let of_rule: &mut usize = entries.entry(one.rule()).or_default();
        *of_rule += 1;
        if *of_rule > most {
            *omitted.entry(one.rule()).or_default() += one.findings();
        }
        *of_rule <= most
    };
    let shown = all.into_iter().filter(&mut is_shown).collect();
    let document = |((severity, rule), count): ((Severity, Rule), usize)| OmittedDocument {
        severity: severity.as_str(),
        rule: rule.0,
        count,
    };
    (shown, omitted.into_iter().map(document).collect())
}

/// Findings as JSON, one entry for each cause. The short form has at most `IN_REPORT` entries of
/// each rule and the first few objects of each entry.
pub fn finding_documents(
    findings: &[Finding],
    documents: &Documents,
    detail: Detail,
) -> FindingDocuments {
    let (shown, omitted) = first(
        grouped(findings),
        if detail == Detail::Full {
            usize::MAX
        } else {
            IN_REPORT
        },
    );
    let mut sources = Sources::new(documents);
    let mut document = |group: &FindingGroup<'_>| {
        let mut document = FindingDocument::from(group);
        if detail == Detail::Short {
            document = document.cut();
        }
        for text in [&mut document.message, &mut document.help]
            .into_iter()
            .chain(&mut document.further_messages)
        {
            *text = sentence(text).into_owned();
        }
        if let (Some(place), Some(origin)) = (document.origin.as_mut(), group.first.origin.as_ref())
        {
            place.snippet = sources.line(origin);
        }
        document
    };
    FindingDocuments {
        findings: shown.iter().map(&mut document).collect(),
        omitted,
    }
}

/// Findings as a part of an event: their rules, the first few of each, and the number of the
/// others.
pub fn findings_in_event(findings: &[Finding]) -> Value {
    let (shown, omitted) = first(findings, IN_EVENT);
    let mut rules: Vec<&str> = Vec::new();
    for finding in &shown {
        if !rules.contains(&finding.rule.0) {
            rules.push(finding.rule.0);
        }
    }
    let one = |finding: &&Finding| {
        let place = finding.origin.as_ref().map(ToString::to_string);
        let [message, help] = [&finding.message, &finding.help].map(|text| sentence(text));
        json!({"rule": finding.rule.0, "severity": finding.severity.as_str(), "place": place, "message": message, "help": help})
    };
    json!({"rules": rules, "findings": shown.iter().map(one).collect::<Vec<_>>(), "omitted": omitted})
}
