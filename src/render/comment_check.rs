//! Whether the job that shows a plan fails, for the comment of a pull request. The branch decides
//! what that means for the merge.

use super::markup::Phrase;

/// How the job of the comment ends.
#[derive(Clone, Copy, Debug)]
pub enum Check<'c> {
    /// It fails.
    Fails {
        /// Its exit code.
        code: u8,
        /// What the plan or the files have, as nouns.
        because: &'c [&'c str],
    },
    /// Nothing that it looks for is there.
    Passes,
    /// It looks for nothing.
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
