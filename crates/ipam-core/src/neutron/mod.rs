//! The nouns of OpenStack Neutron that plans use: ids, a port's addresses, and its allowed address
//! pairs. Knows nothing of HTTP, logins or CNI.
//!
//! Ids of OpenStack objects.
//!
//! Further addresses that a VM's port may send from (`allowed_address_pairs`).

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The id of an OpenStack object: a UUID. So it is safe in a path, even from an untrusted source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an OpenStack id; expected a UUID such as 782ec9ac-44f9-4318-8c67-a2fed2ccca4f")]
pub struct NotAnId;

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Id, NotAnId> {
        let has_form = |(index, byte): (usize, u8)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        let is_one = text.len() == 36 && text.bytes().enumerate().all(has_form);
        is_one.then(|| Id(text.to_ascii_lowercase())).ok_or(NotAnId)
    }
}

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Id, NotAnId> {
        text.parse()
    }
}

impl From<Id> for String {
    fn from(id: Id) -> String {
        id.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortAddress {
    pub subnet_id: Id,
    pub ip_address: IpAddr,
}

/// A pair as Neutron shows it. Pairs of others are written back unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// An address, or a range like `10.0.0.0/24`.
    pub ip_address: String,
    /// MAC address. Absent: Neutron uses the port's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

/// A port with its allowed address pairs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VmPort {
    pub id: Id,
    /// Nova's id of the VM.
    #[serde(default)]
    pub device_id: String,
    /// Kind of its user. For a VM, `compute:` and a zone.
    #[serde(default)]
    pub device_owner: String,
    pub mac_address: String,
    #[serde(default)]
    pub fixed_ips: Vec<PortAddress>,
    #[serde(default, rename = "allowed_address_pairs")]
    pub pairs: Vec<Pair>,
    /// Neutron's revision of the port, which rises with each change.
    #[serde(rename = "revision_number")]
    pub revision: u64,
    #[serde(default, rename = "port_security_enabled")]
    pub security: PortSecurity,
}

/// Whether Neutron filters the source addresses of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "bool")]
pub enum PortSecurity {
    /// Only the port's own addresses and its allowed pairs may be sources.
    #[default]
    On,
    /// Every address is allowed, and Neutron refuses pairs.
    Off,
}

impl From<bool> for PortSecurity {
    fn from(enabled: bool) -> PortSecurity {
        if enabled {
            PortSecurity::On
        } else {
            PortSecurity::Off
        }
    }
}

/// A change to a list of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsChange {
    /// The whole list after the change. Added pairs are at its end.
    pub pairs: Vec<Pair>,
    pub added: BTreeSet<IpNet>,
    pub removed: BTreeSet<IpNet>,
}

impl PairsChange {
    /// Removes the second half of the additions from the change, and returns it.
    pub fn leave_out_half(&mut self) -> BTreeSet<IpNet> {
        let left_out: BTreeSet<IpNet> = self
            .added
            .iter()
            .copied()
            .skip(self.added.len() / 2)
            .collect();
        self.added.retain(|range| !left_out.contains(range));
        self.pairs.truncate(self.pairs.len() - left_out.len());
        left_out
    }
}

impl Pair {
    /// A pair for this range, with the port's own MAC address. A single address has no prefix
    /// length, as in Neutron.
    pub fn of(range: IpNet) -> Pair {
        let is_single = range.prefix_len() == range.max_prefix_len();
        let ip_address = if is_single {
            range.addr().to_string()
        } else {
            range.trunc().to_string()
        };
        Pair {
            ip_address,
            mac_address: None,
        }
    }

    /// The allowed range, if the pair has the port's own MAC address.
    pub fn own_range(&self, port_mac: &str) -> Option<IpNet> {
        let is_own = self
            .mac_address
            .as_ref()
            .is_none_or(|mac| mac.eq_ignore_ascii_case(port_mac));
        // The range as Neutron shows it: an IPv4-mapped pair must not count as the IPv4 pair.
        let range = self
            .ip_address
            .parse()
            .or_else(|_| self.ip_address.parse::<IpAddr>().map(IpNet::from));
        range
            .ok()
            .filter(|_| is_own)
            .map(|range: IpNet| range.trunc())
    }
}

impl VmPort {
    /// The change that allows all `wanted` ranges, and no other range that `is_ours`. `None` if
    /// there is nothing to change.
    ///
    /// Pairs with another MAC address are never ours.
    pub fn change(
        &self,
        wanted: &BTreeSet<IpNet>,
        is_ours: impl Fn(&IpNet) -> bool,
    ) -> Option<PairsChange> {
        if self.security == PortSecurity::Off {
            return None;
        }
        let range = |pair: &Pair| pair.own_range(&self.mac_address);
        let is_stale = |range: &IpNet| is_ours(range) && !wanted.contains(range);
        let removed: BTreeSet<IpNet> = self
            .pairs
            .iter()
            .filter_map(range)
            .filter(is_stale)
            .collect();
        let present: BTreeSet<IpNet> = self.pairs.iter().filter_map(range).collect();
        let added: BTreeSet<IpNet> = wanted.difference(&present).copied().collect();
        if removed.is_empty() && added.is_empty() {
            return None;
        }
        let stays = |pair: &&Pair| range(pair).is_none_or(|range| !removed.contains(&range));
        let pairs = self
            .pairs
            .iter()
            .filter(stays)
            .cloned()
            .chain(added.iter().copied().map(Pair::of))
            .collect();
        Some(PairsChange {
            pairs,
            added,
            removed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_become_parts_of_paths() {
        assert!("782ec9ac-44f9-4318-8c67-a2fed2ccca4f".parse::<Id>().is_ok());
        for bad in [
            "",
            "pods",
            "../../v3/users/aaaaaaaaaaaaaaaaaaaaaaaa",
            "782ec9ac-44f9-4318-8c67-a2fed2ccca4f?",
            "é",
        ] {
            assert_eq!(bad.parse::<Id>(), Err(NotAnId), "{bad}");
        }
    }
}
