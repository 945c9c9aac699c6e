//! The second line of a pull request's comment: what a merge writes.
//!
//! Whether the job that shows a plan fails, for the comment of a pull request.
//!
//! A legend for the comment of a pull request: the words of ours that it uses.

use super::comment::{Circumstances, Occasion, Unattended};
use super::comment_refusals::{in_words, none_moved, rules, writes};
use super::markup::{Markup, prose};
use super::phrase::Phrase;
use super::text::count;
use ipam_core::model::Hazard;
use ipam_plan::plan::PlanDocument;

const WATCH: &str = "cilium-ipam watch";
const OPERATOR: &str = "cilium-ipam operator";

const REFUSED_BY: &str = "whole plan is refused by ";

/// Why the absence of a `watch` is not certain: words after the name of the command.
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

/// The blocked objects in words: `; 3 blocked objects stay as they are`
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

/// Says that the job writes nothing, what other programs write in spite of that, and what the job
/// would write.
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

/// An error of the plan is reported, and stops no apply.
fn in_spite_of_errors(plan: &PlanDocument) -> &'static str {
    match plan.summary.errors {
        0 => "",
        1 => " The error below stops none of these writes.",
        _ => " The errors below stop none of these writes.",
    }
}

/// Says that nothing in use is affected, if so.
fn effect(plan: &PlanDocument) -> &'static str {
    let is_harmless = plan
        .changes
        .iter()
        .all(|change| change.hazard == Hazard::None);
    let balancing = &plan.summary.load_balancing;
    match is_harmless && balancing.lost_addresses == 0 {
        false => "",
        true if balancing.changes_nothing() => " No running workload is affected.",
        true => " No running workload is affected, and no Service loses an address.",
    }
}

/// How the job of the comment ends.
#[derive(Clone, Copy, Debug)]
pub enum Check<'c> {
    /// The job fails.
    Fails {
        /// Exit code of the job.
        code: u8,
        /// What the plan or the files have, as nouns.
        because: &'c [&'c str],
    },
    /// The job passes: no condition of `--fail-on` is met.
    Passes,
    /// The job looks for nothing.
    PassesAlways,
}

impl Check<'_> {
    /// The line of the comment.
    pub(super) fn line(&self) -> String {
        let phrase = Phrase::new("**Check:** the job of this comment ");
        let phrase = match self {
            Check::Fails { code, because } => phrase.words(&format!(
                "fails (exit code {code}) because of {}. A branch that requires it does not take the merge",
                listed(because)
            )),
            Check::Passes => phrase.words("passes, so it does not stop the merge"),
            Check::PassesAlways => phrase
                .words("passes with any plan (")
                .value("--fail-on never")
                .words("), so it does not stop the merge. Another job may"),
        };
        phrase.words(".").markdown().to_string()
    }
}

/// `a, b and c`
fn listed(all: &[&str]) -> String {
    match all {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Longest legend in bytes, so that a page leaves room for it.
pub(super) const LONGEST: usize = 900;

/// A word in all its forms, and the meaning of the word for the legend.
const WORDS: [(&str, &[&str], &str); 6] = [
    (
        "Pin",
        &["pin", "pins", "pinned"],
        "a `NodeAssignment` or `ServiceAssignment` in the files, which fixes the addresses of one node or Service",
    ),
    (
        "Protected",
        &["protected", "protected-node", "protected-pool"],
        "the Policy or an annotation forbids to disrupt it or to take addresses from it",
    ),
    (
        "Adopted",
        &["adopt", "adopted"],
        "the object was created manually or by another tool; from the apply on, these files manage it",
    ),
    (
        "Blocked",
        &["blocked"],
        "a wanted change that cannot be made now; on a node without a block, no Pod gets an address",
    ),
    (
        "Misplaced",
        &["misplaced"],
        "the node holds a block that the files would not give it today; it stays until you move it",
    ),
    (
        "Digest",
        &["digest"],
        "a fingerprint of these changes; an apply that names it makes no others",
    ),
];

/// The legend for this text; empty without any of the words.
pub(super) fn legend(text: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let lower = text.to_lowercase();
    let used: Vec<&str> = lower.split(|c| !is_letter(c)).collect();
    let is_used = |forms: &[&str]| used.iter().any(|word| forms.contains(word));
    let known = WORDS.iter().filter(|(_, forms, _)| is_used(forms));
    let sentences: Vec<String> = known
        .map(|(word, _, meaning)| format!("**{word}:** {}.", prose(meaning)))
        .collect();
    match sentences.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", sentences.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_has_the_used_words_alone_and_fits() {
        assert_eq!(legend("spinning, by-pin"), "");
        let two = legend("Pinned. The digest");
        assert!(
            two.starts_with("\n**Pin:** a `NodeAssignment` or "),
            "{two}"
        );
        assert_eq!(two.matches("**").count(), 4, "{two}");
        let all: Vec<&str> = WORDS.iter().map(|(word, ..)| *word).collect();
        let all = legend(&all.join(" "));
        assert!(all.len() <= LONGEST, "{}", all.len());
        assert_eq!(all.matches("**").count(), 2 * WORDS.len(), "{all}");
    }
}
