//! The file with the plan that takes an apply back.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::failure::Failure;
use super::output;
use crate::apply::Outcome;
use crate::cluster::replace_file;
use crate::desired::Desired;
use crate::observed::Observed;
use crate::plan::{Change, PlanDocument};
use crate::run::Applied;

/// What is said of it.
#[derive(Debug, Serialize)]
pub(super) struct Undo {
    /// The file.
    pub(super) file: String,
    /// Changes that it takes back.
    pub(super) changes: usize,
    /// Changes that cannot be taken back; the file says what to do instead.
    pub(super) irreversible: usize,
}

/// Written before the first change, so that a kill leaves it behind, and again with what was really applied.
pub(super) struct UndoFile {
    path: PathBuf,
    directory: String,
}

impl UndoFile {
    pub(super) fn new(path: Option<&Path>, now: Timestamp, directory: &Path) -> UndoFile {
        let by_time = || PathBuf::from(format!("undo-{}.json", now.strftime("%Y%m%dT%H%M%SZ")));
        UndoFile {
            path: path.map_or_else(by_time, Path::to_owned),
            directory: directory.to_string_lossy().into_owned(),
        }
    }

    pub(super) fn write(&mut self, changes: &[&Change], desired: &Desired, observed: &Observed) -> Result<(), Failure> {
        let document = PlanDocument::undoing(changes, &self.directory, desired, observed);
        replace_file(&self.path, &output::json_text(&document)?).map_err(|error| {
            let file = self.path.display();
            Failure::Failed(format!("the undo plan cannot be written to {file}: {error}; see --undo-out"))
        })
    }

    /// Leaves in it what was applied, or may have been, if that is anything.
    pub(super) fn keep_applied(&mut self, applied: &Applied, desired: &Desired, observed: &Observed) -> Option<Undo> {
        let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Applied | Outcome::Unknown(_));
        let done = applied.outcomes.iter().filter(|(_, outcome)| is_done(outcome));
        let done: Vec<&Change> = done.map(|(change, _)| change).collect();
        if applied.outcomes.is_empty() {
            return None;
        }
        if done.is_empty() {
            // There is nothing to take back, and a file that says otherwise would only puzzle.
            let _ = std::fs::remove_file(&self.path);
            return None;
        }
        if self.write(&done, desired, observed).is_err() {
            output::warn("the undo plan could not be written again: it also lists what was not applied");
        }
        let changes = done.iter().filter(|change| change.undo.is_some()).count();
        Some(Undo { file: self.path.display().to_string(), changes, irreversible: done.len() - changes })
    }
}
