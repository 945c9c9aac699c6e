//! The warm pool of a node: ports that are created before a Pod needs them. From the node's files
//! and the ports at Neutron, it decides which port fits an interface, and which ports to create or
//! delete. Only the files show which interface uses a port: at Neutron, a pooled port always keeps
//! its owner and its slot. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::cni::Attachment;
use crate::identity::{Identity, Owner, RunId};
use crate::settings::AttachmentRequest;
use ipam_core::neutron::Id;
use openstack::{Network, NetworkFacts, NeutronError, NextAttempt, Port, Retries, Subnet};

/// The configured size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Number of free ports to keep.
    pub free: usize,
    /// Free ports beyond this number are deleted.
    pub most: usize,
}

/// The part of a network's configuration that a port depends on. After a change, the pool needs
/// other ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFor {
    networks: Vec<Id>,
    subnets: Vec<Id>,
    security_groups: Vec<Id>,
}

impl MadeFor {
    pub fn of(request: &AttachmentRequest) -> MadeFor {
        let AttachmentRequest {
            networks,
            subnets,
            security_groups,
            ..
        } = request.clone();
        MadeFor {
            networks,
            subnets,
            security_groups,
        }
    }
}

/// How the ports of a pool name their node.
#[derive(Clone, Copy, Debug)]
pub struct PoolNode<'n> {
    /// Field `name` of the node's ports.
    pub port_name: &'n str,
    /// Id of the machine, by its firmware.
    pub machine: Option<&'n Id>,
}

/// A pooled port, as stored in the node's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PooledPort {
    pub port: Port,
    pub made_for: MadeFor,
}

impl PooledPort {
    /// Whether an ADD with this request would create such a port on this node.
    pub fn fits(&self, request: &AttachmentRequest, node: &PoolNode<'_>) -> bool {
        // Neutron chose its addresses, so it fits no request for an address.
        let is_asked_for = request.addresses.is_empty() && self.made_for == MadeFor::of(request);
        let is_of_node = self.port.name == node.port_name && self.is_of_machine(node.machine);
        is_asked_for && is_of_node && !self.port.fixed_ips.is_empty()
    }

    /// Whether no other machine is known to have created the port. A disk may outlive its server.
    fn is_of_machine(&self, machine: Option<&Id>) -> bool {
        match (RunId::server_of(&self.port.description), machine) {
            (Some(server), Some(machine)) => server == *machine,
            (None, _) | (_, None) => true,
        }
    }

    pub fn identity(&self) -> Identity {
        let Port {
            name, device_id, ..
        } = &self.port;
        Identity {
            owner: Owner::Pool,
            name: name.clone(),
            device: device_id.clone(),
        }
    }
}

/// Stored facts about the subnets and networks of the pool, for ADDs while Neutron does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFacts {
    pub subnets: BTreeMap<Id, Subnet>,
    pub networks: BTreeMap<Id, Network>,
}

impl KeptFacts {
    /// Reads the facts that an ADD with one of these ports needs.
    ///
    /// # Errors
    /// Fails if Neutron refuses or does not answer.
    pub fn learn<'p>(
        neutron: &impl NetworkFacts,
        ports: impl IntoIterator<Item = &'p PooledPort>,
    ) -> Result<KeptFacts, NeutronError> {
        let mut facts = KeptFacts::default();
        for PooledPort { port, .. } in ports {
            if !facts.networks.contains_key(&port.network_id) {
                facts
                    .networks
                    .insert(port.network_id.clone(), neutron.network(&port.network_id)?);
            }
            for fixed in &port.fixed_ips {
                if !facts.subnets.contains_key(&fixed.subnet_id) {
                    facts
                        .subnets
                        .insert(fixed.subnet_id.clone(), neutron.subnet(&fixed.subnet_id)?);
                }
            }
        }
        Ok(facts)
    }
}

impl NetworkFacts for KeptFacts {
    fn subnet(&self, id: &Id) -> Result<Subnet, NeutronError> {
        self.subnets
            .get(id)
            .cloned()
            .ok_or_else(|| NeutronError::NotFound(format!("subnet {id}, in the warm pool")))
    }

    fn network(&self, id: &Id) -> Result<Network, NeutronError> {
        self.networks
            .get(id)
            .copied()
            .ok_or_else(|| NeutronError::NotFound(format!("network {id}, in the warm pool")))
    }
}

impl Retries for KeptFacts {
    fn next_attempt(&self, _tries: u32) -> NextAttempt {
        NextAttempt::Never
    }
}

#[cfg(test)]
mod tests;

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

/// Computes the work that the pool needs. `at_neutron` are the ports with the node's `name`, listed
/// after the files were read, so each port of the files existed then. Without a size, no port stays
/// free.
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
