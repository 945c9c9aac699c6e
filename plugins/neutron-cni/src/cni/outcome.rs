//! What a runtime gets: the result of an ADD (SPEC.md, "Success"), from which IPAM plugins omit the
//! interfaces, or an error.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cni::SpecVersion;

/// Addresses, routes and name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpamOutcome {
    pub addresses: Vec<Address>,
    pub routes: Vec<Route>,
    pub dns: Dns,
}

/// The interface with the addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Name of the interface in the container.
    pub name: String,
    pub mac: String,
    /// The path of the container's network namespace.
    pub sandbox: String,
    /// Largest packet in bytes; written from version 1.1.0 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// PCI address; written from version 1.1.0 on.
    #[serde(rename = "pciID", skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
}

/// An address in its subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address, with the prefix length of its subnet.
    pub address: IpNet,
    pub gateway: Option<IpAddr>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    pub destination: IpNet,
    /// `None` means the gateway of the address.
    pub gateway: Option<IpAddr>,
    /// Details of the route that are written from version 1.1.0 on.
    pub detail: RouteDetail,
}

/// The fields of routes that version 1.1.0 introduced, with the numbers of ip-route(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteDetail {
    /// Largest packet, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Largest TCP segment that is announced, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advmss: Option<u32>,
    /// The metric: the smallest wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<u8>,
}

impl RouteDetail {
    /// Whether the route without this detail would be a different route.
    fn is_significant(&self) -> bool {
        let RouteDetail {
            mtu: _,
            advmss: _,
            priority,
            table,
            scope,
        } = self;
        priority.is_some() || table.is_some() || scope.is_some()
    }
}

/// Name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// The JSON. The order of its fields is that of other plugins.
#[derive(Serialize)]
struct Written<'o> {
    #[serde(rename = "cniVersion")]
    version: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interfaces: Vec<Interface>,
    ips: Vec<WrittenAddress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<WrittenRoute>,
    dns: &'o Dns,
}

#[derive(Serialize)]
struct WrittenAddress {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<usize>,
    address: IpNet,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
}

#[derive(Serialize)]
struct WrittenRoute {
    dst: IpNet,
    #[serde(skip_serializing_if = "Option::is_none")]
    gw: Option<IpAddr>,
    #[serde(flatten)]
    detail: RouteDetail,
}

impl IpamOutcome {
    /// The JSON of a version of the specification. Omits empty fields except `dns`, as other plugins
    /// do.
    pub fn to_text(&self, version: SpecVersion) -> String {
        self.written(version, None)
    }

    /// The JSON of a plugin that created or moved the interface.
    pub fn on_interface(&self, interface: &Interface, version: SpecVersion) -> String {
        self.written(version, Some(interface))
    }

    fn written(&self, version: SpecVersion, interface: Option<&Interface>) -> String {
        let IpamOutcome {
            addresses,
            routes,
            dns,
        } = self;
        let written = Written {
            version: version.as_str(),
            interfaces: interface
                .map(|interface| interface.written(version))
                .into_iter()
                .collect(),
            ips: addresses
                .iter()
                .map(|one| one.written(version, interface.map(|_| 0)))
                .collect(),
            routes: routes
                .iter()
                .filter_map(|route| route.written(version))
                .collect(),
            dns,
        };
        // Texts and addresses always serialize.
        serde_json::to_string(&written).unwrap_or_default()
    }
}

impl Interface {
    fn written(&self, version: SpecVersion) -> Interface {
        let mut written = self.clone();
        if version < SpecVersion::V1_1_0 {
            (written.mtu, written.pci) = (None, None);
        }
        written
    }
}

impl Route {
    /// Before 1.1.0, omits a route that would be a different one without its detail.
    fn written(&self, version: SpecVersion) -> Option<WrittenRoute> {
        let Route {
            destination,
            gateway,
            detail,
        } = *self;
        let detail = match version >= SpecVersion::V1_1_0 {
            true => detail,
            false if detail.is_significant() => return None,
            false => RouteDetail::default(),
        };
        Some(WrittenRoute {
            dst: destination,
            gw: gateway,
            detail,
        })
    }
}

impl Dns {
    /// Reads a `resolv.conf` (resolv.conf(5)). The last `domain` and the last `search` win.
    pub fn of_resolv_conf(text: &str) -> Dns {
        let mut dns = Dns::default();
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(key) = words.next() else { continue };
            match key {
                "nameserver" => dns
                    .nameservers
                    .extend(words.next().and_then(|word| word.parse::<IpAddr>().ok())),
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
    fn written(&self, version: SpecVersion, interface: Option<usize>) -> WrittenAddress {
        let family = if self.address.addr().is_ipv4() {
            "4"
        } else {
            "6"
        };
        // Version 1.0.0 removed the field.
        let version = (version < SpecVersion::V1_0_0).then_some(family);
        WrittenAddress {
            version,
            interface,
            address: self.address,
            gateway: self.gateway,
        }
    }
}

/// The reason, in numbers that runtimes know (SPEC.md, "Error"). Plugins own the numbers from 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The version of the specification is not supported.
    IncompatibleVersion,
    /// An environment variable is missing or invalid.
    InvalidEnvironment,
    /// A file, or the kernel, fails.
    Io,
    /// Standard input is not the configuration of a network.
    Decoding,
    InvalidConfiguration,
    /// A later retry may succeed.
    TryAgainLater,
    /// An ADD cannot succeed now (STATUS).
    NotAvailable,
    /// OpenStack refuses the request.
    Refused,
    /// An interface no longer has what its ADD gave (CHECK).
    Missing,
}

impl ErrorCode {
    pub fn number(self) -> u16 {
        match self {
            ErrorCode::IncompatibleVersion => 1,
            ErrorCode::InvalidEnvironment => 4,
            ErrorCode::Io => 5,
            ErrorCode::Decoding => 6,
            ErrorCode::InvalidConfiguration => 7,
            ErrorCode::TryAgainLater => 11,
            ErrorCode::NotAvailable => 50,
            ErrorCode::Refused => 100,
            ErrorCode::Missing => 101,
        }
    }
}

/// Longest message, in characters: it may contain the text of a server.
const LONGEST: usize = 600;

/// Escapes characters that a terminal would interpret.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        match c {
            '\'' | '"' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// An error with advice on how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CniError {
    pub code: ErrorCode,
    pub message: String,
    /// How to fix the error.
    pub details: String,
}

impl CniError {
    /// Creates an error. Escapes the message and the details.
    pub fn new(
        code: ErrorCode,
        message: impl Into<String>,
        details: impl Into<String>,
    ) -> CniError {
        CniError {
            code,
            message: shown(&message.into()),
            details: shown(&details.into()),
        }
    }

    /// Adds a second problem to the message.
    #[must_use]
    pub fn and_also(mut self, also: &str) -> CniError {
        self.message = format!("{}; {}", self.message, shown(also));
        self
    }

    /// The JSON of the specification.
    pub fn to_json(&self, version: SpecVersion) -> Value {
        let CniError {
            code,
            message,
            details,
        } = self;
        json!({"cniVersion": version.as_str(), "code": code.number(), "msg": message, "details": details})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_form() {
        let address = Address {
            address: "203.0.113.2/24".parse().unwrap(),
            gateway: "203.0.113.1".parse().ok(),
        };
        let outcome = IpamOutcome {
            addresses: vec![address],
            ..IpamOutcome::default()
        };
        let old = r#"{"cniVersion":"0.3.1","ips":[{"version":"4","address":"203.0.113.2/24","gateway":"203.0.113.1"}],"dns":{}}"#;
        assert_eq!(outcome.to_text(SpecVersion::V0_3_1), old);
        let new = r#"{"cniVersion":"1.1.0","ips":[{"address":"203.0.113.2/24","gateway":"203.0.113.1"}],"dns":{}}"#;
        assert_eq!(outcome.to_text(SpecVersion::V1_1_0), new);
    }

    #[test]
    fn an_interface_is_written_with_its_addresses() {
        let address = Address {
            address: "203.0.113.2/24".parse().unwrap(),
            gateway: None,
        };
        let outcome = IpamOutcome {
            addresses: vec![address],
            ..IpamOutcome::default()
        };
        let [name, mac, sandbox] = ["eth0", "02:00:00:00:00:01", "/run/netns/p"].map(str::to_owned);
        let interface = Interface {
            name,
            mac,
            sandbox,
            mtu: Some(1450),
            pci: Some("0000:00:05.0".to_owned()),
        };
        let shown = |version| outcome.on_interface(&interface, version);
        let old = r#"{"cniVersion":"0.3.1","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/run/netns/p"}],"ips":[{"version":"4","interface":0,"address":"203.0.113.2/24"}],"dns":{}}"#;
        assert_eq!(shown(SpecVersion::V0_3_1), old);
        assert!(shown(SpecVersion::V1_1_0).contains(r#""mtu":1450,"pciID":"0000:00:05.0""#));
    }

    #[test]
    fn the_details_of_routes_are_written_from_1_1_0_on() {
        let route = |detail| Route {
            destination: "0.0.0.0/0".parse().unwrap(),
            gateway: None,
            detail,
        };
        let sized = route(RouteDetail {
            mtu: Some(1450),
            advmss: Some(1410),
            ..RouteDetail::default()
        });
        let placed = route(RouteDetail {
            priority: Some(1),
            table: Some(7),
            scope: Some(253),
            ..RouteDetail::default()
        });
        let outcome = IpamOutcome {
            routes: vec![sized, placed],
            ..IpamOutcome::default()
        };
        let new = r#""routes":[{"dst":"0.0.0.0/0","mtu":1450,"advmss":1410},{"dst":"0.0.0.0/0","priority":1,"table":7,"scope":253}]"#;
        assert!(outcome.to_text(SpecVersion::V1_1_0).contains(new));
        let old = outcome.to_text(SpecVersion::V1_0_0);
        assert!(old.contains(r#""routes":[{"dst":"0.0.0.0/0"}]"#), "{old}");
    }

    #[test]
    fn a_resolv_conf_is_read() {
        let dns = Dns::of_resolv_conf(
            "# ours\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\nsearch a.example b.example\noptions ndots:5 ; x\n",
        );
        assert_eq!(dns.nameservers, ["10.0.0.53".parse::<IpAddr>().unwrap()]);
        assert_eq!(
            (dns.search.as_slice(), dns.options.as_slice()),
            (
                ["a.example".to_owned(), "b.example".to_owned()].as_slice(),
                ["ndots:5".to_owned()].as_slice()
            )
        );
    }
}
