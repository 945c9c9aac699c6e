//! The warm pool of a node: ports that are created before a Pod needs them. Decides which port fits
//! an interface, and what the pool needs. Only the node's files tell which interface holds a port: at
//! Neutron, a pooled port keeps its owner and its slot for life. Pure.

mod upkeep;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::{Identity, Owner, RunId};
use crate::settings::AttachmentRequest;
use ipam_core::neutron::Id;
use openstack::{Network, NetworkFacts, NeutronError, NextAttempt, Port, Retries, Subnet};

pub use upkeep::{PoolPorts, Upkeep, upkeep};

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

/// A node as its pooled ports tell it.
#[derive(Clone, Copy, Debug)]
pub struct PoolNode<'n> {
    /// The `name` of its ports.
    pub port_name: &'n str,
    /// The id of the machine by its firmware.
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

    /// Whether no other machine created it, as far as is known. A disk may outlive its server.
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
