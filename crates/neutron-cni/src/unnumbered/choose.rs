//! Chooses the parts of a secondary route, or refuses: settings, addresses, the node and the Pod may
//! contradict each other.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipam_core::net::Family;
use ipnet::IpNet;

use crate::cni::CniError;
use crate::invalid;
use crate::nic::MAIN_TABLE;
use crate::unnumbered::names::is_marked;
use crate::unnumbered::secondary_route::Surroundings;
use crate::unnumbered::settings::{LEAST_MTU_IPV6, Wanted};

/// Most addresses of the node that need a route of their own.
const MOST_NODE_ADDRESSES: usize = 128;

/// The metric of the first way of a Pod in its main table. Each further way has the next one, so
/// that it takes over when the first is deleted.
const FIRST_METRIC: u32 = 100;

/// Longest name of a link, in bytes.
const LONGEST_NAME: usize = 15;

pub(super) fn refuse_contradictions(
    wanted: &Wanted,
    addresses: &[IpAddr],
    around: &Surroundings,
) -> Result<(), CniError> {
    let of_node = addresses
        .iter()
        .find(|one| around.node_addresses.contains(one));
    if let Some(address) = of_node {
        return Err(invalid(&format!(
            "the Pod's address {address} is one of this node"
        )));
    }
    for route in &wanted.routes {
        let net = IpNet::from(*route);
        if let Some(own) = addresses.iter().find(|one| net.contains(*one)) {
            return Err(invalid(&format!(
                "`routes` has {route}, which contains the Pod's own address {own}"
            )));
        }
        if !addresses
            .iter()
            .any(|one| Family::of(*one) == route.family())
        {
            return Err(invalid(&format!(
                "`routes` has {route}, and the Pod has no {} address",
                route.family()
            )));
        }
    }
    Ok(())
}

/// The configured ones, and the node's addresses outside them: the node answers the Pod through the
/// pair from all of them.
pub(super) fn destinations(
    wanted: &Wanted,
    families: &BTreeSet<Family>,
    node_addresses: &BTreeSet<IpAddr>,
) -> Result<Vec<IpNet>, CniError> {
    let mut destinations: Vec<IpNet> = wanted.routes.iter().copied().map(IpNet::from).collect();
    let is_new = |address: &&IpAddr| {
        families.contains(&Family::of(**address))
            && !destinations.iter().any(|net| net.contains(*address))
    };
    let of_node: Vec<IpNet> = node_addresses
        .iter()
        .filter(is_new)
        .copied()
        .map(IpNet::from)
        .collect();
    if of_node.len() > MOST_NODE_ADDRESSES {
        return Err(invalid(&format!(
            "the node has {} addresses outside `routes`, more than {MOST_NODE_ADDRESSES}: add their ranges",
            of_node.len()
        )));
    }
    destinations.extend(of_node);
    Ok(destinations)
}

pub(super) fn pod_end(wanted: &Wanted, interface: &str) -> Result<String, CniError> {
    let name = match &wanted.interface {
        Some(name) => name.to_string(),
        None => format!("ptp-{interface}"),
    };
    if name == interface || name == "lo" {
        return Err(invalid(&format!(
            "`interface` is {name}, which the Pod has"
        )));
    }
    if name.len() > LONGEST_NAME {
        return Err(invalid(&format!(
            "{name} is too long for a link: set `interface`"
        )));
    }
    Ok(name)
}

pub(super) fn mtu(
    wanted: &Wanted,
    families: &BTreeSet<Family>,
    around: &Surroundings,
) -> Result<u32, CniError> {
    let smaller = around.mtus.iter().copied().min();
    let mtu = wanted
        .mtu
        .or(smaller)
        .ok_or_else(|| invalid("no link shows an MTU: set `mtu`"))?;
    if families.contains(&Family::Ipv6) && mtu < LEAST_MTU_IPV6 {
        return Err(invalid(&format!(
            "the MTU is {mtu}, and the Pod has an IPv6 address, which requires {LEAST_MTU_IPV6}: set `mtu`"
        )));
    }
    Ok(mtu)
}

/// The lowest metric that no other way of this Pod has. Fails if a link that is no other way has one
/// of the routes: the Pod would not take this way.
pub(super) fn metric(destinations: &[IpNet], around: &Surroundings) -> Result<u32, CniError> {
    let mut taken = BTreeSet::new();
    for (link, routes) in &around.pod_links {
        let of_main = routes
            .iter()
            .filter(|route| route.table == MAIN_TABLE && destinations.contains(&route.destination));
        for route in of_main {
            if !is_marked(link) {
                return Err(invalid(&format!(
                    "the Pod has a route to {} through {} already",
                    route.destination, link.name
                )));
            }
            taken.extend(route.metric);
        }
    }
    let mut metric = FIRST_METRIC;
    while taken.contains(&metric) {
        metric += 1;
    }
    Ok(metric)
}
