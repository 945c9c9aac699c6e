//! CHECK: whether the port of an interface still has the addresses of its ADD.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cni::{CniError, ErrorCode};
use crate::commands::ports_of;
use crate::identity::Identity;
use openstack::{Neutron, NeutronError, Port, Retries, retry_until_answered};

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
    let list = |addresses: &BTreeSet<IpAddr>| {
        addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    wrong(format!(
        "the port of {} has {}, but the ADD gave {}",
        identity.device,
        list(&held),
        list(given)
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
