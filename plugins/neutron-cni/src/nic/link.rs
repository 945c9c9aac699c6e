//! A link of the machine, with everything that a move must restore.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

/// A PCI address like `0000:00:05.0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress(String);

/// Why a text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAddress {
    #[error("not a hardware address, which looks like fa:16:3e:00:00:01")]
    Mac,
    #[error("not a PCI address, which looks like 0000:00:05.0")]
    Pci,
}

impl FromStr for Mac {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Mac, NotAnAddress> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts
                .next()
                .filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = part
                .and_then(|part| u8::from_str_radix(part, 16).ok())
                .ok_or(NotAnAddress::Mac)?;
        }
        if parts.next().is_some() {
            Err(NotAnAddress::Mac)
        } else {
            Ok(Mac(bytes))
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for PciAddress {
    type Err = NotAnAddress;

    /// The domain has four digits, or more behind some controllers.
    fn from_str(text: &str) -> Result<PciAddress, NotAnAddress> {
        let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parts: Vec<&str> = text.split([':', '.']).collect();
        let has_form = match parts.as_slice() {
            [domain, bus, device, function] => {
                (4..=8).contains(&domain.len())
                    && [bus.len(), device.len(), function.len()] == [2, 2, 1]
                    && parts.iter().all(|part| is_hex(part))
                    && text.as_bytes().get(text.len() - 2) == Some(&b'.')
                    && text.matches(':').count() == 2
            }
            _ => false,
        };
        has_form
            .then(|| PciAddress(text.to_ascii_lowercase()))
            .ok_or(NotAnAddress::Pci)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Mac {
    type Error = NotAnAddress;

    fn try_from(text: String) -> Result<Mac, NotAnAddress> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl TryFrom<String> for PciAddress {
    type Error = NotAnAddress;

    fn try_from(text: String) -> Result<PciAddress, NotAnAddress> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> String {
        address.0
    }
}

/// The kind of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A device: the kernel returns it to the node when its namespace is removed.
    Physical,
    /// A veth, which the kernel removes with its namespace.
    Veth,
    /// A tap, which the kernel removes with its namespace.
    Tap,
    /// A link of any other kind, which is never moved.
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Up,
    Down,
}

/// A link as seen in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index of the link, unique only within its namespace.
    pub index: u32,
    pub name: String,
    /// Alternative names of the link.
    pub other_names: BTreeSet<String>,
    pub alias: Option<String>,
    /// MTU of the link, in bytes.
    pub mtu: u32,
    pub mac: Option<Mac>,
    /// The hardware address of the device itself.
    pub permanent: Option<Mac>,
    pub pci: Option<PciAddress>,
    pub driver: Option<String>,
    pub device: Option<Device>,
    pub kind: Kind,
    pub state: State,
    /// The flags in `MODES` (`IFF_…` of Linux).
    pub modes: u32,
    /// Index of the bridge or bond that the link is a member of.
    pub master: Option<u32>,
    /// Index of the link below this link, or of its veth peer, in the same namespace.
    pub below: Option<u32>,
    /// The link below it, or its veth peer, is in another namespace.
    pub is_from_elsewhere: bool,
    pub addresses: Vec<NodeAddress>,
}

/// A device in sysfs. A new device at the same path has another inode (`kernfs_ino`,
/// `include/linux/kernfs.h` of Linux).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub path: PathBuf,
    pub inode: u64,
    pub driver: Option<String>,
}

/// `IFF_NOARP`, `IFF_PROMISC` and `IFF_ALLMULTI`: flags that a Pod may set and that are restored.
pub const MODES: u32 = 0x80 | 0x100 | 0x200;

impl Link {
    /// Whether the link has this name or alternative name.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.other_names.contains(name)
    }
}

/// An address of a link, with everything to restore it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeAddress {
    pub address: IpNet,
    /// The other end of a point-to-point link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<Ipv4Addr>,
    /// Scope of the address (`rt_scope_t` of Linux).
    pub scope: u8,
    /// Flags of the address (`IFA_F_…` of Linux), without those that the kernel changes by itself.
    pub flags: u32,
    /// Label of the address, if it differs from the name of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Metric of the route that the kernel adds for the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// `IFA_F_PERMANENT` of Linux: the address has no lifetime.
const PERMANENT: u32 = 0x80;

/// Flags of addresses that are configured: `IFA_F_NODAD`, `IFA_F_HOMEADDRESS`,
/// `IFA_F_MANAGETEMPADDR`, `IFA_F_NOPREFIXROUTE` and `IFA_F_MCAUTOJOIN`.
pub const CHOSEN_OF_ADDRESS: u32 = 0x02 | 0x10 | 0x100 | 0x200 | 0x400;

impl NodeAddress {
    /// The flags without those that the kernel changes itself during duplicate detection.
    pub fn lasting(flags: u32) -> u32 {
        flags & (CHOSEN_OF_ADDRESS | PERMANENT)
    }

    /// An address without options, as a Pod gets it.
    pub fn new(address: IpNet) -> NodeAddress {
        NodeAddress {
            address,
            peer: None,
            broadcast: None,
            scope: 0,
            flags: 0,
            label: None,
            metric: None,
        }
    }

    /// Whether the address was configured permanently. The kernel creates link-local IPv6
    /// addresses, and a DHCP client renews temporary ones.
    pub fn is_configured(&self) -> bool {
        !self.is_link_local() && self.flags & PERMANENT != 0
    }

    /// Whether the kernel creates the address for every link.
    pub fn is_link_local(&self) -> bool {
        matches!(self.address.addr(), IpAddr::V6(address) if address.is_unicast_link_local())
    }
}

/// A route through a link, with everything to restore it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeRoute {
    pub destination: IpNet,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Preferred source address of packets on the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    pub table: u32,
    /// Origin of the route (`RTPROT_…` of Linux).
    pub protocol: u8,
    /// Scope of the route (`rt_scope_t` of Linux).
    pub scope: u8,
    /// Type of the route (`RTN_…` of Linux).
    pub kind: u8,
    /// Flags of the route (`RTNH_F_…` of Linux).
    pub flags: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    /// MTU of the route, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Unknown attributes (`RTA_…` of Linux). A route with one cannot be restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<u16>,
}

/// `RT_TABLE_MAIN` of Linux: the table of routes without one of their own.
pub(crate) const MAIN_TABLE: u32 = 254;
/// `RTPROT_KERNEL` of Linux: the kernel added the route.
const OF_KERNEL: u8 = 2;
/// `RTPROT_STATIC` of Linux: an administrator added the route.
const STATIC: u8 = 4;
/// `RTPROT_RA` of Linux: a router announced the route.
const OF_ROUTERS: u8 = 9;
/// `RT_SCOPE_LINK` of Linux: the destination is on the link.
const ON_LINK: u8 = 253;
/// `RTN_UNICAST` of Linux: an ordinary route.
const UNICAST: u8 = 1;
/// `RTNH_F_ONLINK`: the gateway is on the link, outside its prefixes.
const GATEWAY_IS_NEAR: u32 = 4;

/// Where a gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gateway {
    /// In a prefix of the link.
    InPrefix(IpAddr),
    /// On the link, outside the prefixes of the link.
    Beyond(IpAddr),
    /// The destination is on the link itself.
    None,
}

impl NodeRoute {
    /// A route without options, as a Pod gets it.
    pub(crate) fn new(destination: IpNet, gateway: Gateway, mtu: Option<u32>) -> NodeRoute {
        let (gateway, flags) = match gateway {
            Gateway::InPrefix(gateway) => (Some(gateway), 0),
            Gateway::Beyond(gateway) => (Some(gateway), GATEWAY_IS_NEAR),
            Gateway::None => (None, 0),
        };
        // Routes of IPv6 have no scope.
        let scope = if gateway.is_none() && destination.addr().is_ipv4() {
            ON_LINK
        } else {
            0
        };
        NodeRoute {
            destination,
            gateway,
            source: None,
            table: MAIN_TABLE,
            protocol: STATIC,
            scope,
            kind: UNICAST,
            flags,
            metric: None,
            mtu,
            unknown: Vec::new(),
        }
    }

    /// Whether the route was configured. The kernel creates the routes of addresses, and routers
    /// announce theirs again.
    pub fn is_configured(&self) -> bool {
        self.kind == UNICAST && !matches!(self.protocol, OF_KERNEL | OF_ROUTERS)
    }

    pub fn is_default(&self) -> bool {
        self.kind == UNICAST && self.destination.prefix_len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        assert_eq!(
            "FA:16:3E:00:00:01".parse::<Mac>().unwrap().to_string(),
            "fa:16:3e:00:00:01"
        );
        for bad in [
            "",
            "fa:16:3e:00:00",
            "fa:16:3e:00:00:01:02",
            "fa:16:3e:0:00:01",
            "+a:16:3e:00:00:01",
            "é",
        ] {
            assert_eq!(bad.parse::<Mac>(), Err(NotAnAddress::Mac), "{bad}");
        }
        assert_eq!(
            "0000:AF:05.0".parse::<PciAddress>().unwrap().to_string(),
            "0000:af:05.0"
        );
        assert!("10000:00:05.0".parse::<PciAddress>().is_ok());
        for bad in [
            "",
            "00:05.0",
            "0000:00:05:0",
            "0000.00.05.0",
            "../0:00:05.0",
            "0000:00:05.",
            "virtio2",
        ] {
            assert_eq!(bad.parse::<PciAddress>(), Err(NotAnAddress::Pci), "{bad}");
        }
    }
}
