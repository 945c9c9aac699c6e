//! What is kept of a NIC that was taken, before anything is done to it: whose it is, where it goes,
//! and what it was like.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::cni::Attachment;
use crate::nic::link::{Device, Kind, Link, Mac, NodeAddress, NodeRoute, PciAddress, State};

/// How a mark begins, before its digits.
const MARK: &str = "cni-vm-nic ";

/// A network namespace: the path that a runtime has for it, and what tells it from all others while
/// the machine runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Netns {
    /// Where it was found.
    pub path: PathBuf,
    /// The device of its inode.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

impl Netns {
    /// Whether it is the same one, by whatever path.
    pub fn is(&self, other: &Netns) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Written to a link that was handed over, so that it is found again whatever its name and its
/// number are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark(String);

impl Mark {
    /// Of an interface of a container in a network.
    pub fn new(network: &str, attachment: &Attachment) -> Mark {
        let mut hash = Context::new(&SHA256);
        for part in [network, &attachment.to_string()] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        let hex: String = hash
            .finish()
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Mark(format!("{MARK}{hex}"))
    }

    /// That of a file which is named after it.
    pub fn of_file(name: &str) -> Mark {
        Mark(format!("{MARK}{name}"))
    }

    /// As it stands in the link's alias.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name for a file about it.
    pub fn file_name(&self) -> &str {
        self.0.rsplit(' ').next().unwrap_or_default()
    }

    /// A name for the link, while its own is somebody else's.
    pub fn spare_name(&self) -> String {
        format!(
            "nic{}",
            self.file_name().chars().take(8).collect::<String>()
        )
    }
}

/// What a NIC was like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Other names that it answers to.
    #[serde(default)]
    pub other_names: BTreeSet<String>,
    /// What somebody wrote about it.
    pub alias: Option<String>,
    /// Its largest packet, in bytes.
    pub mtu: u32,
    /// Its hardware address.
    pub mac: Mac,
    /// The hardware address that it was made with.
    pub permanent: Option<Mac>,
    /// Where it is on the PCI bus.
    pub pci: Option<PciAddress>,
    /// The device that it is of.
    #[serde(default)]
    pub device: Option<Device>,
    /// What it is made of.
    pub kind: Kind,
    /// Whether it was switched on.
    pub state: State,
    /// How it took packets (`IFF_…` of Linux).
    #[serde(default)]
    pub modes: u32,
    /// Addresses that somebody gave it.
    pub addresses: Vec<NodeAddress>,
    /// Routes that somebody made through it.
    pub routes: Vec<NodeRoute>,
}

impl Taken {
    /// As it is now; `None` without a hardware address.
    pub fn new(link: &Link, routes: &[NodeRoute]) -> Option<Taken> {
        let mut routes: Vec<NodeRoute> = routes
            .iter()
            .filter(|route| route.is_configured())
            .cloned()
            .collect();
        // The way to a gateway must be there before what goes through it.
        routes.sort_by_key(|route| route.gateway.is_some());
        Some(Taken {
            index: link.index,
            name: link.name.clone(),
            other_names: link.other_names.clone(),
            alias: link.alias.clone(),
            mtu: link.mtu,
            mac: link.mac?,
            permanent: link.permanent,
            pci: link.pci.clone(),
            device: link.device.clone(),
            kind: link.kind.clone(),
            state: link.state,
            modes: link.modes,
            addresses: link
                .addresses
                .iter()
                .filter(|address| address.is_configured())
                .cloned()
                .collect(),
            routes,
        })
    }
}

/// What is kept of a NIC that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The network's name on this node.
    pub network: String,
    /// The container that gets it.
    pub container: String,
    /// Its name there.
    pub interface: String,
    /// The run of the machine's system: a record of an earlier one says nothing any more.
    pub boot: String,
    /// Where it goes.
    pub netns: Netns,
    /// By what it is found again.
    pub mark: Mark,
    /// What it was like.
    pub nic: Taken,
}

impl Record {
    /// Of a NIC for this attachment.
    pub fn new(
        network: &str,
        attachment: &Attachment,
        boot: &str,
        netns: &Netns,
        nic: Taken,
    ) -> Record {
        Record {
            network: network.to_owned(),
            container: attachment.container.to_string(),
            interface: attachment.interface.to_string(),
            boot: boot.to_owned(),
            netns: netns.clone(),
            mark: Mark::new(network, attachment),
            nic,
        }
    }

    /// Whose it is; `None` of a record that somebody changed.
    pub fn attachment(&self) -> Option<Attachment> {
        let container = self.container.parse().ok()?;
        Some(Attachment {
            container,
            interface: self.interface.parse().ok()?,
        })
    }

    /// Paths under which its namespace may be, besides one that is said now.
    pub fn netns_paths<'p>(&'p self, said: Option<&'p Path>) -> impl Iterator<Item = &'p Path> {
        [Some(self.netns.path.as_path()), said]
            .into_iter()
            .flatten()
    }
}
