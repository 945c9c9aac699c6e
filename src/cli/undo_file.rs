//! The file with the undo plan of an apply.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::Serialize;

use super::failure::Failure;
use super::output;
use ipam_cilium::observed::Observed;
use ipam_cluster::{remove_leftovers_of, replace_private_file};
use ipam_controller::Applied;
use ipam_controller::apply::Outcome;
use ipam_desired::Desired;
use ipam_plan::plan::{Change, NodeChange, PlanDocument, node_changes};

/// The undo plan in the report of an apply.
#[derive(Debug, Serialize)]
pub(super) struct Undo {
    /// Absent if nothing can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    /// Number of changes that it undoes.
    pub(super) changes: usize,
    /// Number of irreversible changes.
    pub(super) irreversible: usize,
    /// Number of changes that follow the files: of pools, Services and address pairs.
    pub(super) of_files: usize,
    /// Manual steps for the irreversible changes.
    pub(super) instead: BTreeSet<String>,
}

/// Writes the undo plan before the first change, so that it survives a kill. Writes it again
/// afterwards, with the changes that were applied.
pub(super) struct UndoFile {
    path: PathBuf,
    naming: Naming,
    directory: String,
    state: State,
}

/// Whether the file exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    Written,
}

/// The file names every node and every written address.
const MODE: u32 = 0o600;

/// The folder of undo plans with a generated name, below the current directory.
pub(super) const FOLDER: &str = ".cilium-ipam/undo";

/// Start of the default name.
const PREFIX: &str = "undo-";

/// Time in the default name.
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// The undo plans in their folder, the oldest first. A commit may add files to the folder: names that
/// no apply generates, and links, do not count.
pub(super) fn kept() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let place = place_in_order(entry.file_name().to_str()?)?;
        is_file.then(|| (place, entry.path()))
    });
    let mut plans: Vec<((String, u32), PathBuf)> = numbered.collect();
    plans.sort();
    plans.into_iter().map(|(_, path)| path).collect()
}

/// Time and sequence number of a file: `undo-TIME.json` is the first at that time,
/// `undo-TIME.2.json` the second.
fn place_in_order(name: &str) -> Option<(String, u32)> {
    let name = name.strip_prefix(PREFIX)?.strip_suffix(".json")?;
    let (time, number) = match name.split_once('.') {
        Some((time, number)) => (time, number.parse().ok()?),
        None => (name, 1),
    };
    let parsed = DateTime::strptime(TIME, time).ok()?;
    (parsed.strftime(TIME).to_string() == time).then(|| (time.to_owned(), number))
}

/// Creates the folder of undo plans, which Git ignores.
fn create_folder() -> std::io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(FOLDER)?;
    let ignored = Path::new(FOLDER).join(".gitignore");
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(ignored);
    match created {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Origin of the file's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Person,
    Time,
}

impl UndoFile {
    pub(super) fn new(path: Option<&Path>, now: Timestamp, directory: &Path) -> UndoFile {
        let by_time = || {
            let time = now.strftime(TIME);
            PathBuf::from(format!("{FOLDER}/{PREFIX}{time}.json"))
        };
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

    /// Creates the file. Never replaces an existing file, such as an earlier undo plan. A link is
    /// replaced itself.
    fn claim_place(&mut self) -> Result<(), Failure> {
        match self.naming {
            // In a folder such as `/tmp`, it may belong to another user.
            Naming::Person if self.path.is_symlink() => return Ok(()),
            Naming::Person => {}
            Naming::Time => {
                create_folder().map_err(|error| self.fault(&error))?;
                // No later run has the same name, so no later run would remove them.
                remove_leftovers_of(Path::new(FOLDER), PREFIX);
            }
        }
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
                .is_err_and(|error| error.kind() == ErrorKind::AlreadyExists)
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

    /// Writes the undo plan of these changes. Writes no file if nothing can be undone.
    pub(super) fn write_beforehand(
        &mut self,
        changes: &[Change],
        desired: &Desired,
        observed: &Observed,
    ) -> Result<(), Failure> {
        let changes: Vec<&NodeChange> = node_changes(changes).collect();
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
        }
        let written = replace_private_file(&self.path, &output::json_text(document)?);
        if written.is_err() && self.state == State::None && self.naming == Naming::Time {
            // The place that was just claimed is an empty file.
            let _ = std::fs::remove_file(&self.path);
        } else {
            self.state = State::Written;
        }
        written.map_err(|error| self.fault(&error))
    }

    /// Keeps the changes in the plan that were applied, or may have been. Removes a plan without
    /// changes.
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
        let nodes: Vec<&NodeChange> = node_changes(done.iter().copied()).collect();
        let document = PlanDocument::undoing(&nodes, &self.directory, desired, observed);
        if document.changes.is_empty() && self.state == State::Written {
            let _ = std::fs::remove_file(&self.path);
            self.state = State::None;
        }
        if self.write(&document).is_err() {
            output::warn(
                "the undo plan could not be updated: it also lists changes that were not applied",
            );
        }
        let changes = document.changes.len();
        (!done.is_empty()).then(|| Undo {
            file: (self.state == State::Written).then(|| self.path.display().to_string()),
            changes,
            irreversible: nodes.len() - changes,
            of_files: done.len() - nodes.len(),
            instead: document
                .blocked
                .into_iter()
                .map(|blocked| blocked.unblock)
                .collect(),
        })
    }
}
