//! What a pool needs, by the node's files and the ports at Neutron.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::cni::Attachment;
use crate::identity::Owner;
use crate::settings::AttachmentRequest;
use crate::warm_pool::{PoolNode, PoolSize, PooledPort};
use ipam_core::neutron::Id;
use openstack::Port;

/// The ports of a pool, as stored in the node's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolPorts {
    /// In the order in which they are taken.
    pub free: Vec<PooledPort>,
    /// The port of each interface.
    pub held: BTreeMap<Attachment, PooledPort>,
    /// Marked for deletion. No interface can take them.
    pub deleting: Vec<PooledPort>,
    /// Interfaces whose files are damaged. Each holds a port that looks unknown.
    pub unreadable: BTreeSet<Attachment>,
}

impl PoolPorts {
    pub fn all(&self) -> impl Iterator<Item = &PooledPort> {
        self.free
            .iter()
            .chain(self.held.values())
            .chain(&self.deleting)
    }
}

/// The work that a pool needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Ports without an interface that no longer exist at Neutron.
    pub forget: BTreeSet<Id>,
    /// Held ports that no longer exist at Neutron, or have other addresses there. Neutron may give
    /// their addresses to another port.
    pub lost: BTreeMap<Attachment, Id>,
    /// Free ports to delete: too many, changed at Neutron, or for another configuration.
    pub give_back: BTreeSet<Id>,
    /// Number of ports to create.
    pub make: usize,
    /// Pooled ports at Neutron without a file: of a run that was killed, or older than the files.
    pub unknown: Vec<Port>,
}

/// Computes what the pool needs. `at_neutron` are the ports with the node's `name`, listed after the
/// files were read, so each port of the files existed then. Without a size, no port stays free.
pub fn upkeep(
    ports: &PoolPorts,
    at_neutron: &[Port],
    node: &PoolNode<'_>,
    request: &AttachmentRequest,
    size: Option<PoolSize>,
) -> Upkeep {
    let name = node.port_name;
    let is_of_pool = |port: &&Port| port.device_owner == Owner::Pool.as_str() && port.name == name;
    let there: BTreeMap<&Id, &Port> = at_neutron
        .iter()
        .filter(is_of_pool)
        .map(|port| (&port.id, port))
        .collect();
    // The list lacks ports of an earlier name of the node.
    let is_gone =
        |pooled: &PooledPort| pooled.port.name == name && !there.contains_key(&pooled.port.id);
    let is_as_it_was = |pooled: &PooledPort| {
        there
            .get(&pooled.port.id)
            .is_some_and(|port| addresses(port) == addresses(&pooled.port))
    };
    let id = |pooled: &PooledPort| pooled.port.id.clone();
    let size = size.unwrap_or(PoolSize { free: 0, most: 0 });
    let (usable, useless): (Vec<&PooledPort>, Vec<&PooledPort>) = ports
        .free
        .iter()
        .filter(|pooled| !is_gone(pooled))
        .partition(|pooled| is_as_it_was(pooled) && pooled.fits(request, node));
    let known: BTreeSet<&Id> = ports.all().map(|pooled| &pooled.port.id).collect();
    let lost = ports
        .held
        .iter()
        .filter(|(_, pooled)| pooled.port.name == name && !is_as_it_was(pooled));
    Upkeep {
        forget: ports
            .free
            .iter()
            .chain(&ports.deleting)
            .filter(|pooled| is_gone(pooled))
            .map(id)
            .collect(),
        lost: lost
            .map(|(attachment, pooled)| (attachment.clone(), id(pooled)))
            .collect(),
        // Delete those that would be taken last.
        give_back: useless
            .iter()
            .chain(usable.iter().skip(size.most))
            .map(|pooled| id(pooled))
            .collect(),
        make: size.free.saturating_sub(usable.len()),
        unknown: there
            .values()
            .filter(|port| !known.contains(&port.id))
            .map(|port| (*port).clone())
            .collect(),
    }
}

fn addresses(port: &Port) -> BTreeSet<IpAddr> {
    port.fixed_ips
        .iter()
        .map(|fixed| fixed.ip_address)
        .collect()
}
