//! The plan for a person at a terminal: the summary, the changes by pool, then blocked, misplaced
//! and drifted objects, and the summary again.

use super::model::{Report, Section};
use super::phrase::Phrase;
use super::plan_causes::{blocked, drift, drifted_objects, misplaced};
use super::plan_sections::{
    address_pools, aligned_columns, by_pool, further_pools, pod_pools, pool, ports, refused,
    service_pins, unapproved,
};
use super::plan_services::effects;
use super::text::{Paint, count, grouped_digits, printable};
use super::{headlines, terminal};
use ipam_plan::plan::{ChangeDocument, PlanDocument, SourceDocument};

/// Length of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first few of each group, and the number of the others.
    Short,
    /// The whole output, without limits.
    Full,
}

/// Digits of a digest that people compare; `--expect-digest` requires as many.
pub const SHOWN_DIGITS: usize = 32;

/// Groups, and lines of one group, in short form; more are counted.
const SHOWN: usize = 10;

/// The plan as text, from its verdict to its verdict, without its findings: they are printed as diagnostics.
pub fn human(plan: &PlanDocument, detail: Detail) -> String {
    // Every field is named, so that a new one cannot be forgotten here.
    let PlanDocument {
        format_version: _,
        intent: _,
        digest,
        source,
        selection,
        summary,
        waivers,
        refusals,
        weakened,
        changes: all,
        services,
        blocked: waiting,
        misplaced: outside,
        drift: drifted,
        findings: _,
    } = plan;
    let changes: Vec<&ChangeDocument> = all.iter().collect();
    let mut sections = vec![
        refused(refusals).into(),
        unapproved(summary, all, detail).into(),
        address_pools(&changes).into(),
        service_pins(&changes).into(),
        effects(services, detail).into(),
        pod_pools(&changes).into(),
    ];
    let mut pools = by_pool(all);
    let further = further_pools(&pools, detail);
    pools.truncate(limit(detail));
    let columns = aligned_columns(&pools, detail);
    sections.extend(pools.into_iter().map(|one| pool(one, columns).into()));
    sections.extend(further.map(|(further, _)| {
        Section::Aside(Phrase::new(&format!(
            "  … and {further}; --show-all shows all"
        )))
    }));
    sections.extend([
        ports(&changes).into(),
        blocked(waiting, detail).into(),
        misplaced(outside, detail).into(),
        drift(drifted, detail, ("", drifted_objects))
            .counted(count(drifted.len(), "field"))
            .into(),
    ]);
    sections.extend(irreversible(plan).map(Section::Note));
    let waived = (!waivers.is_empty()).then(|| Phrase::new("waived: ").value(&waivers.join(", ")));
    sections.extend(waived.map(Section::Note));
    sections.extend(made_from(all, digest, source).map(Section::Aside));
    let below = [headlines::by(selection.as_ref())].into_iter();
    let below = below.chain(headlines::of_objects(summary, plan.losing()));
    let report = Report {
        verdict: plan.verdict().line(),
        below: below.collect(),
        sections,
    };
    weakened_policy(weakened) + &terminal::report(report, detail)
}

fn weakened_policy(weakened: &[String]) -> String {
    if weakened.is_empty() {
        return String::new();
    }
    let lines = weakened
        .iter()
        .map(|what| format!("  {}\n", printable(what)));
    let title = Paint::Bold.on("The Policy is weakened:");
    format!("{title}\n{}\n", lines.collect::<String>())
}

fn irreversible(plan: &PlanDocument) -> Option<Phrase> {
    let changes = plan.summary.irreversible;
    let why = super::Irreversible::of(plan).as_str();
    let line = || format!("{} cannot be undone: {why}.", count(changes, "change"));
    (changes > 0).then(|| Phrase::new(&line()))
}

/// The digest of the changes and the commit of the files.
fn made_from(changes: &[ChangeDocument], digest: &str, source: &SourceDocument) -> Option<Phrase> {
    let digest = format!("digest {}", digest.get(..SHOWN_DIGITS).unwrap_or_default());
    let digest = (!changes.is_empty()).then(|| Phrase::new(&digest));
    let commit = source.revision.as_deref();
    let commit = commit.map(|id| Phrase::new("files of commit ").value(id));
    let lines = digest.into_iter().chain(commit);
    lines.reduce(|digest, commit| digest.words("\n").then(commit))
}

pub(crate) fn limit(detail: Detail) -> usize {
    match detail {
        Detail::Short => SHOWN,
        Detail::Full => usize::MAX,
    }
}

/// Names in one line: the first few, and the number of the others.
pub(crate) fn named(names: &[String], detail: Detail) -> String {
    let shown = &names[..names.len().min(limit(detail))];
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} … and {} more", shown.join(", "), grouped_digits(more)),
    }
}
