//! What sysfs says of the device behind a link: where it is on the PCI bus, and what drives it. Buses are the same in every namespace, `/sys/class/net`
//! is that of whoever mounted it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::nic::PciAddress;

/// The device that the kernel names as a link's parent (from Linux 5.14 on).
pub(super) fn device(bus: &str, name: &str) -> Option<PathBuf> {
    let is_plain = |part: &str| !part.is_empty() && !part.contains('/') && !matches!(part, "." | "..");
    if !is_plain(bus) || !is_plain(name) {
        return None;
    }
    fs::canonicalize(Path::new("/sys/bus").join(bus).join("devices").join(name)).ok()
}

/// That of a link by its name, if it is the same link there.
pub(super) fn device_of_link(name: &str, index: u32) -> Option<PathBuf> {
    let link = Path::new("/sys/class/net").join(name);
    let told = fs::read_to_string(link.join("ifindex")).ok()?;
    (told.trim() == index.to_string()).then(|| fs::canonicalize(link.join("device")).ok()).flatten()
}

/// The nearest PCI device: that of a virtio NIC is its parent.
pub(super) fn pci(device: &Path) -> Option<PciAddress> {
    device.iter().rev().find_map(|part| part.to_str()?.parse().ok())
}

/// What drives it.
pub(super) fn driver(device: &Path) -> Option<String> {
    let driver = fs::read_link(device.join("driver")).ok()?;
    Some(driver.file_name()?.to_str()?.to_owned())
}

/// Whether a PCI device is in the machine.
pub(super) fn is_there(pci: &PciAddress) -> bool {
    Path::new("/sys/bus/pci/devices").join(pci.to_string()).exists()
}
