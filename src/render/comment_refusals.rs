//! Refusals by cause, the worst first, for the comment of a pull request.
//!
//! What an apply writes, in words and numbers, for the comment of a pull request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::comment_risks::Told;
use super::markdown_page::Page;
use super::model::{Form, Listing, Row, UpTo};
use super::phrase::Phrase;
use super::text::grouped_digits;
use ipam_core::model::Severity;
use ipam_plan::plan::{
    ChangeAction, ChangeDocument, FindingDocument, Intent, PlanDocument, PodPoolSummary,
    RefusalDocument, TargetKind,
};

/// Limit of the messages of one cause that are shown.
const SHOWN: usize = 3;

/// The rule about addresses that Services lose.
pub(super) const LOST: &str = "lost-addresses";

/// Refusals with one rule and one fix.
pub(super) struct RefusalGroup<'p> {
    pub(super) rule: &'p str,
    pub(super) help: &'p str,
    pub(super) refusals: Vec<&'p RefusalDocument>,
}

/// Rank of a rule: lost addresses come before protections, and those before limits.
fn rank(rule: &str) -> u8 {
    match rule {
        LOST | "overlap-order-undefined" | "last-address-pools" | "last-pod-pools" => 0,
        "destructive-with-unreadable-kind" => 1,
        rule if rule.starts_with("protected") => 2,
        "policy-limit" => 4,
        _ => 3,
    }
}

/// Whether a refusal reports the same error as the finding.
pub(super) fn is_refused(finding: &FindingDocument, refusals: &[RefusalDocument]) -> bool {
    let mut refusals = refusals.iter();
    finding.severity == Severity::Error && refusals.any(|refusal| refusal.rule == finding.rule)
}

/// The findings that no refusal tells.
pub(super) fn unrefused<'p>(
    findings: &'p [FindingDocument],
    refusals: &[RefusalDocument],
) -> Cow<'p, [FindingDocument]> {
    match findings.iter().any(|one| is_refused(one, refusals)) {
        false => Cow::Borrowed(findings),
        true => {
            let others = findings.iter().filter(|one| !is_refused(one, refusals));
            Cow::Owned(others.cloned().collect())
        }
    }
}

pub(super) fn by_risk(refusals: &[RefusalDocument]) -> Vec<RefusalGroup<'_>> {
    let mut groups: BTreeMap<(u8, &str, &str), Vec<&RefusalDocument>> = BTreeMap::new();
    for refusal in refusals {
        let key = (rank(&refusal.rule), &*refusal.rule, &*refusal.help);
        groups.entry(key).or_default().push(refusal);
    }
    let group = |((_, rule, help), refusals)| RefusalGroup {
        rule,
        help,
        refusals,
    };
    groups.into_iter().map(group).collect()
}

/// The first rules that refuse, each with the number of its refusals if it is not one.
pub(super) fn rules(refusals: &[RefusalDocument]) -> Phrase {
    let mut rules: Vec<(&str, usize)> = Vec::new();
    for RefusalGroup { rule, refusals, .. } in by_risk(refusals) {
        match rules.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, count)) => *count += refusals.len(),
            None => rules.push((rule, refusals.len())),
        }
    }
    let shown = rules.iter().take(SHOWN).enumerate();
    let phrase = shown.fold(Phrase::default(), |phrase, (place, (rule, count))| {
        let between = if place == 0 { "" } else { ", " };
        let times = match count {
            1 => String::new(),
            several => format!(" ({} times)", grouped_digits(several)),
        };
        phrase.words(between).value(rule).words(&times)
    });
    match rules.len().saturating_sub(SHOWN) {
        0 => phrase,
        more => phrase.words(&format!(" and {} more", grouped_digits(more))),
    }
}

/// One line for each cause of refusals, without the cause that the first lines report. The fix of a
/// reported loss is the fix of its refusal.
pub(super) fn refused(page: &mut Page<'_>, refusals: &[RefusalDocument], told: Told<'_>) {
    // Of many refusals, a few more say no more than the first one.
    let is_told = |group: &RefusalGroup<'_>| {
        if group.rule == LOST && told.loss.is_some() {
            return true;
        }
        let is_first = match (group.refusals.first(), told.refusal) {
            (Some(first), Some(told)) => std::ptr::eq(*first, told),
            _ => false,
        };
        is_first && (group.refusals.len() == 1 || group.refusals.len() > SHOWN)
    };
    let groups = by_risk(refusals).into_iter();
    let rows: Vec<Row> = groups.filter(|group| !is_told(group)).map(row).collect();
    let listing = Listing::new(Phrase::default(), "refusal", &[]);
    page.listing(listing.form(Form::Lines, UpTo(3)).rows(rows, |row| row));
}

fn row(group: RefusalGroup<'_>) -> Row {
    let all = group.refusals.len();
    let shown = group.refusals.iter().take(SHOWN);
    let messages = shown.map(|refusal| Phrase::prose(&refusal.message));
    let messages = messages.reduce(|before, next| before.words("; ").then(next));
    let (times, more) = match all.saturating_sub(SHOWN) {
        0 => (String::new(), String::new()),
        more => (
            format!(" {} times", grouped_digits(all)),
            format!("; … and {} more", grouped_digits(more)),
        ),
    };
    let line = Phrase::new(&format!("**refused**{times} by ")).value(group.rule);
    let line = line.words(": ").then(messages.unwrap_or_default());
    let line = line
        .words(&format!("{more}; **fix:** "))
        .sentence(group.help);
    Row::new([line]).of(all)
}

/// `1 node moves to another block, 3 nodes get a block`
pub(super) fn writes(plan: &PlanDocument) -> String {
    let nodes = writes_of_nodes(plan);
    let nodes_are_written = usize::from(!nodes.is_empty());
    let ports = plan.summary.ports;
    let ports = (ports > 0).then(|| in_words(ports, "port changes", "ports change"));
    let parts = nodes
        .into_iter()
        .chain(of_load_balancing(plan))
        .chain(of_pod_pools(&plan.summary.pod_pools))
        .chain(ports);
    let parts: Vec<String> = parts.collect();
    // A reader may not know the word.
    let meaning = "block (a range of Pod addresses)";
    let parts = parts.join(", ");
    parts.replacen("block", meaning, nodes_are_written) + none_moved(plan)
}

/// Says that no node moves, which every plan of files promises.
pub(super) fn none_moved(plan: &PlanDocument) -> &'static str {
    let moves = plan.changes.iter().any(ChangeDocument::moves_a_block);
    match (moves, plan.intent) {
        (false, Intent::Files) => "; 0 nodes move",
        (true, Intent::Files) | (_, Intent::Undo) => "",
    }
}

/// Written nodes in words, by what happens to them; each node counts once.
fn writes_of_nodes(plan: &PlanDocument) -> Vec<String> {
    let nodes = plan.changes.iter().filter(|change| change.is_of_node());
    let (moves, others): (Vec<_>, Vec<_>) = nodes.partition(|change| change.moves_a_block());
    let of = |action: ChangeAction, one: &str, several: &str| {
        let changes = others.iter().copied();
        let changes: Vec<_> = changes.filter(|change| change.action == action).collect();
        written(&changes, one, several)
    };
    let all = [
        written(
            &moves,
            "node moves to another block",
            "nodes move to another block",
        ),
        of(
            ChangeAction::Release,
            "node loses its block",
            "nodes lose their block",
        ),
        of(
            ChangeAction::Assign,
            "node gets a block",
            "nodes get a block",
        ),
        of(
            ChangeAction::Update,
            "node gets its block written to the field that Cilium reads",
            "nodes get their block written to the field that Cilium reads",
        ),
    ];
    all.into_iter().flatten().collect()
}

/// The changes as a count, and when they take effect; `None` without any.
fn written(changes: &[&ChangeDocument], one: &str, several: &str) -> Option<String> {
    let late = changes.iter().filter(|one| one.is_disruptive());
    let late = match late.count() {
        0 => String::new(),
        1 if changes.len() == 1 => " when its agent restarts".to_owned(),
        late if late == changes.len() => " when their agents restart".to_owned(),
        late => format!(
            " ({} of them when the agent restarts)",
            grouped_digits(late)
        ),
    };
    (!changes.is_empty()).then(|| in_words(changes.len(), one, several) + &late)
}

/// A pool that shrinks is never told as one that only changes its owner.
fn of_load_balancing(plan: &PlanDocument) -> Vec<String> {
    let pools = plan
        .changes
        .iter()
        .filter(|one| one.kind == TargetKind::AddressPool);
    let what = |change: &ChangeDocument| {
        let shrinks = change.loses_addresses();
        let differs = change.before != change.after;
        match (change.action, shrinks, differs) {
            (ChangeAction::Create, ..) => "is created",
            (ChangeAction::Delete, ..) => "is deleted",
            (ChangeAction::Adopt, true, _) => "shrinks and is adopted",
            (ChangeAction::Adopt, false, true) => "is changed and adopted",
            (ChangeAction::Adopt, false, false) => "is adopted",
            (_, true, _) => "shrinks",
            (_, false, _) => "is changed",
        }
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for change in pools {
        *counts.entry(what(change)).or_default() += 1;
    }
    let order = [
        "is deleted",
        "shrinks",
        "shrinks and is adopted",
        "is created",
        "is changed",
        "is changed and adopted",
        "is adopted",
    ];
    let of_pools = order.into_iter().filter_map(|what| {
        let number = counts.get(what)?;
        let all = match number {
            1 => what.to_owned(),
            _ => what.replace("is ", "are ").replace("shrinks", "shrink"),
        };
        Some(in_words(*number, "LoadBalancer pool", "LoadBalancer pools") + " " + &all)
    });
    let pins = becoming(
        [(plan.summary.load_balancing.pin, "pinned")],
        "Service",
        "Services",
    );
    of_pools.chain(pins).collect()
}

fn of_pod_pools(summary: &PodPoolSummary) -> Vec<String> {
    let PodPoolSummary {
        create,
        update,
        adopt,
        delete,
        unchanged: _,
    } = summary;
    let objects = [
        (*create, "created"),
        (*update, "changed"),
        (*adopt, "adopted"),
        (*delete, "deleted"),
    ];
    becoming(objects, "object of Pod pools", "objects of Pod pools")
}

/// `2 Services are pinned`, without zeros.
fn becoming<const N: usize>(counts: [(usize, &str); N], one: &str, several: &str) -> Vec<String> {
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let sentence = |(number, what)| {
        let is = if number == 1 { "is" } else { "are" };
        format!("{} {is} {what}", in_words(number, one, several))
    };
    counts.map(sentence).collect()
}

/// `1 node moves`, `2 nodes move`
pub(super) fn in_words(number: usize, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {several}", grouped_digits(number)),
    }
}
