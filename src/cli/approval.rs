//! Asks for approval before an apply writes.

use std::io::{BufRead, IsTerminal};

use super::failure::Failure;
use super::{Common, output};
use crate::render::{Paint, printable};
use ipam_planner::plan::{Intent, Verdict};

/// How to approve a migration without an answer.
pub(super) const INSTEAD: &str = "pass --auto-approve to begin without confirmation";

/// Whether a person can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terminal {
    Present,
    /// With the reason.
    Absent(&'static str),
}

impl Terminal {
    pub(super) fn of(common: &Common) -> Terminal {
        if common.no_input {
            Terminal::Absent("--no-input is set")
        } else if std::io::stdin().is_terminal() {
            Terminal::Present
        } else {
            Terminal::Absent("stdin is not a terminal")
        }
    }
}

/// Asks for approval of a plan with this verdict. Fails on any answer other than `yes`.
pub(super) async fn ask(intent: Intent, verdict: &Verdict, common: &Common) -> Result<(), Failure> {
    let question = match intent {
        Intent::Files => "Apply these changes?",
        Intent::Undo => "Take these changes back?",
    };
    let question = format!("{}\n{question}", printable(&verdict.line()));
    let instead = "pass --auto-approve to apply without confirmation, or --expect-digest with the digest of the reviewed plan";
    confirm(&question, instead, common).await
}

/// Asks a question. Fails on any answer other than `yes`. `instead`: what to do where no person
/// answers.
pub(super) async fn confirm(question: &str, instead: &str, common: &Common) -> Result<(), Failure> {
    if let Terminal::Absent(why) = Terminal::of(common) {
        return Err(Failure::Failed(format!(
            "{why}; nothing was written: {instead}"
        )));
    }
    output::talk(&format!(
        "\n{} Type `yes` to continue: ",
        Paint::Bold.on(question)
    ));
    // On another thread, because this task renews the lock.
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin()
            .lock()
            .read_line(&mut answer)
            .map(|_| answer)
    });
    let answer = answer
        .await
        .map_or_else(Failure::from_panic, |answer| Ok(answer?))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::Failed(
            "not approved; nothing was written".to_owned(),
        )),
    }
}
