//! CHECK: whether the port of an interface still has what its ADD gave.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cni::{CniError, ErrorCode};
use crate::commands::ports_of;
use crate::identity::Identity;
use openstack::{Neutron, NeutronError, Patience, Port, answered};

/// Compares them; `given` is what the ADD gave, `None` where the runtime does not say.
///
/// # Errors
/// A port that is not there, or that has other addresses.
pub fn check(
    neutron: &(impl Neutron + Patience),
    identity: &Identity,
    given: Option<&BTreeSet<IpAddr>>,
) -> Result<(), CniError> {
    let ports = answered(neutron, |neutron| ports_of(neutron, identity))?;
    let wrong = |message: String| {
        Err(CniError::new(
            ErrorCode::Missing,
            message,
            "delete the Pod, so that it is made anew",
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
        "the port of {} has {}, and {} was given",
        identity.device,
        list(&held),
        list(given)
    ))
}

fn held(port: &Port) -> impl Iterator<Item = IpAddr> {
    port.fixed_ips.iter().map(|fixed| fixed.ip_address)
}

/// Whether its addresses were given, and of its subnets no others. Another plugin of the chain may
/// have given more.
fn has_given(
    neutron: &(impl Neutron + Patience),
    port: &Port,
    given: &BTreeSet<IpAddr>,
) -> Result<bool, NeutronError> {
    let held: BTreeSet<IpAddr> = held(port).collect();
    for fixed in &port.fixed_ips {
        let range = answered(neutron, |neutron| neutron.subnet(&fixed.subnet_id))?.range;
        if given
            .iter()
            .any(|address| range.contains(address) && !held.contains(address))
        {
            return Ok(false);
        }
    }
    Ok(held.is_subset(given))
}
