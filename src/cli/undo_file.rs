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
    naming: Naming,
    directory: String,
}

/// Who named the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Person,
    Time,
}

impl UndoFile {
    pub(super) fn new(path: Option<&Path>, now: Timestamp, directory: &Path) -> UndoFile {
        let by_time = || PathBuf::from(format!("undo-{}.json", now.strftime("%Y%m%dT%H%M%SZ")));
        UndoFile {
            path: path.map_or_else(by_time, Path::to_owned),
            naming: if path.is_some() { Naming::Person } else { Naming::Time },
            directory: directory.to_string_lossy().into_owned(),
        }
    }

    /// An undo plan never takes the place of another file, of an earlier undo plan least of all.
    pub(super) fn claim_place(&mut self) -> Result<(), Failure> {
        let create = |path: &Path| std::fs::File::create_new(path);
        let mut outcome = create(&self.path);
        let is_taken = |outcome: &std::io::Result<std::fs::File>| {
            outcome.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
        };
        let first = self.path.clone();
        for number in 2..100 {
            if self.naming == Naming::Person || !is_taken(&outcome) {
                break;
            }
            self.path = first.with_extension(format!("{number}.json"));
            outcome = create(&self.path);
        }
        outcome.map(drop).map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &std::io::Error) -> Failure {
        let file = self.path.display();
        Failure::Failed(format!("the undo plan cannot be written to {file}: {error}; see --undo-out"))
    }

    pub(super) fn write(&mut self, changes: &[&Change], desired: &Desired, observed: &Observed) -> Result<(), Failure> {
        let document = PlanDocument::undoing(changes, &self.directory, desired, observed);
        replace_file(&self.path, &output::json_text(&document)?).map_err(|error| self.fault(&error))
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
        let changes = done.iter().filter(|change| change.can_be_undone()).count();
        Some(Undo { file: self.path.display().to_string(), changes, irreversible: done.len() - changes })
    }
}
