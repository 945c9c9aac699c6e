//! Network namespaces, and a connection to the kernel within each. Only a short-lived thread enters
//! another namespace.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cni::{CniError, ErrorCode};
use crate::kernel::netlink::Netlink;
use crate::nic::Netns;

/// Errors that mean that the namespace is gone: `ESRCH` (its process ends), `ENXIO` (a socket),
/// `ENAMETOOLONG` and `ELOOP`.
const GONE: [i32; 4] = [3, 6, 36, 40];

/// `O_NONBLOCK`.
const DO_NOT_WAIT: i32 = 0o4000;

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// An open namespace.
pub(crate) struct Namespace {
    pub(crate) netns: Netns,
    pub(crate) file: File,
    pub(crate) netlink: Netlink,
}

impl Namespace {
    /// The namespace in which the plugin runs.
    pub(crate) fn own() -> io::Result<Namespace> {
        let (netns, file) = open(Path::new(OWN))?;
        Ok(Namespace {
            netns,
            file,
            netlink: Netlink::open()?,
        })
    }

    /// The namespace of a Pod; `None` if it is certainly gone.
    pub(crate) fn of_pod_if_there(path: &Path) -> io::Result<Option<Namespace>> {
        match Namespace::of_pod(path) {
            Ok(namespace) => Ok(Some(namespace)),
            Err(why) if is_gone(&why) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Opens a Pod's namespace from the node's.
    ///
    /// # Errors
    /// Fails if the path is no namespace, or the node's own.
    pub(crate) fn pod(&self, path: &Path) -> Result<Namespace, CniError> {
        let wrong = |why: &dyn std::fmt::Display| {
            let message = format!("CNI_NETNS, {}: {why}", path.display());
            CniError::new(
                ErrorCode::InvalidEnvironment,
                message,
                "it is the path of the container's network namespace",
            )
        };
        let pod = Namespace::of_pod(path).map_err(|why| wrong(&why))?;
        if pod.netns.is(&self.netns) {
            return Err(wrong(&"it is the node's own namespace"));
        }
        Ok(pod)
    }

    pub(crate) fn of_pod(path: &Path) -> io::Result<Namespace> {
        let (netns, file) = open(path)?;
        let netlink = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Netlink::open()
            });
            inside
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        })?;
        Ok(Namespace {
            netns,
            file,
            netlink,
        })
    }
}

/// Whether the path leads to nothing, or to something that is not a namespace. A lack of file
/// handles, rights or memory proves nothing.
fn is_gone(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput
    ) || why
        .raw_os_error()
        .is_some_and(|number| GONE.contains(&number))
}

/// Rejects FIFOs: opening one blocks.
fn open(path: &Path) -> io::Result<(Netns, File)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(DO_NOT_WAIT)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a namespace",
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
