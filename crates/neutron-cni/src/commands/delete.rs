//! DEL: the ports of an interface of a container go, and no others. Repeating it is no fault.

use crate::commands::ports_of;
use crate::identity::Identity;
use openstack::{Neutron, NeutronError, Patience, answered};

/// Removes them. It fails only where trying again can help: a link that waits for its address to be
/// released would stay otherwise.
///
/// # Errors
/// Neutron's no.
pub fn delete(
    neutron: &(impl Neutron + Patience),
    identity: &Identity,
) -> Result<(), NeutronError> {
    let ports = answered(neutron, |neutron| ports_of(neutron, identity))?;
    let deleted = ports
        .iter()
        .map(|port| answered(neutron, |neutron| neutron.delete_port(&port.id)));
    // All of them are tried before the first fault is told.
    deleted.collect::<Vec<_>>().into_iter().collect()
}
