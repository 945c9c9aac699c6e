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

/// Replaces the help of errors whose line has a mark. Where a template is not YAML, the parser may fail
/// on the next line.
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
        let line = origin.line as usize;
        let before = usize::from(finding.rule.0 == "yaml-syntax");
        let mut near = line.saturating_sub(before)..=line;
        if near.any(|line| has_mark(lines.text(line))) {
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
