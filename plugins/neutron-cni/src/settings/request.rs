//! The request of an ADD: networks and subnets of its port, and routes, name servers and MTU of the
//! interface.

use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::Value;

use crate::cni::{Arguments, CniError, Dns, Route, RouteDetail, SpecVersion, address_of};
use crate::settings::{ADDRESS, Field, ID, deadline, invalid, of_pod};
use ipam_core::neutron::Id;

/// Fields of `ipam` that are read elsewhere. The last four are ignored, as by the plugin of 2020.
const OTHERS: [&str; 17] = [
    "type",
    "name",
    "openstackConf",
    "cloud",
    "cloudsFile",
    "region",
    "interface",
    "node",
    "cluster",
    "stateDirectory",
    "deadlineSeconds",
    "warmPool",
    "allowedAddressPairs",
    "subnet",
    "rangeStart",
    "rangeEnd",
    "gateway",
];

/// Fields that are read here.
const OWN: [&str; 8] = [
    "neutronConf",
    "networks",
    "subnets",
    "gateways",
    "routes",
    "mtu",
    "securityGroups",
    "resolvConf",
];

/// What an interface gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentRequest {
    /// Networks of Neutron, in the order in which they are tried.
    pub networks: Vec<Id>,
    /// Allowed subnets. Empty: one of each family of the network.
    pub subnets: Vec<Id>,
    /// Addresses that the Pod requests.
    pub addresses: Vec<IpAddr>,
    /// Gateways instead of those of the subnets, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Routes in addition to the routes of the subnets.
    pub routes: Vec<Route>,
    pub route_mtu: RouteMtu,
    /// Security groups of the port. Empty: Neutron's default.
    pub security_groups: Vec<Id>,
    /// A file like `resolv.conf` whose name servers replace those of the subnets.
    pub resolv_conf: Option<PathBuf>,
    /// Name servers and domains of the file `resolv_conf`, once it was read.
    pub dns: Option<Dns>,
}

/// The MTU of routes (from CNI 1.1.0 on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteMtu {
    /// Routes have no MTU of their own.
    #[default]
    Unset,
    /// This MTU, in bytes.
    Fixed(u32),
    /// The MTU of the network at Neutron.
    OfNetwork,
}

/// Other IPAM plugins, for which a configuration may have been written by mistake.
const OTHER_PLUGINS: [&str; 7] = [
    "calico-ipam",
    "cilium-cni",
    "dhcp",
    "host-local",
    "kube-ovn",
    "static",
    "whereabouts",
];

impl AttachmentRequest {
    pub(super) fn read(
        version: SpecVersion,
        configuration: &Value,
        arguments: &Arguments,
    ) -> Result<AttachmentRequest, CniError> {
        let ipam = Field::new("ipam", &configuration["ipam"]);
        deadline(&ipam)?;
        refuse_other_plugins(&ipam)?;
        let known = [&OTHERS[1..], &OWN, &OTHERS[..1]].concat();
        ipam.only(&known)?;
        Ok(AttachmentRequest {
            networks: networks(&ipam)?,
            subnets: ipam.list("subnets", ID)?,
            addresses: addresses(configuration, arguments)?,
            gateways: ipam.list("gateways", ADDRESS)?,
            routes: routes(&ipam, version)?,
            route_mtu: route_mtu(&ipam)?,
            security_groups: ipam.list("securityGroups", ID)?,
            resolv_conf: ipam.text_of("resolvConf")?.map(PathBuf::from),
            dns: None,
        })
    }
}

fn refuse_other_plugins(ipam: &Field<'_>) -> Result<(), CniError> {
    match ipam.text_of("type")? {
        Some(other) if OTHER_PLUGINS.contains(&other.as_str()) => Err(invalid(&format!(
            "`ipam.type` is `{other}`, which is another plugin; expected `cni-ipam-neutron`"
        ))),
        _ => Ok(()),
    }
}

fn networks(ipam: &Field<'_>) -> Result<Vec<Id>, CniError> {
    let networks: Vec<Id> = ipam.list("networks", ID)?;
    let networks = match ipam.get("neutronConf") {
        Some(_) if !networks.is_empty() => {
            return Err(invalid(
                "`ipam.networks` and `ipam.neutronConf.networks` exclude each other",
            ));
        }
        Some(neutron) => neutron.list("networks", ID)?,
        None => networks,
    };
    match networks.is_empty() {
        true => Err(invalid(
            "`ipam.networks` (or `ipam.neutronConf.networks`) must name a network of Neutron",
        )),
        false => Ok(networks),
    }
}

fn routes(ipam: &Field<'_>, version: SpecVersion) -> Result<Vec<Route>, CniError> {
    let Some(list) = ipam.get("routes") else {
        return Ok(Vec::new());
    };
    let route = |item: &Field<'_>| {
        let route = item.route()?;
        if version < SpecVersion::V1_1_0 && route.detail != RouteDetail::default() {
            // Without the detail, the interface would get a different route.
            return Err(invalid(&format!(
                "`{item}` has more for {}, and only `dst` and `gw` are known before CNI 1.1.0",
                route.destination
            )));
        }
        Ok(route)
    };
    list.items()?.iter().map(route).collect()
}

fn route_mtu(ipam: &Field<'_>) -> Result<RouteMtu, CniError> {
    const EXPECTED: &str = "`network` or a number of bytes, at least 576";
    let Some(field) = ipam.get("mtu") else {
        return Ok(RouteMtu::Unset);
    };
    if field.text().is_ok_and(|word| word == "network") {
        return Ok(RouteMtu::OfNetwork);
    }
    let mtu: u32 = field.number(EXPECTED)?;
    match mtu >= 576 {
        true => Ok(RouteMtu::Fixed(mtu)),
        false => Err(field.wrong(EXPECTED)),
    }
}

/// Requested addresses: of the environment, of `runtimeConfig` (capability `ips`) and of `args`
/// (CONVENTIONS.md of containernetworking/cni).
fn addresses(configuration: &Value, arguments: &Arguments) -> Result<Vec<IpAddr>, CniError> {
    let mut addresses = arguments.addresses.clone();
    let configuration = Field::new("", configuration);
    let arguments = configuration.get("args");
    let sources = [
        configuration.get("runtimeConfig"),
        arguments.and_then(|arguments| arguments.get("cni")),
    ];
    for requested in sources
        .iter()
        .flatten()
        .filter_map(|source| source.get("ips"))
    {
        for item in requested.items().map_err(of_pod)? {
            let address = item.text().ok().and_then(address_of);
            addresses.push(address.ok_or_else(|| of_pod(item.wrong(ADDRESS)))?);
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}
