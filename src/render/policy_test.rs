//! The results of `policy test`: a table for people, JSON and JUnit. Decides nothing.

use serde::Serialize;

use super::finding_formats::{FindingDocuments, JunitCase, finding_documents, junit_cases};
use super::human::Detail;
use super::text::{count, printable, table};
use ipam_config::documents::Documents;
use ipam_core::text::one_line;
use ipam_plan::plan::{CaseOutcome, OriginDocument, TestedCase, TestedPolicy};

/// Results of the cases as JSON.
#[derive(Debug, Serialize)]
pub struct PolicyTestDocument {
    /// Version of this format.
    pub format_version: &'static str,
    /// Number of rules.
    pub rules: usize,
    /// Number of passed cases.
    pub passed: usize,
    /// Number of failed cases.
    pub failed: usize,
    /// Every case, in the order of the files.
    pub cases: Vec<CaseDocument>,
    #[serde(flatten)]
    pub findings: FindingDocuments,
}

/// The result of a case as JSON.
#[derive(Debug, Serialize)]
pub struct CaseDocument {
    /// Name of the rule.
    pub rule: String,
    /// Name of the case, or null.
    pub name: Option<String>,
    /// `passed` or `failed`.
    pub outcome: &'static str,
    /// `holds`, `broken` or `no-result`.
    pub expected: &'static str,
    /// The rule's result: one of the same, or null without such a rule.
    pub said: Option<&'static str>,
    /// The message of the broken rule, or why it has no result.
    pub message: Option<String>,
    /// The place of the case.
    pub origin: OriginDocument,
}

impl PolicyTestDocument {
    pub fn new(tested: &TestedPolicy<'_>, documents: &Documents, detail: Detail) -> Self {
        PolicyTestDocument {
            format_version: "1.0",
            rules: tested.rules,
            passed: number(tested, CaseOutcome::Passed),
            failed: number(tested, CaseOutcome::Failed),
            cases: tested.cases.iter().map(CaseDocument::from).collect(),
            findings: finding_documents(&tested.findings, documents, detail),
        }
    }
}

impl From<&TestedCase<'_>> for CaseDocument {
    fn from(tested: &TestedCase<'_>) -> CaseDocument {
        let TestedCase {
            case,
            said,
            message,
            outcome,
        } = tested;
        CaseDocument {
            rule: case.rule.clone(),
            name: case.name.clone(),
            outcome: outcome.as_str(),
            expected: case.expected.as_str(),
            said: said.map(|said| said.as_str()),
            message: message.clone(),
            origin: OriginDocument::from(&case.origin),
        }
    }
}

fn number(tested: &TestedPolicy<'_>, outcome: CaseOutcome) -> usize {
    let cases = tested.cases.iter();
    cases.filter(|case| case.outcome == outcome).count()
}

/// Name of a policy test case, or its place in the files if it has no name.
fn name(tested: &TestedCase<'_>) -> String {
    let case = tested.case;
    match &case.name {
        Some(name) => one_line(name).into_owned(),
        None => case.origin.to_string(),
    }
}

/// A table of the cases, and a line with their number.
pub fn policy_test(tested: &TestedPolicy<'_>) -> String {
    let row = |case: &TestedCase<'_>| {
        let said = case.said.map_or("no such rule", |said| said.as_str());
        [
            case.outcome.as_str().to_owned(),
            one_line(&case.case.rule).into_owned(),
            printable(&name(case)).into_owned(),
            case.case.expected.as_str().to_owned(),
            said.to_owned(),
        ]
    };
    let rows: Vec<[String; 5]> = tested.cases.iter().map(row).collect();
    let table = table(["RESULT", "RULE", "CASE", "EXPECTED", "SAID"], &rows);
    format!(
        "{table}\n{} of {}: {} passed, {} failed\n",
        count(tested.cases.len(), "case"),
        count(tested.rules, "rule"),
        number(tested, CaseOutcome::Passed),
        number(tested, CaseOutcome::Failed),
    )
}

/// A test case for each case, in the class of its rule.
pub fn policy_test_junit(tested: &TestedPolicy<'_>, detail: Detail) -> String {
    let case = |case: &TestedCase<'_>| {
        let origin = &case.case.origin;
        let failure = tested.findings.iter().find(|finding| {
            case.outcome == CaseOutcome::Failed && finding.origin.as_ref() == Some(origin)
        });
        JunitCase {
            name: name(case),
            class: case.case.rule.clone(),
            failure,
        }
    };
    let cases: Vec<JunitCase<'_>> = tested.cases.iter().map(case).collect();
    junit_cases("policy test", &cases, detail)
}
