//! What each ADD leaves before it asks for anything, and its DEL takes away when nothing is left: where the container's network namespace is. So
//! the daemon can tell what is garbage, and a second ADD that there may be a port already.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;

use super::names::{attachment, file_name};
use crate::neutron::cni::Attachment;
use crate::neutron::{Netns, Trace};

/// The traces of a network on this node.
pub(super) struct Traces {
    folder: PathBuf,
}

impl Traces {
    pub(super) fn of(state: &Path, network_name: &str) -> Traces {
        Traces { folder: state.join("attachments").join(network_name) }
    }

    /// Whether an earlier ADD was here, or one that left what its DEL could not take away.
    pub(super) fn has(&self, attachment: &Attachment) -> bool {
        self.path(attachment).exists()
    }

    /// Leaves one; the first stays.
    pub(super) fn leave(&self, attachment: &Attachment, netns: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        match OpenOptions::new().create_new(true).write(true).mode(0o600).open(self.path(attachment)) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(()),
            file => file?.write_all(netns.as_bytes()),
        }
    }

    /// Takes it away. What stays although nothing is left makes the next ADD ask Neutron, and no more.
    pub(super) fn take_away(&self, attachment: &Attachment) {
        let _ = fs::remove_file(self.path(attachment));
    }

    /// What was left.
    pub(super) fn read(&self, attachment: &Attachment) -> Option<Trace> {
        let path = self.path(attachment);
        let written = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok()?;
        // A trace that cannot be read leads nowhere.
        let netns = fs::read_to_string(&path).unwrap_or_default();
        Some(Trace { at: timestamp(written)?, netns: look(Path::new(&netns)) })
    }

    /// All of them.
    pub(super) fn attachments(&self) -> Vec<Attachment> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        entries.flatten().filter_map(|entry| attachment(&entry.file_name().to_string_lossy())).collect()
    }

    fn path(&self, attachment: &Attachment) -> PathBuf {
        self.folder.join(file_name(attachment))
    }
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

pub(super) fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}
