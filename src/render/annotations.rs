//! Findings as annotations of GitHub: workflow commands, which put each finding beside its line.
//! Their texts cannot be further commands.

use super::examination::sentences;
use super::human::Detail;
use super::log_command::log_text;
use ipam_core::model::{Finding, Severity};

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

#[cfg(test)]
mod tests {
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
