//! CHECK: whether the port of an interface still has what its ADD gave.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Patience, answered, ports_of};
use crate::neutron::api::Neutron;
use crate::neutron::cni::{CniError, ErrorCode};
use crate::neutron::identity::Identity;

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
    let wrong =
        |message: String| Err(CniError::new(ErrorCode::Missing, message, "delete the Pod, so that it is made anew"));
    let Some(port) = ports.first() else {
        return wrong(format!("the port of {} is gone", identity.device));
    };
    let held: BTreeSet<IpAddr> = port.fixed_ips.iter().map(|fixed| fixed.ip_address).collect();
    match given {
        Some(given) if *given != held => {
            let list =
                |addresses: &BTreeSet<IpAddr>| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let (given, held) = (list(given), list(&held));
            wrong(format!("the port {} of {} has {held}, and {given} was given", port.id, identity.device))
        }
        Some(_) | None => Ok(()),
    }
}
