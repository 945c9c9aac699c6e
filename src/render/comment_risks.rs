//! The risks of a plan for the comment of a pull request: the verdict, the worst one, and refusals
//! by cause.

use std::collections::BTreeMap;

use super::headlines;
use super::human::short_name;
use super::human_approval::{evidence, unapproved};
use super::human_lb::effect_parts;
use super::markdown_page::{Entry, Page, UpTo};
use super::markup::{Phrase, code, prose};
use super::text::grouped_digits;
use ipam_planner::plan::{ChangeDocument, PlanDocument, RefusalDocument, ServiceEffectDocument};

/// Messages of one cause that are shown.
const SHOWN: usize = 3;

/// One line: what a reader must know before anything else, and the counts.
pub(super) fn verdict(plan: &PlanDocument) -> String {
    let counts = risk_counts(plan);
    let judgement = match counts.first() {
        Some((_, judgement)) => judgement,
        None if plan.changes.is_empty() => "no changes",
        None => "nothing in use changes",
    };
    let writes = headlines::writes(&plan.summary);
    let counts = counts.into_iter().map(|(text, _)| text).chain([writes]);
    format!("{judgement}. {}", counts.collect::<Vec<_>>().join(", "))
}

/// Each kind of risk that the plan has, as a count and as a judgement; the worst first.
fn risk_counts(plan: &PlanDocument) -> Vec<(String, &'static str)> {
    let of_hazard = |hazard: &str| {
        let changes = plan.changes.iter();
        changes.filter(|change| change.hazard == hazard).count()
    };
    let lost = plan.services.iter().map(|service| service.loses.len());
    let approval = unapproved(&plan.changes).count();
    let summary = &plan.summary;
    let counts = [
        (plan.refusals.len(), ["refusal", "refusals"], "refused"),
        (
            lost.sum(),
            ["address lost by a Service", "addresses lost by Services"],
            "destructive",
        ),
        (
            of_hazard("destructive"),
            ["destructive change", "destructive changes"],
            "destructive",
        ),
        (summary.errors, ["error", "errors"], "faulty"),
        (
            approval,
            ["block to approve", "blocks to approve"],
            "a person must approve blocks",
        ),
        (
            plan.blocked.len(),
            ["blocked change", "blocked changes"],
            "blocked in part",
        ),
        (
            plan.misplaced.len(),
            ["misplaced block", "misplaced blocks"],
            "blocks are misplaced",
        ),
        (
            of_hazard("disruptive"),
            ["disruptive change", "disruptive changes"],
            "disruptive",
        ),
    ];
    let in_words = |number: usize, [one, several]: [&str; 2]| match number {
        1 => format!("1 {one}"),
        _ => format!("{} {several}", grouped_digits(number)),
    };
    counts
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, nouns, judgement)| (in_words(number, nouns), judgement))
        .collect()
}

/// A risk: what, why, and the way out.
pub(super) struct Risk {
    what: Phrase,
    why: String,
    way_out: String,
}

impl std::fmt::Display for Risk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what.markdown(), prose(&self.why))?;
        match self.way_out.is_empty() {
            true => Ok(()),
            false => write!(f, "; **way out:** {}", prose(&self.way_out)),
        }
    }
}

/// The worst risk, and the riskiest change if that is another one: one line for each.
pub(super) fn worst(plan: &PlanDocument) -> Vec<String> {
    let first = |risk: Risk| format!("**Look at first:** {risk}");
    let felt = losing_address(plan).or_else(|| of_hazard(plan, "destructive").map(destructive));
    if let Some(felt) = felt {
        return vec![first(felt)];
    }
    let wrong = by_risk(&plan.refusals).into_iter().next().map(refusal);
    let wrong = wrong
        .or_else(|| error(plan))
        .or_else(|| approval(plan))
        .or_else(|| blocked(plan))
        .or_else(|| misplaced(plan));
    let change = of_hazard(plan, "disruptive").map(disruptive);
    match (wrong, change) {
        (Some(wrong), Some(change)) => {
            vec![first(wrong), format!("**Riskiest change:** {change}")]
        }
        (wrong, change) => wrong.or(change).map(first).into_iter().collect(),
    }
}

fn of_hazard<'p>(plan: &'p PlanDocument, hazard: &str) -> Option<&'p ChangeDocument> {
    plan.changes.iter().find(|one| one.hazard == hazard)
}

fn losing_address(plan: &PlanDocument) -> Option<Risk> {
    let losing = |certainty: &str| {
        let loses = |service: &&ServiceEffectDocument| {
            service.loses.iter().any(|lost| lost.certainty == certainty)
        };
        plan.services.iter().find(loses).map(losing_service)
    };
    losing("certain").or_else(|| losing("possible"))
}

fn losing_service(service: &ServiceEffectDocument) -> Risk {
    let name = format!("{}/{}", service.namespace, service.name);
    Risk {
        what: Phrase::new("Service ").value(&name),
        why: effect_parts(service).into_iter().next().unwrap_or_default(),
        way_out: "keep the address in a pool that selects the Service, until clients use another"
            .to_owned(),
    }
}

fn changed(change: &ChangeDocument) -> Phrase {
    let name = short_name(&change.kind, &change.name);
    let values = |values: &[String]| match values.is_empty() {
        true => "nothing".to_owned(),
        false => values.join(" "),
    };
    Phrase::new("")
        .value(&name)
        .words(" from ")
        .value(&values(&change.before))
        .words(" to ")
        .value(&values(&change.after))
}

fn destructive(change: &ChangeDocument) -> Risk {
    Risk {
        what: changed(change),
        why: change.reason.clone(),
        way_out: "leave it out with `--exclude`, or drain what uses it first".to_owned(),
    }
}

fn disruptive(change: &ChangeDocument) -> Risk {
    Risk {
        what: changed(change),
        why: change.reason.clone(),
        way_out: "restart the agents a few at a time, or apply fewer with `--target`".to_owned(),
    }
}

fn refusal(group: RefusalGroup<'_>) -> Risk {
    let further = match group.refusals.len() {
        0 | 1 => String::new(),
        several => format!(" ({} like this)", grouped_digits(several)),
    };
    let first = group.refusals.first();
    Risk {
        what: Phrase::new("refused by ").value(group.rule),
        why: first.map_or_else(String::new, |one| format!("{}{further}", one.message)),
        way_out: group.help.to_owned(),
    }
}

fn error(plan: &PlanDocument) -> Option<Risk> {
    let mut errors = plan.findings.iter();
    let error = errors.find(|finding| finding.severity == "error")?;
    Some(Risk {
        what: Phrase::new("error ").value(&error.rule),
        why: error.message.clone(),
        way_out: String::new(),
    })
}

fn approval(plan: &PlanDocument) -> Option<Risk> {
    let (change, block) = unapproved(&plan.changes).next()?;
    Some(Risk {
        what: Phrase::new("block ")
            .value(&block.block)
            .words(" of ")
            .value(&change.name),
        why: evidence(block),
        way_out: "find out who wrote it, then apply interactively or with a pin".to_owned(),
    })
}

fn blocked(plan: &PlanDocument) -> Option<Risk> {
    let first = plan.blocked.first()?;
    Some(Risk {
        what: Phrase::new("blocked: ").value(&short_name(&first.kind, &first.name)),
        why: first.reason.clone(),
        way_out: first.unblock.clone(),
    })
}

fn misplaced(plan: &PlanDocument) -> Option<Risk> {
    let first = plan.misplaced.first()?;
    Some(Risk {
        what: Phrase::new("misplaced: ")
            .value(&first.name)
            .words(" with ")
            .value(&first.block),
        why: first.reason.clone(),
        way_out: first.help.clone(),
    })
}

/// Refusals with one rule and one way out.
struct RefusalGroup<'p> {
    rule: &'p str,
    help: &'p str,
    refusals: Vec<&'p RefusalDocument>,
}

/// Rank of a rule: lost addresses come before protections, and those before limits.
fn rank(rule: &str) -> u8 {
    match rule {
        "lost-addresses" | "left-to-chance" | "last-address-pools" | "last-pod-pools" => 0,
        "destructive-while-blind" => 1,
        rule if rule.starts_with("protected") => 2,
        "limit" => 4,
        _ => 3,
    }
}

fn by_risk(refusals: &[RefusalDocument]) -> Vec<RefusalGroup<'_>> {
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

/// One line for each cause of refusals.
pub(super) fn refused(page: &mut Page<'_>, refusals: &[RefusalDocument]) {
    let line = |group: RefusalGroup<'_>| {
        let shown = group.refusals.iter().take(SHOWN);
        let shown: Vec<String> = shown
            .map(|refusal| prose(&refusal.message).to_string())
            .collect();
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
    };
    let lines = by_risk(refusals).into_iter().map(line).collect();
    page.list(lines, UpTo(3), "refusal");
}
