//! What a pool needs, by what the node's files and Neutron say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::cni::Attachment;
use crate::identity::Owner;
use crate::settings::AttachmentRequest;
use crate::warm_pool::{PoolSize, PooledPort};
use ipam_core::neutron::Id;
use openstack::Port;

/// The ports of a pool, as the node's files have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolPorts {
    /// Nobody has them; whoever comes takes the first.
    pub free: Vec<PooledPort>,
    /// Who has which.
    pub held: BTreeMap<Attachment, PooledPort>,
    /// Nobody gets them any more, and they are about to be deleted.
    pub going: Vec<PooledPort>,
}

impl PoolPorts {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &PooledPort> {
        self.free
            .iter()
            .chain(self.held.values())
            .chain(&self.going)
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Free or going, and gone at Neutron: somebody deleted them.
    pub forget: BTreeSet<Id>,
    /// Held, and gone at Neutron or with other addresses there: what is in use may be given to
    /// somebody else at any time.
    pub lost: BTreeMap<Attachment, Id>,
    /// Free, and too many, or not what is asked for or what it was any more.
    pub give_back: BTreeSet<Id>,
    /// So many lack.
    pub make: usize,
    /// Of this node's pool at Neutron, and in no file: made by a run that was killed, or of a time
    /// before these files.
    pub unknown: Vec<Port>,
}

/// Says it. `at_neutron` are the ports with this `name`, asked for after the files were read:
/// whatever is in a file was there then. Without a size nothing may stay free.
pub fn upkeep(
    ports: &PoolPorts,
    at_neutron: &[Port],
    name: &str,
    request: &AttachmentRequest,
    size: Option<PoolSize>,
) -> Upkeep {
    let is_of_pool = |port: &&Port| port.device_owner == Owner::Pool.as_str() && port.name == name;
    let there: BTreeMap<&Id, &Port> = at_neutron
        .iter()
        .filter(is_of_pool)
        .map(|port| (&port.id, port))
        .collect();
    // Ports of another name, as the node had before, are not in that list.
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
        .partition(|pooled| is_as_it_was(pooled) && pooled.fits(request, name));
    let known: BTreeSet<&Id> = ports.all().map(|pooled| &pooled.port.id).collect();
    let lost = ports
        .held
        .iter()
        .filter(|(_, pooled)| pooled.port.name == name && !is_as_it_was(pooled));
    Upkeep {
        forget: ports
            .free
            .iter()
            .chain(&ports.going)
            .filter(|pooled| is_gone(pooled))
            .map(id)
            .collect(),
        lost: lost
            .map(|(attachment, pooled)| (attachment.clone(), id(pooled)))
            .collect(),
        // Those that would be taken last.
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
