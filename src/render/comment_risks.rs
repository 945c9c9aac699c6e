//! The worst risks of a plan, for the first lines of a pull request's comment.

use super::comment::Occasion;
use super::comment_refusals::{LOST, RefusalGroup, by_risk};
use super::comment_services::Loss;
use super::human::{Detail, limit};
use super::markdown::place;
use super::phrase::Phrase;
use super::plan_sections::{short_name, unapproved_block, unapproved_blocks};
use super::text::grouped_digits;
use super::{causes, comment_disruptive};
use ipam_core::model::Severity;
use ipam_plan::plan::{
    ChangeDocument, FindingDocument, Intent, PlanDocument, RefusalDocument, TargetKind,
};

/// The subject of a line. The lines below leave out the subjects that it tells in full.
#[derive(Clone, Copy)]
enum Subject<'p> {
    Loss(&'p Loss<'p>),
    Change(&'p ChangeDocument),
    Refusal(&'p RefusalDocument),
    Finding(&'p FindingDocument),
    /// All blocked objects.
    Blocked,
    Others,
}

/// What the first lines tell in full.
#[derive(Clone, Copy, Default)]
pub(super) struct Told<'p> {
    pub(super) loss: Option<&'p Loss<'p>>,
    pub(super) change: Option<&'p ChangeDocument>,
    pub(super) refusal: Option<&'p RefusalDocument>,
    pub(super) finding: Option<&'p FindingDocument>,
    pub(super) blocked: bool,
}

/// A risk: what and why, and the answers to what a reader asks then.
struct Risk<'p> {
    what: Phrase,
    answers: Vec<(&'static str, Phrase)>,
    subject: Subject<'p>,
}

impl<'p> Risk<'p> {
    fn new(subject: Subject<'p>, what: Phrase, fix: &str) -> Risk<'p> {
        Risk {
            what,
            answers: vec![("fix", Phrase::default().sentence(fix))],
            subject,
        }
    }

    /// One line with a single answer, or else a list.
    fn line(&self, label: &str) -> String {
        let what = format!("**{label}:** {}", self.what.markdown());
        match &self.answers[..] {
            [(question, answer)] => match answer.markdown().as_str() {
                "" => what,
                answer => format!("{what}; **{}:** {answer}", question.to_lowercase()),
            },
            answers => answers.iter().fold(what, |text, (question, answer)| {
                format!("{text}\n- **{question}:** {}", answer.markdown())
            }),
        }
    }
}

/// The worst risk, and the riskiest change or the error, if that is another one: one line for
/// each.
pub(super) fn worst<'p>(
    plan: &'p PlanDocument,
    losses: &'p [Loss<'p>],
    occasion: Occasion,
) -> (Vec<String>, Told<'p>) {
    let felt = losses.first();
    let has_risks = losses.iter().any(|loss| !loss.is_certain());
    let counted = if has_risks {
        " (the number counts those at risk, too)"
    } else {
        ""
    };
    let felt = felt.map(|loss| losing_address(loss, &plan.refusals, occasion, counted));
    let of_change = || plan.changes.iter().find(|one| one.is_destructive());
    let felt = felt.or_else(|| of_change().map(destructive));
    let wrong = || {
        let wrong = by_risk(&plan.refusals).into_iter().next().map(refusal);
        wrong
            .or_else(|| error(plan))
            .or_else(|| approval(plan))
            .or_else(|| blocked(plan))
            .or_else(|| misplaced(plan))
    };
    let (first, second) = match felt {
        Some(felt) => (Some(felt), None),
        None => {
            let change = riskiest_disruptive(plan, occasion);
            // A refused change does no harm yet.
            match (wrong(), plan.refusals.is_empty()) {
                (Some(wrong), true) if change.is_some() => (change, Some(wrong)),
                (Some(wrong), _) => (Some(wrong), change),
                (None, _) => (change, None),
            }
        }
    };
    let mut told = Told::default();
    for risk in first.iter().chain(&second) {
        told.add(risk.subject);
    }
    let first = first.map(|risk| risk.line("Look at first"));
    let second = second.map(|risk| {
        risk.line(match plan.refusals.is_empty() {
            true => "Then",
            false => "Riskiest change, if nothing refused it",
        })
    });
    (first.into_iter().chain(second).collect(), told)
}

impl<'p> Told<'p> {
    fn add(&mut self, subject: Subject<'p>) {
        match subject {
            Subject::Loss(loss) => self.loss = Some(loss),
            Subject::Change(change) => self.change = Some(change),
            Subject::Refusal(refusal) => self.refusal = Some(refusal),
            Subject::Finding(finding) => self.finding = Some(finding),
            Subject::Blocked => self.blocked = true,
            Subject::Others => {}
        }
    }
}

fn losing_address<'p>(
    loss: &'p Loss<'p>,
    refusals: &[RefusalDocument],
    occasion: Occasion,
    counted: &str,
) -> Risk<'p> {
    let mut refusals = refusals.iter().filter(|refusal| refusal.rule == LOST);
    let waiver = refusals.find_map(|refusal| refusal.waiver.as_deref());
    let fix = match (waiver, occasion) {
        (None, _) => loss.fix(),
        (Some(waiver), Occasion::Merge) => loss
            .fix()
            .words("; to lose them on purpose, pass ")
            .value(&format!("--waive {waiver}"))
            .words(" to ")
            .value("comment")
            .words(" and to ")
            .value("apply")
            .words(counted),
        (Some(waiver), Occasion::Apply) => loss
            .fix()
            .words("; to lose them on purpose, plan again with ")
            .value(&format!("--waive {waiver}"))
            .words(counted),
    };
    let mut answers = loss.answers();
    answers.push(("Fix", fix));
    Risk {
        what: loss.headline(),
        answers,
        subject: Subject::Loss(loss),
    }
}

fn from_to(phrase: Phrase, change: &ChangeDocument) -> Phrase {
    let values = |values: &[String]| match values.is_empty() {
        true => "nothing".to_owned(),
        false => values.join(" "),
    };
    phrase
        .words(" from ")
        .value(&values(&change.before))
        .words(" to ")
        .value(&values(&change.after))
}

fn changed(change: &ChangeDocument) -> Phrase {
    let name = short_name(change.kind, &change.name);
    from_to(Phrase::default().value(&name), change)
        .words(": ")
        .sentence(&change.reason)
}

fn destructive(change: &ChangeDocument) -> Risk<'_> {
    let fix = match change.kind {
        TargetKind::Node => "drain the node first, or leave it out with `--exclude`",
        _ => "leave it out with `--exclude`, or stop using its addresses first",
    };
    Risk::new(Subject::Change(change), changed(change), fix)
}

/// A move comes before other changes that need a restart.
fn riskiest_disruptive(plan: &PlanDocument, occasion: Occasion) -> Option<Risk<'_>> {
    let felt = || plan.changes.iter().filter(|one| one.is_disruptive());
    let moves = || felt().filter(|change| change.moves_a_block());
    match moves().next() {
        Some(first) => Some(moving(first, moves().count(), plan.intent, occasion)),
        None => felt().next().map(|change| {
            let fix = "apply fewer with `--target`, and restart the agents a few at a time";
            Risk::new(Subject::Change(change), changed(change), fix)
        }),
    }
}

fn moving(change: &ChangeDocument, all: usize, intent: Intent, occasion: Occasion) -> Risk<'_> {
    let what = from_to(
        Phrase::new("node ").value(&change.name).words(" moves"),
        change,
    )
    .words(" when its Cilium agent restarts");
    let pin = change.origin.as_ref().map(place);
    let what = match &pin {
        Some(pin) => what.words(", pinned by ").value(pin),
        None => what,
    };
    let what = match all {
        0 | 1 => what,
        2 => what.words("; 1 more node moves like this"),
        several => what.words(&format!(
            "; {} more nodes move like this",
            grouped_digits(several - 1)
        )),
    };
    Risk {
        what,
        answers: comment_disruptive::answers(change, intent, occasion),
        subject: Subject::Change(change),
    }
}

fn refusal(group: RefusalGroup<'_>) -> Risk<'_> {
    let further = match group.refusals.len() {
        0 | 1 => String::new(),
        several => format!(" ({} like this)", grouped_digits(several)),
    };
    let what = Phrase::new("refused by ").value(group.rule).words(": ");
    let (what, subject) = match group.refusals.first() {
        Some(first) => (what.sentence(&first.message), Subject::Refusal(first)),
        None => (what, Subject::Others),
    };
    Risk::new(subject, what.words(&further), group.help)
}

fn error(plan: &PlanDocument) -> Option<Risk<'_>> {
    let mut errors = plan.findings.iter();
    let error = errors.find(|finding| finding.severity == Severity::Error)?;
    let what = Phrase::new("error ").value(&error.rule).words(": ");
    let what = what.sentence(&error.message);
    let what = what.at(error.origin.as_ref().map(place));
    let subject = match error.count {
        0 | 1 => Subject::Finding(error),
        _ => Subject::Others,
    };
    Some(Risk::new(subject, what, &error.help))
}

fn approval(plan: &PlanDocument) -> Option<Risk<'_>> {
    let (change, block) = unapproved_blocks(&plan.changes).next()?;
    let what = unapproved_block(change, block);
    let fix = "find out who wrote it, or pin another block: who applies the plan approves it";
    Some(Risk::new(Subject::Others, what, fix))
}

/// The first blocked objects: those with one reason and one fix.
fn blocked(plan: &PlanDocument) -> Option<Risk<'_>> {
    let causes = causes::blocked(&plan.blocked, Detail::Short);
    let cause = causes.shown.first()?;
    let (reason, entries) = cause.reasons.first()?;
    let names = entries.iter();
    let names = names.map(|entry| Phrase::of(&short_name(entry.kind, &entry.name)));
    let names = Phrase::new("blocked: ").then(Phrase::listed(names, " ", Detail::Short));
    let subject = match entries.len() == plan.blocked.len() {
        true if entries.len() <= limit(Detail::Short) => Subject::Blocked,
        _ => Subject::Others,
    };
    let what = names.words(": ").sentence(reason);
    Some(Risk::new(subject, what, cause.unblock))
}

fn misplaced(plan: &PlanDocument) -> Option<Risk<'_>> {
    let first = plan.misplaced.first()?;
    let what = Phrase::new("misplaced: ")
        .value(&first.name)
        .words(" with ")
        .value(&first.block)
        .words(": ")
        .sentence(&first.reason);
    Some(Risk::new(Subject::Others, what, &first.help))
}
