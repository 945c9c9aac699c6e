//! Which port belongs to which interface of which container. Fields that a creation sets at once
//! tell it, never tags: without an extension, Neutron drops the tags of a new port silently.

use std::fmt;

use ring::digest::{Context, SHA256, digest as sha};

use crate::cni::Attachment;
use ipam_core::neutron::Id;
use openstack::Port;

ipam_core::text_enum! {
    /// The purpose of a port; its text is the port's `device_owner`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Owner {
        /// A port for one interface of a container.
        Pod = "cilium-ipam:pod",
        /// The node's warm pool. Only the node's files tell which interface holds it.
        Pool = "cilium-ipam:pool",
    }
}

/// Longest text in a field of a port, in characters (Neutron 29: `name`, `device_id`,
/// `device_owner`).
const LONGEST_FIELD: usize = 255;

/// The fields by which the ports of an attachment, or of a slot in a pool, are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub owner: Owner,
    /// The port's `name`: node and network. All ports of a network on a node share it.
    pub name: String,
    /// The port's `device_id`: the container and its interface, or the slot in the pool.
    pub device: String,
}

/// Id of one run of the plugin. The port's `description` names the run that created it, so that a
/// failed run deletes its own port and no other. It also names the server of the run, so that the
/// ports of a server that is gone are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

/// How the description of every port of the plugin begins.
const RUN: &str = "cilium-ipam run ";

/// What stands before the server's id in a description.
const ON_SERVER: &str = " on server ";

impl RunId {
    /// Makes an id from 64 random bits.
    pub fn new(random: u64, server: Option<&Id>) -> RunId {
        let run = format!("{RUN}{random:016x}");
        RunId(match server {
            Some(server) => format!("{run}{ON_SERVER}{server}"),
            None => run,
        })
    }

    /// The server that the `description` of a port names.
    pub fn server_of(description: &str) -> Option<Id> {
        let (_, server) = description.strip_prefix(RUN)?.split_once(ON_SERVER)?;
        server.parse().ok()
    }

    /// The text of `description`.
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
    /// The identity of an attachment to this network on this node.
    pub fn new(node: &str, network_name: &str, attachment: &Attachment) -> Identity {
        let name = Identity::name_of(node, network_name);
        Identity {
            owner: Owner::Pod,
            name,
            device: attachment.to_string(),
        }
    }

    /// The identity of a new slot in the pool of this name.
    pub fn in_pool(name: &str, random: u64) -> Identity {
        Identity {
            owner: Owner::Pool,
            name: name.to_owned(),
            device: format!("place-{random:016x}"),
        }
    }

    /// The `name` of all ports of a network on a node. A name that is too long is hashed.
    pub fn name_of(node: &str, network_name: &str) -> String {
        let name = format!("{node}/{network_name}");
        if name.chars().count() <= LONGEST_FIELD {
            name
        } else {
            format!("sha256:{}", digest(name.as_bytes()))
        }
    }

    /// Whether a port has this identity. Compares letter by letter: databases take `A` for `a`.
    pub fn is_of(&self, port: &Port) -> bool {
        let Identity {
            owner,
            name,
            device,
        } = self;
        port.device_owner == owner.as_str() && port.device_id == *device && port.name == *name
    }

    /// The hardware address of the port. It is deterministic, so that a second creation collides
    /// with the first. Another `attempt` gives another address, in case another port has this one.
    pub fn mac(&self, attempt: u32) -> String {
        let hash = self.hash(attempt);
        // Locally administered unicast (IEEE 802). Neutron's own addresses begin with fa:16:3e.
        let first = (hash[0] & 0xfc) | 0x02;
        format!(
            "{first:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
            hash[1], hash[2], hash[3], hash[4], hash[5]
        )
    }

    /// The name of a file for this identity.
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
    fn a_description_names_the_server_or_none() {
        let server: Id = "9d01b1c6-4a0f-4d4b-8a3c-1f4f5a6b7c8d".parse().unwrap();
        let described = RunId::new(1, Some(&server)).to_string();
        assert_eq!(RunId::server_of(&described), Some(server.clone()));
        for other in [
            RunId::new(1, None).to_string(),
            format!("of another program on server {server}"),
            format!("{described} and more"),
            String::new(),
        ] {
            assert_eq!(RunId::server_of(&other), None, "{other}");
        }
    }

    #[test]
    fn hardware_addresses_are_unique_and_deterministic() {
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
        assert_eq!(first & 0x03, 0x02, "locally administered unicast");
        assert!(identity(&"n".repeat(300), "net", "c", "eth0").name.len() <= LONGEST_FIELD);
    }
}
