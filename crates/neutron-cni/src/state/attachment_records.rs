//! Records of interfaces: boot and network namespace. An ADD writes its record before anything else,
//! and a DEL removes it last. The daemon recognises garbage by it, and a second ADD knows that a port
//! may exist.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cni::Attachment;
use crate::state::file_names::{attachment, file_name};
use crate::{AttachmentRecord, Boot, Netns};
use private_files::{boot, disk, kept};

/// Stands for any boot before this one.
const EARLIER_BOOT: &str = "earlier";

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    boot: String,
    netns: PathBuf,
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

    /// Whether an earlier ADD ran, or a DEL failed to remove the record.
    pub fn has(&self, attachment: &Attachment) -> bool {
        self.path(attachment).exists()
    }

    /// Writes the record, or replaces it: runtimes may reuse a container's name.
    pub fn write(&self, attachment: &Attachment, netns: &Path) -> io::Result<()> {
        self.store(attachment, boot::id()?, netns)
    }

    /// Makes a written record survive a crash of the machine. Required before a port is created at
    /// Neutron, which survives it.
    pub fn sync(&self, attachment: &Attachment) -> io::Result<()> {
        disk::sync_file(&self.path(attachment))?;
        disk::sync_folders_up_to(&self.state, &self.folder)
    }

    /// Records that an interface without a record is of an earlier boot. The caller must have
    /// evidence, and must keep out ADDs.
    pub fn write_earlier(&self, attachment: &Attachment) -> io::Result<()> {
        self.store(attachment, EARLIER_BOOT.to_owned(), Path::new(""))
    }

    fn store(&self, attachment: &Attachment, boot: String, netns: &Path) -> io::Result<()> {
        disk::create_folders(&self.folder)?;
        let netns = netns.to_owned();
        kept::keep(&self.path(attachment), &StoredRecord { boot, netns })
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
        let Some(StoredRecord { boot, netns }) = kept::read(&path) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_boot_and_network_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let attachment_records = AttachmentRecords::of(folder.path(), "net");
        let attachment = Attachment {
            container: "c".parse().unwrap(),
            interface: "eth0".parse().unwrap(),
        };
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
}
