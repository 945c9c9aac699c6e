//! The boot of this machine: what it is called, and when it was. Knows no file of a program.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::read_small;

/// The kernel's id of this boot.
///
/// # Errors
/// Fails if the kernel does not report it.
pub fn id() -> io::Result<String> {
    #[cfg(feature = "simulated-machine")]
    if let Some(machine) = crate::simulated::current() {
        return Ok(machine.boot_id());
    }
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

/// When the kernel booted, by the clock of now; `None` if it does not report it.
pub fn time() -> Option<SystemTime> {
    #[cfg(feature = "simulated-machine")]
    if let Some(machine) = crate::simulated::current() {
        return Some(machine.booted_at());
    }
    let statistics = read_small(Path::new("/proc/stat")).ok()?;
    let boot = statistics
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(boot.trim().parse().ok()?))
}

/// Whether the file was last written before this boot. Unknown is `false`.
pub fn is_older(path: &Path) -> bool {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    written
        .ok()
        .zip(time())
        .is_some_and(|(written, boot)| written < boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_younger_than_the_boot_and_an_absent_one_unknown() {
        let folder = std::env::temp_dir().join(format!("boot-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("file");
        fs::write(&path, "").unwrap();
        assert!(!is_older(&path) && !is_older(&folder.join("absent")));
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(long_ago))
            .unwrap();
        assert!(is_older(&path));
        fs::remove_dir_all(folder).unwrap();
        assert!(!id().unwrap().is_empty());
    }
}
