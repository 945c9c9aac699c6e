//! Findings as JUnit XML: a failed test case for each cause, so that a CI system shows them without
//! knowing this program. Never decides which findings fail: the caller names the severity.

use super::examination::sentences;
use super::human::Detail;
use super::log_command::xml_without_commands;
use super::text::{grouped_digits, printable};
use ipam_core::model::{Finding, FindingGroup, Severity, grouped};

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
