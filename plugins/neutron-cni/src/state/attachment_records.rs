//! Records of interfaces, in a file for each: boot, network namespace, and whether Neutron may
//! still create a port. An ADD writes its record before anything else. DEL removes the record last,
//! or keeps the record if Neutron may still create the port. The daemon recognises garbage by it,
//! and a second ADD knows that a port may exist.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cni::Attachment;
use crate::{AttachmentRecord, Boot, LATEST_PORT, Netns};
use private_files::{boot, disk, kept};

/// Stands for the boot of an interface that is gone.
const GONE: &str = "earlier";

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    boot: String,
    netns: PathBuf,
    creation: Creation,
}

/// Whether Neutron may still create a port for an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Creation {
    /// Every request was answered.
    Answered,
    /// A request may not be answered yet, or never was, such as that of a killed ADD.
    Pending,
}

/// The records of one network on this node.
pub struct AttachmentRecords {
    state: PathBuf,
    folder: PathBuf,
}

impl AttachmentRecords {
    pub fn of(state: &Path, network_name: &str) -> AttachmentRecords {
        AttachmentRecords {
            state: state.to_owned(),
            folder: state.join("attachments").join(network_name),
        }
    }

    /// Whether an earlier ADD ran, and no DEL removed the record.
    pub fn has(&self, attachment: &Attachment) -> bool {
        self.path(attachment).exists()
    }

    /// Writes the record, or replaces it: runtimes may reuse a container's name.
    pub fn write(&self, attachment: &Attachment, netns: &Path) -> io::Result<()> {
        self.store(attachment, boot::id()?, netns, self.creation(attachment))
    }

    /// Records that Neutron will be asked for a port of an interface with a record, and makes the
    /// record survive a crash of the machine, as the port does. Returns what was recorded before.
    pub fn begin_create(&self, attachment: &Attachment) -> io::Result<Creation> {
        let before = self.creation(attachment);
        self.set_creation(attachment, Creation::Pending)?;
        disk::sync_file(&self.path(attachment))?;
        disk::sync_folders_up_to(&self.state, &self.folder)?;
        Ok(before)
    }

    /// Records that Neutron answered. If this fails, the record outlives its DEL for a while. If a crash
    /// of the machine tears the record, its age shows that it is of an earlier boot.
    pub fn record_answer(&self, attachment: &Attachment) {
        let _ = self.set_creation(attachment, Creation::Answered);
    }

    /// Whether Neutron may still create a port. Of an unreadable record, it may.
    pub fn creation(&self, attachment: &Attachment) -> Creation {
        let path = self.path(attachment);
        match kept::read::<StoredRecord>(&path) {
            Some(record) => record.creation,
            None if path.exists() => Creation::Pending,
            None => Creation::Answered,
        }
    }

    fn set_creation(&self, attachment: &Attachment, creation: Creation) -> io::Result<()> {
        let record: Option<StoredRecord> = kept::read(&self.path(attachment));
        let record = record.ok_or(ErrorKind::NotFound)?;
        self.store(attachment, record.boot, &record.netns, creation)
    }

    /// Records that an interface is gone, whatever its network namespace. The caller must have
    /// evidence, and must keep out ADDs.
    pub fn write_gone(&self, attachment: &Attachment) -> io::Result<()> {
        let (boot, creation) = (GONE.to_owned(), self.creation(attachment));
        self.store(attachment, boot, Path::new(""), creation)
    }

    fn store(
        &self,
        attachment: &Attachment,
        boot: String,
        netns: &Path,
        creation: Creation,
    ) -> io::Result<()> {
        disk::create_folders(&self.folder)?;
        let netns = netns.to_owned();
        let record = StoredRecord {
            boot,
            netns,
            creation,
        };
        kept::keep(&self.path(attachment), &record)
    }

    /// Ends the record after a DEL: removes it, or keeps it for the port that Neutron may still create.
    pub fn end(&self, attachment: &Attachment) {
        let record: Option<StoredRecord> = kept::read(&self.path(attachment));
        match record {
            Some(record) if record.creation == Creation::Answered => self.remove(attachment),
            // Writing the record again would restart its age.
            Some(record) if record.boot == GONE => {}
            // If the write fails, the record's network namespace and boot decide whether the
            // interface is gone.
            Some(_) => drop(self.write_gone(attachment)),
            None if self.has(attachment) => drop(self.write_gone(attachment)),
            None => {}
        }
    }

    /// Whether the interface is gone, and Neutron creates no port for it any more. Its record is needed
    /// only while a port exists, at Neutron or in the pool.
    pub fn is_forgettable(&self, attachment: &Attachment) -> bool {
        let metadata = fs::metadata(self.path(attachment));
        let written = metadata.and_then(|metadata| metadata.modified()).ok();
        let age = written.and_then(|at| at.elapsed().ok());
        self.is_gone(attachment) && age.is_some_and(|age| age >= LATEST_PORT)
    }

    /// The interfaces for which Neutron creates no port any more. The caller must read this before it
    /// lists the ports.
    pub fn forgettable(&self) -> BTreeSet<Attachment> {
        let attachments = self.all().into_iter().map(|(attachment, _age)| attachment);
        attachments
            .filter(|attachment| self.is_forgettable(attachment))
            .collect()
    }

    /// Whether the record shows that the interface is gone.
    pub fn is_gone(&self, attachment: &Attachment) -> bool {
        let record: Option<StoredRecord> = kept::read(&self.path(attachment));
        record.is_some_and(|record| record.boot == GONE || look(&record.netns) == Netns::Gone)
    }

    /// Removes the record. If this fails, the next ADD asks Neutron, and nothing else changes.
    pub fn remove(&self, attachment: &Attachment) {
        let _ = disk::remove(&self.path(attachment));
    }

    /// Reads a record. Of an unreadable one (after a crash of the machine), only the age counts.
    pub fn read(&self, attachment: &Attachment) -> Option<AttachmentRecord> {
        let path = self.path(attachment);
        if !path.exists() {
            return None;
        }
        let Some(StoredRecord { boot, netns, .. }) = kept::read(&path) else {
            let boot = if boot::is_older(&path) {
                Boot::Earlier
            } else {
                Boot::This
            };
            return Some(AttachmentRecord {
                boot,
                netns: Netns::NotVisible,
            });
        };
        let is_this = boot::id().map_or(true, |now| now == boot);
        Some(AttachmentRecord {
            boot: if is_this { Boot::This } else { Boot::Earlier },
            netns: look(&netns),
        })
    }

    /// All interfaces with a record, and the ages of the records.
    pub fn all(&self) -> Vec<(Attachment, Duration)> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let age = |entry: &fs::DirEntry| entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        let one = |entry: fs::DirEntry| {
            let attachment = attachment(&entry.file_name().to_string_lossy())?;
            Some((attachment, age(&entry).unwrap_or_default()))
        };
        entries.flatten().filter_map(one).collect()
    }

    /// Removes unfinished files of killed runs.
    pub fn clean(&self) {
        kept::clean(&self.folder);
    }

    fn path(&self, attachment: &Attachment) -> PathBuf {
        self.folder.join(file_name(attachment))
    }
}

/// A missing path in a folder that is not visible proves nothing.
fn look(netns: &Path) -> Netns {
    let is_visible = netns.is_absolute() && netns.parent().is_some_and(Path::is_dir);
    match fs::symlink_metadata(netns) {
        Ok(_) => Netns::There,
        Err(why) if why.kind() == ErrorKind::NotFound && is_visible => Netns::Gone,
        Err(_) => Netns::NotVisible,
    }
}

/// Separates container and interface in the name of a file. No container id contains it.
const SEPARATOR: char = '@';

pub fn file_name(attachment: &Attachment) -> String {
    format!(
        "{}{SEPARATOR}{}",
        attachment.container, attachment.interface
    )
}

/// The interface of a file; `None` for other files.
pub fn attachment(file_name: &str) -> Option<Attachment> {
    let (container, interface) = file_name.split_once(SEPARATOR)?;
    Some(Attachment {
        container: container.parse().ok()?,
        interface: interface.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn interface() -> Attachment {
        Attachment {
            container: "c".parse().unwrap(),
            interface: "eth0".parse().unwrap(),
        }
    }

    #[test]
    fn a_record_tells_boot_and_network_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let attachment_records = AttachmentRecords::of(folder.path(), "net");
        let attachment = interface();
        assert!(
            attachment_records.read(&attachment).is_none() && attachment_records.all().is_empty()
        );
        let liveness = |netns: &Path| {
            attachment_records.write(&attachment, netns).unwrap();
            let record = attachment_records.read(&attachment).unwrap();
            (record.boot, record.netns)
        };
        assert_eq!(
            liveness(&folder.path().join("gone")),
            (Boot::This, Netns::Gone)
        );
        assert_eq!(
            liveness(folder.path()),
            (Boot::This, Netns::There),
            "the newest is what counts"
        );
        assert_eq!(
            liveness(Path::new("/nowhere/here")),
            (Boot::This, Netns::NotVisible)
        );
        let path = attachment_records.path(&attachment);
        kept::keep(
            &path,
            &StoredRecord {
                boot: "another".to_owned(),
                netns: folder.path().to_owned(),
                creation: Creation::Answered,
            },
        )
        .unwrap();
        assert_eq!(
            attachment_records.read(&attachment).unwrap().boot,
            Boot::Earlier
        );
        fs::write(&path, "{").unwrap();
        assert_eq!(
            attachment_records.read(&attachment).unwrap(),
            AttachmentRecord {
                boot: Boot::This,
                netns: Netns::NotVisible
            }
        );
        assert_eq!(attachment_records.all().len(), 1);
        attachment_records.remove(&attachment);
        assert!(!attachment_records.has(&attachment));
    }

    #[test]
    fn a_record_outlives_its_del_while_neutron_may_create_a_port() {
        let folder = tempfile::tempdir().unwrap();
        let records = AttachmentRecords::of(folder.path(), "net");
        let attachment = interface();
        records.write(&attachment, folder.path()).unwrap();
        assert_eq!(
            records.begin_create(&attachment).unwrap(),
            Creation::Answered
        );
        records.write(&attachment, folder.path()).unwrap();
        assert_eq!(records.creation(&attachment), Creation::Pending);
        records.end(&attachment);
        let kept = records.read(&attachment).unwrap();
        assert_eq!((kept.boot, kept.netns), (Boot::Earlier, Netns::NotVisible));
        records.write(&attachment, folder.path()).unwrap();
        assert_eq!(
            records.begin_create(&attachment).unwrap(),
            Creation::Pending
        );
        records.record_answer(&attachment);
        records.end(&attachment);
        assert!(!records.has(&attachment));
        fs::write(records.path(&attachment), "{").unwrap();
        assert_eq!(records.creation(&attachment), Creation::Pending);
    }

    #[test]
    fn a_record_is_forgettable_when_no_port_can_come() {
        let folder = tempfile::tempdir().unwrap();
        let records = AttachmentRecords::of(folder.path(), "net");
        let attachment = interface();
        let is_forgettable_at = |age: Duration| {
            let file = fs::File::open(records.path(&attachment)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
            records.is_forgettable(&attachment)
        };
        assert!(!records.is_forgettable(&attachment), "there is none");
        records.write(&attachment, folder.path()).unwrap();
        // A container of the daemon may see another boot than the plugin: a boot alone proves nothing.
        let netns = folder.path().to_owned();
        let boot = "another".to_owned();
        let creation = Creation::Answered;
        let other = StoredRecord {
            boot,
            netns,
            creation,
        };
        kept::keep(&records.path(&attachment), &other).unwrap();
        assert!(!is_forgettable_at(LATEST_PORT));
        for path in ["gone", ""] {
            records
                .write(&attachment, &folder.path().join(path))
                .unwrap();
            if path.is_empty() {
                records.write_gone(&attachment).unwrap();
            }
            assert!(is_forgettable_at(LATEST_PORT));
            assert!(!is_forgettable_at(LATEST_PORT - Duration::from_mins(1)));
            let file = fs::File::open(records.path(&attachment)).unwrap();
            let tomorrow = SystemTime::now() + LATEST_PORT;
            file.set_modified(tomorrow).unwrap();
            assert!(!records.is_forgettable(&attachment));
        }
    }
}

#[cfg(test)]
mod file_names_tests {
    use super::*;

    #[test]
    fn each_interface_has_a_file() {
        let one = Attachment {
            container: "c-1_.x".parse().unwrap(),
            interface: "eth0@if2".parse().unwrap(),
        };
        assert_eq!(attachment(&file_name(&one)), Some(one));
        assert_eq!(
            (attachment("c"), attachment("@eth0"), attachment("c@")),
            (None, None, None)
        );
    }
}
