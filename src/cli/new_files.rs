//! New files: writes all of them or none, and compares them with those that exist. Must never know
//! what the files mean.

pub(super) mod trial;
pub(super) mod yaml;

use std::fs::Permissions;
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use similar::TextDiff;
use tempfile::{Builder, NamedTempFile};

use super::failure::Failure;
use super::output;
use crate::render::printable;
use ipam_config::documents::SourceFile;
use ipam_core::text::one_line;

/// Mode of a new file, before the process's umask.
#[cfg(unix)]
const MODE: u32 = 0o666;

/// Lines around a difference.
const CONTEXT: usize = 3;

/// A file to write.
#[derive(Debug)]
pub(super) struct NewFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl NewFile {
    /// The new file, in the form of a file that was read from its directory.
    pub(super) fn source(&self) -> SourceFile {
        SourceFile {
            path: self.path.to_string_lossy().into(),
            text: self.text.as_str().into(),
        }
    }
}

/// A file, as JSON.
#[derive(Serialize)]
pub(super) struct FileDocument<'f> {
    pub(super) path: String,
    /// Its content; absent if `lb thaw` removes the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'f str>,
}

impl<'f> From<&'f NewFile> for FileDocument<'f> {
    fn from(file: &'f NewFile) -> FileDocument<'f> {
        FileDocument {
            path: file.path.display().to_string(),
            text: Some(&file.text),
        }
    }
}

pub(super) fn exists(path: &Path) -> Failure {
    Failure::Failed(format!(
        "{} exists; nothing was written: files are never replaced, so move it away or name another directory",
        path.display()
    ))
}

/// Writes all files, or none if one of them exists or cannot be written.
pub(super) fn write_all(files: &[NewFile]) -> Result<(), Failure> {
    // A dangling link counts as a file.
    if let Some(file) = files
        .iter()
        .find(|file| file.path.symlink_metadata().is_ok())
    {
        return Err(exists(&file.path));
    }
    let mut made = Made::default();
    let outcome = made.all(files);
    if outcome.is_err() {
        made.remove();
    }
    outcome
}

/// The files that were written, for people.
pub(super) fn wrote(files: &[NewFile]) -> String {
    let mut text = "Wrote:\n".to_owned();
    for file in files {
        text += &format!("  {}\n", printable(&file.path.display().to_string()));
    }
    text
}

/// Commands with what each does.
pub(super) fn next_steps(steps: &[(String, &str)]) -> String {
    let width = steps.iter().map(|(step, _)| step.len()).max().unwrap_or(0);
    let mut text = "Next steps:\n".to_owned();
    for (step, what) in steps {
        text += &format!("  {}   # {what}\n", printable(&format!("{step:width$}")));
    }
    text
}

/// Files and folders that were created so far.
#[derive(Default)]
struct Made {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Made {
    fn all(&mut self, files: &[NewFile]) -> Result<(), Failure> {
        let mut staged = Vec::new();
        for file in files {
            let stage = self
                .folder_of(&file.path)
                .and_then(|folder| stage(&folder, &file.text));
            staged.push((
                stage.map_err(|error| unwritable(&file.path, &error))?,
                &file.path,
            ));
        }
        for (stage, path) in staged {
            match stage.persist_noclobber(path) {
                Ok(_) => self.files.push(path.clone()),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                    return Err(exists(path));
                }
                Err(error) => return Err(unwritable(path, &error.error)),
            }
        }
        Ok(())
    }

    /// The folder of a file. Makes it, and remembers each one that was missing.
    fn folder_of(&mut self, path: &Path) -> Result<PathBuf, Error> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .collect();
        for folder in missing.into_iter().rev() {
            std::fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(folder.to_owned())
    }

    fn remove(&self) {
        // A failure to remove is not reported: the first failure is.
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn stage(folder: &Path, text: &str) -> Result<NamedTempFile, Error> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(MODE));
    let mut file = builder.prefix(".cilium-ipam-new-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn unwritable(path: &Path, error: &Error) -> Failure {
    Failure::Failed(format!(
        "{} cannot be written: {error}; nothing was written",
        path.display()
    ))
}

/// The unified difference of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The two header lines that name the files. Contains only escaped text.
    pub(super) header: String,
    pub(super) body: String,
}

/// The differences of all files as one text.
pub(super) fn whole(differences: &[Difference]) -> String {
    let texts = differences.iter();
    texts
        .map(|one| format!("{}{}", one.header, one.body))
        .collect()
}

/// Prints the headers as they are: escaped, they would name no files.
pub(super) fn print_differences(differences: &[Difference]) -> Result<(), Failure> {
    for Difference { header, body } in differences {
        output::script(header)?;
        output::data(body)?;
    }
    Ok(())
}

/// The text of a file; `None` if it does not exist.
pub(super) fn text(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        // A dangling link counts as a file.
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            Ok(None)
        }
        Err(error) => Err(Failure::Failed(format!(
            "{} cannot be read: {error}; nothing was written",
            path.display()
        ))),
    }
}

/// The difference of one file to what `by` would write.
pub(super) fn difference(
    path: &Path,
    old: Option<&str>,
    new: &str,
    by: &str,
) -> Option<Difference> {
    if old == Some(new) {
        return None;
    }
    let shown = path.display().to_string();
    let shown = one_line(&shown);
    let before = match old {
        Some(_) => &shown,
        None => "/dev/null",
    };
    let diff = TextDiff::from_lines(old.unwrap_or_default(), new);
    Some(Difference {
        header: format!("--- {before}\n+++ {shown} ({by})\n"),
        body: diff.unified_diff().context_radius(CONTEXT).to_string(),
    })
}
