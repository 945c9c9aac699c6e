//! Small facts that are kept in files between runs, for the owner alone. A file that cannot be written is as good as none: what it would have
//! told is asked for again.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a file keeps.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Keeps it: whoever reads sees the old or the new, never a part.
pub(super) fn keep<T: Serialize>(path: &Path, fact: &T) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{:016x}.unfinished", fastrand::u64(..)));
    let written = write(&unfinished, &serde_json::to_vec(fact)?).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?.write_all(bytes)
}
