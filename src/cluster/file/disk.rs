//! The file on disk: locked while it is written, and replaced in one step.

use std::fs::{File, Permissions, TryLockError};
use std::io::Write as _;
use std::path::Path;

use super::super::ClusterError;
use super::Opening;

/// Opens the file, locked for writing where that is asked. The lock belongs to the file that the name leads to at the end:
/// a process that waited for the one before it must not write to what that one replaced.
pub(super) fn open_file(path: &Path, opening: Opening) -> Result<(File, bool), ClusterError> {
    let fault = |error: &dyn std::fmt::Display| ClusterError::File {
        path: path.display().to_string(),
        message: error.to_string(),
    };
    let file = File::open(path).map_err(|error| fault(&error))?;
    if opening == Opening::Read {
        return Ok((file, false));
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ClusterError::Locked { path: path.display().to_string() }),
        Err(TryLockError::Error(error)) => return Err(fault(&error)),
    }
    let same = same_file(&file, path).map_err(|error| fault(&error))?;
    if same == Identity::Replaced {
        return Err(ClusterError::Locked { path: path.display().to_string() });
    }
    Ok((file, true))
}

#[derive(PartialEq, Eq)]
enum Identity {
    Same,
    Replaced,
}

fn same_file(file: &File, path: &Path) -> std::io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let (open, named) = (file.metadata()?, std::fs::metadata(path)?);
    Ok(if (open.dev(), open.ino()) == (named.dev(), named.ino()) { Identity::Same } else { Identity::Replaced })
}

/// Replaces a file in one step: a reader sees the old or the new content, never a part. The mode stays; a new file has mode 0600.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mode = std::fs::metadata(path).map(|metadata| metadata.permissions());
    replace_with_mode(path, text, mode.ok())
}

/// The same, and the file has mode 0600 from its first byte on, whatever mode it had.
pub fn replace_private(path: &Path, text: &str) -> std::io::Result<()> {
    replace_with_mode(path, text, None)
}

fn replace_with_mode(path: &Path, text: &str, mode: Option<Permissions>) -> std::io::Result<()> {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // It is made with mode 0600.
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    if let Some(mode) = mode {
        temporary.as_file().set_permissions(mode)?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(&target).map_err(|error| error.error)?;
    Ok(())
}
