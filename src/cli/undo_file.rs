//! The file with the plan that takes an apply back.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::failure::Failure;
use super::output;
use ipam_cilium::observed::Observed;
use ipam_cluster::replace_private_file;
use ipam_controller::Applied;
use ipam_controller::apply::Outcome;
use ipam_desired::Desired;
use ipam_planner::plan::{Change, PlanDocument};

/// What is said of it.
#[derive(Debug, Serialize)]
pub(super) struct Undo {
    /// The file; absent where nothing can be taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    /// Changes that it takes back.
    pub(super) changes: usize,
    /// Changes that cannot be taken back.
    pub(super) irreversible: usize,
    /// What a person can do about those instead.
    pub(super) instead: BTreeSet<String>,
}

/// Written before the first change, so that a kill leaves it behind, and again with what was really
/// applied.
pub(super) struct UndoFile {
    path: PathBuf,
    naming: Naming,
    directory: String,
    state: State,
}

/// Whether the file is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    Written,
}

/// It names every node and every address that was written.
const MODE: u32 = 0o600;

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
            naming: if path.is_some() {
                Naming::Person
            } else {
                Naming::Time
            },
            directory: directory.to_string_lossy().into_owned(),
            state: State::None,
        }
    }

    /// An undo plan never takes the place of another file, of an earlier undo plan least of all.
    fn claim_place(&mut self) -> Result<(), Failure> {
        let create = |path: &Path| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(MODE)
                .open(path)
        };
        let mut outcome = create(&self.path);
        let is_taken = |outcome: &std::io::Result<std::fs::File>| {
            outcome
                .as_ref()
                .is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
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
        Failure::Failed(format!(
            "the undo plan cannot be written to {file}: {error}; see --undo-out"
        ))
    }

    /// Writes what takes these changes back, if anything does.
    pub(super) fn write_beforehand(
        &mut self,
        changes: &[Change],
        desired: &Desired,
        observed: &Observed,
    ) -> Result<(), Failure> {
        let changes: Vec<&Change> = changes.iter().collect();
        self.write(&PlanDocument::undoing(
            &changes,
            &self.directory,
            desired,
            observed,
        ))
    }

    fn write(&mut self, document: &PlanDocument) -> Result<(), Failure> {
        if document.changes.is_empty() {
            return Ok(());
        }
        if self.state == State::None {
            self.claim_place()?;
            self.state = State::Written;
        }
        replace_private_file(&self.path, &output::json_text(document)?)
            .map_err(|error| self.fault(&error))
    }

    /// Leaves in it what was applied, or may have been. A file that takes nothing back would only
    /// puzzle, so it goes.
    pub(super) fn keep_applied(
        &mut self,
        applied: &Applied,
        desired: &Desired,
        observed: &Observed,
    ) -> Option<Undo> {
        let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Applied | Outcome::Unknown(_));
        let done = applied
            .outcomes
            .iter()
            .filter(|(_, outcome)| is_done(outcome));
        let done: Vec<&Change> = done.map(|(change, _)| change).collect();
        let document = PlanDocument::undoing(&done, &self.directory, desired, observed);
        if document.changes.is_empty() && self.state == State::Written {
            let _ = std::fs::remove_file(&self.path);
            self.state = State::None;
        }
        if self.write(&document).is_err() {
            output::warn(
                "the undo plan could not be written again: it also lists what was not applied",
            );
        }
        let changes = document.changes.len();
        (!done.is_empty()).then(|| Undo {
            file: (self.state == State::Written).then(|| self.path.display().to_string()),
            changes,
            irreversible: done.len() - changes,
            instead: document
                .blocked
                .into_iter()
                .map(|blocked| blocked.unblock)
                .collect(),
        })
    }
}
