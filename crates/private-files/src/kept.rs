//! Small facts that are kept in files between runs, for the owner alone. A file that cannot be
//! written is as good as none: what it would have told is asked for again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How the names of files begin that are not whole yet; nothing that is kept is called so.
const UNFINISHED: &str = ".";

/// Nobody writes for so long.
const ABANDONED: Duration = Duration::from_mins(10);

/// What a file keeps.
pub fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Keeps it: whoever reads sees the old or the new, never a part.
pub fn keep<T: Serialize>(path: &Path, fact: &T) -> io::Result<()> {
    replace(path, fact, |_| Ok(()))
}

/// The same, and a crash of the machine does not undo it.
pub fn keep_synced<T: Serialize>(path: &Path, fact: &T) -> io::Result<()> {
    replace(path, fact, File::sync_all)?;
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn replace<T: Serialize>(
    path: &Path,
    fact: &T,
    finish: fn(&File) -> io::Result<()>,
) -> io::Result<()> {
    let unfinished = path.with_file_name(format!("{UNFINISHED}{:016x}", fastrand::u64(..)));
    let written = write(&unfinished, &serde_json::to_vec(fact)?).and_then(|file| finish(&file));
    let written = written.and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Whether it is the name of a file that is not whole yet.
pub fn is_unfinished(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED))
}

/// Removes what killed runs left unfinished.
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
            let _ = fs::remove_file(path);
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}
