//! The warm pool as files. Each port is one file, and the folder that it lies in tells who has it:
//! `free`, `held` under the name of an interface, or `going`. Taking is a rename, which one of
//! several does, and which a kill does or does not interrupt.
//!
//! Whoever takes or gives back for an interface must be the only one who does so for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::cni::{Attachment, CniError};
use crate::conversions::file_error;
use crate::state::attachment_records::boot_id;
use crate::state::file_names::{attachment, file_name};
use crate::{KeptFacts, PoolPorts, PooledPort};
use ipam_core::neutron::Id;
use private_files::kept;

const FREE: &str = "free";
const HELD: &str = "held";
const GOING: &str = "going";
const MAKING: &str = "making";
const FACTS: &str = "facts.json";
const CONFIRMED: &str = "confirmed.json";

/// The pool of a network on this node.
pub struct Pool {
    folder: PathBuf,
}

impl Pool {
    pub fn of(state: &Path, network_name: &str) -> Pool {
        Pool {
            folder: state.join("pool").join(network_name),
        }
    }

    /// Those of all networks that have one, or had.
    pub fn names(state: &Path) -> Vec<String> {
        let folders = listed(&state.join("pool")).unwrap_or_default();
        folders
            .iter()
            .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
            .collect()
    }

    /// Whether there is one, or was.
    pub fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    /// Makes its folders.
    pub fn lay_out(&self) -> Result<(), CniError> {
        for part in [FREE, HELD, GOING, MAKING] {
            let folder = self.folder.join(part);
            let made = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder);
            made.map_err(|why| fault(&folder, &why))?;
        }
        kept::clean(&self.folder.join(MAKING));
        Ok(())
    }

    /// What this interface has of it. A file that cannot be read is a fault, not nothing.
    pub fn held(&self, attachment: &Attachment) -> Result<Option<PooledPort>, CniError> {
        let path = self.holding(attachment);
        read(&path).map_err(|why| fault(&path, &why))
    }

    /// A file that makes no sense, as a crash of the machine may leave it, leads to no port: it is
    /// one that no file knows then.
    pub fn drop_broken(&self, attachment: &Attachment) {
        let path = self.holding(attachment);
        if read(&path).is_err_and(|why| why.kind() == ErrorKind::InvalidData) {
            let _ = fs::remove_file(path);
        }
    }

    /// Takes the first of the free ports that will do.
    pub fn take<T>(
        &self,
        attachment: &Attachment,
        will_do: impl Fn(&PooledPort) -> Option<T>,
    ) -> Result<Option<T>, CniError> {
        let free = self.folder.join(FREE);
        for path in listed(&free).map_err(|why| fault(&free, &why))? {
            // Somebody else may have taken it since it was listed, or its file may be broken: the
            // daemon looks after that.
            let Ok(Some(pooled)) = read(&path) else {
                continue;
            };
            let Some(good) = will_do(&pooled) else {
                continue;
            };
            match fs::rename(&path, self.holding(attachment)) {
                Ok(()) => return Ok(Some(good)),
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                Err(why) => return Err(fault(&path, &why)),
            }
        }
        Ok(None)
    }

    /// Gives it back; it is the last to be taken then.
    pub fn release(&self, attachment: &Attachment, pooled: &PooledPort) -> Result<(), CniError> {
        let path = self.holding(attachment);
        match fs::rename(&path, self.freed(&pooled.port.id)) {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(fault(&path, &why)),
            _ => Ok(()),
        }
    }

    /// What is known of its subnets.
    pub fn facts(&self) -> KeptFacts {
        kept::read(&self.folder.join(FACTS)).unwrap_or_default()
    }

    /// Keeps what is known.
    pub fn keep_facts(&self, facts: &KeptFacts) -> Result<(), CniError> {
        let path = self.folder.join(FACTS);
        kept::keep_synced(&path, facts).map_err(|why| fault(&path, &why))
    }

    /// Everything in it. What is taken or given back meanwhile may be missing, or be there twice. A
    /// file that makes no sense, as a crash of the machine may leave it, is removed where nobody
    /// has the port; where somebody has, it is a fault.
    pub fn ports(&self) -> Result<PoolPorts, CniError> {
        let held = self.folder.join(HELD);
        let mut ports = PoolPorts {
            free: self.unowned(FREE)?,
            held: BTreeMap::new(),
            going: self.unowned(GOING)?,
        };
        for path in listed(&held).map_err(|why| fault(&held, &why))? {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let pooled = read(&path).map_err(|why| fault(&path, &why))?;
            if let (Some(attachment), Some(pooled)) = (attachment(&name), pooled) {
                ports.held.insert(attachment, pooled);
            }
        }
        Ok(ports)
    }

    /// A port for this place is about to be made. Whoever is killed leaves that behind, and so what
    /// it has made is known for its own.
    pub fn intend(&self, node_state: &str) -> Result<(), CniError> {
        let path = self.folder.join(MAKING).join(node_state);
        fs::write(&path, []).map_err(|why| fault(&path, &why))
    }

    /// It was made, or will not be any more.
    pub fn fulfil(&self, node_state: &str) {
        let _ = fs::remove_file(self.folder.join(MAKING).join(node_state));
    }

    /// Places for which ports were about to be made, and how long ago.
    pub fn intended(&self) -> Result<Vec<(String, Duration)>, CniError> {
        let folder = self.folder.join(MAKING);
        let paths = listed(&folder).map_err(|why| fault(&folder, &why))?;
        let age = |path: &Path| {
            fs::metadata(path)
                .and_then(|metadata| metadata.modified())
                .ok()?
                .elapsed()
                .ok()
        };
        let node_state = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        Ok(paths
            .iter()
            .filter_map(|path| Some((node_state(path)?, age(path).unwrap_or_default())))
            .collect())
    }

    /// It was made, and nobody has it. What is written survives a crash of the machine, as the port
    /// does.
    pub fn made(&self, node_state: &str, pooled: &PooledPort) -> Result<(), CniError> {
        let path = self.folder.join(MAKING).join(node_state);
        kept::keep_synced(&path, pooled).map_err(|why| fault(&path, &why))
    }

    /// Whoever comes may take it. Until then it is about to be made, and never both.
    pub fn put(&self, node_state: &str, id: &Id) -> Result<(), CniError> {
        let path = self.folder.join(MAKING).join(node_state);
        fs::rename(&path, self.freed(id)).map_err(|why| fault(&path, &why))
    }

    /// What was moved is where it was moved to, whatever happens to the machine: before something
    /// is deleted that a file led to.
    pub fn settle(&self) -> Result<(), CniError> {
        for part in [FREE, GOING] {
            let folder = self.folder.join(part);
            let synced = fs::File::open(&folder).and_then(|folder| folder.sync_all());
            match synced {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(fault(&folder, &why)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Its ports were seen at Neutron since the machine was started. Before, these files may be of
    /// a disk that was restored.
    pub fn confirm(&self) -> Result<(), CniError> {
        let path = self.folder.join(CONFIRMED);
        let boot = boot_id().map_err(|why| fault(&path, &why))?;
        if kept::read::<String>(&path).as_ref() == Some(&boot) {
            return Ok(());
        }
        kept::keep(&path, &boot).map_err(|why| fault(&path, &why))
    }

    /// Whether a port may be taken.
    pub fn is_confirmed(&self) -> bool {
        let kept = kept::read::<String>(&self.folder.join(CONFIRMED));
        kept.is_some_and(|boot| boot_id().is_ok_and(|now| now == boot))
    }

    /// Nobody gets this one any more, unless somebody has taken it just now.
    pub fn retire(&self, id: &Id) -> Result<(), CniError> {
        let free = self.folder.join(FREE);
        let of_id = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("-{id}"));
        for path in listed(&free)
            .map_err(|why| fault(&free, &why))?
            .into_iter()
            .filter(of_id)
        {
            match fs::rename(&path, self.folder.join(GOING).join(id.to_string())) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(fault(&path, &why)),
                _ => {}
            }
        }
        Ok(())
    }

    /// One that is going is gone.
    pub fn forget(&self, id: &Id) {
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

    /// Names sort by the time at which they were given, so the first is the one that was free for
    /// longest.
    fn freed(&self, id: &Id) -> PathBuf {
        let since = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_micros();
        self.folder.join(FREE).join(format!("{since:020}-{id}"))
    }
}

/// What lies in a folder, in the order of names; nothing lies in one that is not there.
fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: io::Result<Vec<PathBuf>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
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
            Ok(Some(pooled.map_err(|why| {
                io::Error::new(ErrorKind::InvalidData, why)
            })?))
        }
    }
}

fn fault(path: &Path, why: &io::Error) -> CniError {
    file_error(&path.display().to_string(), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MadeFor, Owner, Settings};
    use openstack::Port;

    const NETWORK: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

    fn pooled(number: u32) -> PooledPort {
        let ipam = serde_json::json!({"networks": [NETWORK]});
        let written =
            serde_json::json!({"cniVersion": "1.1.0", "name": "pods", "ipam": ipam}).to_string();
        let request = Settings::read(written.as_bytes())
            .unwrap()
            .request(&crate::cni::Arguments::default());
        let port = serde_json::json!({
            "id": format!("00000000-0000-4000-8000-{number:012x}"), "network_id": NETWORK, "name": "n1/pods",
            "device_id": format!("place-{number}"), "device_owner": Owner::Pool.as_str(),
        });
        PooledPort {
            port: serde_json::from_value::<Port>(port).unwrap(),
            made_for: MadeFor::of(&request.unwrap()),
        }
    }

    fn attachment(container: &str) -> Attachment {
        Attachment {
            container: container.parse().unwrap(),
            interface: "x.unfinished".parse().unwrap(),
        }
    }

    fn pool(folder: &Path, numbers: &[u32]) -> Pool {
        let pool = Pool::of(folder, "pods");
        pool.lay_out().unwrap();
        for number in numbers {
            let pooled = pooled(*number);
            pool.intend(&pooled.port.device_id).unwrap();
            pool.made(&pooled.port.device_id, &pooled).unwrap();
            assert_eq!(pool.intended().unwrap().len(), 1);
            pool.put(&pooled.port.device_id, &pooled.port.id).unwrap();
        }
        assert!(
            pool.intended().unwrap().is_empty(),
            "what may be taken is not about to be made"
        );
        pool
    }

    #[test]
    fn what_was_free_for_longest_is_taken_first_and_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path(), &[1, 2]);
        let take = |name: &str| {
            pool.take(&attachment(name), |pooled| Some(pooled.clone()))
                .unwrap()
        };
        let first = take("a").unwrap();
        assert_eq!(
            (&first, pool.held(&attachment("a")).unwrap()),
            (&pooled(1), Some(pooled(1)))
        );
        pool.release(&attachment("a"), &first).unwrap();
        pool.release(&attachment("a"), &first).unwrap();
        assert_eq!(
            [take("b"), take("c"), take("d")],
            [Some(pooled(2)), Some(pooled(1)), None]
        );
        assert_eq!(pool.ports().unwrap().held.len(), 2);
    }

    #[test]
    fn what_is_retired_nobody_takes_and_what_somebody_has_is_not_retired() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path(), &[1, 2]);
        pool.take(&attachment("a"), |_| Some(())).unwrap();
        [1, 2]
            .into_iter()
            .for_each(|number| pool.retire(&pooled(number).port.id).unwrap());
        pool.settle().unwrap();
        let ports = pool.ports().unwrap();
        assert_eq!(
            (ports.free.len(), ports.held.len(), ports.going),
            (0, 1, vec![pooled(2)])
        );
        pool.forget(&pooled(2).port.id);
        assert_eq!(pool.ports().unwrap().going, []);
    }

    #[test]
    fn broken_files_are_no_ports_and_a_broken_holding_is_a_fault_until_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path(), &[1]);
        fs::write(folder.path().join("pool/pods/free/0-x"), "").unwrap();
        assert_eq!(pool.take(&attachment("a"), |_| Some(())).unwrap(), Some(()));
        assert_eq!(pool.ports().unwrap().free, []);
        fs::write(pool.holding(&attachment("a")), "{").unwrap();
        assert!(pool.held(&attachment("a")).is_err() && pool.ports().is_err());
        pool.drop_broken(&attachment("a"));
        assert_eq!(pool.held(&attachment("a")).unwrap(), None);
    }

    #[test]
    fn ports_may_be_taken_once_they_were_seen_since_the_boot() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path(), &[]);
        assert!(!pool.is_confirmed());
        pool.confirm().unwrap();
        assert!(pool.is_confirmed());
        kept::keep(
            &folder.path().join("pool/pods").join(CONFIRMED),
            &"an earlier one",
        )
        .unwrap();
        assert!(!pool.is_confirmed());
    }
}
