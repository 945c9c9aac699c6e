//! `auto-direct-node-routes` on nodes that cannot share a subnet.
//!
//! The API shows the addresses of nodes and no netmasks. Only addresses that no usual subnet can
//! hold together prove the fault (`pkg/datapath/linux/node.go` installDirectRoute @ 1.15 and 1.19).

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::finding;
use ipam_cilium::behaviours;
use ipam_cilium::observed::{FamilyUse, Observed, setting_key};
use ipam_core::model::{Finding, NodeName, Severity};
use ipam_core::net::{Block, Family, Range};

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

fn is_native(observed: &Observed) -> bool {
    let setting = |key| observed.common_setting(key).map(|setting| setting.value);
    setting(setting_key::ROUTING_MODE) == Some("native")
        || setting(setting_key::TUNNEL) == Some("disabled")
}

/// Whether agents leave out the routes to nodes that they do not reach directly.
fn skips_unreachable(observed: &Observed) -> bool {
    let version = observed.cilium.version.map(|(version, _)| version);
    let is_known = version.is_none_or(|version| behaviours::UNREACHABLE_SKIPPED.include(version));
    is_known && observed.is_on(setting_key::DIRECT_ROUTING_SKIP_UNREACHABLE)
}

pub(super) fn across_subnets(observed: &Observed) -> Vec<Finding> {
    let is_on = observed.is_on(setting_key::AUTO_DIRECT_NODE_ROUTES);
    if !is_on || !is_native(observed) || skips_unreachable(observed) {
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
    // The smallest groups first: they are the exceptions.
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
