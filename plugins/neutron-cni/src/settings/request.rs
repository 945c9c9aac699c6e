//! The request of an ADD: networks and subnets of its port, and routes, name servers and MTU of the
//! interface.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use crate::cni::{Arguments, CniError, Dns, Route, RouteDetail, SpecVersion, address_of};
use crate::settings::{DEADLINES, invalid, shown};
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

/// Number of ignored fields at the end of `OTHERS`.
const IGNORED: usize = 4;

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
    /// Requested addresses.
    pub addresses: Vec<IpAddr>,
    /// Gateways instead of those of the subnets, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Routes in addition to those of the subnets.
    pub routes: Vec<Route>,
    pub route_mtu: RouteMtu,
    /// Security groups of the port. Empty: Neutron's default.
    pub security_groups: Vec<Id>,
    /// A file like `resolv.conf` whose name servers replace those of the subnets.
    pub resolv_conf: Option<PathBuf>,
    /// The content of `resolv_conf`, once it was read.
    pub dns: Option<Dns>,
}

/// The MTU of routes (from CNI 1.1.0 on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteMtu {
    /// None.
    #[default]
    Unset,
    /// In bytes.
    Fixed(u32),
    /// The MTU of the network at Neutron.
    OfNetwork,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    neutron_conf: Option<WrittenNeutron>,
    #[serde(default)]
    networks: Vec<String>,
    #[serde(default)]
    subnets: Vec<String>,
    #[serde(default)]
    gateways: Vec<IpAddr>,
    #[serde(default)]
    routes: Vec<WrittenRoute>,
    mtu: Option<WrittenMtu>,
    #[serde(default)]
    security_groups: Vec<String>,
    resolv_conf: Option<PathBuf>,
}

#[derive(Deserialize)]
struct WrittenNeutron {
    #[serde(default)]
    networks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenMtu {
    Fixed(u32),
    Word(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRoute {
    dst: IpNet,
    gw: Option<IpAddr>,
    mtu: Option<u32>,
    advmss: Option<u32>,
    priority: Option<u32>,
    table: Option<u32>,
    scope: Option<u8>,
}

#[derive(Default, Deserialize)]
struct Requested {
    #[serde(default)]
    ips: Vec<String>,
}

impl AttachmentRequest {
    pub(super) fn read(
        version: SpecVersion,
        configuration: &Value,
        arguments: &Arguments,
    ) -> Result<AttachmentRequest, CniError> {
        let mut ipam = configuration["ipam"].clone();
        if !ipam["deadlineSeconds"].is_null()
            && !ipam["deadlineSeconds"]
                .as_u64()
                .is_some_and(|time| DEADLINES.contains(&time))
        {
            let (least, most) = DEADLINES.into_inner();
            return Err(invalid(&format!(
                "`ipam.deadlineSeconds` must be a whole number from {least} to {most}"
            )));
        }
        if let Some(fields) = ipam.as_object_mut() {
            let is_known = |key: &&String| OTHERS.iter().chain(&OWN).any(|known| known == key);
            if let Some(unknown) = fields.keys().find(|key| !is_known(key)) {
                let known = [&OTHERS[1..OTHERS.len() - IGNORED], &OWN]
                    .concat()
                    .join(", ");
                return Err(invalid(&format!(
                    "`ipam` has no field `{}`; it has {known}",
                    shown(unknown)
                )));
            }
            // One of them holds the password, so no error can show it.
            fields.retain(|key, _| !OTHERS.contains(&key.as_str()));
        }
        let written: Written =
            serde_json::from_value(ipam).map_err(|why| invalid(&format!("`ipam`: {why}")))?;
        let networks = match written.neutron_conf {
            Some(neutron) if written.networks.is_empty() => neutron.networks,
            Some(_) => {
                return Err(invalid(
                    "`networks` must be in `ipam` or in `neutronConf`, not in both",
                ));
            }
            None => written.networks,
        };
        if networks.is_empty() {
            return Err(invalid(
                "`ipam.networks` (or `ipam.neutronConf.networks`) must name a network of Neutron",
            ));
        }
        Ok(AttachmentRequest {
            networks: ids("networks", &networks)?,
            subnets: ids("subnets", &written.subnets)?,
            addresses: addresses(configuration, arguments)?,
            gateways: written.gateways,
            routes: written
                .routes
                .into_iter()
                .map(|route| route.route(version))
                .collect::<Result<_, _>>()?,
            route_mtu: route_mtu(written.mtu)?,
            security_groups: ids("securityGroups", &written.security_groups)?,
            resolv_conf: written.resolv_conf,
            dns: None,
        })
    }
}

impl WrittenRoute {
    fn route(self, version: SpecVersion) -> Result<Route, CniError> {
        let WrittenRoute {
            dst,
            gw,
            mtu,
            advmss,
            priority,
            table,
            scope,
        } = self;
        let detail = RouteDetail {
            mtu,
            advmss,
            priority,
            table,
            scope,
        };
        if version < SpecVersion::V1_1_0 && detail != RouteDetail::default() {
            // Without the detail it would be a different route.
            let known = "only `dst` and `gw` are known before CNI 1.1.0";
            return Err(invalid(&format!(
                "`ipam.routes` has more for {dst}, and {known}"
            )));
        }
        Ok(Route {
            destination: dst,
            gateway: gw,
            detail,
        })
    }
}

fn route_mtu(written: Option<WrittenMtu>) -> Result<RouteMtu, CniError> {
    match written {
        None => Ok(RouteMtu::Unset),
        Some(WrittenMtu::Fixed(mtu)) if mtu >= 576 => Ok(RouteMtu::Fixed(mtu)),
        Some(WrittenMtu::Word(word)) if word == "network" => Ok(RouteMtu::OfNetwork),
        Some(_) => Err(invalid(
            "`ipam.mtu` must be `network` or a number of bytes, at least 576",
        )),
    }
}

fn ids(key: &str, written: &[String]) -> Result<Vec<Id>, CniError> {
    let id = |text: &String| {
        text.parse()
            .map_err(|why| invalid(&format!("`{key}` has `{}`: {why}", shown(text))))
    };
    written.iter().map(id).collect()
}

/// Requested addresses: of the environment, of `runtimeConfig` (capability `ips`) and of `args`
/// (CONVENTIONS.md of containernetworking/cni).
fn addresses(configuration: &Value, arguments: &Arguments) -> Result<Vec<IpAddr>, CniError> {
    let mut addresses = arguments.addresses.clone();
    for source in [
        &configuration["runtimeConfig"],
        &configuration["args"]["cni"],
    ] {
        let requested = match source {
            Value::Null => Requested::default(),
            source => {
                Requested::deserialize(source).map_err(|why| invalid(&format!("`ips`: {why}")))?
            }
        };
        for text in &requested.ips {
            let address = address_of(text);
            addresses.push(address.ok_or_else(|| {
                invalid(&format!(
                    "`ips` has `{}`, which is not an address",
                    shown(text)
                ))
            })?);
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}
