//! Routes to Pods that are missing: ipam `multi-pool` without routes of single Pods, and
//! `auto-direct-node-routes` on nodes that cannot share a subnet. The API shows the addresses of
//! nodes and no netmasks.
//!
//! Up to 1.17, an agent in ipam `multi-pool` knows no block of its node, so the route of the local
//! node leads to the Node's block, or to one of 10.0.0.0/8 that the agent made up
//! (`Documentation/network/concepts/ipam/multi-pool.rst` and `pkg/node/address.go` @ 1.17). From
//! 1.18 on it has a route to each of its blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::finding;
use ipam_cilium::behaviours;
use ipam_cilium::observed::{FamilyUse, Node, Observed, ObservedKind, setting_key};
use ipam_core::model::{Finding, NodeName, Severity};
use ipam_core::net::{Block, Family, Range};

/// Whether an agent that starts on a node makes a route for each Pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndpointRoutes {
    On,
    Off,
    /// The settings are not complete, as in an old snapshot.
    Unknown,
}

/// Whether Pods of this mode need routes of their own in the running version.
fn are_required(observed: &Observed) -> bool {
    observed.is_multi_pool() && observed.surely_has(behaviours::MULTI_POOL_ENDPOINT_ROUTES)
}

fn routes_of(observed: &Observed, node: &Node) -> EndpointRoutes {
    match observed.setting(&node.labels, setting_key::ENABLE_ENDPOINT_ROUTES) {
        Some(setting) if setting.is_on() => EndpointRoutes::On,
        Some(_) => EndpointRoutes::Off,
        // Helm writes the one only if it is on, and the other always.
        None => match observed.common_setting(setting_key::AUTO_DIRECT_NODE_ROUTES) {
            Some(_) => EndpointRoutes::Off,
            None => EndpointRoutes::Unknown,
        },
    }
}

fn nodes_with(observed: &Observed, routes: EndpointRoutes) -> Vec<&Node> {
    // A hidden `CiliumNodeConfig` of a node may enable endpoint routes.
    if !are_required(observed) || observed.is_blind_to_any(&[ObservedKind::CiliumNodeConfig]) {
        return Vec::new();
    }
    let nodes = observed.nodes.values().map(AsRef::as_ref);
    nodes
        .filter(|node| routes_of(observed, node) == routes)
        .collect()
}

/// Nodes whose local route may lead to another block than that of their Pods.
pub(super) fn nodes_without(observed: &Observed) -> BTreeSet<&NodeName> {
    let nodes = nodes_with(observed, EndpointRoutes::Off);
    nodes.into_iter().map(|node| &node.name).collect()
}

pub(super) fn missing(observed: &Observed) -> Vec<Finding> {
    let (off, unknown) = (EndpointRoutes::Off, EndpointRoutes::Unknown);
    let missing = of_nodes(observed, &nodes_with(observed, off), off);
    let unclear = of_nodes(observed, &nodes_with(observed, unknown), unknown);
    missing.into_iter().chain(unclear).collect()
}

fn of_nodes(observed: &Observed, nodes: &[&Node], routes: EndpointRoutes) -> Option<Finding> {
    let names: Vec<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    if names.is_empty() {
        return None;
    }
    let named = super::named(&names);
    let (severity, message) = match routes {
        EndpointRoutes::Off | EndpointRoutes::On => (
            Severity::Error,
            format!("the agents of {named} make no routes to their Pods"),
        ),
        EndpointRoutes::Unknown => (
            Severity::Warning,
            format!("it is unknown whether the agents of {named} make routes to their Pods"),
        ),
    };
    let line = |node: &&Node| {
        let lives = observed.pod_blocks_of(&node.name);
        let route = match node.spec.iter().next() {
            Some(_) => format!("the route leads to {}", super::spaced(node.spec.iter())),
            None => "the agent makes up the block of its route".to_owned(),
        };
        format!(
            "`{}`: {route}, its Pods live in {}",
            node.name,
            super::spaced(lives)
        )
    };
    let setting = observed.common_setting(setting_key::ENABLE_ENDPOINT_ROUTES);
    let value = setting.map_or("absent", |setting| setting.value);
    let finding = finding(severity, "endpoint-routes-missing", message);
    let finding = super::about_nodes(finding, names.iter().copied())
        .seen([format!(
            "cilium-config enable-endpoint-routes: {}",
            value.escape_debug()
        )])
        .seen(nodes.iter().map(line));
    let finding = finding.causes(
        "packets from other nodes and from the node itself do not reach these Pods; they loop until their TTL expires",
    );
    Some(finding.help(
        "set `enable-endpoint-routes: \"true\"` in cilium-config (Helm: endpointRoutes.enabled=true) and restart the agents, or upgrade to Cilium 1.18 or later",
    ))
}

/// Private and shared address space of IPv4, each the widest subnet there (RFC 1918, RFC 6598).
const PRIVATE: [&str; 4] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
];

/// The widest network in which a subnet with this address can lie.
fn widest_network(address: IpAddr) -> Option<Block> {
    let host = Range::from(address).largest_block()?;
    let of_prefix = |prefix_len: u8| {
        let mut networks = host.enclosing();
        networks.find(|network| network.prefix_len() == prefix_len)
    };
    match address {
        IpAddr::V4(_) => {
            let private = PRIVATE.iter().filter_map(|text| text.parse::<Block>().ok());
            let around = private.into_iter().find(|block| block.contains(host));
            around.or_else(|| of_prefix(8))
        }
        // Unique local addresses have a prefix of /48 for each site (RFC 4193); providers get /32.
        IpAddr::V6(address) if address.segments()[0] & 0xfe00 == 0xfc00 => of_prefix(48),
        IpAddr::V6(_) => of_prefix(32),
    }
}

/// Whether agents leave out the routes to nodes that they do not reach directly.
fn skips_unreachable(observed: &Observed) -> bool {
    observed.may_have(behaviours::UNREACHABLE_SKIPPED)
        && observed.is_on(setting_key::DIRECT_ROUTING_SKIP_UNREACHABLE)
}

pub(super) fn across_subnets(observed: &Observed) -> Vec<Finding> {
    let is_on = observed.is_on(setting_key::AUTO_DIRECT_NODE_ROUTES);
    if !is_on || !observed.routes_natively() || skips_unreachable(observed) {
        return Vec::new();
    }
    Family::BOTH
        .into_iter()
        .filter(|family| observed.cilium.use_of(*family) != FamilyUse::Off)
        .filter_map(|family| of_family(observed, family))
        .collect()
}

fn of_family(observed: &Observed, family: Family) -> Option<Finding> {
    let mut networks: BTreeMap<Block, Vec<(&NodeName, IpAddr)>> = BTreeMap::new();
    for node in observed.nodes.values() {
        // Internal addresses come first.
        let address = node
            .addresses
            .iter()
            .find(|address| Family::of(**address) == family);
        if let Some(address) = address
            && let Some(network) = widest_network(*address)
        {
            networks
                .entry(network)
                .or_default()
                .push((&node.name, *address));
        }
    }
    if networks.len() < 2 {
        return None;
    }
    // The smallest groups of nodes come first: they are the exceptions.
    let mut groups: Vec<_> = networks.into_values().collect();
    groups.sort_by_key(Vec::len);
    let all: usize = groups.iter().map(Vec::len).sum();
    let names: Vec<&NodeName> = groups
        .iter()
        .flatten()
        .map(|(name, _)| *name)
        .take(all - groups.last().map_or(0, Vec::len))
        .collect();
    let message = format!(
        "auto-direct-node-routes is on, but {} cannot share a subnet with the other nodes",
        super::named(&names)
    );
    let line = |(name, address): &(&NodeName, IpAddr)| format!("node `{name}`: {address}");
    let finding = finding(Severity::Warning, "direct-routes-across-subnets", message);
    let finding =
        super::about_nodes(finding, names.iter().copied()).seen(groups.iter().flatten().map(line));
    let finding = finding.causes(
        "the agents make no route to Pods behind a gateway, and packets there go to the default router",
    );
    Some(finding.help("announce the blocks by BGP or route them otherwise, and set `direct-routing-skip-unreachable: \"true\"` (1.16 and later) or `auto-direct-node-routes: \"false\"` in cilium-config; or use a tunnel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_addresses() {
        for (address, network) in [
            ("10.1.2.3", "10.0.0.0/8"),
            ("172.20.0.1", "172.16.0.0/12"),
            ("192.168.110.1", "192.168.0.0/16"),
            ("192.0.2.1", "192.0.0.0/8"),
            ("203.0.113.9", "203.0.0.0/8"),
            ("fd00:1:2:3::1", "fd00:1:2::/48"),
            ("2001:db8:1::1", "2001:db8::/32"),
        ] {
            let found = widest_network(address.parse().unwrap()).unwrap();
            assert_eq!(found.to_string(), network);
        }
    }
}
