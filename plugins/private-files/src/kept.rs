//! Small JSON files that keep facts between runs, for their owner alone. A lost file is harmless:
//! its caller asks for the facts again.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk;

/// Prefix of the names of unfinished files. No finished file has it.
const UNFINISHED: &str = ".";

/// Age at which an unfinished file counts as left by a killed process.
const ABANDONED: Duration = Duration::from_mins(10);

/// The fact in a file; `None` if the file is absent or cannot be read.
pub fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces the file atomically: a reader sees the old or the new fact, never a part.
///
/// # Errors
/// Fails if the new file cannot be written or renamed.
pub fn keep<T: Serialize>(path: &Path, fact: &T) -> io::Result<()> {
    replace(path, fact, |_| Ok(()))
}

/// Replaces the file as [`keep`] does, and survives a crash of the machine.
///
/// # Errors
/// As for [`keep`], and if syncing fails.
pub fn keep_synced<T: Serialize>(path: &Path, fact: &T) -> io::Result<()> {
    replace(path, fact, disk::sync_file)?;
    path.parent().map_or(Ok(()), disk::sync_folder)
}

fn replace<T: Serialize>(
    path: &Path,
    fact: &T,
    finish: fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let unfinished = path.with_file_name(format!("{UNFINISHED}{:016x}", fastrand::u64(..)));
    let written = disk::create(&unfinished, &serde_json::to_vec(fact)?)
        .and_then(|()| finish(&unfinished))
        .and_then(|()| disk::rename(&unfinished, path));
    if written.is_err() {
        let _ = disk::remove(&unfinished);
    }
    written
}

/// Whether the name is that of an unfinished file.
pub fn is_unfinished(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED))
}

/// Removes unfinished files that killed processes left.
pub fn clean(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_old = |metadata: fs::Metadata| {
            metadata
                .modified()
                .ok()
                .and_then(|at| at.elapsed().ok())
                .is_some_and(|age| age > ABANDONED)
        };
        if is_unfinished(&path) && entry.metadata().is_ok_and(is_old) {
            let _ = disk::remove(&path);
        }
    }
}
