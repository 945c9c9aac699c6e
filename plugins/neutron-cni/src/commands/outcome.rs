//! The configuration of an interface from its port: addresses, routes and name servers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cni::{Address, CniError, Dns, ErrorCode, IpamOutcome, Route, RouteDetail};
use crate::conversions::{in_subnet, nameservers, subnets_of};
use crate::settings::{AttachmentRequest, RouteMtu};
use ipam_core::neutron::{Id, PortAddress};
use openstack::{NetworkFacts, Port, Retries, Subnet, retry_until_answered};

/// `RT_SCOPE_LINK` of linux/rtnetlink.h: the destination is on the link.
const SCOPE_LINK: u8 = 253;

/// Computes the result of an ADD.
///
/// # Errors
/// Fails if the port does not satisfy the request, or a subnet is unknown.
pub fn outcome(
    facts: &(impl NetworkFacts + Retries),
    request: &AttachmentRequest,
    port: &Port,
) -> Result<IpamOutcome, CniError> {
    require_requested(request, port)?;
    let subnets = subnets_of(facts, port)?;
    let addresses = addresses(request, port, &subnets)?;
    let mtu = match request.route_mtu {
        RouteMtu::Unset => None,
        RouteMtu::Fixed(mtu) => Some(mtu),
        RouteMtu::OfNetwork => {
            retry_until_answered(facts, |facts| facts.network(&port.network_id))?.mtu
        }
    };
    let routes = routes(request, &addresses, &subnets, mtu);
    let dns = request.dns.clone().unwrap_or_else(|| Dns {
        nameservers: nameservers(&subnets),
        ..Dns::default()
    });
    Ok(IpamOutcome {
        addresses,
        routes,
        dns,
    })
}

/// The port's addresses in the order of the requested subnets. Neutron's order is arbitrary, and
/// many runtimes take the first address for the Pod's main one.
fn addresses(
    request: &AttachmentRequest,
    port: &Port,
    subnets: &BTreeMap<&Id, Subnet>,
) -> Result<Vec<Address>, CniError> {
    let mut fixed_ips: Vec<_> = port.fixed_ips.iter().collect();
    fixed_ips.sort_by_key(|fixed| {
        (
            request
                .subnets
                .iter()
                .position(|subnet| *subnet == fixed.subnet_id),
            fixed.ip_address,
        )
    });
    let mut addresses = Vec::new();
    for fixed in fixed_ips {
        let Some(subnet) = subnets.get(&fixed.subnet_id) else {
            continue;
        };
        addresses.push(address(request, fixed.ip_address, subnet)?);
    }
    Ok(addresses)
}

/// The routes to gateways, the configured ones, and Neutron's where none replaces them.
fn routes(
    request: &AttachmentRequest,
    addresses: &[Address],
    subnets: &BTreeMap<&Id, Subnet>,
    mtu: Option<u32>,
) -> Vec<Route> {
    let mut routes = routes_to_gateways(addresses);
    for route in &request.routes {
        let detail = RouteDetail {
            mtu: route.detail.mtu.or(mtu),
            ..route.detail
        };
        push_new(
            &mut routes,
            Route {
                detail,
                ..route.clone()
            },
        );
    }
    for route in subnets.values().flat_map(|subnet| &subnet.routes) {
        // A configured route to a destination replaces Neutron's.
        if !routes
            .iter()
            .any(|other| other.destination == route.destination && other.detail.table.is_none())
        {
            let detail = RouteDetail {
                mtu,
                ..RouteDetail::default()
            };
            routes.push(Route {
                detail,
                ..Route::from(route)
            });
        }
    }
    routes
}

/// Adds a route unless a table already has one for this destination and priority.
fn push_new(routes: &mut Vec<Route>, route: Route) {
    let route_key = |route: &Route| (route.destination, route.detail.table, route.detail.priority);
    if !routes
        .iter()
        .any(|other| route_key(other) == route_key(&route))
    {
        routes.push(route);
    }
}

/// Routes to IPv4 gateways outside the subnets of the interface. `ptp` 1.9.1 makes its gateway
/// reachable after it adds the routes, and the kernel rejects routes through unreachable gateways.
/// With its own address as the gateway, the kernel looks for the destination on the link. The
/// priority leaves room for the route that `ptp` adds. The scope allows other routes through this
/// one. IPv6 gateways are reachable by their link-local addresses.
fn routes_to_gateways(addresses: &[Address]) -> Vec<Route> {
    let is_beyond = |gateway: &IpAddr| !addresses.iter().any(|one| one.address.contains(gateway));
    let mut routes: Vec<Route> = Vec::new();
    for Address { address, gateway } in addresses {
        let Some(IpAddr::V4(gateway)) = gateway.filter(is_beyond) else {
            continue;
        };
        let destination = IpNet::from(IpAddr::V4(gateway));
        let detail = RouteDetail {
            priority: Some(1),
            scope: Some(SCOPE_LINK),
            ..RouteDetail::default()
        };
        push_new(
            &mut routes,
            Route {
                destination,
                gateway: Some(address.addr()),
                detail,
            },
        );
    }
    routes
}

fn require_requested(request: &AttachmentRequest, port: &Port) -> Result<(), CniError> {
    if port.fixed_ips.is_empty() {
        // Neutron creates such a port without an error.
        let message = format!(
            "the network {} has no subnet, so the port has no address",
            port.network_id
        );
        return Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            message,
            "give the network a subnet",
        ));
    }
    let is_foreign = |fixed: &&PortAddress| {
        !request.subnets.is_empty() && !request.subnets.contains(&fixed.subnet_id)
    };
    if let Some(foreign) = port.fixed_ips.iter().find(is_foreign) {
        let message = format!(
            "{} is not in a subnet that this network's configuration allows",
            foreign.ip_address
        );
        return Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            message,
            "see `ipam.subnets`",
        ));
    }
    let has = |wanted: &IpAddr| {
        port.fixed_ips
            .iter()
            .any(|fixed| fixed.ip_address == *wanted)
    };
    match request.addresses.iter().find(|wanted| !has(wanted)) {
        None => Ok(()),
        Some(missing) => {
            let message = format!("the port of this interface already exists, and lacks {missing}");
            let details = "DEL first: the address is chosen when the port is created";
            Err(CniError::new(ErrorCode::TryAgainLater, message, details))
        }
    }
}

fn address(
    request: &AttachmentRequest,
    address: IpAddr,
    subnet: &Subnet,
) -> Result<Address, CniError> {
    if subnet.gateway == Some(address) || request.gateways.contains(&address) {
        // Neutron gives this address to any port while no router has it.
        let message = format!("{address} is the gateway of {}", subnet.range);
        let details =
            "ask for another address, and exclude configured gateways from the allocation pools";
        return Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            message,
            details,
        ));
    }
    // `ptp` gives the gateway's address to the node, so it must not be the router's.
    let chosen = request
        .gateways
        .iter()
        .copied()
        .find(|gateway| gateway.is_ipv4() == address.is_ipv4());
    in_subnet(address, subnet, chosen.or(subnet.gateway))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(addresses: &[(&str, &str)]) -> Vec<(String, String)> {
        let parsed = |(address, gateway): &(&str, &str)| Address {
            address: address.parse().unwrap(),
            gateway: Some(gateway.parse().unwrap()),
        };
        let addresses: Vec<Address> = addresses.iter().map(parsed).collect();
        let way = |route: &Route| {
            (
                route.destination.to_string(),
                route.gateway.unwrap().to_string(),
            )
        };
        routes_to_gateways(&addresses).iter().map(way).collect()
    }

    #[test]
    fn a_gateway_of_no_subnet_is_looked_for_on_the_link() {
        let way = |destination: &str, through: &str| (destination.to_owned(), through.to_owned());
        assert_eq!(ways(&[("10.0.0.2/24", "10.0.0.1")]), []);
        assert_eq!(
            ways(&[("10.0.0.2/24", "169.254.1.1")]),
            [way("169.254.1.1/32", "10.0.0.2")]
        );
        assert_eq!(
            ways(&[("10.0.0.2/24", "10.1.0.1"), ("10.1.0.2/24", "10.1.0.1")]),
            []
        );
        let twice = ways(&[
            ("10.0.0.2/24", "169.254.1.1"),
            ("10.1.0.2/24", "169.254.1.1"),
        ]);
        assert_eq!(twice, [way("169.254.1.1/32", "10.0.0.2")]);
        assert_eq!(
            ways(&[("fd00::2/64", "fe80::1")]),
            [],
            "link-local ones are reachable"
        );
    }
}
