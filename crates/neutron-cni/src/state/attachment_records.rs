//! What each ADD leaves before it asks for anything, and its DEL takes away when nothing is left:
//! where the container's network namespace is. So the daemon can tell what is garbage, and a second
//! ADD that there may be a port already.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cni::Attachment;
use crate::state::file_names::{attachment, file_name};
use crate::{AttachmentRecord, Boot, Netns};
use private_files::kept;

/// What is left.
#[derive(Serialize, Deserialize)]
struct Left {
    boot: String,
    netns: PathBuf,
}

/// The traces of a network on this node.
pub struct AttachmentRecords {
    folder: PathBuf,
}

impl AttachmentRecords {
    pub fn of(state: &Path, network_name: &str) -> AttachmentRecords {
        AttachmentRecords {
            folder: state.join("attachments").join(network_name),
        }
    }

    /// Whether an earlier ADD was here, or one that left what its DEL could not take away.
    pub fn has(&self, attachment: &Attachment) -> bool {
        self.path(attachment).exists()
    }

    /// Leaves one, or a newer one: runtimes may use the name of a container again.
    pub fn leave(&self, attachment: &Attachment, netns: &Path) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let left = Left {
            boot: boot_id()?,
            netns: netns.to_owned(),
        };
        kept::keep(&self.path(attachment), &left)
    }

    /// Takes it away. What stays although nothing is left makes the next ADD ask Neutron, and no
    /// more.
    pub fn take_away(&self, attachment: &Attachment) {
        let _ = fs::remove_file(self.path(attachment));
    }

    /// What was left. What cannot be read, as a crash of the machine may leave it, leads nowhere,
    /// and tells by its age at most.
    pub fn read(&self, attachment: &Attachment) -> Option<AttachmentRecord> {
        let path = self.path(attachment);
        if !path.exists() {
            return None;
        }
        let Some(Left { boot, netns }) = kept::read(&path) else {
            let boot = if is_before_boot(&path) {
                Boot::Earlier
            } else {
                Boot::This
            };
            return Some(AttachmentRecord {
                boot,
                netns: Netns::OutOfSight,
            });
        };
        let is_this = boot_id().map_or(true, |now| now == boot);
        Some(AttachmentRecord {
            boot: if is_this { Boot::This } else { Boot::Earlier },
            netns: look(&netns),
        })
    }

    /// All of them, and how old they are.
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

    /// Removes what killed runs left unfinished.
    pub fn clean(&self) {
        kept::clean(&self.folder);
    }

    fn path(&self, attachment: &Attachment) -> PathBuf {
        self.folder.join(file_name(attachment))
    }
}

fn is_before_boot(path: &Path) -> bool {
    let uptime = fs::read_to_string("/proc/uptime").ok();
    let uptime = uptime
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .map(Duration::from_secs_f64);
    let age = fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|at| at.elapsed().ok());
    age.zip(uptime).is_some_and(|(age, uptime)| age > uptime)
}

/// Nothing at a place that cannot be seen is no sign.
fn look(netns: &Path) -> Netns {
    let is_in_sight = netns.is_absolute() && netns.parent().is_some_and(Path::is_dir);
    match fs::symlink_metadata(netns) {
        Ok(_) => Netns::There,
        Err(why) if why.kind() == ErrorKind::NotFound && is_in_sight => Netns::Gone,
        Err(_) => Netns::OutOfSight,
    }
}

/// What the kernel calls the time since it began; another one after each boot.
pub fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_tells_of_this_boot_and_of_the_network_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let attachment_records = AttachmentRecords::of(folder.path(), "net");
        let attachment = Attachment {
            container: "c".parse().unwrap(),
            interface: "eth0".parse().unwrap(),
        };
        assert!(
            attachment_records.read(&attachment).is_none() && attachment_records.all().is_empty()
        );
        let told = |netns: &Path| {
            attachment_records.leave(&attachment, netns).unwrap();
            let trace = attachment_records.read(&attachment).unwrap();
            (trace.boot, trace.netns)
        };
        assert_eq!(told(&folder.path().join("gone")), (Boot::This, Netns::Gone));
        assert_eq!(
            told(folder.path()),
            (Boot::This, Netns::There),
            "the newest is what counts"
        );
        assert_eq!(
            told(Path::new("/nowhere/here")),
            (Boot::This, Netns::OutOfSight)
        );
        let path = attachment_records.path(&attachment);
        kept::keep(
            &path,
            &Left {
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
                netns: Netns::OutOfSight
            }
        );
        assert_eq!(attachment_records.all().len(), 1);
        attachment_records.take_away(&attachment);
        assert!(!attachment_records.has(&attachment));
    }
}
