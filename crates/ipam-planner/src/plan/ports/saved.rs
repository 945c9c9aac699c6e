//! A port as a saved plan names it: whether the cluster shows the change, and whether the port is
//! gone.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::plan::document::{ChangeDocument, EditDocument};
use ipam_cilium::observed::Observed;

/// Whether a port has the pairs of a saved change.
pub(in crate::plan) fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    let EditDocument::AddressPairs { add, remove } = &saved.edit else {
        return false;
    };
    let port = saved.name.parse().ok().and_then(|id| observed.port(&id));
    let (Some((_, port)), Some(add), Some(remove)) = (port, ranges(add), ranges(remove)) else {
        return false;
    };
    let allowed: BTreeSet<IpNet> = port
        .pairs
        .iter()
        .filter_map(|pair| pair.own_range(&port.mac_address))
        .collect();
    add.is_subset(&allowed) && remove.is_disjoint(&allowed)
}

/// Whether the port no longer exists, for certain.
pub(in crate::plan) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    unseen(observed).is_none()
        && saved
            .name
            .parse()
            .is_ok_and(|id| observed.port(&id).is_none())
}

/// Why some ports are unknown.
pub(in crate::plan) fn unseen(observed: &Observed) -> Option<String> {
    match &observed.ports {
        None => Some(
            "ports are not planned: the Policy does not set `allowedAddressPairs: PodCIDRs`"
                .to_owned(),
        ),
        Some(seen) => seen
            .values()
            .find_map(|ports| ports.as_ref().err())
            .map(|why| why.escape_debug().to_string()),
    }
}

pub(super) fn ranges(texts: &[String]) -> Option<BTreeSet<IpNet>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}
