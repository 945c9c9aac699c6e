//! Compares the files that would be written with those that are there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Arguments;
use crate::cli::failure::Failure;
use crate::cli::new_files::{Difference, NewFile, difference, text, whole};
use crate::render::{Detail, diagnostics};
use ipam_config::documents::Documents;
use ipam_config::source::{Location, read};
use ipam_core::model::{Finding, Rule, Severity};
use ipam_core::text::one_line;

/// What the directory has already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// No file that a plan would read.
    None,
    /// The directory has exactly the new files.
    Equal,
    /// The directory has other files: their differences from the new ones.
    Different(Vec<Difference>),
}

impl Existing {
    /// Whether the files are written.
    pub(super) fn allows(&self, arguments: &Arguments) -> bool {
        *self == Existing::None && !arguments.dry_run
    }

    /// All differences as one text; `None` without differences.
    pub(super) fn difference(&self) -> Option<String> {
        match self {
            Existing::Different(differences) => Some(whole(differences)),
            Existing::None | Existing::Equal => None,
        }
    }
}

/// # Errors
/// Fails if a part of the directory cannot be read: it may have files.
pub(super) fn compare(
    directory: &Path,
    files: &[NewFile],
    detail: Detail,
) -> Result<Existing, Failure> {
    let found = match directory.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        _ => readable(directory, detail)?.files,
    };
    let found: Vec<PathBuf> = found
        .iter()
        .map(|file| PathBuf::from(&*file.path))
        .collect();
    let is_new = |path: &PathBuf| files.iter().all(|file| file.path != *path);
    let others: Vec<&PathBuf> = found.iter().filter(|path| is_new(path)).collect();
    let mut is_empty = others.is_empty();
    let mut differences = Vec::new();
    for file in files {
        let old = text(&file.path)?;
        is_empty &= old.is_none();
        differences.extend(difference(&file.path, old.as_deref(), &file.text, "import"));
    }
    for path in &others {
        differences.push(Difference {
            header: String::new(),
            body: format!(
                "Only in the directory: {}\n",
                one_line(&path.display().to_string())
            ),
        });
    }
    Ok(match (is_empty, differences.is_empty()) {
        (true, _) => Existing::None,
        (false, true) => Existing::Equal,
        (false, false) => Existing::Different(differences),
    })
}

/// What can be read of a directory. It may be empty.
fn readable(directory: &Path, detail: Detail) -> Result<Documents, Failure> {
    let found = read(&Location::from(directory));
    let is_fault = |finding: &Finding| {
        finding.severity == Severity::Error && finding.rule != Rule("empty-directory")
    };
    let faults: Vec<Finding> = found.findings.into_iter().filter(is_fault).collect();
    match faults.is_empty() {
        true => Ok(found.documents),
        false => Err(Failure::Unwritten(diagnostics(
            &faults,
            &found.documents,
            detail,
        ))),
    }
}
