//! What an interface gets of its port.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Patience, answered};
use crate::neutron::api::{Address as PortAddress, Id, NetworkFacts, NeutronError, Port, Subnet};
use crate::neutron::cni::{Address, CniError, Dns, ErrorCode, IpamOutcome, Route};
use crate::neutron::settings::{RouteMtu, Wish};

/// Says it.
///
/// # Errors
/// What the port lacks, and subnets of which nothing is known.
pub fn outcome(facts: &(impl NetworkFacts + Patience), wish: &Wish, port: &Port) -> Result<IpamOutcome, CniError> {
    has_what_was_asked_for(wish, port)?;
    let mut subnets: BTreeMap<&Id, Subnet> = BTreeMap::new();
    for fixed in &port.fixed_ips {
        if !subnets.contains_key(&fixed.subnet_id) {
            let subnet = answered(facts, |facts| facts.subnet(&fixed.subnet_id))?;
            subnets.insert(&fixed.subnet_id, subnet);
        }
    }
    // Neutron's order is any; the first address is a Pod's main one for many runtimes.
    let mut fixed_ips: Vec<_> = port.fixed_ips.iter().collect();
    fixed_ips
        .sort_by_key(|fixed| (wish.subnets.iter().position(|subnet| *subnet == fixed.subnet_id), fixed.ip_address));
    let mut addresses = Vec::new();
    for fixed in fixed_ips {
        let Some(subnet) = subnets.get(&fixed.subnet_id) else { continue };
        addresses.push(address(wish, fixed.ip_address, subnet)?);
    }
    let mtu = match wish.route_mtu {
        RouteMtu::Unsaid => None,
        RouteMtu::Fixed(mtu) => Some(mtu),
        RouteMtu::OfNetwork => answered(facts, |facts| facts.network(&port.network_id))?.mtu,
    };
    let mut routes: Vec<Route> = Vec::new();
    for route in wish.routes.iter().chain(subnets.values().flat_map(|subnet| &subnet.routes)) {
        if !routes.iter().any(|other| other.destination == route.destination) {
            routes.push(Route { mtu, ..route.clone() });
        }
    }
    let dns = wish.dns.clone().unwrap_or_else(|| Dns { nameservers: nameservers(&subnets), ..Dns::default() });
    Ok(IpamOutcome { addresses, routes, dns })
}

fn has_what_was_asked_for(wish: &Wish, port: &Port) -> Result<(), CniError> {
    if port.fixed_ips.is_empty() {
        // Neutron makes such a port and says that all is well.
        let message = format!("the network {} has no subnet, so the port has no address", port.network_id);
        return Err(CniError::new(ErrorCode::InvalidConfiguration, message, "give the network a subnet"));
    }
    let is_foreign = |fixed: &&PortAddress| !wish.subnets.is_empty() && !wish.subnets.contains(&fixed.subnet_id);
    if let Some(foreign) = port.fixed_ips.iter().find(is_foreign) {
        let message = format!("{} is of no subnet that this network's configuration allows", foreign.ip_address);
        return Err(CniError::new(ErrorCode::InvalidConfiguration, message, "see `ipam.subnets`"));
    }
    let has = |wanted: &IpAddr| port.fixed_ips.iter().any(|fixed| fixed.ip_address == *wanted);
    match wish.addresses.iter().find(|wanted| !has(wanted)) {
        None => Ok(()),
        Some(missing) => {
            let message = format!("the port of this interface is there already, and has not {missing}");
            let details = "DEL first: an address is chosen when the port is made";
            Err(CniError::new(ErrorCode::TryAgainLater, message, details))
        }
    }
}

fn address(wish: &Wish, address: IpAddr, subnet: &Subnet) -> Result<Address, CniError> {
    let gateway = |subnet: &Subnet| {
        // `ptp` makes the gateway an address of the node, and must not take the router's.
        let chosen = wish.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == address.is_ipv4());
        chosen.or(subnet.gateway)
    };
    match IpNet::new(address, subnet.range.prefix_len()) {
        Ok(net) if subnet.range.contains(&address) => Ok(Address { address: net, gateway: gateway(subnet) }),
        _ => Err(NeutronError::Other(format!("{address} is not of its subnet {}", subnet.range)).into()),
    }
}

fn nameservers(subnets: &BTreeMap<&Id, Subnet>) -> Vec<IpAddr> {
    let mut servers: Vec<IpAddr> = Vec::new();
    for server in subnets.values().flat_map(|subnet| &subnet.nameservers) {
        if !servers.contains(server) {
            servers.push(*server);
        }
    }
    servers
}
