//! DEL: deletes the ports of an interface of a container, and no others.

use crate::commands::ports_of;
use crate::identity::Identity;
use openstack::{Neutron, NeutronError, Retries, retry_until_answered};

/// Deletes them. Succeeds if there are none. Tries all before it returns the first error.
///
/// # Errors
/// Fails if Neutron refuses. Runtimes retry a failed DEL and keep the container until then.
pub fn delete(neutron: &(impl Neutron + Retries), identity: &Identity) -> Result<(), NeutronError> {
    let ports = retry_until_answered(neutron, |neutron| ports_of(neutron, identity))?;
    let deleted = ports
        .iter()
        .map(|port| retry_until_answered(neutron, |neutron| neutron.delete_port(&port.id)));
    deleted.collect::<Vec<_>>().into_iter().collect()
}
