//! Findings, cut by rule: one rule never hides the others, however many objects it concerns.

use std::collections::BTreeMap;

use super::human::Detail;
use super::text::{Paint, count, grouped_digits, printable};
use ipam_core::model::{Finding, ObjectRef, Origin, Rule, Severity};

/// Findings of one rule that are shown whole.
const SHOWN: usize = 5;

/// Further findings of one rule that are named.
const NAMED: usize = 10;

/// Findings: some are shown whole, in their order; the others are named or counted by rule.
pub(super) struct CutFindings<'f, F, R> {
    pub(super) shown: Vec<&'f F>,
    pub(super) hidden: BTreeMap<R, Vec<&'f F>>,
}

pub(super) fn cut_by<'f, F, R: Ord>(
    findings: &'f [F],
    detail: Detail,
    rule: impl Fn(&'f F) -> R,
) -> CutFindings<'f, F, R> {
    let limit = match detail {
        Detail::Short => SHOWN,
        Detail::Full => usize::MAX,
    };
    let mut seen: BTreeMap<R, usize> = BTreeMap::new();
    let mut cut = CutFindings {
        shown: Vec::new(),
        hidden: BTreeMap::new(),
    };
    for finding in findings {
        let of_rule = seen.entry(rule(finding)).or_default();
        *of_rule += 1;
        match *of_rule <= limit {
            true => cut.shown.push(finding),
            false => cut.hidden.entry(rule(finding)).or_default().push(finding),
        }
    }
    cut
}

pub(super) fn cut(
    findings: &[Finding],
    detail: Detail,
) -> CutFindings<'_, Finding, (Severity, Rule)> {
    cut_by(findings, detail, |finding| (finding.severity, finding.rule))
}

impl CutFindings<'_, Finding, (Severity, Rule)> {
    /// A line for each rule with findings that are not shown.
    pub(super) fn further(&self) -> impl Iterator<Item = String> {
        self.hidden.iter().map(|((severity, rule), findings)| {
            let names: Vec<String> = findings
                .iter()
                .filter_map(|finding| name(finding))
                .take(NAMED)
                .collect();
            let names = match (names.len(), findings.len() - names.len()) {
                (0, _) => String::new(),
                (_, 0) => format!(": {}", names.join(", ")),
                (_, more) => format!(": {} and {} more", names.join(", "), grouped_digits(more)),
            };
            let what = count(findings.len(), &format!("further {severity}"));
            Paint::Dim.on(&format!(
                "… and {what} of {rule}{}; --show-all shows all\n",
                printable(&names)
            ))
        })
    }
}

/// The place in the files, or else the object.
fn name(finding: &Finding) -> Option<String> {
    let place = finding.origin.as_ref().map(Origin::to_string);
    place.or_else(|| finding.subject.as_ref().map(ObjectRef::to_string))
}
