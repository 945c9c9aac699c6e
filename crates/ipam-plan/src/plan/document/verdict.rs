//! The verdict on a plan: one sentence, refusals and losses first. Every output begins and ends
//! with it, and exit codes follow its outcome. Must never know an output format.

use std::collections::BTreeSet;

use super::{ChangeDocument, FindingDocument, Intent, Losing, PlanDocument, Summary};
use crate::plan::{LeftOut, TargetKind};
use ipam_core::model::{count, grouped_digits};

/// The most severe result of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOutcome {
    /// `apply` refuses the plan.
    Refused,
    /// The plan has changes to write.
    Changes,
    /// The plan has nothing to write, but the cluster differs from the files, or a part of it
    /// cannot be read.
    Differs,
    /// The cluster, or its selected part, matches the files.
    Matches,
}

/// The verdict on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: PlanOutcome,
    title: &'static str,
    sentence: String,
}

impl Verdict {
    /// The sentence, for use after a title with a colon.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// The verdict as one line of text: the title, if any, and the sentence.
    pub fn line(&self) -> String {
        let Verdict {
            outcome: _,
            title,
            sentence,
        } = self;
        match (title.is_empty(), sentence.chars().next()) {
            (true, Some(first)) => {
                first.to_uppercase().to_string() + sentence.strip_prefix(first).unwrap_or_default()
            }
            _ => format!("{title}{sentence}"),
        }
    }
}

impl PlanDocument {
    /// Whether an apply makes the losses of this plan.
    pub fn losing(&self) -> Losing {
        match self.refusals.is_empty() {
            true => Losing::Planned,
            false => Losing::Refused,
        }
    }

    /// The verdict on this plan.
    pub fn verdict(&self) -> Verdict {
        let (title, sentence) = match self.intent {
            Intent::Undo => ("Undo: ", undo(self)),
            Intent::Files if self.summary.changes_nothing() => ("", without_changes(self)),
            Intent::Files => ("Plan: ", with_changes(self)),
        };
        Verdict {
            outcome: outcome(self),
            title,
            sentence: sentence + &left_out(&self.summary),
        }
    }
}

fn outcome(plan: &PlanDocument) -> PlanOutcome {
    let Summary {
        blocked,
        misplaced,
        drifted,
        errors,
        ..
    } = &plan.summary;
    let differs = blocked + misplaced + drifted + errors + plan.drift.len() + unreadable(plan) > 0;
    match (plan.refusals.is_empty(), plan.changes.is_empty()) {
        (false, _) => PlanOutcome::Refused,
        (true, false) => PlanOutcome::Changes,
        (true, true) if differs => PlanOutcome::Differs,
        (true, true) => PlanOutcome::Matches,
    }
}

/// Kinds that cannot be read.
fn unreadable(plan: &PlanDocument) -> usize {
    let is_hidden = |finding: &&FindingDocument| finding.rule == "unreadable-kind";
    let hidden = plan.findings.iter().filter(is_hidden);
    hidden.map(|finding| finding.count).sum()
}

/// `refused for 1 reason; 2 addresses would be lost; 3 to assign, 0 moved; 1 blocked, 5 unchanged.`
fn with_changes(plan: &PlanDocument) -> String {
    let summary = &plan.summary;
    let moved = format!("{} moved", grouped_digits(summary.moved));
    let writes = writes(summary).into_iter().chain([moved]);
    let writes: Vec<String> = writes.collect();
    let unchanged = (summary.unchanged, "unchanged");
    let others = waiting(plan).into_iter().chain(counted([unchanged]));
    let others: Vec<String> = others.collect();
    let parts = gravest(plan).into_iter().chain([writes.join(", ")]);
    let parts = parts.chain((!others.is_empty()).then(|| others.join(", ")));
    parts.collect::<Vec<_>>().join("; ") + "." + &errors_found(summary)
}

/// A plan with problems begins with them: `no changes` would read as success.
fn without_changes(plan: &PlanDocument) -> String {
    let summary = &plan.summary;
    let object = match (&summary.left_out, summary.nodes) {
        (None, _) => String::new(),
        (Some(_), 0) => " to the selected objects".to_owned(),
        (Some(_), nodes) => format!(" to {}", count(nodes, "selected node")),
    };
    let drifted = (summary.drifted > 0).then(|| count(summary.drifted, "drifted node"));
    let errors = (summary.errors > 0).then(|| count(summary.errors, "error"));
    let problems = gravest(plan).into_iter().chain(waiting(plan));
    let problems: Vec<String> = problems.chain(drifted).chain(errors).collect();
    let title = match (problems.join(", "), summary.blocked) {
        (none, _) if none.is_empty() => format!("no changes{object}"),
        (problems, 0) => format!("{problems}; no changes{object}"),
        (problems, _) => format!("{problems}; no changes{object} can be made now"),
    };
    if summary.left_out.is_some() {
        return format!("{title}.");
    }
    let nodes = count(summary.nodes, "node");
    let moved = grouped_digits(summary.moved);
    let verb = if summary.nodes == 1 {
        "matches"
    } else {
        "match"
    };
    // Says it of all nodes only if no count contradicts it.
    match summary.matches_the_files() {
        true => format!("{title}. {nodes} {verb} the files, {moved} moved."),
        false => {
            let good = grouped_digits(summary.unchanged);
            format!("{title}. {good} of {nodes} {verb} the files, {moved} moved.")
        }
    }
}

/// An undo plan does not count unchanged objects.
fn undo(plan: &PlanDocument) -> String {
    let summary = &plan.summary;
    if summary.changes_nothing() && summary.blocked == 0 {
        return "nothing to take back.".to_owned();
    }
    let writes = match summary.changes_nothing() {
        true => "nothing to write".to_owned(),
        false => writes(summary).join(", "),
    };
    let parts = gravest(plan).into_iter().chain([writes]);
    let parts = parts.chain(counted([(summary.blocked, "cannot be taken back")]));
    parts.collect::<Vec<_>>().join("; ") + "." + &errors_found(summary)
}

/// What a reader must see before anything else.
fn gravest(plan: &PlanDocument) -> Vec<String> {
    let refused = match plan.refusals.len() {
        0 => None,
        refusals => Some(format!("refused for {}", count(refusals, "reason"))),
    };
    let weakened = (!plan.weakened.is_empty()).then(|| "the Policy is weakened".to_owned());
    let losses = plan.summary.load_balancing.losses_in_words(plan.losing());
    let destructive = match plan.intent {
        Intent::Files => destructive(plan),
        Intent::Undo => 0,
    };
    let destructive = (destructive > 0).then(|| count(destructive, "destructive change"));
    [refused, weakened, losses, destructive]
        .into_iter()
        .flatten()
        .collect()
}

/// `3 to assign, 1 LoadBalancer change, 1 port to change`
fn writes(summary: &Summary) -> Vec<String> {
    let Summary {
        assign,
        update,
        release,
        delete,
        load_balancing,
        pod_pools,
        ports,
        ..
    } = summary;
    let changes = |number: usize, what: &str| (number > 0).then(|| count(number, what));
    let nodes = counted([
        (*assign, "to assign"),
        (*update, "to update"),
        (*release, "to release"),
        (*delete, "to delete"),
    ]);
    let ports = changes(*ports, "port").map(|ports| format!("{ports} to change"));
    nodes
        .chain(changes(load_balancing.changes(), "LoadBalancer change"))
        .chain(changes(pod_pools.changes(), "Pod pool change"))
        .chain(ports)
        .collect()
}

/// What stays as it is, although the files want it otherwise, and what a person must decide.
fn waiting(plan: &PlanDocument) -> Vec<String> {
    let Summary {
        blocked,
        misplaced,
        fell_over,
        needs_approval,
        ..
    } = &plan.summary;
    let named = [
        (*needs_approval, "block", " to approve"),
        (*fell_over, "node", " outside the best pool"),
        (*misplaced, "node", " misplaced"),
        (unreadable(plan), "kind", " unreadable"),
    ];
    let named = named.into_iter().filter(|(number, ..)| *number > 0);
    let named = named.map(|(number, what, how)| count(number, what) + how);
    counted([(*blocked, "blocked")]).chain(named).collect()
}

fn errors_found(summary: &Summary) -> String {
    match summary.errors {
        0 => String::new(),
        errors => format!(" {} found.", count(errors, "error")),
    }
}

/// ` 12 changes are not in this plan.`; empty for a whole plan.
fn left_out(summary: &Summary) -> String {
    let Some(LeftOut {
        changes,
        blocked,
        misplaced,
        drifted,
        findings,
    }) = &summary.left_out
    else {
        return String::new();
    };
    let counts = [
        (*changes, "change"),
        (*blocked, "blocked change"),
        (*misplaced, "misplaced node"),
        (*drifted, "drifted node"),
        (*findings, "finding"),
    ];
    let all: usize = counts.iter().map(|(number, _)| number).sum();
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let texts: Vec<String> = counts.map(|(number, what)| count(number, what)).collect();
    match (all, texts.join(", ")) {
        (0, _) => " Nothing else is pending.".to_owned(),
        (1, text) => format!(" {text} is not in this plan."),
        (_, text) => format!(" {text} are not in this plan."),
    }
}

/// The destructive changes that no lost address tells.
fn destructive(plan: &PlanDocument) -> usize {
    let lost = || plan.services.iter().flat_map(|service| &service.loses);
    let causes: BTreeSet<&str> = lost().filter_map(|lost| lost.cause.as_deref()).collect();
    // Any pool may take an address of unknown cause: a new one that overlaps, or the first one.
    let is_unknown = lost().any(|lost| lost.cause.is_none());
    let is_told = |change: &&ChangeDocument| {
        (is_unknown && change.kind == TargetKind::AddressPool) || causes.contains(&*change.target())
    };
    let changes = plan.changes.iter();
    let destructive = changes.filter(|change| change.is_destructive());
    destructive.filter(|change| !is_told(change)).count()
}

/// The counts with their words, without zeros.
fn counted<const N: usize>(counts: [(usize, &str); N]) -> impl Iterator<Item = String> {
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    counts.map(|(number, what)| format!("{} {what}", grouped_digits(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LbSummary, Plan, RefusalDocument};

    fn plan(summary: Summary) -> PlanDocument {
        PlanDocument {
            summary,
            ..PlanDocument::new(&Plan::default(), "pools")
        }
    }

    fn line(summary: &Summary) -> String {
        plan(summary.clone()).verdict().line()
    }

    #[test]
    fn only_a_plan_without_problems_begins_with_no_changes() {
        let good = Summary {
            nodes: 3,
            unchanged: 3,
            ..Summary::default()
        };
        assert_eq!(line(&good), "No changes. 3 nodes match the files, 0 moved.");
        let blocked = Summary {
            blocked: 6,
            errors: 1,
            unchanged: 0,
            ..good.clone()
        };
        assert_eq!(
            line(&blocked),
            "6 blocked, 1 error; no changes can be made now. 0 of 3 nodes match the files, 0 moved."
        );
        assert_eq!(plan(blocked).verdict().outcome, PlanOutcome::Differs);
        let drifted = Summary {
            drifted: 1,
            unchanged: 2,
            ..good
        };
        assert_eq!(
            line(&drifted),
            "1 drifted node; no changes. 2 of 3 nodes match the files, 0 moved."
        );
    }

    #[test]
    fn refusals_and_losses_come_first() {
        let summary = Summary {
            assign: 3,
            fell_over: 2,
            unchanged: 5,
            load_balancing: LbSummary {
                delete: 1,
                lost_addresses: 3,
                uncertain_losses: 1,
                ..LbSummary::default()
            },
            ..Summary::default()
        };
        let rest = "3 to assign, 1 LoadBalancer change, 0 moved; 2 nodes outside the best pool, 5 unchanged.";
        let mut plan = plan(summary);
        let lost = "2 addresses are lost, 1 may be lost";
        assert_eq!(plan.verdict().line(), format!("Plan: {lost}; {rest}"));
        plan.refusals = vec![RefusalDocument {
            rule: "lost-addresses".to_owned(),
            message: String::new(),
            help: String::new(),
            waiver: None,
        }];
        let lost = "refused for 1 reason; 2 addresses would be lost, 1 might be lost";
        assert_eq!(plan.verdict().line(), format!("Plan: {lost}; {rest}"));
        assert_eq!(plan.verdict().outcome, PlanOutcome::Refused);
    }

    #[test]
    fn what_a_limit_leaves_out_is_counted() {
        let text = |left_out| {
            line(&Summary {
                nodes: 1,
                blocked: 1,
                left_out: Some(left_out),
                ..Summary::default()
            })
        };
        let blocked = "1 blocked; no changes to 1 selected node can be made now.";
        assert_eq!(
            text(LeftOut::default()),
            format!("{blocked} Nothing else is pending.")
        );
        let some = LeftOut {
            changes: 12,
            blocked: 1,
            ..LeftOut::default()
        };
        assert_eq!(
            text(some),
            format!("{blocked} 12 changes, 1 blocked change are not in this plan.")
        );
        let one = LeftOut {
            changes: 1,
            ..LeftOut::default()
        };
        assert_eq!(
            text(one),
            format!("{blocked} 1 change is not in this plan.")
        );
    }
}
