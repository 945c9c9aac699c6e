//! What clients of a Service connect to: the entries of `status.loadBalancer.ingress[]`. LB-IPAM
//! keeps an entry only if it has an IP address (`stripOrImportIngresses` @ 1.15.19 to 1.20.2).

use std::fmt;
use std::net::IpAddr;

use super::rules::{ClassUse, LbRules};
use super::service::LbService;

/// An IP address, or a hostname that a cloud gave.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServedAddress {
    Ip(IpAddr),
    Hostname(String),
}

impl ServedAddress {
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            ServedAddress::Ip(ip) => Some(*ip),
            ServedAddress::Hostname(_) => None,
        }
    }
}

/// A hostname comes from an object that others write, so it is escaped.
impl fmt::Display for ServedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServedAddress::Ip(ip) => write!(f, "{ip}"),
            ServedAddress::Hostname(name) => write!(f, "{}", name.escape_debug()),
        }
    }
}

/// A hostname of `status.loadBalancer.ingress[]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedHostname {
    pub hostname: String,
    /// The address in the same entry. LB-IPAM keeps the hostname as long as this address.
    pub ip: Option<IpAddr>,
}

impl ServedHostname {
    pub fn address(&self) -> ServedAddress {
        ServedAddress::Hostname(self.hostname.clone())
    }
}

impl LbService {
    /// Every address and every hostname.
    pub fn served(&self) -> impl Iterator<Item = ServedAddress> {
        let ips = self.ingress.iter().copied().map(ServedAddress::Ip);
        ips.chain(self.hostnames.iter().map(ServedHostname::address))
    }

    /// The hostnames that LB-IPAM removes when it writes the status: those without an address in
    /// their entry, of a Service that it serves.
    pub fn hostnames_that_go(&self, rules: &LbRules) -> impl Iterator<Item = &ServedHostname> {
        let is_served = rules.class_use(self.class.as_deref()) == ClassUse::Ours;
        let hostnames = self.hostnames.iter().filter(move |_| is_served);
        hostnames.filter(|one| one.ip.is_none())
    }
}
