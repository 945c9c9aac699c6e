//! The warm pool of a node: ports that were made before anybody needs them. Which of them an
//! interface can have, and what is to be done so that there are enough. Who has which is a matter
//! of the node's files, never of Neutron: a port of the pool keeps its owner and its place in the
//! pool for as long as it lives.

mod upkeep;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::{Identity, Owner};
use crate::settings::AttachmentRequest;
use ipam_core::neutron::Id;
use openstack::{Network, NetworkFacts, NeutronError, Patience, Port, Subnet, Verdict};

pub use upkeep::{PoolPorts, Upkeep, upkeep};

/// How many ports a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// So many are free, once Neutron had time to make them.
    pub free: usize,
    /// No more than these are free for long.
    pub most: usize,
}

/// What a network's configuration asks of all its ports. With another configuration another port is
/// needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFor {
    networks: Vec<Id>,
    subnets: Vec<Id>,
    security_groups: Vec<Id>,
}

impl MadeFor {
    /// What this wish asks of its port.
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

/// A port of the pool, as the node's files have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PooledPort {
    /// The port.
    pub port: Port,
    /// What it was made for.
    pub made_for: MadeFor,
}

impl PooledPort {
    /// Whether it is what this wish would make, on a node whose ports have this name.
    pub fn fits(&self, request: &AttachmentRequest, name: &str) -> bool {
        // Neutron chose its addresses, and nobody who asks for one has asked for these.
        let is_asked_for = request.addresses.is_empty() && self.made_for == MadeFor::of(request);
        is_asked_for && self.port.name == name && !self.port.fixed_ips.is_empty()
    }

    /// How it is found at Neutron.
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

/// What the node keeps of the subnets and networks of its pool, for as long as it has no better:
/// Neutron may be away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFacts {
    /// By their ids.
    pub subnets: BTreeMap<Id, Subnet>,
    /// By their ids.
    pub networks: BTreeMap<Id, Network>,
}

impl KeptFacts {
    /// Learns what is needed to tell what an interface gets of these ports.
    ///
    /// # Errors
    /// Neutron's no.
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

impl Patience for KeptFacts {
    fn again(&self, _tries: u32) -> Verdict {
        Verdict::Over
    }
}

#[cfg(test)]
mod tests;
