//! Changes of files and folders, one system call each. What a change needs to survive a crash of
//! the machine is the caller's decision: a synced file has its content, and a synced folder has its
//! names. Knows no content.
//!
//! With the feature `simulated-machine`, tests watch and refuse the changes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{self, Path};

/// A change that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'p> {
    /// A new file with this content.
    Create(&'p Path, &'p [u8]),
    /// A rename, which replaces the target.
    Rename(&'p Path, &'p Path),
    Remove(&'p Path),
    CreateFolder(&'p Path),
    /// The content of the file becomes durable.
    SyncFile(&'p Path),
    /// Names in the folder become durable.
    SyncFolder(&'p Path),
}

/// Creates a file that must not exist. After an error, a part of it may exist.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    announce(Change::Create(path, bytes))?;
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

/// Renames a file. A file with the new name is replaced.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    announce(Change::Rename(from, to))?;
    fs::rename(from, to)
}

/// Removes a file.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn remove(path: &Path) -> io::Result<()> {
    announce(Change::Remove(path))?;
    fs::remove_file(path)
}

/// Creates a folder for its owner alone, with the folders above it.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn create_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // The folder above a relative name is the current one.
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    above.map_or(Ok(()), create_folders)?;
    announce(Change::CreateFolder(path))?;
    match DirBuilder::new().mode(0o700).create(path) {
        // Another process created the folder since.
        Err(why) if why.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes the content of a file survive a crash of the machine.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn sync_file(path: &Path) -> io::Result<()> {
    announce(Change::SyncFile(path))?;
    File::open(path)?.sync_all()
}

/// Makes the names in a folder survive a crash of the machine.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    announce(Change::SyncFolder(path))?;
    File::open(path)?.sync_all()
}

/// Syncs a folder and those above it, up to `top`: a folder that is not synced can vanish with the
/// synced files in it.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn sync_folders_up_to(top: &Path, folder: &Path) -> io::Result<()> {
    folder
        .ancestors()
        .take_while(|above| above.starts_with(top))
        .try_for_each(sync_folder)
}

/// Makes the name of a folder survive a crash of the machine, with the names of those above it: without
/// one of them, everything below is lost.
///
/// # Errors
/// Fails if the operating system refuses.
pub fn sync_names_above(folder: &Path) -> io::Result<()> {
    let folder = path::absolute(folder)?;
    let device = fs::metadata(&folder)?.dev();
    for above in folder.ancestors().skip(1) {
        // Above a mount point, this program created no folder.
        if fs::metadata(above)?.dev() != device {
            break;
        }
        match sync_folder(above) {
            // Above a folder that the program may not look into, it created no folder.
            Err(why) if why.kind() == ErrorKind::PermissionDenied => break,
            synced => synced?,
        }
    }
    Ok(())
}

#[cfg(not(feature = "simulated-machine"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "a simulated machine refuses changes"
)]
fn announce(_: Change<'_>) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "simulated-machine")]
fn announce(change: Change<'_>) -> io::Result<()> {
    crate::simulated::current().map_or(Ok(()), |machine| machine.before(change))
}
