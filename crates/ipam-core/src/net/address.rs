//! An address as text, by the one rule for IPv4-mapped IPv6 addresses (RFC 4291, 2.5.5.2):
//! `::ffff:10.0.0.1` is 10.0.0.1.
//!
//! Go's `net` package, which kubelet and Cilium's datapath use, treats the two as one address. Go's
//! `netip`, which Cilium's LB-IPAM uses, treats them as two. Treating them as one is safe: it never
//! gives out an address that is in use.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::Range;

/// An address that is never IPv4-mapped. Every address is parsed as this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(IpAddr);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address")]
pub struct AddressError(String);

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Address {
        Address(address.to_canonical())
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> IpAddr {
        address.0
    }
}

impl From<Address> for Range {
    fn from(address: Address) -> Range {
        Range::from(address.0)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        text.parse::<IpAddr>()
            .map(Address::from)
            .map_err(|_| AddressError(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether the text of an address, CIDR or range contains an IPv4-mapped address.
pub fn is_written_as_mapped(text: &str) -> bool {
    let is_mapped = |text: &str| {
        text.trim()
            .parse::<Ipv6Addr>()
            .is_ok_and(|v6| v6.to_ipv4_mapped().is_some())
    };
    match text.split_once('/') {
        Some((address, _)) => is_mapped(address),
        None => text.split('-').any(is_mapped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_the_ipv4_address_that_it_embeds() {
        for text in [
            "10.0.0.1",
            "::ffff:10.0.0.1",
            "::FFFF:a00:1",
            "0:0:0:0:0:ffff:10.0.0.1",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), "10.0.0.1", "{text}");
            assert_eq!(is_written_as_mapped(text), text != "10.0.0.1", "{text}");
        }
        // IPv4-compatible addresses and NAT64 are not mapped.
        for text in ["::10.0.0.1", "64:ff9b::10.0.0.1", "::fffe:10.0.0.1"] {
            let address: Address = text.parse().unwrap();
            assert!(
                IpAddr::from(address).is_ipv6() && !is_written_as_mapped(text),
                "{text}"
            );
        }
    }

    #[test]
    fn texts_that_are_not_addresses() {
        for text in [
            "",
            "10.0.0",
            "10.0.0.1/32",
            "010.0.0.1",
            "::ffff:010.0.0.1",
            "fe80::1%eth0",
            " 10.0.0.1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
