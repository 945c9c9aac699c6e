//! GC: deletes ports of this network on this node that have no attachment any more. Ports of other
//! nodes have other names.

use std::collections::BTreeSet;

use crate::cni::Attachment;
use crate::identity::Owner;
use ipam_core::neutron::Id;
use openstack::{Neutron, NeutronError, PortFilter, Retries, retry_until_answered};

/// The result of a garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub removed: Vec<Id>,
    /// Errors of ports that could not be deleted.
    pub errors: Vec<NeutronError>,
}

/// Deletes the ports with this name whose attachment is not in `valid`. Goes on after an error.
///
/// # Errors
/// Fails if Neutron does not list the ports.
pub fn collect_garbage(
    neutron: &(impl Neutron + Retries),
    name: &str,
    valid: &BTreeSet<Attachment>,
) -> Result<Collected, NeutronError> {
    let valid: BTreeSet<String> = valid.iter().map(ToString::to_string).collect();
    let filter = PortFilter {
        name: Some(name),
        owner: Some(Owner::Pod.as_str()),
        device: None,
        mac: None,
    };
    let mut collected = Collected::default();
    for port in retry_until_answered(neutron, |neutron| neutron.ports(&filter))? {
        let is_ours = port.name == name && port.device_owner == Owner::Pod.as_str();
        if !is_ours || valid.contains(&port.device_id) {
            continue;
        }
        match retry_until_answered(neutron, |neutron| neutron.delete_port(&port.id)) {
            Ok(()) => collected.removed.push(port.id),
            Err(error) => collected.errors.push(error),
        }
    }
    Ok(collected)
}
