//! Turns subnets, addresses and routes of Neutron into those of CNI, and errors of Neutron and of the
//! node's files into CNI errors.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cni::{Address, CniError, ErrorCode, Route, RouteDetail};
use ipam_core::neutron::Id;
use openstack::{
    HostRoute, NetworkFacts, NeutronError, Port, Retries, Subnet, retry_until_answered,
};
use private_files::FileError;

fn code_and_way_out(error: &NeutronError) -> (ErrorCode, &'static str) {
    match error {
        NeutronError::Exhausted => (
            ErrorCode::TryAgainLater,
            "enlarge the subnet, or delete unused ports",
        ),
        NeutronError::Quota => (
            ErrorCode::TryAgainLater,
            "openstack quota set --ports N PROJECT",
        ),
        NeutronError::AddressInUse => (
            ErrorCode::TryAgainLater,
            "another Pod has it, perhaps one that is being deleted",
        ),
        NeutronError::MacInUse => (ErrorCode::TryAgainLater, "another port has it"),
        NeutronError::InvalidAddress => (
            ErrorCode::InvalidConfiguration,
            "ask for an address of the network's subnets",
        ),
        NeutronError::NotFound(_) | NeutronError::NoSuchPort => (
            ErrorCode::InvalidConfiguration,
            "check the ids of networks and subnets, the region and the interface",
        ),
        NeutronError::Misconfigured(_) => (
            ErrorCode::InvalidConfiguration,
            "check the address of Keystone, the region, the interface and the certificates",
        ),
        NeutronError::Forbidden(_) => (
            ErrorCode::Refused,
            "grant it to the role, or do not ask for it",
        ),
        NeutronError::Unauthorized | NeutronError::UnauthorizedFor(_) => (
            ErrorCode::Refused,
            "the access rules of an application credential must allow it, with `*` for ids",
        ),
        NeutronError::Refused => (
            ErrorCode::Refused,
            "check user, password, project and domain, or whether the application credential was revoked; \
                 unlike the plugin of 2020, this one takes passwords in plain text",
        ),
        NeutronError::Unavailable(_) | NeutronError::Unreachable(_) => {
            (ErrorCode::TryAgainLater, "the runtime will retry")
        }
        NeutronError::Changed => (ErrorCode::TryAgainLater, "the runtime will retry"),
        NeutronError::TooManyPairs => (
            ErrorCode::Refused,
            "raise `max_allowed_address_pair` in neutron.conf (default 10), or allow ranges instead of addresses",
        ),
        NeutronError::Other(_) => (ErrorCode::Refused, "see Neutron's log"),
    }
}

impl From<NeutronError> for CniError {
    fn from(error: NeutronError) -> CniError {
        let (code, details) = code_and_way_out(&error);
        CniError::new(code, error.to_string(), details)
    }
}

impl From<FileError> for CniError {
    fn from(error: FileError) -> CniError {
        let code = match error {
            FileError::Io { .. } => ErrorCode::Io,
            FileError::Locked(_) => ErrorCode::TryAgainLater,
            FileError::WritableFolder(_)
            | FileError::ForeignSecret(_)
            | FileError::OpenSecret(_)
            | FileError::UnknownMachine => ErrorCode::InvalidConfiguration,
        };
        let details = match &error {
            FileError::Locked(_) => {
                "another run of the plugin holds it; the runtime retries".to_owned()
            }
            FileError::UnknownMachine => "set a unique node name in `ipam.node`".to_owned(),
            FileError::Io { .. }
            | FileError::WritableFolder(_)
            | FileError::ForeignSecret(_)
            | FileError::OpenSecret(_) => error.way_out(),
        };
        CniError::new(code, error.to_string(), details)
    }
}

/// An error of the operating system about a file.
pub fn file_error(what: &str, why: &io::Error) -> CniError {
    FileError::of(what, why).into()
}

impl From<&HostRoute> for Route {
    fn from(route: &HostRoute) -> Route {
        Route {
            destination: route.destination,
            gateway: Some(route.nexthop),
            detail: RouteDetail::default(),
        }
    }
}

/// The subnets of a port's addresses.
pub(crate) fn subnets_of<'p>(
    facts: &(impl NetworkFacts + Retries),
    port: &'p Port,
) -> Result<BTreeMap<&'p Id, Subnet>, NeutronError> {
    let mut subnets: BTreeMap<&Id, Subnet> = BTreeMap::new();
    for fixed in &port.fixed_ips {
        if !subnets.contains_key(&fixed.subnet_id) {
            let subnet = retry_until_answered(facts, |facts| facts.subnet(&fixed.subnet_id))?;
            subnets.insert(&fixed.subnet_id, subnet);
        }
    }
    Ok(subnets)
}

/// The address with the prefix length of its subnet; an error if it lies outside.
pub(crate) fn in_subnet(
    address: IpAddr,
    subnet: &Subnet,
    gateway: Option<IpAddr>,
) -> Result<Address, CniError> {
    match IpNet::new(address, subnet.range.prefix_len()) {
        Ok(net) if subnet.range.contains(&address) => Ok(Address {
            address: net,
            gateway,
        }),
        _ => Err(
            NeutronError::Other(format!("{address} is not in its subnet {}", subnet.range)).into(),
        ),
    }
}

/// Each name server once.
pub(crate) fn nameservers(subnets: &BTreeMap<&Id, Subnet>) -> Vec<IpAddr> {
    let mut servers: Vec<IpAddr> = Vec::new();
    for server in subnets.values().flat_map(|subnet| &subnet.nameservers) {
        if !servers.contains(server) {
            servers.push(*server);
        }
    }
    servers
}
