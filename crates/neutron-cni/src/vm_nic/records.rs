//! Records of NICs that were taken, a file for each attachment. It is on the disk before anything
//! is done to the NIC, and goes when all is undone. Whoever does something to the NIC keeps the
//! file locked; the kernel lets go of it when that run ends, however it ends. Knows nothing of
//! links.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cni::{CniError, ErrorCode};
use crate::conversions::file_error;
use crate::nic::{Mark, Record};
use private_files::{Locked, state_folder};

/// How the names of records end.
const RECORD: &str = "json";

/// How the names of files end that are not whole yet.
const UNFINISHED: &str = "unfinished";

/// How often a lock is asked for.
const PAUSE: Duration = Duration::from_millis(10);

/// The records of a node.
pub(super) struct Records {
    folder: PathBuf,
}

/// A record that nobody else does anything about.
pub(super) struct Held {
    pub(super) record: Record,
    path: PathBuf,
    _file: File,
}

/// What there is.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) records: BTreeMap<PathBuf, Record>,
    /// Those that nobody can read any more, by the marks of their NICs, and why. A NIC without a
    /// mark was not touched.
    pub(super) unreadable: BTreeMap<Mark, CniError>,
}

/// What came of a try.
pub(super) enum Tried {
    Held(Box<Held>),
    Busy,
    Gone,
}

impl Records {
    /// Below the folder of what is kept.
    pub(super) fn open(state: &Path) -> Result<Records, CniError> {
        state_folder(state)?;
        Ok(Records {
            folder: state_folder(&state.join("nics"))?,
        })
    }

    /// One at a time chooses a NIC.
    pub(super) fn choosing(&self, until: Instant) -> Result<Locked, CniError> {
        Ok(Locked::alone(&self.folder.join("choosing.lock"), until)?)
    }

    /// Whether one could.
    pub(super) fn are_possible(&self) -> Result<(), CniError> {
        Ok(Locked::is_possible(&self.folder.join("choosing.lock"))?)
    }

    /// One at a time for an attachment: as many files as there are pairs of digits.
    pub(super) fn about(&self, mark: &Mark, until: Instant) -> Result<Locked, CniError> {
        let digits: String = mark.file_name().chars().take(2).collect();
        Ok(Locked::alone(
            &self.folder.join(format!("attachment-{digits}.lock")),
            until,
        )?)
    }

    /// The record of an attachment, when nobody else holds it any more; `None` where there is none.
    pub(super) fn hold(&self, mark: &Mark, until: Instant) -> Result<Option<Held>, CniError> {
        let path = self.path(mark);
        loop {
            match self.try_hold(&path)? {
                Tried::Held(held) => return Ok(Some(*held)),
                Tried::Gone => return Ok(None),
                Tried::Busy if Instant::now() >= until => {
                    let message =
                        format!("another run of the plugin keeps {} locked", path.display());
                    return Err(CniError::new(
                        ErrorCode::TryAgainLater,
                        message,
                        "it will be tried again",
                    ));
                }
                Tried::Busy => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Holds a record if nobody else does.
    pub(super) fn try_hold(&self, path: &Path) -> Result<Tried, CniError> {
        let failed = |why: io::Error| file_error(&path.display().to_string(), &why);
        let file = match File::open(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Tried::Gone),
            file => file.map_err(failed)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Tried::Busy),
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        // Whoever had it may have removed it in the meantime.
        let locked = file.metadata().map_err(failed)?.ino();
        match fs::metadata(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Tried::Gone),
            Ok(there) if there.ino() != locked => return Ok(Tried::Busy),
            there => there.map_err(failed)?,
        };
        let Some(record) = read(path)? else {
            return Ok(Tried::Gone);
        };
        Ok(Tried::Held(Box::new(Held {
            record,
            path: path.to_owned(),
            _file: file,
        })))
    }

    /// The record of an attachment, whoever holds it.
    pub(super) fn of(&self, mark: &Mark) -> Result<Option<Record>, CniError> {
        read(&self.path(mark))
    }

    /// All of them, whoever holds them.
    pub(super) fn all(&self) -> Result<Kept, CniError> {
        let failed = |why: io::Error| file_error(&self.folder.display().to_string(), &why);
        let mut kept = Kept::default();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path
                .file_stem()
                .and_then(OsStr::to_str)
                .filter(|_| path.extension() == Some(RECORD.as_ref()))
            else {
                continue;
            };
            let mark = Mark::of_file(name);
            match read(&path) {
                Ok(None) => {}
                Ok(Some(record)) => drop(kept.records.insert(path, record)),
                Err(why) => drop(kept.unreadable.insert(mark, why)),
            }
        }
        Ok(kept)
    }

    /// Puts a record on the disk, and holds it. Whoever calls has the lock of choosing.
    pub(super) fn write(&self, record: Record) -> Result<Held, CniError> {
        let path = self.path(&record.mark);
        let unfinished = path.with_extension(UNFINISHED);
        let written = || {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.lock()?;
            file.write_all(&serde_json::to_vec_pretty(&record)?)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            File::open(&self.folder)?.sync_all()?;
            Ok(file)
        };
        let file = written().map_err(|why| file_error(&path.display().to_string(), &why))?;
        Ok(Held {
            record,
            path,
            _file: file,
        })
    }

    fn path(&self, mark: &Mark) -> PathBuf {
        self.folder.join(mark.file_name()).with_extension(RECORD)
    }
}

impl Held {
    /// All is undone.
    pub(super) fn forget(self) -> Result<(), CniError> {
        let failed = |why: io::Error| file_error(&self.path.display().to_string(), &why);
        fs::remove_file(&self.path).map_err(failed)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }
}

/// A record that cannot be read is a fault: nobody knows which NIC it is about.
fn read(path: &Path) -> Result<Option<Record>, CniError> {
    match fs::read(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(file_error(&path.display().to_string(), &why)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|why| {
            let message = format!("{} is no record of a NIC: {why}", path.display());
            CniError::new(
                ErrorCode::Io,
                message,
                "remove it when the NIC is back on the node, with its name",
            )
        }),
    }
}
