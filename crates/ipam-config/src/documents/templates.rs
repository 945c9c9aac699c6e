//! Faults of files that another program has to fill in first: templates of Helm and Jinja, and
//! variables of Flux or `envsubst`. Knows only their marks.

use std::collections::BTreeMap;

use super::yaml::Lines;
use crate::documents::SourceFile;
use ipam_core::model::{Finding, Severity};

/// Starts and ends of a part to fill in.
const MARKS: [(&str, &str); 3] = [("{{", "}}"), ("{%", "%}"), ("${", "}")];

const RENDER: &str =
    "render this file first: it has a template or a variable that is not filled in";

/// Replaces the help of errors whose line has a mark. A template is no YAML, and the parser may fail
/// elsewhere.
pub(super) fn explain(findings: &mut [Finding], files: &[&SourceFile]) {
    let marked = files.iter().filter(|file| has_mark(&file.text));
    let marked: BTreeMap<&str, Lines> = marked
        .map(|file| (&*file.path, Lines::new(&file.text)))
        .collect();
    let errors = findings.iter_mut();
    for finding in errors.filter(|finding| finding.severity == Severity::Error) {
        let Some(origin) = &finding.origin else {
            continue;
        };
        let Some(lines) = marked.get(&*origin.file) else {
            continue;
        };
        let is_no_yaml = finding.rule.0 == "yaml-syntax";
        if is_no_yaml || has_mark(lines.text(origin.line as usize)) {
            finding.help = RENDER.to_owned();
        }
    }
}

fn has_mark(text: &str) -> bool {
    let is_marked = |(start, end): &(&str, &str)| {
        let rest = text.split_once(start);
        rest.is_some_and(|(_, rest)| rest.contains(end))
    };
    MARKS.iter().any(is_marked)
}
