//! The record of a NIC, written before anything is done to it: its attachment, its target, and its
//! state on the node.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::cni::Attachment;
use crate::nic::link::{Device, Kind, Link, Mac, NodeAddress, NodeRoute, PciAddress, State};

/// The start of a key in a link's alias.
const MARK: &str = "cni-vm-nic ";

/// A network namespace: its path, and its identity until the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Netns {
    pub path: PathBuf,
    /// Device number of the namespace's inode.
    pub device: u64,
    pub inode: u64,
}

impl Netns {
    /// Whether both values name the same namespace, under any path.
    pub fn is(&self, other: &Netns) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Identifies an attachment. Written to the alias of a moved link, so that it is found under any
/// name and index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttachmentKey(String);

impl AttachmentKey {
    pub fn new(network: &str, attachment: &Attachment) -> AttachmentKey {
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
        AttachmentKey(format!("{MARK}{hex}"))
    }

    /// The key of the file with this name.
    pub fn of_file(name: &str) -> AttachmentKey {
        AttachmentKey(format!("{MARK}{name}"))
    }

    /// The text in a link's alias.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of the record's file.
    pub fn file_name(&self) -> &str {
        self.0.rsplit(' ').next().unwrap_or_default()
    }

    /// A name for the link while its own name is in use.
    pub fn spare_name(&self) -> String {
        format!(
            "nic{}",
            self.file_name().chars().take(8).collect::<String>()
        )
    }
}

/// The state of a NIC on the node before it moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenNic {
    pub index: u32,
    pub name: String,
    /// Alternative names of the NIC.
    pub other_names: BTreeSet<String>,
    pub alias: Option<String>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    pub mac: Mac,
    /// The hardware address of the device itself.
    pub permanent: Option<Mac>,
    pub pci: Option<PciAddress>,
    pub device: Option<Device>,
    pub kind: Kind,
    pub state: State,
    /// The flags in `MODES` (`IFF_…` of Linux).
    pub modes: u32,
    /// Configured addresses of the NIC.
    pub addresses: Vec<NodeAddress>,
    /// Configured routes through the NIC.
    pub routes: Vec<NodeRoute>,
}

impl TakenNic {
    /// The current state; `None` without a hardware address.
    pub fn new(link: &Link, routes: &[NodeRoute]) -> Option<TakenNic> {
        let mut routes: Vec<NodeRoute> = routes
            .iter()
            .filter(|route| route.is_configured())
            .cloned()
            .collect();
        // The route to a gateway must exist before routes through it.
        routes.sort_by_key(|route| route.gateway.is_some());
        Some(TakenNic {
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

/// The record of a NIC that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub network: String,
    pub container: String,
    /// The name of the NIC in the Pod.
    pub interface: String,
    /// The id of the boot. A record of an earlier boot no longer applies.
    pub boot: String,
    /// The network namespace of the Pod.
    pub netns: Netns,
    pub mark: AttachmentKey,
    pub nic: TakenNic,
}

impl Record {
    pub fn new(
        network: &str,
        attachment: &Attachment,
        boot: &str,
        netns: &Netns,
        nic: TakenNic,
    ) -> Record {
        Record {
            network: network.to_owned(),
            container: attachment.container.to_string(),
            interface: attachment.interface.to_string(),
            boot: boot.to_owned(),
            netns: netns.clone(),
            mark: AttachmentKey::new(network, attachment),
            nic,
        }
    }

    /// The attachment; `None` if the record was edited and is invalid.
    pub fn attachment(&self) -> Option<Attachment> {
        let container = self.container.parse().ok()?;
        Some(Attachment {
            container,
            interface: self.interface.parse().ok()?,
        })
    }

    /// Paths under which its namespace may be: the recorded one and the one of this request.
    pub fn netns_paths<'p>(
        &'p self,
        requested: Option<&'p Path>,
    ) -> impl Iterator<Item = &'p Path> {
        [Some(self.netns.path.as_path()), requested]
            .into_iter()
            .flatten()
    }
}
