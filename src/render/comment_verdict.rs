//! The first two lines of a pull request's comment: what is wrong, and what a merge writes. Each
//! node is counted once.

use std::collections::BTreeSet;

use super::comment::{Circumstances, Occasion, Unattended};
use super::comment_drift::unplanned;
use super::comment_refusals::{is_refused, rules};
use super::comment_writes::{in_words, none_moved, writes};
use super::human_approval::unapproved;
use super::markdown_objects::ADDRESS_POOL;
use super::markup::{Markup, Phrase};
use super::text::count;
use ipam_planner::plan::{ChangeDocument, Intent, PlanDocument, RefusalDocument};

const WATCH: &str = "cilium-ipam watch";
const OPERATOR: &str = "cilium-ipam operator";

const ONE_MOVES: &str = "node moves when its agent restarts";
const SEVERAL_MOVE: &str = "nodes move when their agents restart";

const REFUSED_BY: &str = "whole plan is refused by ";

/// Of a `watch`.
const UNSEEN: &str = " at rest leaves no trace in the cluster, so it may run unseen.";

/// The problems as counts, the worst first; or that there are none.
pub(super) fn verdict(plan: &PlanDocument) -> String {
    let problems = problems(plan);
    match (plan.refusals.is_empty(), problems.is_empty()) {
        (false, _) => format!("refused. {}", problems.join(", ")),
        (true, false) => problems.join(", "),
        (true, true) => alone(plan),
    }
}

fn problems(plan: &PlanDocument) -> Vec<String> {
    let lost = LossCounts::of(plan);
    let approval = unapproved(&plan.changes).count();
    let refused = plan.findings.iter();
    let refused = refused.filter(|one| is_refused(one, &plan.refusals));
    let refused: usize = refused.map(|one| one.count).sum();
    let errors = plan.summary.errors.saturating_sub(refused);
    let counts = [
        (plan.refusals.len(), "refusal", "refusals"),
        lost.certain(&plan.refusals),
        lost.possible(&plan.refusals),
        (
            destructive(plan),
            "destructive change",
            "destructive changes",
        ),
        (errors, "error", "errors"),
        (approval, "block to approve", "blocks to approve"),
        (plan.blocked.len(), "blocked object", "blocked objects"),
        (plan.misplaced.len(), "misplaced block", "misplaced blocks"),
    ];
    // Without a problem, the headline tells them alone.
    let is_problem = counts.iter().any(|(number, ..)| *number > 0);
    let moves = (moves(plan), ONE_MOVES, SEVERAL_MOVE);
    let moves = Some(moves).filter(|_| is_problem && plan.refusals.is_empty());
    let counts = counts
        .into_iter()
        .chain(moves)
        .filter(|(number, ..)| *number > 0);
    counts
        .map(|(number, one, several)| in_words(number, one, several))
        .collect()
}

/// The destructive changes that no lost address tells.
fn destructive(plan: &PlanDocument) -> usize {
    let lost = || plan.services.iter().flat_map(|service| &service.loses);
    let causes: BTreeSet<&str> = lost().filter_map(|lost| lost.cause.as_deref()).collect();
    // Any pool may take an address of unknown cause: a new one that overlaps, or the first one.
    let is_unknown = lost().any(|lost| lost.cause.is_none());
    let is_told = |change: &ChangeDocument| {
        (is_unknown && change.kind == ADDRESS_POOL)
            || causes.contains(&*format!("{}/{}", change.kind, change.name))
    };
    let changes = plan.changes.iter();
    let destructive = changes.filter(|one| one.hazard == "destructive");
    destructive.filter(|one| !is_told(one)).count()
}

/// Nodes in use that get another block.
fn moves(plan: &PlanDocument) -> usize {
    let felt = plan.changes.iter().filter(|one| one.hazard == "disruptive");
    felt.filter(|one| one.moves_a_block()).count()
}

/// The headline of a plan without problems.
fn alone(plan: &PlanDocument) -> String {
    let felt = || plan.changes.iter().filter(|one| one.hazard == "disruptive");
    let moves = moves(plan);
    let drifted = unplanned(plan).len();
    match (felt().count(), plan.changes.len()) {
        (_, 0) if drifted > 0 => in_words(drifted, "field differs", "fields differ") + " from Git",
        (_, 0) => "no changes".to_owned(),
        (0, _) => "nothing in use changes".to_owned(),
        (all, _) if all == moves => in_words(moves, ONE_MOVES, SEVERAL_MOVE),
        (all, _) => in_words(
            all,
            "change needs an agent restart",
            "changes need an agent restart",
        ),
    }
}

/// Addresses of Services that go, and that may go.
struct LossCounts {
    certain: usize,
    possible: usize,
}

impl LossCounts {
    fn of(plan: &PlanDocument) -> LossCounts {
        let lost = || plan.services.iter().flat_map(|service| &service.loses);
        let certain = lost().filter(|lost| lost.certainty == "certain").count();
        LossCounts {
            certain,
            possible: lost().count() - certain,
        }
    }

    fn is_none(&self) -> bool {
        self.certain + self.possible == 0
    }

    /// The addresses that go, in words of one and of several.
    fn certain(&self, refusals: &[RefusalDocument]) -> (usize, &'static str, &'static str) {
        match refusals.is_empty() {
            true => (self.certain, "address lost", "addresses lost"),
            false => (
                self.certain,
                "address would be lost",
                "addresses would be lost",
            ),
        }
    }

    /// The addresses that may go, in words of one and of several.
    fn possible(&self, refusals: &[RefusalDocument]) -> (usize, &'static str, &'static str) {
        match refusals.is_empty() {
            true => (
                self.possible,
                "address may be lost",
                "addresses may be lost",
            ),
            false => (
                self.possible,
                "address might be lost",
                "addresses might be lost",
            ),
        }
    }
}

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
    match (is_harmless && LossCounts::of(plan).is_none(), plan.intent) {
        (false, _) => "",
        (true, _) if balancing.changes_nothing() => " No running workload is affected.",
        (true, Intent::Files) => {
            " No running workload is affected, and no Service loses an address."
        }
        // An undo also takes what Services get until then.
        (true, Intent::Undo) => " No Service loses an address that it has now.",
    }
}
