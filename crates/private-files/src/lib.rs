//! Files on a node that only their owner may read: locks, secrets, and facts kept between runs.
//! Knows nothing of CNI, OpenStack or Kubernetes.
#![forbid(unsafe_code)]

mod error;
pub mod kept;

pub use error::FileError;

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest file that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// How often a lock is asked for: no call of the system waits for one with a limit.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What the firmware of a machine calls it; in a VM of OpenStack that is the server's id.
const PRODUCT_UUID: &str = "/sys/class/dmi/id/product_uuid";

/// What its system calls it (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// A lock, until it is dropped or the process ends.
pub struct Locked {
    _file: File,
}

impl Locked {
    /// Nobody else has it, shared or alone.
    pub fn alone(path: &Path, until: Instant) -> Result<Locked, FileError> {
        Locked::with(path, until, File::try_lock)
    }

    /// Others may share it.
    pub fn shared(path: &Path, until: Instant) -> Result<Locked, FileError> {
        Locked::with(path, until, File::try_lock_shared)
    }

    /// Says whether it could be tried.
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

/// The folder of what is kept, which is made when it is not there, for its owner alone.
pub fn state_folder(folder: &Path) -> Result<PathBuf, FileError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let name = folder.display().to_string();
    made.map_err(|why| FileError::of(&name, &why))?;
    let metadata = fs::metadata(folder).map_err(|why| FileError::of(&name, &why))?;
    if metadata.mode() & 0o022 != 0 || !is_trusted(&metadata)? {
        return Err(FileError::WritableFolder(name));
    }
    Ok(folder.to_owned())
}

/// Whether something is root's, or of whoever runs this.
fn is_trusted(metadata: &Metadata) -> Result<bool, FileError> {
    let own = fs::metadata("/proc/self")
        .map_err(|why| FileError::of("/proc/self", &why))?
        .uid();
    Ok(metadata.uid() == 0 || metadata.uid() == own)
}

/// A file that others can neither read nor write.
pub fn read_secret(path: &Path) -> Result<String, FileError> {
    let name = path.display().to_string();
    let file = open(path).map_err(|why| FileError::of(&name, &why))?;
    let metadata = file.metadata().map_err(|why| FileError::of(&name, &why))?;
    if !is_trusted(&metadata)? {
        return Err(FileError::ForeignSecret(name));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(FileError::OpenSecret(name));
    }
    read(file).map_err(|why| FileError::of(&name, &why))
}

/// Any other small file.
///
/// # Errors
/// One that cannot be read, is none, or is not small.
pub fn read_small(path: &Path) -> Result<String, FileError> {
    open(path)
        .and_then(read)
        .map_err(|why| FileError::of(&path.display().to_string(), &why))
}

/// A pipe, which would keep whoever opens it, is none.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    File::open(path)
}

fn read(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is longer than 1 MiB",
        ));
    }
    Ok(text)
}

/// What tells this machine from all others. Names of hosts do not.
pub fn node_name() -> Result<String, FileError> {
    let of = |path: &str| match open(Path::new(path)).and_then(read) {
        // A name that changed with the readability of a file would be two names.
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(FileError::of(path, &why)),
        Err(_) => Ok(None),
        Ok(text) => {
            let text = text.trim().to_ascii_lowercase();
            // Some firmware has only zeros, or only `f`.
            let tells = |byte: u8| byte.is_ascii_hexdigit() && !b"0f".contains(&byte);
            Ok(Some(text).filter(|text| text.len() >= 32 && text.bytes().any(tells)))
        }
    };
    for path in [PRODUCT_UUID, MACHINE_ID] {
        if let Some(name) = of(path)? {
            return Ok(name);
        }
    }
    Err(FileError::UnknownMachine)
}
