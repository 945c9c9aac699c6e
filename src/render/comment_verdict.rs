//! The second line of a pull request's comment: what a merge writes.

use super::comment::{Circumstances, Occasion, Unattended};
use super::comment_refusals::rules;
use super::comment_writes::{in_words, none_moved, writes};
use super::markup::{Markup, Phrase};
use super::text::count;
use ipam_planner::plan::PlanDocument;

const WATCH: &str = "cilium-ipam watch";
const OPERATOR: &str = "cilium-ipam operator";

const REFUSED_BY: &str = "whole plan is refused by ";

/// Of a `watch`.
const UNSEEN: &str = " at rest leaves no trace in the cluster, so it may run unseen.";

/// What a merge, or an apply, writes.
pub(super) fn consequence(plan: &PlanDocument, around: &Circumstances<'_>) -> Markup {
    let act = match around.occasion {
        Occasion::Merge => "Merging this",
        Occasion::Apply => "Applying this",
    };
    let blocked = blocked(plan);
    let text = match (plan.refusals.is_empty(), plan.changes.is_empty()) {
        (true, true) => Phrase::new(&format!(
            "**{act} writes nothing:** there is nothing to change{}{blocked}.",
            none_moved(plan)
        )),
        (true, false) => Phrase::new(&format!(
            "**{act} writes {}:** {}{blocked}.{}{}",
            count(plan.changes.len(), "change"),
            writes(plan),
            effect(plan),
            in_spite_of_errors(plan)
        )),
        (false, _) => refused(plan, around),
    };
    text.markdown()
}

/// `; 3 blocked objects stay as they are`
fn blocked(plan: &PlanDocument) -> String {
    match plan.blocked.len() {
        0 => String::new(),
        blocked => {
            let stay = in_words(
                blocked,
                "blocked object stays as it is",
                "blocked objects stay as they are",
            );
            format!("; {stay}")
        }
    }
}

/// That the job writes nothing, what other programs write all the same, and what the job would write.
fn refused(plan: &PlanDocument, around: &Circumstances<'_>) -> Phrase {
    let phrase = head_of_refused(around).then(rules(&plan.refusals));
    let blocked = blocked(plan);
    if plan.changes.is_empty() {
        let moved = none_moved(plan);
        return phrase.words(&format!(". It has no changes{moved}{blocked}."));
    }
    let phrase = phrase.words(&format!(
        ". Without {}, {} would write {}: {}{blocked}.{}",
        match plan.refusals.len() {
            1 => "this refusal",
            _ => "these refusals",
        },
        match around.occasion {
            Occasion::Merge => "the job",
            Occasion::Apply => "it",
        },
        count(plan.changes.len(), "change"),
        writes(plan),
        effect(plan)
    ));
    match around.unattended {
        Some(unattended) => phrase.then(besides(unattended)),
        None => phrase,
    }
}

/// In one sentence, so that no reader takes the first half for all of it.
fn head_of_refused(around: &Circumstances<'_>) -> Phrase {
    let job = match around.occasion {
        Occasion::Merge => "**The apply job will write nothing",
        Occasion::Apply => "**Applying this writes nothing",
    };
    match around.unattended {
        None | Some(Unattended { changes: 0, .. }) => {
            Phrase::new(&format!("{job}:** the {REFUSED_BY}"))
        }
        Some(Unattended { changes, .. }) => Phrase::new(job)
            .words("; if ")
            .value(WATCH)
            .words(" or ")
            .value(OPERATOR)
            .words(&format!(
                " follows these files, merging still writes {}: {} no person.** The {REFUSED_BY}",
                count(changes, "change"),
                if changes == 1 {
                    "it needs"
                } else {
                    "they need"
                },
            )),
    }
}

/// Which of the programs run that do not refuse a plan as a whole. Between two writes, a `watch`
/// holds no Lease.
fn besides(unattended: Unattended<'_>) -> Phrase {
    let space = || Phrase::new(" ");
    match unattended {
        Unattended { changes: 0, .. } => space()
            .value(WATCH)
            .words(" and ")
            .value(OPERATOR)
            .words(" write none of it without a person, either."),
        Unattended {
            operator: Some(holder),
            ..
        } => space()
            .value(OPERATOR)
            .words(" runs on this cluster as ")
            .value(holder)
            .words("; a ")
            .value("watch")
            .words(UNSEEN),
        Unattended { operator: None, .. } => Phrase::new(" A ").value("watch").words(UNSEEN),
    }
}

/// An error of the plan is told, and stops no apply.
fn in_spite_of_errors(plan: &PlanDocument) -> &'static str {
    match plan.summary.errors {
        0 => "",
        1 => " The error below stops none of these writes.",
        _ => " The errors below stop none of these writes.",
    }
}

/// That nothing in use is affected, if so.
fn effect(plan: &PlanDocument) -> &'static str {
    let is_harmless = plan.changes.iter().all(|change| change.hazard == "none");
    let balancing = &plan.summary.load_balancing;
    match is_harmless && balancing.lost_addresses == 0 {
        false => "",
        true if balancing.changes_nothing() => " No running workload is affected.",
        true => " No running workload is affected, and no Service loses an address.",
    }
}
