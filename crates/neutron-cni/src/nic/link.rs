//! A link of the machine, as far as it matters for handing it over.

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

/// Where something is on the PCI bus, as `0000:00:05.0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress(String);

/// A text that is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAddress {
    /// No hardware address.
    #[error("not a hardware address, which looks like fa:16:3e:00:00:01")]
    Mac,
    /// No PCI address.
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

    /// A domain of four digits or, behind some controllers, of more.
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

/// What a link is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A device: the kernel gives it back when a namespace vanishes.
    Physical,
    /// An end of a pair: it vanishes with its namespace.
    Veth,
    /// A tap: it vanishes with its namespace.
    Tap,
    /// Anything else, which is never handed over.
    Other(String),
}

/// Whether a link is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is.
    Up,
    /// It is not.
    Down,
}

/// A link as it is seen in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in the namespace; another one there than here.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Other names that it answers to.
    pub other_names: BTreeSet<String>,
    /// What somebody wrote about it.
    pub alias: Option<String>,
    /// Its largest packet, in bytes.
    pub mtu: u32,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// The hardware address that it was made with.
    pub permanent: Option<Mac>,
    /// Where it is on the PCI bus.
    pub pci: Option<PciAddress>,
    /// What drives it.
    pub driver: Option<String>,
    /// The device that it is of.
    pub device: Option<Device>,
    /// What it is made of.
    pub kind: Kind,
    /// Whether it is switched on.
    pub state: State,
    /// How it takes packets: those of `MODES` among its flags (`IFF_…` of Linux).
    pub modes: u32,
    /// The bridge, the bond or whatever else it is a member of.
    pub master: Option<u32>,
    /// The link below it, or the other end of its pair, if that is in the same namespace.
    pub below: Option<u32>,
    /// The link below it, or the other end of its pair, is in another namespace.
    pub is_from_elsewhere: bool,
    /// Its addresses.
    pub addresses: Vec<NodeAddress>,
}

/// A device as sysfs has it: another one at the same place has another number there (`kernfs_ino`,
/// `include/linux/kernfs.h` of Linux).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its folder.
    pub path: PathBuf,
    /// The number of the folder's inode.
    pub inode: u64,
    /// What drives it.
    pub driver: Option<String>,
}

/// `IFF_NOARP`, `IFF_PROMISC` and `IFF_ALLMULTI`: what somebody with rights over a link may set,
/// and gives back.
pub const MODES: u32 = 0x80 | 0x100 | 0x200;

impl Link {
    /// Whether it answers to this name.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.other_names.contains(name)
    }
}

/// An address of a link, with all that is needed to give it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeAddress {
    /// The address and the length of its prefix.
    pub address: IpNet,
    /// The other end, where it is one of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// Its broadcast address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<Ipv4Addr>,
    /// Its scope (`rt_scope_t` of Linux).
    #[serde(default)]
    pub scope: u8,
    /// Its flags (`IFA_F_…` of Linux), without those that the kernel changes by itself.
    #[serde(default)]
    pub flags: u32,
    /// What it is called, where that is not the name of its link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The metric of the route that comes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// `IFA_F_PERMANENT`.
const PERMANENT: u32 = 0x80;

/// Flags of addresses that are somebody's choice: without detection of duplicates, of a mobile
/// host's home, with temporary ones, without a route, with a group joined.
pub const CHOSEN_OF_ADDRESS: u32 = 0x02 | 0x10 | 0x100 | 0x200 | 0x400;

impl NodeAddress {
    /// Its flags as far as the kernel does not change them by itself, as it does until it knows
    /// that nobody else has the address.
    pub fn lasting(flags: u32) -> u32 {
        flags & (CHOSEN_OF_ADDRESS | PERMANENT)
    }

    /// Plain, as a Pod gets it.
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

    /// Whether somebody gave it: the kernel makes the link-local ones of IPv6 by itself, and
    /// whoever gave one for a time gives it again.
    pub fn is_configured(&self) -> bool {
        !self.is_link_local() && self.flags & PERMANENT != 0
    }

    /// Whether the kernel makes it for every link.
    pub fn is_link_local(&self) -> bool {
        matches!(self.address.addr(), IpAddr::V6(address) if address.is_unicast_link_local())
    }
}

/// A route through a link, with all that is needed to make it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeRoute {
    /// Where to.
    pub destination: IpNet,
    /// Through what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// The address that it is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Its table.
    pub table: u32,
    /// Who made it (`RTPROT_…` of Linux).
    pub protocol: u8,
    /// Its scope (`rt_scope_t` of Linux).
    pub scope: u8,
    /// What it does (`RTN_…` of Linux).
    pub kind: u8,
    /// Its flags (`RTNH_F_…` of Linux).
    #[serde(default)]
    pub flags: u32,
    /// Its metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    /// Its largest packet, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Attributes (`RTA_…` of Linux) that are not understood here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<u16>,
}

/// `RT_TABLE_MAIN`.
const MAIN_TABLE: u32 = 254;
/// `RTPROT_KERNEL`.
const OF_KERNEL: u8 = 2;
/// `RTPROT_STATIC`.
const STATIC: u8 = 4;
/// `RTPROT_RA`.
const OF_ROUTERS: u8 = 9;
/// `RT_SCOPE_LINK`.
const ON_LINK: u8 = 253;
/// `RTN_UNICAST`.
const UNICAST: u8 = 1;
/// `RTNH_F_ONLINK`: the gateway is reachable though no prefix says so.
const GATEWAY_IS_NEAR: u32 = 4;

/// How far a gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gateway {
    /// In a prefix of the link.
    InPrefix(IpAddr),
    /// On the link all the same.
    Beyond(IpAddr),
    /// There is none: what it leads to is on the link itself.
    None,
}

impl NodeRoute {
    /// Plain, as a Pod gets it.
    pub(super) fn new(destination: IpNet, gateway: Gateway, mtu: Option<u32>) -> NodeRoute {
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

    /// Whether somebody made it: the kernel makes those of addresses by itself, and routers tell
    /// theirs again.
    pub fn is_configured(&self) -> bool {
        self.kind == UNICAST && !matches!(self.protocol, OF_KERNEL | OF_ROUTERS)
    }

    /// Whether all else goes this way.
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
