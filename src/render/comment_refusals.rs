//! Refusals by cause, the worst first, for the comment of a pull request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::comment_risks::Told;
use super::markdown_page::{Entry, Page, UpTo};
use super::markup::{Phrase, code, prose};
use super::text::grouped_digits;
use ipam_planner::plan::{FindingDocument, RefusalDocument};

/// Messages of one cause that are shown.
const SHOWN: usize = 3;

/// The rule about addresses that Services lose.
pub(super) const LOST: &str = "lost-addresses";

/// Refusals with one rule and one way out.
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

/// Whether a refusal tells the same error.
pub(super) fn is_refused(finding: &FindingDocument, refusals: &[RefusalDocument]) -> bool {
    let mut refusals = refusals.iter();
    finding.severity == "error" && refusals.any(|refusal| refusal.rule == finding.rule)
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

/// One line for each cause of refusals, without the one that the first lines tell. A loss that they
/// tell has the way out of its refusal, too.
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
    let lines = groups.filter(|group| !is_told(group)).map(line).collect();
    page.list(lines, UpTo(3), "refusal");
}

fn line(group: RefusalGroup<'_>) -> Entry<String> {
    let shown = group.refusals.iter().take(SHOWN);
    let message = |refusal: &&RefusalDocument| prose(&refusal.message).to_string();
    let shown: Vec<String> = shown.map(message).collect();
    let more = group.refusals.len() - shown.len();
    let (times, more) = match more {
        0 => (String::new(), String::new()),
        more => (
            format!(" {} times", grouped_digits(group.refusals.len())),
            format!("; … and {} more", grouped_digits(more)),
        ),
    };
    Entry {
        text: format!(
            "\n- **refused**{times} by {}: {}{more}; **way out:** {}",
            code(group.rule),
            shown.join("; "),
            prose(group.help)
        ),
        count: group.refusals.len(),
    }
}
