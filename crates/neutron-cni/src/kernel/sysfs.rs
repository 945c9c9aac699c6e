//! Reads the device behind a link from sysfs: PCI address and driver. Buses are the same in every
//! namespace. `/sys/class/net` shows the namespace of its mount, so it is not used.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::nic::{Device, PciAddress};

/// Devices by bus.
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
pub(crate) fn is_gone(device: &Device) -> bool {
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
        assert!(!is_gone(&device) && device.driver.as_deref() == Some("virtio_net"));
        fs::rename(&slot, folder.path().join("unplugged")).unwrap();
        assert!(is_gone(&device));
        plug();
        assert!(is_gone(&device));
        assert!(!is_gone(&identity(&slot).unwrap()));
        fs::remove_file(slot.join("driver")).unwrap();
        assert!(
            is_gone(&Device {
                inode: identity(&slot).unwrap().inode,
                ..device
            }),
            "it has no driver"
        );
    }
}
