//! The CNI commands at Neutron: ADD creates the port of an interface, CHECK compares it with its
//! ADD, DEL deletes the ports of that interface and no others, and GC those of this network and
//! node without an attachment. After each command, Neutron has what the answer says, wherever an
//! earlier attempt ended. Must never know files or the environment.

mod add;
mod outcome;

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::cni::{Attachment, CniError, ErrorCode};
use super::identity::Owner;
use crate::identity::Identity;
use ipam_core::neutron::Id;
use ipam_core::text::joined;
use openstack::{Neutron, NeutronError, Port, PortFilter, Retries, retry_until_answered};

pub use add::{Added, Leftover, NotAdded, add};
pub use outcome::outcome;

/// The ports of an attachment or of a slot in a pool, oldest first.
fn ports_of(neutron: &impl Neutron, identity: &Identity) -> Result<Vec<Port>, NeutronError> {
    let (name, device) = (Some(identity.name.as_str()), Some(identity.device.as_str()));
    let filter = PortFilter {
        name,
        device,
        owner: Some(identity.owner.as_str()),
        mac: None,
    };
    let mut ports = neutron.ports(&filter)?;
    ports.retain(|port| identity.is_of(port));
    ports.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok(ports)
}

#[cfg(test)]
mod tests;

/// Compares the port with the addresses of the ADD. `given` is `None` if the runtime does not
/// report them.
///
/// # Errors
/// Fails if the port is missing or has other addresses.
pub fn check(
    neutron: &(impl Neutron + Retries),
    identity: &Identity,
    given: Option<&BTreeSet<IpAddr>>,
) -> Result<(), CniError> {
    let ports = retry_until_answered(neutron, |neutron| ports_of(neutron, identity))?;
    let wrong = |message: String| {
        Err(CniError::new(
            ErrorCode::Missing,
            message,
            "delete the Pod, so that it is created again",
        ))
    };
    if ports.is_empty() {
        return wrong(format!("the port of {} is gone", identity.device));
    }
    let Some(given) = given else { return Ok(()) };
    for port in &ports {
        if has_given(neutron, port, given)? {
            return Ok(());
        }
    }
    let held: BTreeSet<IpAddr> = ports.iter().flat_map(held).collect();
    wrong(format!(
        "the port of {} has {}, but the ADD gave {}",
        identity.device,
        joined(&held, ", "),
        joined(given, ", ")
    ))
}

fn held(port: &Port) -> impl Iterator<Item = IpAddr> {
    port.fixed_ips.iter().map(|fixed| fixed.ip_address)
}

/// Whether the ADD gave exactly the addresses of this port. Addresses of other subnets may come
/// from another plugin of the chain.
fn has_given(
    neutron: &(impl Neutron + Retries),
    port: &Port,
    given: &BTreeSet<IpAddr>,
) -> Result<bool, NeutronError> {
    let held: BTreeSet<IpAddr> = held(port).collect();
    for fixed in &port.fixed_ips {
        let range =
            retry_until_answered(neutron, |neutron| neutron.subnet(&fixed.subnet_id))?.range;
        if given
            .iter()
            .any(|address| range.contains(address) && !held.contains(address))
        {
            return Ok(false);
        }
    }
    Ok(held.is_subset(given))
}

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
