//! Network namespaces, a connection to the kernel within each, and the device behind a link there,
//! from sysfs. Only a short-lived thread enters another namespace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cni::{CniError, ErrorCode};
use crate::kernel::netlink::Netlink;
use crate::nic::{Device, Netns, PciAddress};

/// Errors that mean that the namespace is gone: `ESRCH` (its process ends), `ENXIO` (a socket),
/// `ENAMETOOLONG` and `ELOOP`.
const GONE: [i32; 4] = [3, 6, 36, 40];

/// `O_NONBLOCK` of Linux.
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

/// Folder of sysfs with the devices of each bus.
const BUSES: &str = "/sys/bus";

/// The device that the kernel names as a link's parent (from Linux 5.14 on).
pub(crate) fn device(bus: &str, name: &str) -> Option<PathBuf> {
    let is_plain =
        |part: &str| !part.is_empty() && !part.contains('/') && !matches!(part, "." | "..");
    if !is_plain(bus) || !is_plain(name) {
        return None;
    }
    fs::canonicalize(Path::new(BUSES).join(bus).join("devices").join(name)).ok()
}

/// The nearest PCI device: that of a virtio NIC is its parent.
pub(crate) fn pci(device: &Path) -> Option<PciAddress> {
    device
        .iter()
        .rev()
        .find_map(|part| part.to_str()?.parse().ok())
}

pub(crate) fn driver(device: &Path) -> Option<String> {
    let driver = fs::read_link(device.join("driver")).ok()?;
    Some(driver.file_name()?.to_str()?.to_owned())
}

/// The identity of a device, also against earlier and later devices at the same path.
pub(crate) fn identity(device: &Path) -> Option<Device> {
    let inode = fs::metadata(device).ok()?.ino();
    Some(Device {
        path: device.to_owned(),
        inode,
        driver: driver(device),
    })
}

/// Whether a device was removed, or got another driver. Then its link is gone too.
pub(crate) fn is_link_gone(device: &Device) -> bool {
    match fs::metadata(&device.path) {
        Ok(now) => now.ino() != device.inode || driver(&device.path) != device.driver,
        Err(why) => why.kind() == io::ErrorKind::NotFound && Path::new(BUSES).is_dir(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_one_at_the_same_place_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let [slot, driver] = ["slot", "virtio_net"].map(|name| folder.path().join(name));
        let plug = || {
            fs::create_dir(&slot).unwrap();
            std::os::unix::fs::symlink(&driver, slot.join("driver")).unwrap();
        };
        plug();
        let device = identity(&slot).unwrap();
        assert!(!is_link_gone(&device) && device.driver.as_deref() == Some("virtio_net"));
        fs::rename(&slot, folder.path().join("unplugged")).unwrap();
        assert!(is_link_gone(&device));
        plug();
        assert!(is_link_gone(&device));
        assert!(!is_link_gone(&identity(&slot).unwrap()));
        fs::remove_file(slot.join("driver")).unwrap();
        assert!(
            is_link_gone(&Device {
                inode: identity(&slot).unwrap().inode,
                ..device
            }),
            "it has no driver"
        );
    }
}
