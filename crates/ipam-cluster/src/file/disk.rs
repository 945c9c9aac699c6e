//! The file on disk: locked while it is written, and replaced in one step.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io::{BufWriter, Error, ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::super::ClusterError;
use super::Opening;

/// The lock on a cluster file. It belongs to the file that the name leads to: a process that waited
/// for the one before it must not write to what that one replaced.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    /// A child process that another thread is starting has the file open too, until it runs its
    /// program.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Lock {
    fn take(file: File) -> std::result::Result<Lock, TryLockError> {
        file.try_lock()?;
        Ok(Lock(file))
    }
}

/// Opens a cluster file. Locks it if it is opened for writing.
pub(super) fn open_file(
    path: &Path,
    opening: Opening,
) -> std::result::Result<(File, Option<Lock>), ClusterError> {
    let locked = || ClusterError::Locked {
        path: path.display().to_string(),
    };
    let fault = |error: Error| ClusterError::File {
        path: path.display().to_string(),
        message: error.to_string(),
    };
    let file = match opening {
        Opening::Read if is_open_already(path) => File::open(path),
        Opening::Read | Opening::Write => open_regular(path),
    };
    let file = file.map_err(fault)?;
    if opening == Opening::Read {
        return Ok((file, None));
    }
    let lock = match file
        .try_clone()
        .map_err(TryLockError::Error)
        .and_then(Lock::take)
    {
        Ok(lock) => lock,
        Err(TryLockError::WouldBlock) => return Err(locked()),
        Err(TryLockError::Error(error)) => return Err(fault(error)),
    };
    if !is_same(&file, path).map_err(fault)? {
        return Err(locked());
    }
    if let Ok(target) = std::fs::canonicalize(path) {
        remove_leftovers(folder_of(&target), &prefix(&target));
    }
    Ok((file, Some(lock)))
}

/// Opens a regular file. Anything else may have no end, and opening a pipe waits for its other end.
///
/// # Errors
/// The file cannot be opened, or is not a regular one.
pub fn open_regular(path: &Path) -> Result<File> {
    let refuse_others = |metadata: Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    };
    std::fs::metadata(path).and_then(refuse_others)?;
    File::open(path)
}

/// Whether a path is that of a file that this process was given, such as a pipe from `kubectl`:
/// opening it waits for nothing.
pub(super) fn is_open_already(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

fn is_same(file: &File, path: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (open, named) = (file.metadata()?, std::fs::metadata(path)?);
    Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
}

/// Replaces a file in one step: a reader sees the old or the new content, never a part, and so does
/// a machine that loses its power. The mode stays; a new file has mode 0600. A symbolic link is
/// replaced itself: in a shared folder, another user may have made it.
///
/// # Errors
/// Nothing was replaced, or the folder could not be brought to disk.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let named = path.symlink_metadata().ok();
    let mode = named
        .filter(Metadata::is_file)
        .map(|file| file.permissions());
    output(path)?.write(&[text], mode)?.persist()
}

/// Replaces a file as [`replace`] does, but the file has mode 0600 from its first byte on, whatever
/// mode it had.
///
/// # Errors
/// As for [`replace`].
pub fn replace_private(path: &Path, text: &str) -> Result<()> {
    output(path)?.write(&[text], None)?.persist()
}

/// Whether [`replace`] can write here: creates the temporary file, and removes it.
///
/// # Errors
/// The folder is missing or read-only, or the path is not that of a regular file.
pub fn check_output(path: &Path) -> Result<()> {
    output(path).map(drop)
}

/// A file that takes the place of a name, whatever a link of this name leads to.
fn output(path: &Path) -> Result<Replacement> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::InvalidInput, why.to_owned()));
    match path.symlink_metadata() {
        Ok(named) if named.is_dir() => refuse("it is a directory"),
        Ok(named) if !named.is_file() && !named.is_symlink() => refuse("it is not a regular file"),
        _ if path.starts_with("/dev") || path.starts_with("/proc") => {
            refuse("it is a device: omit the flag to print to stdout")
        }
        _ => Replacement::in_place_of(path.to_owned()),
    }
}

/// Replaces a locked file by a text in parts; the lock goes over to the new file before other
/// programs can see it.
pub(super) fn replace_locked(path: &Path, parts: &[&str], lock: &mut Option<Lock>) -> Result<()> {
    if let Some(Lock(file)) = lock
        && !is_same(file, path)?
    {
        return Err(Error::other("another program has replaced it"));
    }
    let replacement = Replacement::of(path)?.write(parts, mode_of(path))?;
    let next = Lock::take(replacement.file.as_file().try_clone()?).map_err(Error::from)?;
    let folder = replacement.rename()?;
    *lock = Some(next);
    sync(&folder)
}

fn mode_of(path: &Path) -> Option<Permissions> {
    std::fs::metadata(path)
        .ok()
        .map(|metadata| metadata.permissions())
}

/// Bytes that are written at once. With 8 KiB, writes take a fifth of the processor time of `apply` to
/// a large file.
const BUFFER: usize = 1 << 20;

/// A file that takes the place of another one.
struct Replacement {
    target: PathBuf,
    folder: PathBuf,
    file: NamedTempFile,
}

impl Replacement {
    fn of(path: &Path) -> Result<Replacement> {
        Replacement::in_place_of(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }

    fn in_place_of(target: PathBuf) -> Result<Replacement> {
        let folder = folder_of(&target).to_owned();
        remove_leftovers(&folder, &prefix(&target));
        let file = create_locked(&folder, &prefix(&target))?;
        Ok(Replacement {
            target,
            folder,
            file,
        })
    }

    fn write(mut self, parts: &[&str], mode: Option<Permissions>) -> Result<Replacement> {
        let mut writer = BufWriter::with_capacity(BUFFER, self.file.as_file_mut());
        for part in parts {
            writer.write_all(part.as_bytes())?;
        }
        writer.flush()?;
        drop(writer);
        if let Some(mode) = mode {
            self.file.as_file().set_permissions(mode)?;
        }
        self.file.as_file().sync_all()?;
        Ok(self)
    }

    fn persist(self) -> Result<()> {
        sync(&self.rename()?)
    }

    /// Takes the place of the other file. Returns the folder, which is not on disk yet.
    fn rename(self) -> Result<PathBuf> {
        let Replacement {
            target,
            folder,
            file,
        } = self;
        file.persist(&target).map_err(|error| error.error)?;
        Ok(folder)
    }
}

/// Brings a folder to disk. Not every file system can do this, and those that cannot need not.
fn sync(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error)
            if !matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Creates a file with mode 0600 and locks it, so that no other process takes it for a leftover.
fn create_locked(folder: &Path, prefix: &OsStr) -> Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).rand_bytes(RANDOM_LETTERS);
    lock_new(|| builder.tempfile_in(folder).map_err(without_random_name))
}

/// The error without the name of the temporary file, which means nothing to people.
fn without_random_name(error: Error) -> Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((why, _)) => Error::new(error.kind(), why.to_owned()),
        None => error,
    }
}

/// Locks a new file. Between the two steps, another process can lock and remove it as a leftover.
/// Then it tries again with another one.
fn lock_new(mut create: impl FnMut() -> Result<NamedTempFile>) -> Result<NamedTempFile> {
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let file = create()?;
        match file.as_file().try_lock() {
            // On a file system without locks, leftover files are not removed, so no lock is needed.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => continue,
        }
        if is_same(file.as_file(), file.path()).unwrap_or(false) {
            return Ok(file);
        }
    }
    Err(Error::new(
        ErrorKind::WouldBlock,
        "other processes remove its temporary files: try again",
    ))
}

fn folder_of(target: &Path) -> &Path {
    target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// How many letters and digits end the name of a temporary file.
const RANDOM_LETTERS: usize = 6;

/// The name of a temporary file without its random end; `None` if the name has another form.
fn without_random_end(name: &[u8]) -> Option<&[u8]> {
    let (start, end) = name.split_at_checked(name.len().checked_sub(RANDOM_LETTERS)?)?;
    end.iter().all(u8::is_ascii_alphanumeric).then_some(start)
}

/// Prefix of the names of temporary files that will replace the target.
fn prefix(target: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push(".cilium-ipam-");
    prefix
}

/// Removes temporary files of killed processes: those with this prefix and a random end that no
/// process has locked.
fn remove_leftovers(folder: &Path, prefix: &OsStr) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_ours = |name: OsString| {
        without_random_end(name.as_encoded_bytes()) == Some(prefix.as_encoded_bytes())
    };
    for entry in entries.filter(|entry| is_ours(entry.file_name())) {
        remove_unlocked(&entry.path());
    }
}

fn remove_unlocked(path: &Path) {
    if let Ok(file) = open_regular(path)
        && file.try_lock().is_ok()
    {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the temporary files that killed processes left for files named `START….json` in a
/// folder.
///
/// Files that another process is writing stay.
pub fn remove_leftovers_of(folder: &Path, start: &str) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let (start, end) = (format!(".{start}"), b".json.cilium-ipam-");
    for entry in entries {
        let name = entry.file_name();
        let is_ours = |name: &[u8]| name.starts_with(start.as_bytes()) && name.ends_with(end);
        if without_random_end(name.as_encoded_bytes()).is_some_and(is_ours) {
            remove_unlocked(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_names_a_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = replace(&folder.path().join("missing/cluster.json"), "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    }

    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.json");
        std::fs::write(&path, "old").unwrap();
        (folder, path)
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_lock_ends_with_its_holder_whatever_a_child_has_inherited() {
        let (_folder, path) = file();
        let (_, lock) = open_file(&path, Opening::Write).unwrap();
        // As a fork has it.
        let inherited = lock.as_ref().unwrap().0.try_clone().unwrap();
        assert!(matches!(
            open_file(&path, Opening::Write),
            Err(ClusterError::Locked { .. })
        ));
        drop(lock);
        open_file(&path, Opening::Write).unwrap();
        drop(inherited);
    }

    #[test]
    fn a_lock_holds_over_a_replacement() {
        let (folder, path) = file();
        let (_, mut lock) = open_file(&path, Opening::Write).unwrap();
        for text in ["new", "newer"] {
            replace_locked(&path, &[text], &mut lock).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert!(matches!(
                open_file(&path, Opening::Write),
                Err(ClusterError::Locked { .. })
            ));
        }
        assert_eq!(names(folder.path()), ["cluster.json"]);
        drop(lock);
        open_file(&path, Opening::Write).unwrap();
    }

    #[test]
    fn what_another_program_has_put_there_is_not_replaced() {
        let (folder, path) = file();
        let (_, mut lock) = open_file(&path, Opening::Write).unwrap();
        std::fs::write(folder.path().join("other"), "theirs").unwrap();
        std::fs::rename(folder.path().join("other"), &path).unwrap();
        assert!(replace_locked(&path, &["new"], &mut lock).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
    }

    /// A temporary file of a killed process.
    fn leftover(path: &Path) -> PathBuf {
        let left = Replacement::of(path)
            .unwrap()
            .write(&["ha", "lf"], None)
            .unwrap();
        let (file, left) = left.file.keep().unwrap();
        drop(file);
        left
    }

    #[test]
    fn what_a_kill_has_left_goes_with_the_next_replacement() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        leftover(&path);
        assert_eq!(names(folder.path()).len(), 1);
        replace_private(&path, "whole").unwrap();
        assert_eq!(names(folder.path()), ["plan.json"]);
        leftover(&path);
        replace(&path, "whole").unwrap();
        assert_eq!(names(folder.path()), ["plan.json"]);
    }

    #[test]
    fn what_another_process_is_writing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let slow = Replacement::of(&path).unwrap();
        replace_private(&path, "fast").unwrap();
        let slow = slow.write(&["slow"], None).unwrap();
        slow.persist().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "slow");
        assert_eq!(names(folder.path()), ["plan.json"]);
    }

    #[test]
    fn leftovers_are_found_by_the_start_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        leftover(&folder.path().join("undo-20260101T000000Z.json"));
        let other = leftover(&folder.path().join("plan.json"));
        remove_leftovers_of(folder.path(), "undo-");
        assert_eq!(names(folder.path()), [other.file_name().unwrap()]);
    }

    #[test]
    fn what_a_kill_has_left_goes_with_the_next_opening() {
        let (folder, path) = file();
        let left = leftover(&path);
        std::fs::write(folder.path().join(".other.json.cilium-ipam-123456"), "").unwrap();
        open_file(&path, Opening::Read).unwrap();
        assert!(left.exists());
        open_file(&path, Opening::Write).unwrap();
        assert_eq!(
            names(folder.path()),
            [".other.json.cilium-ipam-123456", "cluster.json"]
        );
    }

    /// A new file that another process has taken for a leftover, and that process' lock.
    fn taken_for_leftover(folder: &Path) -> (NamedTempFile, File) {
        let file = tempfile::Builder::new().tempfile_in(folder).unwrap();
        let other = File::open(file.path()).unwrap();
        other.try_lock().unwrap();
        (file, other)
    }

    #[test]
    fn a_file_that_another_process_has_locked_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut others = Vec::new();
        let file = lock_new(|| {
            if others.len() == 2 {
                return tempfile::Builder::new().tempfile_in(folder.path());
            }
            let (file, other) = taken_for_leftover(folder.path());
            others.push(other);
            Ok(file)
        });
        let file = file.unwrap();
        assert_eq!(others.len(), 2);
        assert_eq!(names(folder.path()), [file.path().file_name().unwrap()]);
        let other = File::open(file.path()).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
    }

    #[test]
    fn without_a_lock_the_last_attempt_fails_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut others = Vec::new();
        let locked = lock_new(|| {
            let (file, other) = taken_for_leftover(folder.path());
            others.push(other);
            Ok(file)
        });
        assert_eq!(locked.unwrap_err().kind(), ErrorKind::WouldBlock);
        let removed = lock_new(|| {
            let file = tempfile::Builder::new().tempfile_in(folder.path())?;
            std::fs::remove_file(file.path())?;
            Ok(file)
        });
        assert_eq!(removed.unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn files_of_a_person_are_no_leftovers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("undo-1.json");
        let theirs = [
            ".undo-1.json.cilium-ipam-",
            ".undo-1.json.cilium-ipam-12345",
            ".undo-1.json.cilium-ipam-12345-",
            ".undo-1.json.cilium-ipam-1234567",
            ".undo-1.json.cilium-ipam-notes",
            ".undo-1.json.cilium-ipam-notes.txt",
        ];
        for name in theirs {
            std::fs::write(folder.path().join(name), "theirs").unwrap();
        }
        leftover(&path);
        remove_leftovers_of(folder.path(), "undo-");
        assert_eq!(names(folder.path()), theirs);
        leftover(&path);
        replace(&path, "whole").unwrap();
        assert_eq!(names(folder.path()).len(), theirs.len() + 1);
    }
}
