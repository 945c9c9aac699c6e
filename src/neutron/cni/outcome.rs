//! What an IPAM plugin gives (SPEC.md, "Success": delegated plugins leave out the interfaces).

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::SpecVersion;

/// Addresses, routes and name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpamOutcome {
    /// The addresses.
    pub addresses: Vec<Address>,
    /// The routes.
    pub routes: Vec<Route>,
    /// The name servers.
    pub dns: Dns,
}

/// An address in its subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address with the length of its subnet's prefix.
    pub address: IpNet,
    /// The way out of the subnet.
    pub gateway: Option<IpAddr>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Where to.
    pub destination: IpNet,
    /// Through what; `None` is the gateway of the address.
    pub gateway: Option<IpAddr>,
    /// Largest packet on it, in bytes; told from version 1.1.0 on.
    pub mtu: Option<u32>,
}

/// Name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// Their addresses.
    pub nameservers: Vec<IpAddr>,
    /// The own domain.
    pub domain: Option<String>,
    /// Where short names are looked for.
    pub search: Vec<String>,
    /// Options of the resolver.
    pub options: Vec<String>,
}

/// As it is written; the order of the fields is that of other plugins.
#[derive(Serialize)]
struct Written {
    #[serde(rename = "cniVersion")]
    version: &'static str,
    ips: Vec<WrittenAddress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<WrittenRoute>,
    dns: WrittenDns,
}

#[derive(Serialize)]
struct WrittenAddress {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    address: IpNet,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
}

#[derive(Serialize)]
struct WrittenRoute {
    dst: IpNet,
    #[serde(skip_serializing_if = "Option::is_none")]
    gw: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
}

#[derive(Serialize)]
struct WrittenDns {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nameservers: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    search: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
}

impl IpamOutcome {
    /// In the form that a version of the specification has. Fields that are empty are left out, but for `dns`, as other plugins do.
    pub fn to_text(&self, version: SpecVersion) -> String {
        let IpamOutcome { addresses, routes, dns } = self.clone();
        let Dns { nameservers, domain, search, options } = dns;
        let written = Written {
            version: version.as_str(),
            ips: addresses.into_iter().map(|one| one.written(version)).collect(),
            routes: routes.into_iter().map(|route| route.written(version)).collect(),
            dns: WrittenDns { nameservers, domain, search, options },
        };
        // Texts and addresses only: there is nothing in it that JSON cannot say.
        serde_json::to_string(&written).unwrap_or_default()
    }
}

impl Route {
    fn written(self, version: SpecVersion) -> WrittenRoute {
        let Route { destination, gateway, mtu } = self;
        WrittenRoute { dst: destination, gw: gateway, mtu: mtu.filter(|_| version >= SpecVersion::V1_1_0) }
    }
}

impl Dns {
    /// What a `resolv.conf` says (resolv.conf(5)): of `domain` and `search` the last one holds.
    pub fn of_resolv_conf(text: &str) -> Dns {
        let mut dns = Dns::default();
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(key) = words.next() else { continue };
            match key {
                "nameserver" => dns.nameservers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok())),
                "domain" => dns.domain = words.next().map(str::to_owned),
                "search" => dns.search = words.map(str::to_owned).collect(),
                "options" => dns.options.extend(words.map(str::to_owned)),
                _ => {}
            }
        }
        dns
    }
}

impl Address {
    fn written(self, version: SpecVersion) -> WrittenAddress {
        let family = if self.address.addr().is_ipv4() { "4" } else { "6" };
        // Version 1.0.0 left it out.
        let version = (version < SpecVersion::V1_0_0).then_some(family);
        WrittenAddress { version, address: self.address, gateway: self.gateway }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_form() {
        let address = Address { address: "203.0.113.2/24".parse().unwrap(), gateway: "203.0.113.1".parse().ok() };
        let outcome = IpamOutcome { addresses: vec![address], ..IpamOutcome::default() };
        let old = r#"{"cniVersion":"0.3.1","ips":[{"version":"4","address":"203.0.113.2/24","gateway":"203.0.113.1"}],"dns":{}}"#;
        assert_eq!(outcome.to_text(SpecVersion::V0_3_1), old);
        let new = r#"{"cniVersion":"1.1.0","ips":[{"address":"203.0.113.2/24","gateway":"203.0.113.1"}],"dns":{}}"#;
        assert_eq!(outcome.to_text(SpecVersion::V1_1_0), new);
    }

    #[test]
    fn the_size_of_packets_is_told_from_1_1_0_on() {
        let route = Route { destination: "0.0.0.0/0".parse().unwrap(), gateway: None, mtu: Some(1450) };
        let outcome = IpamOutcome { routes: vec![route], ..IpamOutcome::default() };
        assert!(outcome.to_text(SpecVersion::V1_1_0).contains(r#""routes":[{"dst":"0.0.0.0/0","mtu":1450}]"#));
        assert!(outcome.to_text(SpecVersion::V1_0_0).contains(r#""routes":[{"dst":"0.0.0.0/0"}]"#));
    }

    #[test]
    fn a_resolv_conf_is_read() {
        let dns = Dns::of_resolv_conf(
            "# ours\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\nsearch a.example b.example\noptions ndots:5 ; x\n",
        );
        assert_eq!(dns.nameservers, ["10.0.0.53".parse::<IpAddr>().unwrap()]);
        assert_eq!(
            (dns.search.as_slice(), dns.options.as_slice()),
            (["a.example".to_owned(), "b.example".to_owned()].as_slice(), ["ndots:5".to_owned()].as_slice())
        );
    }
}
