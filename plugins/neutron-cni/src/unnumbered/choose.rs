//! Chooses the parts of a secondary route. Fails if the settings, the addresses, the node and the
//! Pod contradict each other. Names follow from the attachment alone, so that each run finds what
//! an earlier one made, without a file: a kill leaves nothing that has no name.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use ring::digest::{Context, SHA256};

use crate::cni::{Attachment, CniError};
use crate::invalid;
use crate::nic::{Kind, Link, MAIN_TABLE, Mac};
use crate::unnumbered::secondary_route::Surroundings;
use crate::unnumbered::settings::{LEAST_MTU_IPV6, Wanted};
use ipam_core::net::Family;

/// Limit of the node's addresses that need a route of their own.
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

/// The start of a mark in the alias of both ends.
const MARK: &str = "cni-unnumbered-ptp ";

/// The start of the name of a node's end.
const NODE_END: &str = "unp";

/// Hexadecimal digits of the network in a mark.
const NETWORK_DIGITS: usize = 16;

/// Hexadecimal digits in the name of a node's end: with `NODE_END`, the longest name of a link.
const NAME_DIGITS: usize = 12;

/// The tables of this plugin: above those that people and other programs number.
const FIRST_TABLE: u32 = 0x4000_0000;

/// Identifies the secondary route of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WayKey {
    network: String,
    hash: Vec<u8>,
}

impl WayKey {
    pub fn new(network: &str, attachment: &Attachment) -> WayKey {
        WayKey {
            network: hex(&digest(&[network]))
                .chars()
                .take(NETWORK_DIGITS)
                .collect(),
            hash: digest(&[network, &attachment.to_string()]),
        }
    }

    /// The name of the node's end.
    pub fn node_end(&self) -> String {
        let digits: String = hex(&self.hash).chars().take(NAME_DIGITS).collect();
        format!("{NODE_END}{digits}")
    }

    /// The alias that both ends of the pair have.
    pub fn mark(&self) -> String {
        format!("{MARK}{} {}", self.network, hex(&self.hash[..16]))
    }

    /// Hardware addresses of the node's and the Pod's end. They are set rather than chosen by the
    /// kernel: systemd-udevd replaces a chosen one, and the neighbour entries would be wrong.
    pub fn macs(&self) -> [Mac; 2] {
        [0, 5].map(|from| {
            let mut mac = [2; 6];
            mac[1..].copy_from_slice(&self.hash[from..from + 5]);
            // The two ends must differ.
            mac[1] = (mac[1] & 0xfe) | u8::from(from > 0);
            Mac(mac)
        })
    }

    /// The Pod's routing table for what it sends from the addresses of this attachment.
    pub fn table(&self) -> u32 {
        let number = self.hash[28..]
            .iter()
            .fold(0, |number: u32, byte| (number << 8) | u32::from(*byte));
        FIRST_TABLE | (number & (FIRST_TABLE - 1))
    }

    /// Whether the link is an end of this attachment, on the node. A killed run may not have marked
    /// it.
    pub fn is_node_end(&self, link: &Link) -> bool {
        match link.alias.as_deref() {
            Some(alias) => alias == self.mark() && link.kind == Kind::Veth,
            None => link.name == self.node_end() && link.kind == Kind::Veth,
        }
    }
}

/// Whether the link has a mark of any network.
pub(super) fn is_marked(link: &Link) -> bool {
    link.alias
        .as_deref()
        .is_some_and(|alias| alias.starts_with(MARK))
}

/// Whether the link is marked as an end of an attachment to this network.
pub fn is_of_network(network: &str, link: &Link) -> bool {
    let digits: String = hex(&digest(&[network]))
        .chars()
        .take(NETWORK_DIGITS)
        .collect();
    let start = format!("{MARK}{digits} ");
    link.kind == Kind::Veth
        && link
            .alias
            .as_deref()
            .is_some_and(|alias| alias.starts_with(&start))
}

/// Whether the link is a node's end that a killed run did not mark.
pub fn is_unmarked_end(link: &Link) -> bool {
    let digits = link.name.strip_prefix(NODE_END);
    link.kind == Kind::Veth
        && link.alias.is_none()
        && digits.is_some_and(|digits| {
            digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

fn digest(parts: &[&str]) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finish().as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
