//! The temporary folder of one run: removed when its guard is dropped, and swept away by
//! a later run when the test process ended without dropping it (a `static`, a signal).
//!
//! etcd alone takes over 100 MB there, so leftovers would fill the disk soon.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::{Error, Result};

const PARENT: &str = "cilium-ipam-testbed";
const LOCK: &str = "in-use";

/// A folder which this process owns for as long as it holds the lock inside.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: TempDir,
    _lock: File,
}

impl RunFolder {
    pub(crate) fn new() -> Result<Self> {
        let parent = std::env::temp_dir().join(PARENT);
        fs::create_dir_all(&parent).map_err(Error::file(&parent))?;
        // Held while a folder has no lock of its own yet, so that no sweep takes it.
        let guard = parent.join("creating");
        let guard_file = File::create(&guard).map_err(Error::file(&guard))?;
        guard_file.lock().map_err(Error::file(&guard))?;
        sweep(&parent);
        let folder = TempDir::with_prefix_in("run-", &parent).map_err(Error::file(&parent))?;
        let lock_path = folder.path().join(LOCK);
        let lock = File::create(&lock_path).map_err(Error::file(&lock_path))?;
        lock.lock().map_err(Error::file(&lock_path))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file that only this user can read; returns where it lies.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path().join(name);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::file(&path))?;
        file.write_all(text.as_bytes())
            .map_err(Error::file(&path))?;
        Ok(path)
    }
}

/// Removes the folders whose owner is gone. The next run retries those that cannot be removed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && is_abandoned(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        // A folder that is half removed already.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_kept_and_an_abandoned_one_is_swept() {
        let parent = TempDir::new().unwrap();
        let [used, left] = ["run-used", "run-left"].map(|name| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            File::create(folder.join(LOCK)).unwrap();
            folder
        });
        let lock = File::open(used.join(LOCK)).unwrap();
        lock.lock().unwrap();
        sweep(parent.path());
        assert!(used.exists());
        assert!(!left.exists());
    }
}
