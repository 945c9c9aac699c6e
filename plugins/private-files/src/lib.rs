//! Files on a node that only their owner may read: locks, secrets, and facts kept between runs.
//! Knows nothing of CNI, OpenStack or Kubernetes.
#![forbid(unsafe_code)]

pub mod boot;
pub mod disk;
mod error;
pub mod kept;
#[cfg(feature = "simulated-machine")]
pub mod simulated;

pub use error::{FileError, Secret};

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Pause between attempts to lock: no system call waits for a lock with a time limit.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Name of the machine by its firmware. In a VM of OpenStack it is the server's id.
const PRODUCT_UUID: &str = "/sys/class/dmi/id/product_uuid";

/// Name of the machine by its operating system (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// A lock on a file. Dropping it, or the end of the process, releases it.
pub struct Locked {
    _file: File,
}

impl Locked {
    /// Takes the lock alone, and waits for it until `until`.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or another process still holds the lock at `until`.
    pub fn alone(path: &Path, until: Instant) -> Result<Locked, FileError> {
        Locked::with(path, until, File::try_lock)
    }

    /// Takes the lock together with others who share it, and waits for it until `until`.
    ///
    /// # Errors
    /// As for [`Locked::alone`].
    pub fn shared(path: &Path, until: Instant) -> Result<Locked, FileError> {
        Locked::with(path, until, File::try_lock_shared)
    }

    /// Checks that the lock's file can be opened, without locking it.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or created.
    pub fn is_possible(path: &Path) -> Result<(), FileError> {
        Locked::open(path).map(drop)
    }

    fn open(path: &Path) -> Result<File, FileError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path);
        file.map_err(|why| FileError::of(&path.display().to_string(), &why))
    }

    fn with(
        path: &Path,
        until: Instant,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Locked, FileError> {
        let name = path.display().to_string();
        let file = Locked::open(path)?;
        loop {
            match lock(&file) {
                Ok(()) => return Ok(Locked { _file: file }),
                Err(TryLockError::Error(why)) => return Err(FileError::of(&name, &why)),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(FileError::Locked(name));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            }
        }
    }
}

/// A folder for private files. Creates it for its owner alone if it is absent.
///
/// # Errors
/// Fails if the folder cannot be created or read, or if other users may write to it.
pub fn state_folder(folder: &Path) -> Result<PathBuf, FileError> {
    let name = folder.display().to_string();
    disk::create_folders(folder).map_err(|why| FileError::of(&name, &why))?;
    let metadata = fs::metadata(folder).map_err(|why| FileError::of(&name, &why))?;
    if metadata.mode() & 0o022 != 0 || !is_trusted(&metadata)? {
        return Err(FileError::WritableFolder(name));
    }
    Ok(folder.to_owned())
}

/// The current user.
fn own_uid() -> Result<u32, FileError> {
    let own = fs::metadata("/proc/self").map_err(|why| FileError::of("/proc/self", &why))?;
    Ok(own.uid())
}

/// Whether root or the current user owns the file.
fn is_trusted(metadata: &Metadata) -> Result<bool, FileError> {
    Ok(metadata.uid() == 0 || metadata.uid() == own_uid()?)
}

/// The permissions that a file with credentials must not have. A Secret in a Pod belongs to root, and
/// the group of another user may read it.
fn excess(owner: u32, own: u32) -> u32 {
    match owner == 0 && own != 0 {
        true => 0o037,
        false => 0o077,
    }
}

/// Reads a file with credentials. Every program reads `clouds.yaml` by this rule: the current user or
/// root owns it, its mode is at most 0600, or 0640 if root owns it and the current user is another.
///
/// # Errors
/// Fails if the rule does not hold, or as [`read_small`] does.
pub fn read_secret(path: &Path) -> Result<String, FileError> {
    let name = path.display().to_string();
    let file = open(path).map_err(|why| FileError::of(&name, &why))?;
    let metadata = file.metadata().map_err(|why| FileError::of(&name, &why))?;
    let (owner, own) = (metadata.uid(), own_uid()?);
    let secret = || Secret {
        name: name.clone(),
        owner,
        own,
    };
    if !is_trusted(&metadata)? {
        return Err(FileError::ForeignSecret(secret()));
    }
    if metadata.mode() & excess(owner, own) != 0 {
        return Err(FileError::OpenSecret(secret()));
    }
    read(file).map_err(|why| FileError::of(&name, &why))
}

/// Reads a file of at most 1 MiB.
///
/// # Errors
/// Fails if it is not a regular file, is larger, or cannot be read.
pub fn read_small(path: &Path) -> Result<String, FileError> {
    open(path)
        .and_then(read)
        .map_err(|why| FileError::of(&path.display().to_string(), &why))
}

/// Rejects FIFOs: opening one blocks.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    File::open(path)
}

fn read(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "larger than 1 MiB",
        ));
    }
    Ok(text)
}

/// A unique name of this machine; host names are not unique.
///
/// # Errors
/// Fails if no file identifies the machine, or one that exists cannot be read.
pub fn node_name() -> Result<String, FileError> {
    for path in [PRODUCT_UUID, MACHINE_ID] {
        if let Some(name) = machine_name(path)? {
            return Ok(name);
        }
    }
    Err(FileError::UnknownMachine)
}

/// The name of this machine by its firmware; `None` if it has none.
///
/// # Errors
/// Fails if the file exists and cannot be read.
pub fn product_uuid() -> Result<Option<String>, FileError> {
    machine_name(PRODUCT_UUID)
}

fn machine_name(path: &str) -> Result<Option<String>, FileError> {
    match open(Path::new(path)).and_then(read) {
        // Falling back when a file is unreadable would give one machine two names.
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(FileError::of(path, &why)),
        Err(_) => Ok(None),
        Ok(text) => {
            let text = text.trim().to_ascii_lowercase();
            // Some firmware reports an id of only zeros or only `f`.
            let tells = |byte: u8| byte.is_ascii_hexdigit() && !b"0f".contains(&byte);
            Ok(Some(text).filter(|text| text.len() >= 32 && text.bytes().any(tells)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_group_may_read_and_only_a_secret_of_root() {
        let refuses = |owner, own, mode: u32| mode & excess(owner, own) != 0;
        for mode in [0o600, 0o400] {
            assert!(!refuses(0, 0, mode) && !refuses(7, 7, mode) && !refuses(0, 7, mode));
        }
        for mode in [0o640, 0o440] {
            assert!(refuses(0, 0, mode) && refuses(7, 7, mode) && !refuses(0, 7, mode));
        }
        for mode in [0o644, 0o660, 0o604, 0o650] {
            assert!(refuses(0, 0, mode) && refuses(7, 7, mode) && refuses(0, 7, mode));
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused_with_the_fix() {
        let path = std::env::temp_dir().join(format!("secret-{:016x}", fastrand::u64(..)));
        fs::write(&path, "secret").unwrap();
        let read_as = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_secret(&path)
        };
        assert_eq!(read_as(0o600).unwrap(), "secret");
        let refused = read_as(0o644).unwrap_err();
        let name = path.display();
        assert_eq!(refused.way_out(), format!("chmod 600 {name}"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_root_can_fix_the_file_of_another_user() {
        let secret = |owner, own| Secret {
            name: "clouds.yaml".to_owned(),
            owner,
            own,
        };
        let of_root = FileError::OpenSecret(secret(0, 7));
        assert_eq!(
            of_root.way_out(),
            "root owns it: as root, run `chown 7 clouds.yaml && chmod 600 clouds.yaml`"
        );
        let foreign = FileError::ForeignSecret(secret(8, 0));
        assert_eq!(
            foreign.to_string(),
            "clouds.yaml holds credentials, but user 8 owns it"
        );
        assert_eq!(
            foreign.way_out(),
            "user 8 owns it: as root, run `chown 0 clouds.yaml && chmod 600 clouds.yaml`"
        );
        assert_eq!(
            FileError::OpenSecret(secret(7, 7)).way_out(),
            "chmod 600 clouds.yaml"
        );
    }
}
