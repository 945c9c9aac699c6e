//! Files that the plugin reads and locks. Secrets are taken only from files that nobody but root,
//! or whoever runs it, can read.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::neutron::cni::{CniError, ErrorCode};

/// Longest file that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// How often a lock is asked for: no call of the system waits for one with a limit.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What the firmware of a machine calls it; in a VM of OpenStack that is the server's id.
const PRODUCT_UUID: &str = "/sys/class/dmi/id/product_uuid";

/// What its system calls it (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// A lock, until it is dropped or the process ends.
pub(crate) struct Locked {
    _file: File,
}

impl Locked {
    /// Nobody else has it, shared or alone.
    pub(crate) fn alone(path: &Path, until: Instant) -> Result<Locked, CniError> {
        Locked::with(path, until, File::try_lock)
    }

    /// Others may share it.
    pub(super) fn shared(path: &Path, until: Instant) -> Result<Locked, CniError> {
        Locked::with(path, until, File::try_lock_shared)
    }

    /// Says whether it could be tried.
    pub(crate) fn is_possible(path: &Path) -> Result<(), CniError> {
        Locked::open(path).map(drop)
    }

    fn open(path: &Path) -> Result<File, CniError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path);
        file.map_err(|why| fault(&path.display().to_string(), &why))
    }

    fn with(
        path: &Path,
        until: Instant,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Locked, CniError> {
        let name = path.display().to_string();
        let file = Locked::open(path)?;
        loop {
            match lock(&file) {
                Ok(()) => return Ok(Locked { _file: file }),
                Err(TryLockError::Error(why)) => return Err(fault(&name, &why)),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    let message = format!("another run of the plugin keeps {name} locked");
                    return Err(CniError::new(
                        ErrorCode::TryAgainLater,
                        message,
                        "it will be tried again",
                    ));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            }
        }
    }
}

/// The folder of what is kept, which is made when it is not there, for its owner alone.
pub(crate) fn state_folder(folder: &Path) -> Result<PathBuf, CniError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let name = folder.display().to_string();
    made.map_err(|why| fault(&name, &why))?;
    let metadata = fs::metadata(folder).map_err(|why| fault(&name, &why))?;
    if metadata.mode() & 0o022 != 0 || !is_trusted(&metadata)? {
        let message = format!("others may put files into {name}, where tokens are kept");
        return Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            message,
            format!("chown root {name} && chmod 700 {name}"),
        ));
    }
    Ok(folder.to_owned())
}

/// Whether something is root's, or of whoever runs this.
fn is_trusted(metadata: &Metadata) -> Result<bool, CniError> {
    let own = fs::metadata("/proc/self")
        .map_err(|why| fault("/proc/self", &why))?
        .uid();
    Ok(metadata.uid() == 0 || metadata.uid() == own)
}

/// A file that others can neither read nor write.
pub(super) fn read_secret(path: &Path) -> Result<String, CniError> {
    let name = path.display().to_string();
    let file = open(path).map_err(|why| fault(&name, &why))?;
    let metadata = file.metadata().map_err(|why| fault(&name, &why))?;
    let invalid = |message: String, details: String| {
        Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            message,
            details,
        ))
    };
    if !is_trusted(&metadata)? {
        return invalid(
            format!("{name} holds credentials, and is somebody else's"),
            format!("chown root {name}"),
        );
    }
    if metadata.mode() & 0o077 != 0 {
        let message =
            format!("others than its owner may read or write {name}, which holds credentials");
        return invalid(message, format!("chmod 600 {name}"));
    }
    read(file).map_err(|why| fault(&name, &why))
}

/// Any other small file.
///
/// # Errors
/// One that cannot be read, is none, or is not small.
pub fn read_small(path: &Path) -> Result<String, CniError> {
    open(path)
        .and_then(read)
        .map_err(|why| fault(&path.display().to_string(), &why))
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
pub(super) fn node_name() -> Result<String, CniError> {
    let of = |path: &str| match open(Path::new(path)).and_then(read) {
        // A name that changed with the readability of a file would be two names.
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(fault(path, &why)),
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
    let message = format!("neither {PRODUCT_UUID} nor {MACHINE_ID} tells which machine this is");
    Err(CniError::new(
        ErrorCode::InvalidConfiguration,
        message,
        "give the node a name of its own in `ipam.node`",
    ))
}

/// A fault of a file.
pub(crate) fn fault(what: &str, why: &io::Error) -> CniError {
    let details = match why.kind() {
        io::ErrorKind::NotFound => "make it, or say where it is",
        _ => "see the permissions and the space left",
    };
    CniError::new(ErrorCode::Io, format!("{what}: {why}"), details)
}
