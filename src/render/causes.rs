//! Blocked, misplaced and drifted objects by cause: one cause is one entry, however many objects it
//! concerns.
//!
//! Findings, cut by rule: one rule never hides the others, however many objects it concerns.

use std::collections::BTreeMap;

use super::human::{Detail, limit};
use super::text::{Paint, count, grouped_digits, printable};
use ipam_core::model::{Finding, ObjectRef, Origin, Rule, Severity};
use ipam_core::text::by_name;
use ipam_plan::plan::{BlockedDocument, DriftDocument, MisplacedDocument, TargetKind};

/// Entries by what they have in common, in the order of the first one.
pub(crate) fn grouped<K: Ord + Clone, V>(
    entries: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for (key, entry) in entries {
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(entry);
    }
    groups
}

/// Misplaced blocks with one cause.
pub(super) struct MisplacedCause<'p> {
    pub(super) code: &'p str,
    pub(super) pool: Option<&'p str>,
    pub(super) reason: &'p str,
    pub(super) help: &'p str,
    pub(super) blocks: Vec<&'p MisplacedDocument>,
}

/// Blocked objects with one remedy.
pub(super) struct BlockedCause<'p> {
    pub(super) code: &'p str,
    pub(super) unblock: &'p str,
    /// The objects by reason.
    pub(super) reasons: Vec<(&'p str, Vec<&'p BlockedDocument>)>,
}

/// Drift of one field, with one author.
pub(super) struct DriftCause<'p> {
    pub(super) field: &'p str,
    /// Field manager of the last write, if the server kept it.
    pub(super) manager: Option<&'p str>,
    pub(super) entries: Vec<&'p DriftDocument>,
}

/// The first causes, and the number of objects of the others, by code.
pub(super) struct CutCauses<'p, C> {
    pub(super) shown: Vec<C>,
    hidden: usize,
    by_code: BTreeMap<&'p str, usize>,
}

impl<'p, C> CutCauses<'p, C> {
    fn new(
        mut causes: Vec<C>,
        detail: Detail,
        code_and_size: impl Fn(&C) -> (&'p str, usize),
    ) -> CutCauses<'p, C> {
        let hidden = causes.split_off(causes.len().min(limit(detail)));
        let mut by_code = BTreeMap::new();
        for (code, size) in hidden.iter().map(code_and_size) {
            *by_code.entry(code).or_default() += size;
        }
        CutCauses {
            shown: causes,
            hidden: hidden.len(),
            by_code,
        }
    }

    /// Number of objects of the causes that are not shown.
    pub(super) fn hidden_objects(&self) -> usize {
        self.by_code.values().sum()
    }

    /// `490 further causes: 12 in-no-pool, 2,934 not-selected`.
    pub(super) fn further(&self) -> Option<String> {
        let counts = self
            .by_code
            .iter()
            .map(|(code, objects)| format!("{} {code}", grouped_digits(objects)));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let causes = if self.hidden == 1 { "cause" } else { "causes" };
        (self.hidden > 0)
            .then(|| format!("{} further {causes}: {counts}", grouped_digits(self.hidden)))
    }
}

pub(super) fn misplaced(
    misplaced: &[MisplacedDocument],
    detail: Detail,
) -> CutCauses<'_, MisplacedCause<'_>> {
    let mut causes: BTreeMap<_, Vec<&MisplacedDocument>> = BTreeMap::new();
    for one in by_name(misplaced, |one| &one.name) {
        let cause = (&*one.code, one.pool.as_deref(), &*one.reason, &*one.help);
        causes.entry(cause).or_default().push(one);
    }
    let cause = |((code, pool, reason, help), blocks)| MisplacedCause {
        code,
        pool,
        reason,
        help,
        blocks,
    };
    CutCauses::new(causes.into_iter().map(cause).collect(), detail, |cause| {
        (cause.code, cause.blocks.len())
    })
}

pub(super) fn blocked(
    blocked: &[BlockedDocument],
    detail: Detail,
) -> CutCauses<'_, BlockedCause<'_>> {
    let mut causes: BTreeMap<(&str, &str), BTreeMap<&str, Vec<&BlockedDocument>>> = BTreeMap::new();
    for entry in by_name(blocked, |entry| &entry.name) {
        let reasons = causes.entry((&entry.code, &entry.unblock)).or_default();
        reasons.entry(&entry.reason).or_default().push(entry);
    }
    let cause = |((code, unblock), reasons): ((_, _), BTreeMap<_, _>)| BlockedCause {
        code,
        unblock,
        reasons: reasons.into_iter().collect(),
    };
    let size =
        |cause: &BlockedCause<'_>| cause.reasons.iter().map(|(_, entries)| entries.len()).sum();
    CutCauses::new(causes.into_iter().map(cause).collect(), detail, |cause| {
        (cause.code, size(cause))
    })
}

/// Drift by kind of the object, field and author.
pub(super) fn drift<'p>(
    drift: impl IntoIterator<Item = &'p DriftDocument>,
    detail: Detail,
) -> CutCauses<'p, DriftCause<'p>> {
    let mut causes: BTreeMap<(TargetKind, &str, Option<&str>), Vec<&DriftDocument>> =
        BTreeMap::new();
    for entry in by_name(drift, |entry| &entry.name) {
        let cause = (entry.kind, &*entry.field, entry.manager.as_deref());
        causes.entry(cause).or_default().push(entry);
    }
    let cause = |((_, field, manager), entries)| DriftCause {
        field,
        manager,
        entries,
    };
    CutCauses::new(causes.into_iter().map(cause).collect(), detail, |cause| {
        (cause.field, cause.entries.len())
    })
}

/// Limit of the findings of one rule that are shown whole.
const SHOWN: usize = 5;

/// Limit of the further findings of one rule that are named.
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
