//! ADD: one port for an interface of a container, however often the runtime repeats the ADD.
//!
//! The attachment determines the hardware address, so a second creation collides with the first.
//! After each refusal, the ADD looks for a port that an earlier attempt created. If the role may not
//! choose hardware addresses (another project's network), Neutron chooses, and duplicates are
//! deleted. The caller must not run two ADDs for one attachment at once.

use std::cell::Cell;
use std::net::IpAddr;

use crate::cni::{CniError, IpamOutcome};
use crate::commands::outcome::outcome;
use crate::commands::ports_of;
use crate::identity::{Identity, RunId};
use crate::settings::AttachmentRequest;
use ipam_core::neutron::Id;
use openstack::{
    Neutron, NeutronError, NewPort, NextAttempt, Port, Retries, Wanted, retry_until_answered,
};

/// Hardware addresses that are tried. Two of 2^46 hardly ever collide.
const ATTEMPTS: u32 = 4;

/// A port, and what the interface gets from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub port: Port,
    pub outcome: IpamOutcome,
    pub leftover: Leftover,
}

/// A failed ADD: the Pod gets no port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAdded {
    pub error: CniError,
    pub leftover: Leftover,
}

/// Whether Neutron may have, or get later, a port that the caller does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    None,
    /// A creation was not answered, or a port could not be deleted.
    Possible,
}

impl From<NotAdded> for CniError {
    fn from(not: NotAdded) -> CniError {
        not.error
    }
}

/// Creates the port, or finds the one that an earlier attempt created. If anything fails, deletes
/// what this run created, within the time of `last`.
///
/// # Errors
/// Fails if Neutron refuses, or if the existing port lacks what the request asks for.
pub fn add<N: Neutron + Retries>(
    neutron: &N,
    last: &N,
    request: &AttachmentRequest,
    identity: &Identity,
    run: &RunId,
) -> Result<Added, NotAdded> {
    let operation = AddOperation {
        neutron,
        request,
        identity,
        run,
        created: Cell::new(CreateResult::Nothing),
    };
    let added = operation.port().map_err(CniError::from).and_then(|port| {
        let outcome = outcome(neutron, request, &port)?;
        Ok(Added {
            port,
            outcome,
            leftover: operation.created.get().leftover(),
        })
    });
    added.map_err(|error| match operation.created.get() {
        CreateResult::Nothing => NotAdded {
            error,
            leftover: Leftover::None,
        },
        created => match delete_created(last, identity, run, created) {
            Ok(()) => NotAdded {
                error,
                leftover: created.leftover(),
            },
            // The garbage collection finds the leftover port by its name.
            Err(why) => {
                let error = error.and_also(&format!(
                    "a port of {} may be left over: {why}",
                    identity.device
                ));
                NotAdded {
                    error,
                    leftover: Leftover::Possible,
                }
            }
        },
    })
}

/// The known result of port creations in this run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CreateResult {
    Nothing,
    Created,
    /// Neutron did not answer. It may still create the port.
    Unknown,
}

impl CreateResult {
    fn leftover(self) -> Leftover {
        match self {
            CreateResult::Nothing | CreateResult::Created => Leftover::None,
            CreateResult::Unknown => Leftover::Possible,
        }
    }
}

/// Deletes the ports of this attachment that this run created. An older port may be in use.
fn delete_created<N: Neutron + Retries>(
    neutron: &N,
    identity: &Identity,
    run: &RunId,
    created: CreateResult,
) -> Result<(), NeutronError> {
    let mut failed = 0;
    loop {
        let mut ports = retry_until_answered(neutron, |neutron| ports_of(neutron, identity))?;
        ports.retain(|port| port.description == run.as_str());
        for port in &ports {
            retry_until_answered(neutron, |neutron| neutron.delete_port(&port.id))?;
        }
        if created != CreateResult::Unknown || !ports.is_empty() {
            return Ok(());
        }
        failed += 1;
        if neutron.next_attempt(failed) == NextAttempt::Never {
            return Err(NeutronError::Unavailable(
                "Neutron may still create it".to_owned(),
            ));
        }
    }
}

/// Who chooses the hardware address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mac {
    /// This plugin chooses: the address follows from the attachment and the number of the attempt.
    Chosen(u32),
    /// Neutron, because the role may not choose.
    FromNeutron,
}

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

struct AddOperation<'a, N> {
    neutron: &'a N,
    request: &'a AttachmentRequest,
    identity: &'a Identity,
    run: &'a RunId,
    created: Cell<CreateResult>,
}

impl<N: Neutron + Retries> AddOperation<'_, N> {
    fn port(&self) -> Result<Port, NeutronError> {
        // An earlier attempt may have found room on a later network only.
        if self.request.networks.len() > 1
            && let Some(port) = self.found()?
        {
            return Ok(port);
        }
        let mut fault = NeutronError::Exhausted;
        for network in &self.request.networks {
            match self.port_on(network) {
                // Another network of the request may have a free address.
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
        let mut failed = 0;
        loop {
            let error = match self
                .neutron
                .create_port(&self.new_port(network, mac, &subnets))
            {
                Ok(port) => {
                    let is_alone =
                        mac != Mac::FromNeutron && self.created.get() != CreateResult::Unknown;
                    self.created
                        .set(self.created.get().max(CreateResult::Created));
                    return if is_alone {
                        Ok(port)
                    } else {
                        self.only_one(port)
                    };
                }
                Err(error) => error,
            };
            if matches!(error, NeutronError::Unavailable(_)) {
                self.created.set(CreateResult::Unknown);
            }
            match (self.found(), &error) {
                (Ok(Some(port)), _) => return Ok(port),
                (Ok(None), _) => {}
                // The first error is closer to the cause.
                (Err(_), NeutronError::Unavailable(_) | NeutronError::Unreachable(_)) => {
                    return Err(error);
                }
                (Err(fault), _) => return Err(fault),
            }
            mac = match (error, mac) {
                (NeutronError::MacInUse, Mac::Chosen(attempt)) if attempt + 1 < ATTEMPTS => {
                    Mac::Chosen(attempt + 1)
                }
                // If the requested address is forbidden, the next creation fails the same way.
                (NeutronError::Forbidden(_), Mac::Chosen(_)) => Mac::FromNeutron,
                (error @ (NeutronError::Unavailable(_) | NeutronError::Unreachable(_)), mac) => {
                    failed += 1;
                    if self.neutron.next_attempt(failed) == NextAttempt::Never {
                        return Err(error);
                    }
                    mac
                }
                (error, _) => return Err(error),
            };
        }
    }

    /// The oldest port that an earlier attempt created.
    fn found(&self) -> Result<Option<Port>, NeutronError> {
        Ok(self.ports()?.into_iter().next())
    }

    fn ports(&self) -> Result<Vec<Port>, NeutronError> {
        let mut ports =
            retry_until_answered(self.neutron, |neutron| ports_of(neutron, self.identity))?;
        ports.retain(|port| self.request.networks.contains(&port.network_id));
        Ok(ports)
    }

    /// The allowed subnets in the network, with their families.
    fn subnets_of(&self, network: &Id) -> Result<Vec<(&Id, Family)>, NeutronError> {
        let mut subnets = Vec::new();
        for id in &self.request.subnets {
            let subnet = retry_until_answered(self.neutron, |neutron| neutron.subnet(id))?;
            if subnet.network == *network {
                subnets.push((id, Family::of(&subnet.range.addr())));
            }
        }
        match subnets.is_empty() && !self.request.subnets.is_empty() {
            true => Err(NeutronError::NotFound(format!(
                "none of the configured subnets is of network {network}"
            ))),
            false => Ok(subnets),
        }
    }

    /// Deletes duplicates. Ports on two networks do not collide, nor ports with hardware addresses
    /// that Neutron chose, so an unanswered creation may have succeeded later.
    fn only_one(&self, port: Port) -> Result<Port, NeutronError> {
        let ports = self.ports()?;
        let kept = ports.first().unwrap_or(&port).clone();
        for other in ports
            .iter()
            .filter(|other| other.id != kept.id && other.description == self.run.as_str())
        {
            retry_until_answered(self.neutron, |neutron| neutron.delete_port(&other.id))?;
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
        let fixed = addresses.iter().map(|address| Wanted::Address(*address));
        let has_address = |family: Family| {
            addresses
                .iter()
                .any(|address| Family::of(address) == family)
        };
        let others = subnets.iter().filter(|(_, family)| !has_address(*family));
        let wanted = fixed
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
                Mac::FromNeutron => None,
            },
            wanted,
            security_groups,
        }
    }
}
