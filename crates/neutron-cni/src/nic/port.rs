//! The port of Neutron that a NIC has, and what a Pod gets of it. The port is only looked at.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cni::{Address, CniError, Dns, ErrorCode, IpamOutcome, Route, RouteDetail};
use crate::nic::link::{Gateway, Mac, NodeAddress, NodeRoute};
use crate::nic::settings::NicSettings;
use ipam_core::neutron::Id;
use openstack::{Neutron, NeutronError, Patience, Port, PortFilter, Subnet, answered};

/// What a Pod gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// As it is told to the runtime.
    pub outcome: IpamOutcome,
    /// Its largest packet, in bytes; `None` leaves it as it is.
    pub mtu: Option<u32>,
}

/// The port with this hardware address. Several networks may have one; then the configured
/// `networks` decide.
///
/// # Errors
/// None, or several, or Neutron's no.
pub fn port_of(
    neutron: &(impl Neutron + Patience),
    mac: Mac,
    networks: &[Id],
) -> Result<Port, CniError> {
    let mac = mac.to_string();
    let filter = PortFilter {
        mac: Some(&mac),
        ..PortFilter::default()
    };
    let mut ports = answered(neutron, |neutron| neutron.ports(&filter))?;
    // Whatever the database takes for equal.
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
                "see the NIC's port with `openstack port list --mac-address`, its project and the region",
            ))
        }
        (0, _) => Err(fault(
            format!("the port of {mac} is of none of the configured networks"),
            "see `nic.networks`",
        )),
        _ => {
            let names: Vec<String> = ports
                .iter()
                .map(|port| format!("{} of {}", port.id, port.network_id))
                .collect();
            let message = format!(
                "several ports have the hardware address {mac}: {}",
                names.join(", ")
            );
            Err(fault(
                message,
                "say in `nic.networks` which network is meant",
            ))
        }
    }
}

/// What the port gives: its addresses, the routes and name servers of its subnets, and its
/// network's largest packet.
///
/// # Errors
/// A port without an address, or Neutron's no.
pub fn given(
    neutron: &(impl Neutron + Patience),
    port: &Port,
    settings: &NicSettings,
) -> Result<Given, CniError> {
    if port.fixed_ips.is_empty() {
        let message = format!("the port {} has no address", port.id);
        return Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            message,
            "openstack port set --fixed-ip",
        ));
    }
    let mut subnets: BTreeMap<&Id, Subnet> = BTreeMap::new();
    for fixed in &port.fixed_ips {
        if !subnets.contains_key(&fixed.subnet_id) {
            let subnet = answered(neutron, |neutron| neutron.subnet(&fixed.subnet_id))?;
            subnets.insert(&fixed.subnet_id, subnet);
        }
    }
    let mut fixed_ips: Vec<_> = port.fixed_ips.iter().collect();
    // Neutron's order is any.
    fixed_ips.sort_by_key(|fixed| fixed.ip_address);
    let mut addresses = Vec::new();
    for fixed in fixed_ips {
        let Some(subnet) = subnets.get(&fixed.subnet_id) else {
            continue;
        };
        addresses.push(address(fixed.ip_address, subnet)?);
    }
    let mtu = answered(neutron, |neutron| neutron.network(&port.network_id))?.mtu;
    let subnets: Vec<Subnet> = subnets.into_values().collect();
    let routes = routes(settings.routes.as_deref(), &addresses, &subnets);
    let mut nameservers: Vec<IpAddr> = Vec::new();
    for server in subnets.iter().flat_map(|subnet| &subnet.nameservers) {
        if !nameservers.contains(server) {
            nameservers.push(*server);
        }
    }
    let dns = settings.dns.clone().unwrap_or_else(|| Dns {
        nameservers,
        ..Dns::default()
    });
    Ok(Given {
        outcome: IpamOutcome {
            addresses,
            routes,
            dns,
        },
        mtu,
    })
}

fn address(address: IpAddr, subnet: &Subnet) -> Result<Address, CniError> {
    match IpNet::new(address, subnet.range.prefix_len()) {
        Ok(net) if subnet.range.contains(&address) => Ok(Address {
            address: net,
            gateway: subnet.gateway,
        }),
        _ => Err(
            NeutronError::Other(format!("{address} is not of its subnet {}", subnet.range)).into(),
        ),
    }
}

/// Those of the configuration, or else a default one for each family whose subnet has a gateway;
/// then those of the subnets.
fn routes(configured: Option<&[Route]>, addresses: &[Address], subnets: &[Subnet]) -> Vec<Route> {
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
            .iter()
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

impl Given {
    /// The addresses as a link gets them. Those of IPv6 are used at once: Neutron sees to it that
    /// nobody else has them.
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

    /// The routes as a link gets them, those that need no gateway first: another's gateway may be
    /// reached by them.
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
                // The nexthop of a host's own subnet may be written as nobody.
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

/// `IFA_F_NODAD`.
const WITHOUT_DETECTION: u32 = 0x02;
