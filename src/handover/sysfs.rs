//! What sysfs says of the device behind a link: where it is on the PCI bus, and what drives it. Buses are the same in every namespace;
//! `/sys/class/net` is that of whoever mounted it, and not asked.

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
