//! Prints what was frozen or thawed: for people, or as one JSON document.

use std::path::PathBuf;

use serde::Serialize;

use super::Flags;
use crate::cli::failure::Failure;
use crate::cli::init::words::shell;
use crate::cli::new_files::trial::first_lines;
use crate::cli::new_files::{Difference, FileDocument, NewFile, print_differences, whole};
use crate::cli::output::Capped;
use crate::cli::{Common, Format, output};
use crate::render::printable;
use ipam_core::model::count;
use ipam_import::freeze::Left;
use ipam_plan::plan::{PlanDocument, Summary};

/// Version of the JSON: the major part changes when a reader would misunderstand.
const FORMAT_VERSION: &str = "1.0";

/// The files that are written or removed.
#[derive(Clone, Copy)]
pub(super) enum Files<'r> {
    Written(&'r [NewFile]),
    Removed(&'r [PathBuf]),
}

pub(super) struct Report<'r> {
    pub(super) flags: &'r Flags,
    pub(super) common: &'r Common,
    pub(super) files: Files<'r>,
    pub(super) is_done: bool,
    /// Number of Services that are pinned already.
    pub(super) pinned: usize,
    pub(super) left: &'r [Left],
    pub(super) notes: Vec<String>,
    pub(super) differences: &'r [Difference],
    pub(super) document: &'r PlanDocument,
}

#[derive(Serialize)]
struct Document<'r> {
    format_version: &'static str,
    directory: String,
    /// Whether the files were written or removed.
    done: bool,
    files: Vec<FileDocument<'r>>,
    left: Vec<LeftDocument>,
    notes: &'r [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
    /// Counts of the plan after it.
    plan: &'r Summary,
}

#[derive(Serialize)]
struct LeftDocument {
    service: String,
    reason: String,
}

impl<'r> Files<'r> {
    fn all(self) -> Vec<FileDocument<'r>> {
        match self {
            Files::Written(files) => files.iter().map(FileDocument::from).collect(),
            Files::Removed(paths) => {
                let removed = paths.iter().map(|path| FileDocument {
                    path: path.display().to_string(),
                    text: None,
                });
                removed.collect()
            }
        }
    }
}

impl Report<'_> {
    pub(super) fn show(&self) -> Result<(), Failure> {
        match self.flags.output {
            Format::Json => output::json(&self.document())?,
            _ => self.human()?,
        }
        Ok(())
    }

    fn document(&self) -> Document<'_> {
        let left = self.left.iter().map(|left| LeftDocument {
            service: left.service.to_string(),
            reason: left.why.to_string(),
        });
        let difference = Some(whole(self.differences)).filter(|text| !text.is_empty());
        Document {
            format_version: FORMAT_VERSION,
            directory: self.flags.directory.display().to_string(),
            done: self.is_done,
            files: self.files.all(),
            left: left.collect(),
            notes: &self.notes,
            difference,
            plan: &self.document.summary,
        }
    }

    fn human(&self) -> Result<(), Failure> {
        let left = Capped::new(self.left, self.common.detail());
        for left in &left.shown {
            output::note(&format!("Service {}: {}", left.service, left.why));
        }
        left.more().iter().for_each(|more| output::note(more));
        self.notes.iter().for_each(|text| output::note(text));
        if !self.differences.is_empty() {
            return print_differences(self.differences);
        }
        output::human(&self.text())?;
        Ok(())
    }

    fn text(&self) -> String {
        let files = self.files.all();
        if files.is_empty() {
            return self.nothing();
        }
        let verb = match (self.files, self.is_done) {
            (Files::Written(_), true) => "Wrote",
            (Files::Written(_), false) => "Would write",
            (Files::Removed(_), true) => "Removed",
            (Files::Removed(_), false) => "Would remove",
        };
        let mut text = format!("{verb} {}:\n", count(files.len(), "file"));
        let files = Capped::new(files, self.common.detail());
        for file in &files.shown {
            text += &format!("  {}\n", printable(&file.path));
        }
        if let Some(more) = files.more() {
            text += &format!("  {more}\n");
        }
        text + &self.next_step()
    }

    fn nothing(&self) -> String {
        match (self.files, self.pinned, self.left.is_empty()) {
            (Files::Removed(_), ..) => {
                "Nothing to thaw: no file here is as `lb freeze` wrote it.\n".to_owned()
            }
            (Files::Written(_), 0, true) => {
                "Nothing to freeze: no Service holds an address.\n".to_owned()
            }
            (Files::Written(_), 0, false) => "No pin was written: the notes say why.\n".to_owned(),
            (Files::Written(_), pinned, _) => {
                let services = count(pinned, "Service");
                format!("Nothing to freeze: {services} pinned already.\n")
            }
        }
    }

    fn next_step(&self) -> String {
        let first = first_lines(self.document, self.common.detail());
        let files = match self.files {
            Files::Written(_) => "with these files",
            Files::Removed(_) => "without these files",
        };
        let plan = format!("\nThe plan {files}:\n{first}");
        let directory = shell(&self.flags.directory.to_string_lossy());
        let command = format!("cilium-ipam apply {directory}{}", self.common.flags());
        match (self.files, self.is_done) {
            (_, false) => {
                format!("{plan}\nNo file was changed. Run it again without --dry-run.\n")
            }
            (Files::Removed(_), true) => plan,
            (Files::Written(_), true) if self.document.refusals.is_empty() => format!(
                "{plan}\nNext step:\n  {}   # write the annotations\n",
                printable(&command)
            ),
            (Files::Written(_), true) => format!(
                "{plan}\nOther edits in these files are refused, so the pins cannot be applied with them.\nNext steps:\n  1. Undo these edits, and keep the files written now.\n  2. {}   # write the annotations\n  3. Make the edits again.\n",
                printable(&command)
            ),
        }
    }
}
