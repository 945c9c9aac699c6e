//! Network namespaces: which one is meant, and a way to the kernel within it. No thread of the program that goes on ever enters another one.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::netlink::Netlink;
use crate::nic::Netns;

/// The namespace of whoever asks.
const OWN: &str = "/proc/thread-self/ns/net";

/// A namespace, kept open.
pub(super) struct Namespace {
    pub(super) netns: Netns,
    pub(super) file: File,
    pub(super) netlink: Netlink,
}

impl Namespace {
    /// The one in which the plugin runs.
    pub(super) fn own() -> io::Result<Namespace> {
        let (netns, file) = open(Path::new(OWN))?;
        Ok(Namespace { netns, file, netlink: Netlink::open()? })
    }

    /// That of a Pod.
    pub(super) fn of_pod(path: &Path) -> io::Result<Namespace> {
        let (netns, file) = open(path)?;
        let netlink = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Netlink::open()
            });
            inside.join().unwrap_or_else(|_| Err(io::Error::other("no thread for it")))
        })?;
        Ok(Namespace { netns, file, netlink })
    }
}

/// A pipe, which would keep whoever opens it, is none.
fn open(path: &Path) -> io::Result<(Netns, File)> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no namespace"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok((Netns { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() }, file))
}
