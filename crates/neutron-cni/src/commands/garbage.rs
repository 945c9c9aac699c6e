//! GC: ports of this network on this node that belong to no attachment any more. Those of other
//! nodes have other names, and are never touched.

use std::collections::BTreeSet;

use crate::cni::Attachment;
use crate::identity::Owner;
use ipam_core::neutron::Id;
use openstack::{Neutron, NeutronError, Patience, PortFilter, answered};

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Ports that were removed.
    pub removed: Vec<Id>,
    /// What went wrong with others.
    pub faults: Vec<NeutronError>,
}

/// Removes the ports of this name whose attachment is not among the `valid` ones. It goes on after
/// a fault.
///
/// # Errors
/// A list that Neutron does not give: without it nothing is known to be garbage.
pub fn collect_garbage(
    neutron: &(impl Neutron + Patience),
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
    for port in answered(neutron, |neutron| neutron.ports(&filter))? {
        let is_ours = port.name == name && port.device_owner == Owner::Pod.as_str();
        if !is_ours || valid.contains(&port.device_id) {
            continue;
        }
        match answered(neutron, |neutron| neutron.delete_port(&port.id)) {
            Ok(()) => collected.removed.push(port.id),
            Err(fault) => collected.faults.push(fault),
        }
    }
    Ok(collected)
}
