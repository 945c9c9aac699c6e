//! Which port belongs to which interface of which container. It is told by fields that a creation
//! sets at once, never by tags: Neutron drops the tags of a new port without a word unless an
//! extension is on.

use std::fmt;

use ring::digest::{Context, SHA256, digest as sha};

use crate::cni::Attachment;
use openstack::Port;

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// An interface of a container, for which it was made.
    Pod,
    /// The node's warm pool, whoever has it at the moment: that is a matter of the node alone.
    Pool,
}

impl Owner {
    /// `device_owner`.
    pub fn as_str(self) -> &'static str {
        match self {
            Owner::Pod => "cilium-ipam:pod",
            Owner::Pool => "cilium-ipam:pool",
        }
    }
}

/// Longest text in a field of a port, in characters (Neutron 29: `name`, `device_id`,
/// `device_owner`).
const LONGEST_FIELD: usize = 255;

/// How ports of an attachment, or of a place in a pool, are found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What it is for.
    pub owner: Owner,
    /// The node and the network's name on it; the port's `name`. All ports of a node have the same,
    /// so they are found by it.
    pub name: String,
    /// The container and its interface, or the place in the pool; the port's `device_id`.
    pub device: String,
}

/// One run of the plugin; the port's `description` tells which one made it, so that a run that
/// fails takes back its own port and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// From 64 bits that no other run has.
    pub fn new(random: u64) -> RunId {
        RunId(format!("cilium-ipam run {random:016x}"))
    }

    /// As it stands in `description`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Identity {
    /// Of an attachment to this network on this node.
    pub fn new(node: &str, network_name: &str, attachment: &Attachment) -> Identity {
        let name = Identity::name_of(node, network_name);
        Identity {
            owner: Owner::Pod,
            name,
            device: attachment.to_string(),
        }
    }

    /// Of a new place in the pool of the ports with this name.
    pub fn in_pool(name: &str, random: u64) -> Identity {
        Identity {
            owner: Owner::Pool,
            name: name.to_owned(),
            device: format!("place-{random:016x}"),
        }
    }

    /// What all ports of a network on a node have in common.
    pub fn name_of(node: &str, network_name: &str) -> String {
        let name = format!("{node}/{network_name}");
        if name.chars().count() <= LONGEST_FIELD {
            name
        } else {
            format!("sha256:{}", digest(name.as_bytes()))
        }
    }

    /// Whether a port is of this attachment, letter by letter: databases take `A` for `a`.
    pub fn is_of(&self, port: &Port) -> bool {
        let Identity {
            owner,
            name,
            device,
        } = self;
        port.device_owner == owner.as_str() && port.device_id == *device && port.name == *name
    }

    /// The hardware address of its port: the same whenever it is asked for, so that a second
    /// creation collides with the first. Another `attempt` gives another address, for the case that
    /// it collides with somebody else's.
    pub fn mac(&self, attempt: u32) -> String {
        let hash = self.hash(attempt);
        // Locally administered, of one interface (IEEE 802). Neutron's own begin with fa:16:3e.
        let first = (hash[0] & 0xfc) | 0x02;
        format!(
            "{first:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
            hash[1], hash[2], hash[3], hash[4], hash[5]
        )
    }

    /// A name for a file about it.
    pub fn file_name(&self) -> String {
        self.hash(0)
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn hash(&self, attempt: u32) -> [u8; 32] {
        let mut hash = Context::new(&SHA256);
        for part in [self.name.as_str(), self.device.as_str()] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        hash.update(&attempt.to_be_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hash.finish().as_ref());
        bytes
    }
}

fn digest(bytes: &[u8]) -> String {
    sha(&SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(node: &str, network: &str, container: &str, interface: &str) -> Identity {
        let attachment = Attachment {
            container: container.parse().unwrap(),
            interface: interface.parse().unwrap(),
        };
        Identity::new(node, network, &attachment)
    }

    #[test]
    fn each_attachment_has_a_hardware_address_of_its_own_and_always_the_same() {
        let one = identity("n", "net", "c", "eth0");
        assert_eq!(one.mac(0), identity("n", "net", "c", "eth0").mac(0));
        let others = [
            identity("m", "net", "c", "eth0"),
            identity("n", "other", "c", "eth0"),
            identity("n", "net", "d", "eth0"),
            identity("n", "net", "c", "eth1"),
        ];
        assert!(others.iter().all(|other| other.mac(0) != one.mac(0)));
        assert_ne!(one.mac(0), one.mac(1));
        let first = u8::from_str_radix(&one.mac(0)[..2], 16).unwrap();
        assert_eq!(
            first & 0x03,
            0x02,
            "locally administered, and not of a group"
        );
        assert!(identity(&"n".repeat(300), "net", "c", "eth0").name.len() <= LONGEST_FIELD);
    }
}
