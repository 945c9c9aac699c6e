//! Records of NICs in use, one file per attachment. A record is on the disk before the NIC is
//! changed, and is removed once all changes are undone. A run locks the record of the NIC that it
//! changes; the kernel releases the lock when the run ends. Must never know links.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cni::{CniError, ErrorCode};
use crate::conversions::file_error;
use crate::nic::{AttachmentKey, Record};
use private_files::{Locked, state_folder};

/// File name extension of records.
const RECORD: &str = "json";

/// Extension of unfinished files.
const UNFINISHED: &str = "unfinished";

/// Interval between attempts at a lock.
const PAUSE: Duration = Duration::from_millis(10);

/// The records of a node.
pub(super) struct Records {
    folder: PathBuf,
}

/// A record that this run has locked.
pub(super) struct Held {
    pub(super) record: Record,
    path: PathBuf,
    _file: File,
}

/// All records of NICs in the state folder.
#[derive(Default)]
pub(super) struct StoredRecords {
    pub(super) records: BTreeMap<PathBuf, Record>,
    /// Unreadable records by the keys of their NICs, with the errors. A NIC without a key is
    /// unchanged.
    pub(super) unreadable: BTreeMap<AttachmentKey, CniError>,
}

/// The result of an attempt to lock a record.
pub(super) enum TryHold {
    Held(Box<Held>),
    Busy,
    Gone,
}

impl Records {
    /// Opens the folder of records in the state folder.
    pub(super) fn open(state: &Path) -> Result<Records, CniError> {
        state_folder(state)?;
        Ok(Records {
            folder: state_folder(&state.join("nics"))?,
        })
    }

    /// The lock for choosing a NIC.
    pub(super) fn lock_choice(&self, until: Instant) -> Result<Locked, CniError> {
        Ok(Locked::alone(&self.folder.join("choosing.lock"), until)?)
    }

    /// Whether the folder and the lock files can be used.
    pub(super) fn can_be_locked(&self) -> Result<(), CniError> {
        Ok(Locked::is_possible(&self.folder.join("choosing.lock"))?)
    }

    /// The lock of an attachment. At most 256 lock files exist.
    pub(super) fn lock_attachment(
        &self,
        key: &AttachmentKey,
        until: Instant,
    ) -> Result<Locked, CniError> {
        let digits: String = key.file_name().chars().take(2).collect();
        Ok(Locked::alone(
            &self.folder.join(format!("attachment-{digits}.lock")),
            until,
        )?)
    }

    /// Locks the record of an attachment once no other run holds the lock. `None` without a record.
    pub(super) fn hold(
        &self,
        key: &AttachmentKey,
        until: Instant,
    ) -> Result<Option<Held>, CniError> {
        let path = self.path(key);
        loop {
            match self.try_hold(&path)? {
                TryHold::Held(held) => return Ok(Some(*held)),
                TryHold::Gone => return Ok(None),
                TryHold::Busy if Instant::now() >= until => {
                    let message = format!(
                        "another run of the plugin holds the lock of {}",
                        path.display()
                    );
                    return Err(CniError::new(
                        ErrorCode::TryAgainLater,
                        message,
                        "the runtime will retry",
                    ));
                }
                TryHold::Busy => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Locks a record if no other run holds the lock.
    pub(super) fn try_hold(&self, path: &Path) -> Result<TryHold, CniError> {
        let failed = |why: io::Error| file_error(&path.display().to_string(), &why);
        let file = match File::open(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(TryHold::Gone),
            file => file.map_err(failed)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(TryHold::Busy),
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        // The previous holder may have removed or replaced the file before it released the lock.
        let locked = file.metadata().map_err(failed)?.ino();
        match fs::metadata(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(TryHold::Gone),
            Ok(there) if there.ino() != locked => return Ok(TryHold::Busy),
            there => there.map_err(failed)?,
        };
        let Some(record) = read(path)? else {
            return Ok(TryHold::Gone);
        };
        Ok(TryHold::Held(Box::new(Held {
            record,
            path: path.to_owned(),
            _file: file,
        })))
    }

    /// The record of an attachment, locked or not.
    pub(super) fn of(&self, key: &AttachmentKey) -> Result<Option<Record>, CniError> {
        read(&self.path(key))
    }

    /// All records, whether other runs hold their locks or not.
    pub(super) fn all(&self) -> Result<StoredRecords, CniError> {
        let failed = |why: io::Error| file_error(&self.folder.display().to_string(), &why);
        let mut stored = StoredRecords::default();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path
                .file_stem()
                .and_then(OsStr::to_str)
                .filter(|_| path.extension() == Some(RECORD.as_ref()))
            else {
                continue;
            };
            let key = AttachmentKey::of_file(name);
            match read(&path) {
                Ok(None) => {}
                Ok(Some(record)) => drop(stored.records.insert(path, record)),
                Err(why) => drop(stored.unreadable.insert(key, why)),
            }
        }
        Ok(stored)
    }

    /// Writes a record to the disk and locks it. The caller must hold `lock_choice`.
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

    fn path(&self, key: &AttachmentKey) -> PathBuf {
        self.folder.join(key.file_name()).with_extension(RECORD)
    }
}

impl Held {
    /// Removes the record: everything is undone.
    pub(super) fn forget(self) -> Result<(), CniError> {
        let failed = |why: io::Error| file_error(&self.path.display().to_string(), &why);
        fs::remove_file(&self.path).map_err(failed)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }
}

/// Reads a record. An unreadable one is an error: its NIC is unknown.
fn read(path: &Path) -> Result<Option<Record>, CniError> {
    match fs::read(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(file_error(&path.display().to_string(), &why)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|why| {
            let message = format!("{} is not a record of a NIC: {why}", path.display());
            CniError::new(
                ErrorCode::Io,
                message,
                "remove the file once the NIC is on the node under its name",
            )
        }),
    }
}
