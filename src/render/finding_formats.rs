//! Findings as JUnit XML: a failed test case for each cause, so that a CI system shows them without
//! knowing this program. Never decides which findings fail: the caller names the severity.
//!
//! Findings as annotations of GitHub: workflow commands, which put each finding beside its line.
//!
//! Findings as JSON: the first ones of each rule, each with its line of the file, and the exact
//! number of the others.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::examination::sentences;
use super::excerpt::{Sources, sentence};
use super::human::Detail;
use super::text::{grouped_digits, log_text, printable, xml_without_commands};
use ipam_config::documents::Documents;
use ipam_core::model::{Finding, FindingGroup, Rule, Severity, grouped};
use ipam_plan::plan::FindingDocument;

/// The report as XML text, with one suite. A finding less severe than `fails` is a passed case, and
/// its text is the case's output.
pub fn junit(suite: &str, findings: &[Finding], fails: Option<Severity>, detail: Detail) -> String {
    let groups = grouped(findings);
    let is_failure =
        |group: &&FindingGroup<'_>| fails.is_some_and(|fails| group.first.severity <= fails);
    let failures = groups.iter().filter(is_failure).count();
    let cases: String = groups
        .iter()
        .map(|group| test_case(group, is_failure(&group), detail))
        .collect();
    let (cases, tests) = if groups.is_empty() {
        ("        <testcase name=\"nothing found\"/>\n".to_owned(), 1)
    } else {
        (cases, groups.len())
    };
    document(suite, &cases, tests, failures)
}

fn document(suite: &str, cases: &str, tests: usize, failures: usize) -> String {
    let xml = format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="cilium-ipam" tests="{tests}" skipped="0" failures="{failures}" errors="0">
    <testsuite name="{suite}" tests="{tests}" skipped="0" errors="0" failures="{failures}">
{cases}    </testsuite>
</testsuites>
"#
    );
    xml_without_commands(&xml).into_owned()
}

/// A test case that a person wrote.
pub(super) struct JunitCase<'f> {
    pub name: String,
    pub class: String,
    /// Why it failed; `None` if it passed.
    pub failure: Option<&'f Finding>,
}

/// The report on cases that people wrote, as XML text with one suite.
pub(super) fn junit_cases(suite: &str, cases: &[JunitCase<'_>], detail: Detail) -> String {
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let texts: String = cases
        .iter()
        .map(|case| written_case(case, detail))
        .collect();
    document(suite, &texts, cases.len(), failures)
}

fn written_case(case: &JunitCase<'_>, detail: Detail) -> String {
    let (name, class) = (escaped(&case.name), escaped(&case.class));
    let start = format!("        <testcase name=\"{name}\" classname=\"{class}\"");
    let Some(finding) = case.failure else {
        return format!("{start}/>\n");
    };
    format!(
        "{start}>\n            {}\n        </testcase>\n",
        failure(finding, detail)
    )
}

fn failure(finding: &Finding, detail: Detail) -> String {
    let message = escaped(&finding.message);
    let text = escaped(&sentences(finding, detail));
    format!("<failure message=\"{message}\">{text}</failure>")
}

fn test_case(group: &FindingGroup<'_>, is_failure: bool, detail: Detail) -> String {
    let finding = group.first;
    let subject = finding
        .subject
        .as_ref()
        .map_or_else(|| "cluster".to_owned(), ToString::to_string);
    let more = match group.further.len() {
        0 => String::new(),
        further => format!(" and {} more", grouped_digits(further)),
    };
    let name = escaped(&format!("{} {subject}{more}", finding.rule));
    let class = finding.severity.as_str();
    let result = match is_failure {
        true => failure(finding, detail),
        false => {
            let text = escaped(&sentences(finding, detail));
            format!("<system-out>{text}</system-out>")
        }
    };
    format!(
        "        <testcase name=\"{name}\" classname=\"{class}\">\n            {result}\n        </testcase>\n"
    )
}

/// Text for XML, for element content and for attributes alike. Drops characters that XML 1.0
/// forbids (section 2.2, `Char`); a character reference may not name them either.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for c in printable(text).chars().filter(|c| is_xml(*c)) {
        match c {
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '&' => xml.push_str("&amp;"),
            '\'' => xml.push_str("&apos;"),
            '"' => xml.push_str("&quot;"),
            c => xml.push(c),
        }
    }
    xml
}

/// `Char` of XML 1.0. A `char` is never a surrogate.
fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..)
}

/// One line for each finding, the worst first.
pub fn annotations(findings: &[Finding], detail: Detail) -> String {
    findings.iter().map(|one| annotation(one, detail)).collect()
}

fn annotation(finding: &Finding, detail: Detail) -> String {
    let command = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let place = finding.origin.as_ref().map(|origin| {
        let (line, column) = (origin.line, origin.column);
        format!("file={},line={line},col={column},", property(&origin.file))
    });
    let title = property(&finding.rule.to_string());
    let message = data(&sentences(finding, detail));
    let place = place.unwrap_or_default();
    format!("::{command} {place}title={title}::{message}\n")
}

/// As the runner decodes the text after `::`.
fn data(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in log_text(text).chars() {
        match c {
            '%' => escaped.push_str("%25"),
            '\r' => escaped.push_str("%0D"),
            '\n' => escaped.push_str("%0A"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// As the runner decodes a value before it.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_core::model::{ObjectRef, Rule};

    #[test]
    fn hostile_text_stays_text() {
        for (text, xml) in [
            (
                "a <b> & 'c' \"d\"",
                "a &lt;b&gt; &amp; &apos;c&apos; &quot;d&quot;",
            ),
            ("]]></failure><failure", "]]&gt;&lt;/failure&gt;&lt;failure"),
            ("&lt;&#0;", "&amp;lt;&amp;#0;"),
            ("<!--x--><?xml?>", "&lt;!--x--&gt;&lt;?xml?&gt;"),
            ("a\u{0}b\u{1b}[31mc", "a\\u{0}b\\u{1b}[31mc"),
            ("a\u{fffe}b\u{ffff}c", "abc"),
            ("ä\t\n\u{10ffff}", "ä\t\n\u{10ffff}"),
        ] {
            assert_eq!(escaped(text), xml, "{text:?}");
        }
    }

    #[test]
    fn every_character_is_one_that_xml_allows() {
        let all: String = ('\0'..=char::MAX).collect();
        let xml = escaped(&all);
        let is_forbidden = |c: char| {
            (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}')
        };
        assert!(!xml.contains(is_forbidden));
        assert!(!xml.contains(['<', '>', '\'', '"']));
    }

    #[test]
    fn a_report_has_a_case_for_each_cause() {
        let finding = |name: &str, severity, rule| {
            Finding::new(severity, Rule(rule), format!("`{name}` is <wrong>"))
                .about(ObjectRef::node(&name.parse().unwrap()))
                .help("##[fix] it")
        };
        let findings = [
            finding("a", Severity::Error, "no-pool"),
            finding("b", Severity::Error, "no-pool"),
            finding("c", Severity::Info, "no-nodes"),
        ];
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="cilium-ipam" tests="2" skipped="0" failures="1" errors="0">
    <testsuite name="doctor" tests="2" skipped="0" errors="0" failures="1">
        <testcase name="no-pool Node/a and 1 more" classname="error">
            <failure message="`a` is &lt;wrong&gt;">`a` is &lt;wrong&gt;
fix: #&#35;[fix] it</failure>
        </testcase>
        <testcase name="no-nodes Node/c" classname="info">
            <system-out>`c` is &lt;wrong&gt;
fix: #&#35;[fix] it</system-out>
        </testcase>
    </testsuite>
</testsuites>
"#;
        assert_eq!(
            junit("doctor", &findings, Some(Severity::Warning), Detail::Short),
            expected
        );
        let nothing = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="cilium-ipam" tests="1" skipped="0" failures="0" errors="0">
    <testsuite name="doctor" tests="1" skipped="0" errors="0" failures="0">
        <testcase name="nothing found"/>
    </testsuite>
</testsuites>
"#;
        assert_eq!(
            junit("doctor", &[], Some(Severity::Warning), Detail::Short),
            nothing
        );
    }
}

#[cfg(test)]
mod annotations_tests {
    use std::sync::Arc;

    use super::*;
    use ipam_core::model::{Origin, Rule};

    #[test]
    fn a_finding_stands_beside_its_line() {
        let file: Arc<str> = "a,b:c%.yaml".into();
        let origin = Origin {
            line: 7,
            column: 3,
            ..Origin::whole_file(&file)
        };
        let mut finding = Finding::new(
            Severity::Error,
            Rule("no-pool"),
            "50% of\n::error::it ##[group] \u{1b}[2J",
        );
        finding.origin = Some(origin);
        let text = annotations(&[finding], Detail::Short);
        assert_eq!(
            text,
            "::error file=a%2Cb%3Ac%25.yaml,line=7,col=3,title=no-pool::50%25 of%0A\\::error::it #\\#[group] \\u{1b}[2J\n"
        );
    }
}
