//! ADD: one port for an interface of a container, however often it is asked.
//!
//! The hardware address follows from the attachment, so of two creations one collides with the other, and whatever Neutron says no to
//! is followed by a look for a port that an earlier try made. Where the role may not choose hardware addresses, as on another project's
//! network, it is looked for before it is created. Whoever calls must not do so twice at once for one attachment.

use std::cell::Cell;

use super::outcome::outcome;
use super::{Patience, Verdict, answered, ports_of};
use crate::neutron::api::{Id, Neutron, NeutronError, NewPort, Port, Wanted};
use crate::neutron::cni::{CniError, IpamOutcome};
use crate::neutron::identity::{Identity, RunId};
use crate::neutron::settings::Wish;

/// How many hardware addresses are tried before it is given up. Two of 2^46 hardly ever meet.
const ATTEMPTS: u32 = 4;

/// Makes the port, or finds the one that was made, and says what the interface gets. What this run made is taken back when anything fails,
/// with the patience of `last`.
///
/// # Errors
/// Neutron's no, and ports that have not what was asked for.
pub fn add<N: Neutron + Patience>(
    neutron: &N,
    last: &N,
    wish: &Wish,
    identity: &Identity,
    run: &RunId,
) -> Result<IpamOutcome, CniError> {
    let adding = Adding { neutron, wish, identity, run, made: Cell::new(Made::Nothing) };
    let outcome = adding.port().map_err(CniError::from).and_then(|port| outcome(neutron, wish, &port));
    outcome.map_err(|error| match adding.made.get() {
        Made::Nothing => error,
        Made::Perhaps => match take_back(last, identity, run) {
            Ok(()) => error,
            // It is found by its name when garbage is collected.
            Err(why) => error.and_also(&format!("and a port of {} may be left: {why}", identity.device)),
        },
    })
}

/// Whether this run made a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// It did not.
    Nothing,
    /// It did, or was not told.
    Perhaps,
}

/// Ports of this attachment that this run made; one that was there before may be in use.
fn take_back<N: Neutron + Patience>(neutron: &N, identity: &Identity, run: &RunId) -> Result<(), NeutronError> {
    let ports = answered(neutron, |neutron| ports_of(neutron, identity))?;
    let mut made = ports.iter().filter(|port| port.description == run.as_str());
    made.try_for_each(|port| answered(neutron, |neutron| neutron.delete_port(&port.id)))
}

/// How the hardware address comes about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mac {
    /// From the attachment; the number of the attempt.
    Chosen(u32),
    /// From Neutron, as the role may not choose it.
    Neutrons,
}

struct Adding<'a, N> {
    neutron: &'a N,
    wish: &'a Wish,
    identity: &'a Identity,
    run: &'a RunId,
    made: Cell<Made>,
}

impl<N: Neutron + Patience> Adding<'_, N> {
    /// The port of this attachment.
    fn port(&self) -> Result<Port, NeutronError> {
        // An earlier try may have found place on a later network only.
        if self.wish.networks.len() > 1
            && let Some(port) = answered(self.neutron, |_| self.found())?
        {
            return Ok(port);
        }
        let mut fault = NeutronError::Exhausted;
        for network in &self.wish.networks {
            match self.port_on(network) {
                // Another network may have what this one lacks.
                Err(error @ (NeutronError::Exhausted | NeutronError::InvalidAddress)) => fault = error,
                outcome => return outcome,
            }
        }
        Err(fault)
    }

    fn port_on(&self, network: &Id) -> Result<Port, NeutronError> {
        let mut mac = Mac::Chosen(0);
        let mut tries = 0;
        loop {
            let created = self.neutron.create_port(&self.new_port(network, mac));
            if matches!(created, Ok(_) | Err(NeutronError::Unavailable(_))) {
                self.made.set(Made::Perhaps);
            }
            let error = match created {
                Ok(port) if tries > 0 && mac == Mac::Neutrons => return self.only_one(port),
                Ok(port) => return Ok(port),
                Err(error) => error,
            };
            match (answered(self.neutron, |_| self.found()), &error) {
                (Ok(Some(port)), _) => return Ok(port),
                (Ok(None), _) => {}
                // What was said first is nearer to the cause.
                (Err(_), NeutronError::Unavailable(_) | NeutronError::Unreachable(_)) => return Err(error),
                (Err(fault), _) => return Err(fault),
            }
            mac = match (error, mac) {
                (NeutronError::MacInUse, Mac::Chosen(attempt)) if attempt + 1 < ATTEMPTS => Mac::Chosen(attempt + 1),
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
        let ports = ports_of(self.neutron, self.identity)?;
        Ok(ports.into_iter().find(|port| self.wish.networks.contains(&port.network_id)))
    }

    /// Nothing collides where hardware addresses are Neutron's: a creation that was not answered may have come through later.
    fn only_one(&self, port: Port) -> Result<Port, NeutronError> {
        let ports = answered(self.neutron, |neutron| ports_of(neutron, self.identity))?;
        let kept = ports.first().unwrap_or(&port).clone();
        for other in ports.iter().filter(|other| other.id != kept.id && other.description == self.run.as_str()) {
            answered(self.neutron, |neutron| neutron.delete_port(&other.id))?;
        }
        Ok(kept)
    }

    fn new_port<'n>(&'n self, network: &'n Id, mac: Mac) -> NewPort<'n> {
        let Wish { addresses, subnets, security_groups, .. } = self.wish;
        let wanted = match addresses.is_empty() {
            true => subnets.iter().map(Wanted::Subnet).collect(),
            false => addresses.iter().map(|address| Wanted::Address(*address)).collect(),
        };
        NewPort {
            network,
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
