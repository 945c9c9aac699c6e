//! The port of a NIC, and the configuration that a Pod gets from it. Only reads the port.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cni::{Address, CniError, Dns, ErrorCode, IpamOutcome, Route, RouteDetail};
use crate::conversions::{in_subnet, nameservers, subnets_of};
use crate::nic::link::{Gateway, Mac, NodeAddress, NodeRoute};
use crate::nic::settings::NicSettings;
use ipam_core::neutron::Id;
use ipam_core::text::joined;
use openstack::{Neutron, Port, PortFilter, Retries, Subnet, retry_until_answered};

/// The configuration that a port gives to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    pub outcome: IpamOutcome,
    /// MTU of the interface, in bytes; `None` leaves it unchanged.
    pub mtu: Option<u32>,
}

/// The port with this hardware address. If several networks have such a port, the configured
/// `networks` decide.
///
/// # Errors
/// Fails if no port or more than one port matches, or if Neutron refuses or does not answer.
pub fn port_of(
    neutron: &(impl Neutron + Retries),
    mac: Mac,
    networks: &[Id],
) -> Result<Port, CniError> {
    let mac = mac.to_string();
    let filter = PortFilter {
        mac: Some(&mac),
        ..PortFilter::default()
    };
    let mut ports = retry_until_answered(neutron, |neutron| neutron.ports(&filter))?;
    // Neutron's database may compare texts differently, for example without regard to case.
    ports.retain(|port| port.mac_address == mac);
    let found = ports.len();
    ports.retain(|port| networks.is_empty() || networks.contains(&port.network_id));
    ports.sort_by(|a, b| a.id.cmp(&b.id));
    let fault = |message: String, details: &str| {
        CniError::new(ErrorCode::InvalidConfiguration, message, details)
    };
    match (ports.len(), found) {
        (1, _) => Ok(ports.remove(0)),
        (0, 0) => {
            let message = format!(
                "OpenStack shows these credentials no port with the hardware address {mac}"
            );
            Err(fault(
                message,
                "check the NIC's port with `openstack port list --mac-address`, its project and the region",
            ))
        }
        (0, _) => Err(fault(
            format!("the port of {mac} is in none of the configured networks"),
            "see `nic.networks`",
        )),
        _ => {
            let names = ports.iter();
            let names = names.map(|port| format!("{} of {}", port.id, port.network_id));
            let message = format!(
                "several ports have the hardware address {mac}: {}",
                joined(names, ", ")
            );
            Err(fault(message, "name the network in `nic.networks`"))
        }
    }
}

/// What the port gives: its addresses, the routes and name servers of its subnets, and the MTU of
/// its network.
///
/// # Errors
/// Fails if the port has no address, or if Neutron refuses or does not answer.
pub fn port_config(
    neutron: &(impl Neutron + Retries),
    port: &Port,
    settings: &NicSettings,
) -> Result<PortConfig, CniError> {
    if port.fixed_ips.is_empty() {
        let message = format!("the port {} has no address", port.id);
        return Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            message,
            "openstack port set --fixed-ip",
        ));
    }
    let subnets = subnets_of(neutron, port)?;
    let mut fixed_ips: Vec<_> = port.fixed_ips.iter().collect();
    // Neutron's order is arbitrary.
    fixed_ips.sort_by_key(|fixed| fixed.ip_address);
    let mut addresses = Vec::new();
    for fixed in fixed_ips {
        let Some(subnet) = subnets.get(&fixed.subnet_id) else {
            continue;
        };
        addresses.push(in_subnet(fixed.ip_address, subnet, subnet.gateway)?);
    }
    let mtu = retry_until_answered(neutron, |neutron| neutron.network(&port.network_id))?.mtu;
    let routes = routes(settings.routes.as_deref(), &addresses, &subnets);
    let dns = settings.dns.clone().unwrap_or_else(|| Dns {
        nameservers: nameservers(&subnets),
        ..Dns::default()
    });
    Ok(PortConfig {
        outcome: IpamOutcome {
            addresses,
            routes,
            dns,
        },
        mtu,
    })
}

/// The configured routes, or a default route for each family whose subnet has a gateway; then those
/// of the subnets.
fn routes(
    configured: Option<&[Route]>,
    addresses: &[Address],
    subnets: &BTreeMap<&Id, Subnet>,
) -> Vec<Route> {
    let default = |address: &Address| {
        let destination = IpNet::new_assert(unspecified(&address.address), 0);
        let gateway = address.gateway?;
        Some(Route {
            destination,
            gateway: Some(gateway),
            detail: RouteDetail::default(),
        })
    };
    let first = match configured {
        Some(routes) => routes.to_vec(),
        None => addresses.iter().filter_map(default).collect(),
    };
    let mut routes: Vec<Route> = Vec::new();
    for route in first.into_iter().chain(
        subnets
            .values()
            .flat_map(|subnet| &subnet.routes)
            .map(Route::from),
    ) {
        if !routes
            .iter()
            .any(|other| other.destination == route.destination)
        {
            routes.push(route);
        }
    }
    routes
}

fn unspecified(net: &IpNet) -> IpAddr {
    match net {
        IpNet::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpNet::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl PortConfig {
    /// The addresses for a link. IPv6 skips duplicate detection: Neutron prevents duplicates.
    pub(super) fn addresses(&self) -> Vec<NodeAddress> {
        let plain = |address: &Address| {
            let mut given = NodeAddress::new(address.address);
            match address.address {
                IpNet::V4(net) if net.prefix_len() < 31 => given.broadcast = Some(net.broadcast()),
                IpNet::V4(_) => {}
                IpNet::V6(_) => given.flags = WITHOUT_DETECTION,
            }
            given
        };
        self.outcome.addresses.iter().map(plain).collect()
    }

    /// The routes for a link. Those without a gateway come first: they may lead to a gateway.
    pub(super) fn routes(&self) -> Vec<NodeRoute> {
        let addresses = &self.outcome.addresses;
        let is_near = |gateway: &IpAddr| {
            addresses
                .iter()
                .any(|address| address.address.contains(gateway))
        };
        let route = |route: &Route| {
            let is_v4 = route.destination.addr().is_ipv4();
            let of_subnet = || {
                addresses
                    .iter()
                    .filter(|one| one.address.addr().is_ipv4() == is_v4)
                    .find_map(|one| one.gateway)
            };
            let gateway = match route.gateway.or_else(of_subnet) {
                None => Gateway::None,
                // A host route of the own subnet may have the unspecified address as its next hop.
                Some(gateway) if gateway.is_unspecified() => Gateway::None,
                Some(gateway) if is_near(&gateway) => Gateway::InPrefix(gateway),
                Some(gateway) => Gateway::Beyond(gateway),
            };
            NodeRoute::new(route.destination.trunc(), gateway, route.detail.mtu)
        };
        let mut routes: Vec<NodeRoute> = self.outcome.routes.iter().map(route).collect();
        routes.sort_by_key(|route| route.gateway.is_some());
        routes
    }
}

/// `IFA_F_NODAD` of Linux: no duplicate detection.
const WITHOUT_DETECTION: u32 = 0x02;
