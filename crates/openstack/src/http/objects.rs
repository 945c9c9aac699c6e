//! Objects in Neutron's answers.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{HostRoute, Subnet};
use ipam_core::neutron::Id;

#[derive(Deserialize)]
pub(super) struct WrittenNetwork {
    pub(super) mtu: Option<u32>,
}

#[derive(Deserialize)]
pub(crate) struct WrittenSubnet {
    network_id: Id,
    cidr: IpNet,
    gateway_ip: Option<IpAddr>,
    #[serde(default)]
    host_routes: Vec<WrittenRoute>,
    #[serde(default)]
    dns_nameservers: Vec<IpAddr>,
}

#[derive(Deserialize)]
struct WrittenRoute {
    destination: IpNet,
    nexthop: IpAddr,
}

impl WrittenSubnet {
    pub(crate) fn subnet(self) -> Subnet {
        let route = |route: WrittenRoute| HostRoute {
            destination: route.destination,
            nexthop: route.nexthop,
        };
        Subnet {
            network: self.network_id,
            range: self.cidr,
            gateway: self.gateway_ip,
            routes: self.host_routes.into_iter().map(route).collect(),
            nameservers: self.dns_nameservers,
        }
    }
}

/// Reads one object of an answer.
pub(super) fn object<T: DeserializeOwned>(
    mut answer: Value,
    key: &str,
) -> Result<T, serde_json::Error> {
    serde_json::from_value(answer.get_mut(key).map(Value::take).unwrap_or_default())
}
