//! The warm pool as files. Each port is one file in one folder: `free`, `held` (under the name of an
//! interface) or `going` (marked for deletion). `making` has creations under way. A port is taken by
//! a rename, so exactly one run gets it, and a kill leaves no state in between.
//!
//! The caller must hold the lock of the interface for which it takes or releases.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::attachment_records::{attachment, file_name};
use crate::cni::{Attachment, CniError};
use crate::conversions::file_error;
use crate::{KeptFacts, PoolPorts, PooledPort};
use ipam_core::neutron::Id;
use private_files::{boot, disk, kept};

const FREE: &str = "free";
const HELD: &str = "held";
const DELETING: &str = "going";
const MAKING: &str = "making";
const FACTS: &str = "facts.json";
const CONFIRMED: &str = "confirmed.json";

/// The pool of a network on this node.
pub struct Pool {
    state: PathBuf,
    folder: PathBuf,
}

/// When the ports were last seen at Neutron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// Since the boot: ports may be taken.
    ThisBoot,
    /// In an earlier boot only: no interface of this boot has taken a port.
    EarlierBoot,
    /// Never, or the file was lost: interfaces of this boot may hold ports.
    Unknown,
}

impl Pool {
    pub fn of(state: &Path, network_name: &str) -> Pool {
        Pool {
            state: state.to_owned(),
            folder: state.join("pool").join(network_name),
        }
    }

    /// The networks that have or had a pool.
    pub fn names(state: &Path) -> Vec<String> {
        let folders = listed(&state.join("pool")).unwrap_or_default();
        folders
            .iter()
            .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
            .collect()
    }

    /// Whether the network has or had a warm pool.
    pub fn exists(&self) -> bool {
        self.folder.is_dir()
    }

    pub fn create_folders(&self) -> Result<(), CniError> {
        let folders = [FREE, HELD, DELETING, MAKING].map(|part| self.folder.join(part));
        // Once the ports were confirmed, the folders had been synced.
        let is_durable =
            self.confirmed() != Confirmed::Unknown && folders.iter().all(|folder| folder.is_dir());
        for folder in &folders {
            disk::create_folders(folder).map_err(|why| fault(folder, &why))?;
        }
        kept::clean(&self.folder);
        kept::clean(&self.folder.join(MAKING));
        kept::clean(&self.folder.join(DELETING));
        if is_durable {
            return Ok(());
        }
        disk::sync_folders_up_to(&self.state, &self.folder).map_err(|why| fault(&self.folder, &why))
    }

    /// The port of an interface. An unreadable file is an error.
    pub fn held(&self, attachment: &Attachment) -> Result<Option<PooledPort>, CniError> {
        let path = self.holding(attachment);
        read(&path).map_err(|why| fault(&path, &why))
    }

    /// Removes an invalid file (after a crash of the machine). The daemon finds its port at Neutron.
    pub fn drop_broken(&self, attachment: &Attachment) {
        let path = self.holding(attachment);
        if read(&path).is_err_and(|why| why.kind() == ErrorKind::InvalidData) {
            let _ = disk::remove(&path);
        }
    }

    /// Takes the first free port that `will_do` accepts.
    pub fn take<T>(
        &self,
        attachment: &Attachment,
        will_do: impl Fn(&PooledPort) -> Option<T>,
    ) -> Result<Option<T>, CniError> {
        let free = self.folder.join(FREE);
        for path in listed(&free).map_err(|why| fault(&free, &why))? {
            // Another run may have taken the port since, or the file is invalid: then the daemon
            // removes it.
            let Ok(Some(pooled)) = read(&path) else {
                continue;
            };
            let Some(good) = will_do(&pooled) else {
                continue;
            };
            match disk::rename(&path, &self.holding(attachment)) {
                Ok(()) => return Ok(Some(good)),
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                Err(why) => return Err(fault(&path, &why)),
            }
        }
        Ok(None)
    }

    /// Releases a port. It becomes the last free one.
    pub fn release(&self, attachment: &Attachment, pooled: &PooledPort) -> Result<(), CniError> {
        let path = self.holding(attachment);
        match disk::rename(&path, &self.freed(&pooled.port.id)) {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(fault(&path, &why)),
            _ => Ok(()),
        }
    }

    /// Stored facts about the subnets and networks of the pool.
    pub fn facts(&self) -> KeptFacts {
        kept::read(&self.folder.join(FACTS)).unwrap_or_default()
    }

    pub fn keep_facts(&self, facts: &KeptFacts) -> Result<(), CniError> {
        let path = self.folder.join(FACTS);
        kept::keep_synced(&path, facts).map_err(|why| fault(&path, &why))
    }

    /// All ports of the pool. A port that is taken or released meanwhile may be missing or listed
    /// twice. Removes invalid files (after a crash of the machine), except a held one: its
    /// interface may be in use.
    pub fn ports(&self) -> Result<PoolPorts, CniError> {
        let held = self.folder.join(HELD);
        let mut ports = PoolPorts {
            free: self.unowned(FREE)?,
            deleting: self.unowned(DELETING)?,
            ..PoolPorts::default()
        };
        for path in listed(&held).map_err(|why| fault(&held, &why))? {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let Some(holder) = attachment(&name) else {
                continue;
            };
            match read(&path) {
                Ok(Some(pooled)) => drop(ports.held.insert(holder, pooled)),
                Ok(None) => {}
                Err(why) if why.kind() == ErrorKind::InvalidData => {
                    ports.unreadable.insert(holder);
                }
                Err(why) => return Err(fault(&path, &why)),
            }
        }
        Ok(ports)
    }

    /// Records that a port for this slot is about to be created. After a kill, the next run finds
    /// the port by it. Survives a crash of the machine, as the port does.
    pub fn begin_create(&self, slot: &str) -> Result<(), CniError> {
        let folder = self.folder.join(MAKING);
        let path = folder.join(slot);
        disk::create(&path, &[])
            .and_then(|()| disk::sync_folder(&folder))
            .map_err(|why| fault(&path, &why))
    }

    /// Ends a creation whose port does not exist.
    pub fn end_create(&self, slot: &str) {
        let _ = disk::remove(&self.folder.join(MAKING).join(slot));
    }

    /// Slots of unfinished creations, with their ages.
    pub fn pending_creates(&self) -> Result<Vec<(String, Duration)>, CniError> {
        let folder = self.folder.join(MAKING);
        let paths = listed(&folder).map_err(|why| fault(&folder, &why))?;
        let age = |path: &Path| {
            fs::metadata(path)
                .and_then(|metadata| metadata.modified())
                .ok()?
                .elapsed()
                .ok()
        };
        let slot = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        Ok(paths
            .iter()
            .filter_map(|path| Some((slot(path)?, age(path).unwrap_or_default())))
            .collect())
    }

    /// Records the created port. The record survives a crash of the machine, as the port does.
    pub fn record_created(&self, slot: &str, pooled: &PooledPort) -> Result<(), CniError> {
        let path = self.folder.join(MAKING).join(slot);
        kept::keep_synced(&path, pooled).map_err(|why| fault(&path, &why))
    }

    /// Moves a created port to the free ones. A rename, so it is never both.
    pub fn publish(&self, slot: &str, id: &Id) -> Result<(), CniError> {
        let path = self.folder.join(MAKING).join(slot);
        disk::rename(&path, &self.freed(id)).map_err(|why| fault(&path, &why))
    }

    /// Makes renames survive a crash of the machine. Required before ports are deleted.
    pub fn sync_folders(&self) -> Result<(), CniError> {
        for part in [FREE, DELETING] {
            let folder = self.folder.join(part);
            match disk::sync_folder(&folder) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(fault(&folder, &why)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Records that the ports were seen at Neutron since the boot. Before that, the files may come
    /// from a restored disk.
    pub fn confirm(&self) -> Result<(), CniError> {
        let path = self.folder.join(CONFIRMED);
        let boot = boot::id().map_err(|why| fault(&path, &why))?;
        if kept::read::<String>(&path).as_ref() == Some(&boot) {
            return Ok(());
        }
        kept::keep_synced(&path, &boot).map_err(|why| fault(&path, &why))
    }

    /// When the ports were last seen at Neutron.
    pub fn confirmed(&self) -> Confirmed {
        let path = self.folder.join(CONFIRMED);
        match (kept::read::<String>(&path), boot::id()) {
            (Some(boot), Ok(now)) if boot == now => Confirmed::ThisBoot,
            (Some(_), Ok(_)) => Confirmed::EarlierBoot,
            (None, _) if boot::is_older(&path) => Confirmed::EarlierBoot,
            _ => Confirmed::Unknown,
        }
    }

    /// Marks a free port for deletion, unless it was taken just now.
    pub fn mark_deleting(&self, id: &Id) -> Result<(), CniError> {
        let free = self.folder.join(FREE);
        let of_id = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("-{id}"));
        for path in listed(&free)
            .map_err(|why| fault(&free, &why))?
            .into_iter()
            .filter(of_id)
        {
            match disk::rename(&path, &self.folder.join(DELETING).join(id.to_string())) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(fault(&path, &why)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Marks a port without a file for deletion. The caller must know that no interface has it. If a
    /// crash of the machine loses the mark, the sync after the boot marks the port again.
    pub fn mark_unknown(&self, pooled: &PooledPort) -> Result<(), CniError> {
        let folder = self.folder.join(DELETING);
        let path = folder.join(pooled.port.id.to_string());
        disk::create_folders(&folder)
            .and_then(|()| kept::keep(&path, pooled))
            .map_err(|why| fault(&path, &why))
    }

    /// Removes a marked port whose deletion succeeded.
    pub fn forget(&self, id: &Id) {
        // If this fails, the next sync deletes it again, which Neutron accepts.
        let _ = disk::remove(&self.folder.join(DELETING).join(id.to_string()));
    }

    fn unowned(&self, part: &str) -> Result<Vec<PooledPort>, CniError> {
        let folder = self.folder.join(part);
        let mut ports = Vec::new();
        for path in listed(&folder).map_err(|why| fault(&folder, &why))? {
            match read(&path) {
                Ok(pooled) => ports.extend(pooled),
                // The daemon finds the port of the invalid file at Neutron.
                Err(why) if why.kind() == ErrorKind::InvalidData => {
                    disk::remove(&path).map_err(|why| fault(&path, &why))?;
                }
                Err(why) => return Err(fault(&path, &why)),
            }
        }
        Ok(ports)
    }

    fn holding(&self, attachment: &Attachment) -> PathBuf {
        self.folder.join(HELD).join(file_name(attachment))
    }

    /// Names sort by time, so the first port is the one that was free for longest.
    fn freed(&self, id: &Id) -> PathBuf {
        let since = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_micros();
        self.folder.join(FREE).join(format!("{since:020}-{id}"))
    }
}

/// The finished files of a folder, by name. A missing folder is empty.
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
        pool.create_folders().unwrap();
        for number in numbers {
            let pooled = pooled(*number);
            pool.begin_create(&pooled.port.device_id).unwrap();
            pool.record_created(&pooled.port.device_id, &pooled)
                .unwrap();
            assert_eq!(pool.pending_creates().unwrap().len(), 1);
            pool.publish(&pooled.port.device_id, &pooled.port.id)
                .unwrap();
        }
        assert!(
            pool.pending_creates().unwrap().is_empty(),
            "a published port is no longer pending"
        );
        pool
    }

    #[test]
    fn the_port_that_was_free_for_longest_is_taken_first_and_once() {
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
    fn a_marked_port_is_not_taken_and_a_held_port_is_not_marked() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path(), &[1, 2]);
        pool.take(&attachment("a"), |_| Some(())).unwrap();
        [1, 2]
            .into_iter()
            .for_each(|number| pool.mark_deleting(&pooled(number).port.id).unwrap());
        pool.sync_folders().unwrap();
        let ports = pool.ports().unwrap();
        assert_eq!(
            (ports.free.len(), ports.held.len(), ports.deleting),
            (0, 1, vec![pooled(2)])
        );
        pool.forget(&pooled(2).port.id);
        assert_eq!(pool.ports().unwrap().deleting, []);
    }

    #[test]
    fn invalid_files_are_removed_except_that_of_an_interface() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path(), &[1]);
        fs::write(folder.path().join("pool/pods/free/0-x"), "").unwrap();
        assert_eq!(pool.take(&attachment("a"), |_| Some(())).unwrap(), Some(()));
        assert_eq!(pool.ports().unwrap().free, []);
        fs::write(pool.holding(&attachment("a")), "{").unwrap();
        assert!(pool.held(&attachment("a")).is_err());
        let ports = pool.ports().unwrap();
        assert_eq!(
            (ports.held.len(), ports.unreadable),
            (0, [attachment("a")].into()),
            "the others stay usable"
        );
        pool.drop_broken(&attachment("a"));
        assert_eq!(pool.held(&attachment("a")).unwrap(), None);
    }

    #[test]
    fn ports_may_be_taken_once_they_were_seen_since_the_boot() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path(), &[]);
        assert_eq!(pool.confirmed(), Confirmed::Unknown, "no file");
        pool.confirm().unwrap();
        assert_eq!(pool.confirmed(), Confirmed::ThisBoot);
        let path = folder.path().join("pool/pods").join(CONFIRMED);
        kept::keep(&path, &"an earlier one").unwrap();
        assert_eq!(pool.confirmed(), Confirmed::EarlierBoot);
        fs::write(&path, "").unwrap();
        assert_eq!(pool.confirmed(), Confirmed::Unknown, "damaged in this boot");
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(
            pool.confirmed(),
            Confirmed::EarlierBoot,
            "damaged by a crash"
        );
    }
}
