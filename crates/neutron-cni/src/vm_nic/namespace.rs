//! Network namespaces: which one is meant, and a way to the kernel within it. No thread of the
//! program that goes on ever enters another one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::nic::Netns;
use crate::vm_nic::netlink::Netlink;

/// `ESRCH`: of a path of a process that ends. And what leads nowhere for ever: `ENXIO` of a socket,
/// `ENAMETOOLONG`, `ELOOP`.
const GONE: [i32; 4] = [3, 6, 36, 40];

/// `O_NONBLOCK`.
const DO_NOT_WAIT: i32 = 0o4000;

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
        Ok(Namespace {
            netns,
            file,
            netlink: Netlink::open()?,
        })
    }

    /// That of a Pod, unless it is gone for certain.
    pub(super) fn of_pod_if_there(path: &Path) -> io::Result<Option<Namespace>> {
        match Namespace::of_pod(path) {
            Ok(namespace) => Ok(Some(namespace)),
            Err(why) if is_gone(&why) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// That of a Pod.
    pub(super) fn of_pod(path: &Path) -> io::Result<Namespace> {
        let (netns, file) = open(path)?;
        let netlink = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Netlink::open()
            });
            inside
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("no thread for it")))
        })?;
        Ok(Namespace {
            netns,
            file,
            netlink,
        })
    }
}

/// Nothing is there, or something else that is no namespace. A lack of files, rights or memory says
/// nothing of it.
fn is_gone(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput
    ) || why
        .raw_os_error()
        .is_some_and(|number| GONE.contains(&number))
}

/// A pipe, which would keep whoever opens it, is none.
fn open(path: &Path) -> io::Result<(Netns, File)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(DO_NOT_WAIT)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no namespace",
        ));
    }
    Ok((
        Netns {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
        },
        file,
    ))
}
