//! Which addresses a VM's port lets out besides its own (`allowed_address_pairs`). Neutron replaces
//! the list as a whole, so each writer must say which revision it has read, and others' pairs stay
//! as they are. Knows nothing of Pods, nodes or files.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::Id;

/// An address of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortAddress {
    /// Its subnet.
    pub subnet_id: Id,
    /// The address.
    pub ip_address: IpAddr,
}

/// A pair as Neutron has it. Others' are written back letter by letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// An address, or a range like `10.0.0.0/24`.
    pub ip_address: String,
    /// The hardware address; without one Neutron takes the port's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

/// A port that may let out more than its own addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GuardedPort {
    /// Its id.
    pub id: Id,
    /// The VM, as Nova names it.
    #[serde(default)]
    pub device_id: String,
    /// What kind of user it has: `compute:` and a zone, for a VM.
    #[serde(default)]
    pub device_owner: String,
    /// Its hardware address.
    pub mac_address: String,
    /// Its own addresses.
    #[serde(default)]
    pub fixed_ips: Vec<PortAddress>,
    /// Its pairs, in their order.
    #[serde(default, rename = "allowed_address_pairs")]
    pub pairs: Vec<Pair>,
    /// Goes up with each change of it.
    #[serde(rename = "revision_number")]
    pub revision: u64,
    /// Whether anything is kept from leaving it.
    #[serde(default, rename = "port_security_enabled")]
    pub security: PortSecurity,
}

/// Whether Neutron keeps packets from leaving a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "bool")]
pub enum PortSecurity {
    /// Only its own addresses and its pairs get out.
    #[default]
    On,
    /// Everything does, and Neutron refuses pairs.
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

/// What is to be done to a list of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsChange {
    /// The whole list afterwards; what comes is at its end.
    pub pairs: Vec<Pair>,
    /// What comes.
    pub added: BTreeSet<IpNet>,
    /// What goes.
    pub removed: BTreeSet<IpNet>,
}

impl PairsChange {
    /// Adds only the first half of what comes, and says what it leaves out.
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
    /// Of this range, with the port's own hardware address. A single address is written without a
    /// length, as Neutron does.
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

    /// What it lets out, if it has the port's own hardware address.
    pub fn own_range(&self, port_mac: &str) -> Option<IpNet> {
        let is_own = self
            .mac_address
            .as_ref()
            .is_none_or(|mac| mac.eq_ignore_ascii_case(port_mac));
        // As Neutron shows it: an IPv4-mapped pair must not pass for the IPv4 pair that is wanted.
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

impl GuardedPort {
    /// What makes all `wanted` ranges be let out, and of those that are ours no others; `None`
    /// where nothing is to be done. Pairs with another hardware address are never ours.
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
