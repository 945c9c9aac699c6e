//! The warm pool as files. Each port is one file, and the folder that it lies in tells who has it: `free`, `held` under the name of an
//! interface, or `going`. Taking is a rename, which one of several does, and which a kill does or does not interrupt.
//!
//! Whoever takes or gives back for an interface must be the only one who does so for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::names::{attachment, file_name};
use super::{files, kept};
use crate::neutron::cni::{Attachment, CniError};
use crate::neutron::{Id, KeptFacts, PoolPorts, PooledPort};

const FREE: &str = "free";
const HELD: &str = "held";
const GOING: &str = "going";
const MAKING: &str = "making";
const FACTS: &str = "facts.json";

/// The pool of a network on this node.
pub(super) struct Pool {
    folder: PathBuf,
}

impl Pool {
    pub(super) fn of(state: &Path, network_name: &str) -> Pool {
        Pool { folder: state.join("pool").join(network_name) }
    }

    /// Whether there is one, or was.
    pub(super) fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    /// Makes its folders.
    pub(super) fn lay_out(&self) -> Result<(), CniError> {
        for part in [FREE, HELD, GOING, MAKING] {
            let folder = self.folder.join(part);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.map_err(|why| fault(&folder, &why))?;
        }
        kept::clean(&self.folder.join(FREE));
        Ok(())
    }

    /// What this interface has of it. A file that cannot be read is a fault, not nothing.
    pub(super) fn held(&self, attachment: &Attachment) -> Result<Option<PooledPort>, CniError> {
        let path = self.holding(attachment);
        read(&path).map_err(|why| fault(&path, &why))
    }

    /// Takes the first of the free ports that will do.
    pub(super) fn take<T>(
        &self,
        attachment: &Attachment,
        will_do: impl Fn(&PooledPort) -> Option<T>,
    ) -> Result<Option<T>, CniError> {
        let free = self.folder.join(FREE);
        for path in listed(&free).map_err(|why| fault(&free, &why))? {
            // Somebody else may have taken it since it was listed, or its file may be broken: the daemon looks after that.
            let Ok(Some(pooled)) = read(&path) else { continue };
            let Some(good) = will_do(&pooled) else { continue };
            match fs::rename(&path, self.holding(attachment)) {
                Ok(()) => return Ok(Some(good)),
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                Err(why) => return Err(fault(&path, &why)),
            }
        }
        Ok(None)
    }

    /// Gives it back; it is the last to be taken then.
    pub(super) fn release(&self, attachment: &Attachment, pooled: &PooledPort) -> Result<(), CniError> {
        let path = self.holding(attachment);
        match fs::rename(&path, self.freed(&pooled.port.id)) {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(fault(&path, &why)),
            _ => Ok(()),
        }
    }

    /// What is known of its subnets.
    pub(super) fn facts(&self) -> KeptFacts {
        kept::read(&self.folder.join(FACTS)).unwrap_or_default()
    }

    /// Keeps what is known.
    pub(super) fn keep_facts(&self, facts: &KeptFacts) -> Result<(), CniError> {
        let path = self.folder.join(FACTS);
        kept::keep(&path, facts).map_err(|why| fault(&path, &why))
    }

    /// Everything in it. Nobody may take or give back meanwhile. A file that makes no sense, as a crash of the machine may leave it, is removed
    /// where nobody has the port; where somebody has, it is a fault.
    pub(super) fn ports(&self) -> Result<PoolPorts, CniError> {
        let held = self.folder.join(HELD);
        let mut ports = PoolPorts { free: self.unowned(FREE)?, held: BTreeMap::new(), going: self.unowned(GOING)? };
        for path in listed(&held).map_err(|why| fault(&held, &why))? {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let pooled = read(&path).map_err(|why| fault(&path, &why))?;
            if let (Some(attachment), Some(pooled)) = (attachment(&name), pooled) {
                ports.held.insert(attachment, pooled);
            }
        }
        Ok(ports)
    }

    /// A port for this place is about to be made. Whoever is killed leaves that behind, and so what it has made is known for its own.
    pub(super) fn intend(&self, place: &str) -> Result<(), CniError> {
        let path = self.folder.join(MAKING).join(place);
        fs::write(&path, []).map_err(|why| fault(&path, &why))
    }

    /// It was made, or will not be any more.
    pub(super) fn fulfil(&self, place: &str) {
        let _ = fs::remove_file(self.folder.join(MAKING).join(place));
    }

    /// Places for which ports were about to be made, and how long ago.
    pub(super) fn intended(&self) -> Result<Vec<(String, Duration)>, CniError> {
        let folder = self.folder.join(MAKING);
        let paths = listed(&folder).map_err(|why| fault(&folder, &why))?;
        let age = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?.elapsed().ok();
        let place = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        Ok(paths.iter().filter_map(|path| Some((place(path)?, age(path).unwrap_or_default()))).collect())
    }

    /// A new one, which nobody has. It survives a crash of the machine, as Neutron does.
    pub(super) fn put(&self, pooled: &PooledPort) -> Result<(), CniError> {
        let path = self.freed(&pooled.port.id);
        kept::keep_synced(&path, pooled).map_err(|why| fault(&path, &why))
    }

    /// Nobody gets this one any more, unless somebody has taken it just now.
    pub(super) fn retire(&self, id: &Id) -> Result<(), CniError> {
        let free = self.folder.join(FREE);
        let of_id = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("-{id}"));
        for path in listed(&free).map_err(|why| fault(&free, &why))?.into_iter().filter(of_id) {
            match fs::rename(&path, self.folder.join(GOING).join(id.to_string())) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(fault(&path, &why)),
                _ => {}
            }
        }
        Ok(())
    }

    /// One that is going is gone.
    pub(super) fn forget(&self, id: &Id) {
        // What stays is asked for again, and Neutron says that it is not there.
        let _ = fs::remove_file(self.folder.join(GOING).join(id.to_string()));
    }

    fn unowned(&self, part: &str) -> Result<Vec<PooledPort>, CniError> {
        let folder = self.folder.join(part);
        let mut ports = Vec::new();
        for path in listed(&folder).map_err(|why| fault(&folder, &why))? {
            match read(&path) {
                Ok(pooled) => ports.extend(pooled),
                // Its port is found at Neutron as one that no file knows.
                Err(why) if why.kind() == ErrorKind::InvalidData => {
                    fs::remove_file(&path).map_err(|why| fault(&path, &why))?;
                }
                Err(why) => return Err(fault(&path, &why)),
            }
        }
        Ok(ports)
    }

    fn holding(&self, attachment: &Attachment) -> PathBuf {
        self.folder.join(HELD).join(file_name(attachment))
    }

    /// Names sort by the time at which they were given, so the first is the one that was free for longest.
    fn freed(&self, id: &Id) -> PathBuf {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
        self.folder.join(FREE).join(format!("{since:020}-{id}"))
    }
}

/// What lies in a folder, in the order of names; nothing lies in one that is not there.
fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| !kept::is_unfinished(path));
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> io::Result<Option<PooledPort>> {
    match fs::read(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        bytes => {
            let pooled = serde_json::from_slice(&bytes?);
            Ok(Some(pooled.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?))
        }
    }
}

fn fault(path: &Path, why: &io::Error) -> CniError {
    files::fault(&path.display().to_string(), why)
}
