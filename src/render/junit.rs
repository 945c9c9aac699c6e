//! Findings as JUnit XML: a failed test case for each cause, so that a CI shows them without
//! knowing this program.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::examination::sentences;
use super::log_command::xml_without_commands;
use super::text::{grouped_digits, printable};
use ipam_core::model::{Finding, Severity, grouped};

/// The report as XML text. What is below `fails` is a passed case with its text as output.
///
/// # Errors
/// Text that XML cannot hold.
pub fn junit(findings: &[Finding], fails: Option<Severity>) -> Result<String, String> {
    let mut suite = TestSuite::new("doctor");
    for group in grouped(findings) {
        let finding = group.first;
        let is_failure = fails.is_some_and(|fails| finding.severity <= fails);
        let status = if is_failure {
            TestCaseStatus::non_success(NonSuccessKind::Failure)
        } else {
            TestCaseStatus::success()
        };
        let subject = finding
            .subject
            .as_ref()
            .map_or_else(|| "cluster".to_owned(), ToString::to_string);
        let more = match group.further.len() {
            0 => String::new(),
            further => format!(" and {} more", grouped_digits(further)),
        };
        let mut case = TestCase::new(
            printable(&format!("{} {subject}{more}", finding.rule)).into_owned(),
            status,
        );
        case.set_classname(finding.severity.as_str());
        if is_failure {
            case.status
                .set_message(printable(&finding.message).into_owned());
            case.status
                .set_description(printable(&sentences(finding)).into_owned());
        } else {
            case.set_system_out(printable(&sentences(finding)).into_owned());
        }
        suite.add_test_case(case);
    }
    if findings.is_empty() {
        suite.add_test_case(TestCase::new("nothing found", TestCaseStatus::success()));
    }
    let mut report = Report::new("cilium-ipam");
    report.add_test_suite(suite);
    let xml = report.to_string().map_err(|error| error.to_string())?;
    Ok(xml_without_commands(&xml).into_owned())
}
