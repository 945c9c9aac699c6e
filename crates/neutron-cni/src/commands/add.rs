//! ADD: one port for an interface of a container, however often it is asked.
//!
//! The hardware address follows from the attachment, so of two creations one collides with the
//! other, and whatever Neutron says no to is followed by a look for a port that an earlier try
//! made. Where the role may not choose hardware addresses, as on another project's network, it is
//! looked for before it is created. Whoever calls must not do so twice at once for one attachment.

use std::cell::Cell;
use std::net::IpAddr;

use crate::cni::{CniError, IpamOutcome};
use crate::commands::outcome::outcome;
use crate::commands::ports_of;
use crate::identity::{Identity, RunId};
use crate::settings::AttachmentRequest;
use ipam_core::neutron::Id;
use openstack::{Neutron, NeutronError, NewPort, Patience, Port, Verdict, Wanted, answered};

/// How many hardware addresses are tried before it is given up. Two of 2^46 hardly ever meet.
const ATTEMPTS: u32 = 4;

/// A port that is there, and what it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The port.
    pub port: Port,
    /// What an interface gets of it.
    pub outcome: IpamOutcome,
    /// Whether more than this one may be there.
    pub left: Left,
}

/// Nothing that a Pod may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAdded {
    /// Why.
    pub error: CniError,
    /// Whether something is there all the same.
    pub left: Left,
}

/// What may be at Neutron besides what was told, now or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// A port that was not answered for, or that could not be taken back.
    Perhaps,
}

impl From<NotAdded> for CniError {
    fn from(not: NotAdded) -> CniError {
        not.error
    }
}

/// Makes the port, or finds the one that was made, and says what the interface gets. What this run
/// made is taken back when anything fails, with the patience of `last`.
///
/// # Errors
/// Neutron's no, and ports that have not what was asked for.
pub fn add<N: Neutron + Patience>(
    neutron: &N,
    last: &N,
    request: &AttachmentRequest,
    identity: &Identity,
    run: &RunId,
) -> Result<Added, NotAdded> {
    let adding = Adding {
        neutron,
        request,
        identity,
        run,
        made: Cell::new(Made::Nothing),
    };
    let added = adding.port().map_err(CniError::from).and_then(|port| {
        let outcome = outcome(neutron, request, &port)?;
        Ok(Added {
            port,
            outcome,
            left: adding.made.get().left(),
        })
    });
    added.map_err(|error| match adding.made.get() {
        Made::Nothing => NotAdded {
            error,
            left: Left::Nothing,
        },
        made => match take_back(last, identity, run, made) {
            Ok(()) => NotAdded {
                error,
                left: made.left(),
            },
            // It is found by its name when garbage is collected.
            Err(why) => {
                let error = error.and_also(&format!(
                    "and a port of {} may be left: {why}",
                    identity.device
                ));
                NotAdded {
                    error,
                    left: Left::Perhaps,
                }
            }
        },
    })
}

/// Whether this run made a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    /// It did not.
    Nothing,
    /// It did.
    Ports,
    /// It was not told; what it asked for may still be done.
    Perhaps,
}

impl Made {
    fn left(self) -> Left {
        match self {
            Made::Nothing | Made::Ports => Left::Nothing,
            Made::Perhaps => Left::Perhaps,
        }
    }
}

/// Ports of this attachment that this run made; one that was there before may be in use.
fn take_back<N: Neutron + Patience>(
    neutron: &N,
    identity: &Identity,
    run: &RunId,
    made: Made,
) -> Result<(), NeutronError> {
    let mut tries = 0;
    loop {
        let mut ports = answered(neutron, |neutron| ports_of(neutron, identity))?;
        ports.retain(|port| port.description == run.as_str());
        for port in &ports {
            answered(neutron, |neutron| neutron.delete_port(&port.id))?;
        }
        if made != Made::Perhaps || !ports.is_empty() {
            return Ok(());
        }
        tries += 1;
        if neutron.again(tries) == Verdict::Over {
            return Err(NeutronError::Unavailable(
                "what was asked for may come late".to_owned(),
            ));
        }
    }
}

/// How the hardware address comes about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mac {
    /// From the attachment; the number of the attempt.
    Chosen(u32),
    /// From Neutron, as the role may not choose it.
    Neutrons,
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn of(address: &IpAddr) -> Family {
        if address.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        }
    }
}

struct Adding<'a, N> {
    neutron: &'a N,
    request: &'a AttachmentRequest,
    identity: &'a Identity,
    run: &'a RunId,
    made: Cell<Made>,
}

impl<N: Neutron + Patience> Adding<'_, N> {
    /// The port of this attachment.
    fn port(&self) -> Result<Port, NeutronError> {
        // An earlier try may have found place on a later network only.
        if self.request.networks.len() > 1
            && let Some(port) = self.found()?
        {
            return Ok(port);
        }
        let mut fault = NeutronError::Exhausted;
        for network in &self.request.networks {
            match self.port_on(network) {
                // Another network may have what this one lacks.
                Err(error @ (NeutronError::Exhausted | NeutronError::InvalidAddress)) => {
                    fault = error
                }
                outcome => return outcome,
            }
        }
        Err(fault)
    }

    fn port_on(&self, network: &Id) -> Result<Port, NeutronError> {
        let subnets = self.subnets_of(network)?;
        let mut mac = Mac::Chosen(0);
        let mut tries = 0;
        loop {
            let error = match self
                .neutron
                .create_port(&self.new_port(network, mac, &subnets))
            {
                Ok(port) => {
                    let is_alone = mac != Mac::Neutrons && self.made.get() != Made::Perhaps;
                    self.made.set(self.made.get().max(Made::Ports));
                    return if is_alone {
                        Ok(port)
                    } else {
                        self.only_one(port)
                    };
                }
                Err(error) => error,
            };
            if matches!(error, NeutronError::Unavailable(_)) {
                self.made.set(Made::Perhaps);
            }
            match (self.found(), &error) {
                (Ok(Some(port)), _) => return Ok(port),
                (Ok(None), _) => {}
                // What was said first is nearer to the cause.
                (Err(_), NeutronError::Unavailable(_) | NeutronError::Unreachable(_)) => {
                    return Err(error);
                }
                (Err(fault), _) => return Err(fault),
            }
            mac = match (error, mac) {
                (NeutronError::MacInUse, Mac::Chosen(attempt)) if attempt + 1 < ATTEMPTS => {
                    Mac::Chosen(attempt + 1)
                }
                // The wish for an address may be what is forbidden; then it is said again.
                (NeutronError::Forbidden(_), Mac::Chosen(_)) => Mac::Neutrons,
                (error @ (NeutronError::Unavailable(_) | NeutronError::Unreachable(_)), mac) => {
                    tries += 1;
                    if self.neutron.again(tries) == Verdict::Over {
                        return Err(error);
                    }
                    mac
                }
                (error, _) => return Err(error),
            };
        }
    }

    /// A port that an earlier try made, the oldest if there are several.
    fn found(&self) -> Result<Option<Port>, NeutronError> {
        Ok(self.ports()?.into_iter().next())
    }

    fn ports(&self) -> Result<Vec<Port>, NeutronError> {
        let mut ports = answered(self.neutron, |neutron| ports_of(neutron, self.identity))?;
        ports.retain(|port| self.request.networks.contains(&port.network_id));
        Ok(ports)
    }

    /// The subnets of this network among those that addresses may be of, with their families.
    fn subnets_of(&self, network: &Id) -> Result<Vec<(&Id, Family)>, NeutronError> {
        let mut subnets = Vec::new();
        for id in &self.request.subnets {
            let subnet = answered(self.neutron, |neutron| neutron.subnet(id))?;
            if subnet.network == *network {
                subnets.push((id, Family::of(&subnet.range.addr())));
            }
        }
        match subnets.is_empty() && !self.request.subnets.is_empty() {
            true => Err(NeutronError::NotFound(format!(
                "a subnet of network {network} among those that are configured"
            ))),
            false => Ok(subnets),
        }
    }

    /// Nothing collides between networks, nor where hardware addresses are Neutron's: a creation
    /// that was not answered may have come through later.
    fn only_one(&self, port: Port) -> Result<Port, NeutronError> {
        let ports = self.ports()?;
        let kept = ports.first().unwrap_or(&port).clone();
        for other in ports
            .iter()
            .filter(|other| other.id != kept.id && other.description == self.run.as_str())
        {
            answered(self.neutron, |neutron| neutron.delete_port(&other.id))?;
        }
        Ok(kept)
    }

    fn new_port<'n>(
        &'n self,
        network: &'n Id,
        mac: Mac,
        subnets: &[(&'n Id, Family)],
    ) -> NewPort<'n> {
        let AttachmentRequest {
            addresses,
            security_groups,
            ..
        } = self.request;
        let asked = addresses.iter().map(|address| Wanted::Address(*address));
        let is_asked = |family: Family| {
            addresses
                .iter()
                .any(|address| Family::of(address) == family)
        };
        let others = subnets.iter().filter(|(_, family)| !is_asked(*family));
        let wanted = asked
            .chain(others.map(|(id, _)| Wanted::Subnet(id)))
            .collect();
        NewPort {
            network,
            owner: self.identity.owner.as_str(),
            name: &self.identity.name,
            device: &self.identity.device,
            description: self.run.as_str(),
            mac: match mac {
                Mac::Chosen(attempt) => Some(self.identity.mac(attempt)),
                Mac::Neutrons => None,
            },
            wanted,
            security_groups,
        }
    }
}
