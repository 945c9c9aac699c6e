//! Writes new files, all of them or none. Never replaces a file.

use std::fs::Permissions;
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::cli::failure::Failure;

/// Mode of a new file, before the process's umask.
#[cfg(unix)]
const MODE: u32 = 0o666;

/// A file to write.
#[derive(Debug)]
pub(in crate::cli) struct NewFile {
    pub(in crate::cli) path: PathBuf,
    pub(in crate::cli) text: String,
}

pub(in crate::cli) fn exists(path: &Path) -> Failure {
    Failure::Failed(format!(
        "{} exists; nothing was written: files are never replaced, so move it away or name another directory",
        path.display()
    ))
}

/// Writes all files, or none if one of them exists or cannot be written.
pub(in crate::cli) fn write_all(files: &[NewFile]) -> Result<(), Failure> {
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

/// What was made so far.
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
