//! The result of the earlier plugins (`prevResult`): the addresses of the Pod's interface, and all
//! other parts, which are passed on unchanged. Also the parts of a secondary route that a CHECK
//! does not find.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::secondary_route::{End, Neighbour, Rule, SecondaryRoute};
use crate::cni::{CniError, InterfaceName, SpecVersion};
use crate::nic::{Link, Mac, NodeRoute, State};
use crate::{invalid, shown};
use ipam_core::net::Address;

/// Limit of the addresses of an interface.
const MOST_ADDRESSES: usize = 16;

/// Limit of the interfaces, and of the addresses, in a result.
const MOST_ENTRIES: usize = 256;

/// A result that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Previous {
    /// The addresses of the interface, in the order of the result.
    pub addresses: Vec<IpAddr>,
    whole: Value,
}

/// An end of the pair, as results show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEnd<'e> {
    pub name: &'e str,
    pub mac: Mac,
    /// MTU of the end, in bytes.
    pub mtu: u32,
    /// The path of the Pod's namespace; `None` on the node.
    pub sandbox: Option<&'e str>,
}

impl Previous {
    pub(super) fn read(whole: &Value, interface: &InterfaceName) -> Result<Previous, CniError> {
        if !whole.is_object() {
            return Err(invalid(
                "there is no `prevResult`: this plugin comes after `ipvlan`, `macvlan` or `cni-vm-nic` in a list",
            ));
        }
        let [interfaces, ips] = ["interfaces", "ips"].map(|key| list(whole, key));
        let (interfaces, ips) = (interfaces?, ips?);
        let mut addresses = Vec::new();
        for ip in ips {
            if !is_on(ip, interfaces, interface)? {
                continue;
            }
            let address = ip["address"].as_str().and_then(address).ok_or_else(|| {
                invalid(
                    "`prevResult.ips` must contain addresses with the lengths of their prefixes",
                )
            })?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match addresses.len() {
            0 => Err(invalid(&format!(
                "`prevResult` has no address of {interface}: the plugin before this one needs `ipam`"
            ))),
            count if count > MOST_ADDRESSES => Err(invalid(&format!(
                "`prevResult` has more than {MOST_ADDRESSES} addresses of {interface}"
            ))),
            _ => Ok(Previous {
                addresses,
                whole: whole.clone(),
            }),
        }
    }

    /// The result with the two ends. Nothing else changes.
    pub fn with_ends(&self, ends: &[ShownEnd<'_>; 2], version: SpecVersion) -> String {
        let mut whole = self.whole.clone();
        whole["cniVersion"] = version.as_str().into();
        if whole["interfaces"].is_null() {
            whole["interfaces"] = json!([]);
        }
        let shown = ends.iter().map(|end| {
            let mut shown = json!({"name": end.name, "mac": end.mac.to_string()});
            if let Some(sandbox) = end.sandbox {
                shown["sandbox"] = sandbox.into();
            }
            if version >= SpecVersion::V1_1_0 {
                shown["mtu"] = end.mtu.into();
            }
            shown
        });
        if let Some(interfaces) = whole["interfaces"].as_array_mut() {
            interfaces.extend(shown);
        }
        whole.to_string()
    }
}

fn list<'v>(whole: &'v Value, key: &str) -> Result<&'v [Value], CniError> {
    match &whole[key] {
        Value::Null => Ok(&[]),
        Value::Array(list) if list.len() <= MOST_ENTRIES => Ok(list),
        Value::Array(_) => Err(invalid(&format!(
            "`prevResult.{key}` has more than {MOST_ENTRIES} entries"
        ))),
        _ => Err(invalid(&format!("`prevResult.{key}` must be a list"))),
    }
}

/// Whether an address is of the container's interface. One that names no interface is.
fn is_on(ip: &Value, interfaces: &[Value], interface: &InterfaceName) -> Result<bool, CniError> {
    let index = match &ip["interface"] {
        Value::Null => return Ok(true),
        index => index.as_u64().and_then(|index| usize::try_from(index).ok()),
    };
    let named = index
        .and_then(|index| interfaces.get(index))
        .ok_or_else(|| {
            invalid(&format!(
                "`prevResult.ips` names the interface {}, which is not in the result",
                shown(&ip["interface"].to_string())
            ))
        })?;
    let is_in_pod = named["sandbox"]
        .as_str()
        .is_some_and(|path| !path.is_empty());
    Ok(is_in_pod && named["name"].as_str() == Some(interface.to_string().as_str()))
}

/// An address with the length of its prefix.
fn address(text: &str) -> Option<IpAddr> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse::<Address>().ok()?.into();
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let is_host = !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
    (length.parse::<u8>().ok()? <= longest && is_host).then_some(address)
}

/// What a CHECK sees at one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEnd {
    pub link: Link,
    pub routes: Vec<NodeRoute>,
    pub neighbours: BTreeSet<Neighbour>,
}

/// What a CHECK sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub ends: BTreeMap<End, SeenEnd>,
    /// The addresses of the Pod's interface.
    pub addresses: BTreeSet<IpAddr>,
    pub rules: BTreeSet<Rule>,
}

/// A part that a CHECK does not find.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    #[error("the interface no longer has {0}")]
    Address(IpAddr),
    #[error("{} has no {} that is up and as it was made", place(*.0), .1)]
    End(End, String),
    #[error("{} has no neighbour entry for {}", place(*.0), .1)]
    Neighbour(End, IpAddr),
    #[error("{} has no such route to {}", place(*.0), .1)]
    Route(End, IpNet),
    #[error("the Pod has no rule for what it sends from {0}")]
    Rule(IpAddr),
}

fn place(end: End) -> &'static str {
    match end {
        End::Node => "the node",
        End::Pod => "the Pod",
    }
}

impl SecondaryRoute {
    /// The parts that a CHECK does not find. A missing route to a later address of the node is no
    /// lack: the node sends nothing from that address to the Pod.
    pub fn lacks(&self, seen: &Seen) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let gone = self
            .addresses
            .iter()
            .filter(|one| !seen.addresses.contains(one));
        lacks.extend(gone.map(|address| Lack::Address(*address)));
        for (end, name, mac) in [
            (End::Node, &self.pair.node_end, self.pair.node_mac),
            (End::Pod, &self.pair.pod_end, self.pair.pod_mac),
        ] {
            let of_end = seen.ends.get(&end);
            let is_as_made =
                |link: &Link| (&link.name, link.mac, link.state) == (name, Some(mac), State::Up);
            let Some(of_end) = of_end.filter(|of_end| is_as_made(&of_end.link)) else {
                lacks.push(Lack::End(end, name.clone()));
                continue;
            };
            let gone = self.neighbours(end).into_iter();
            lacks.extend(
                gone.filter(|one| !of_end.neighbours.contains(one))
                    .map(|one| Lack::Neighbour(end, one.address)),
            );
            let is_there = |route: &NodeRoute| of_end.routes.iter().any(|one| is_same(one, route));
            let gone = self.routes(end).into_iter();
            lacks.extend(
                gone.filter(|route| self.is_checked(end, route) && !is_there(route))
                    .map(|route| Lack::Route(end, route.destination)),
            );
        }
        let gone = self
            .rules()
            .into_iter()
            .filter(|rule| !seen.rules.contains(rule));
        lacks.extend(gone.map(|rule| Lack::Rule(rule.source)));
        lacks
    }

    fn is_checked(&self, end: End, route: &NodeRoute) -> bool {
        let net = &route.destination;
        let is_host = net.prefix_len() == net.max_prefix_len();
        end == End::Node || !is_host || self.sources.contains(&net.addr())
    }
}

/// The kernel may report a default metric. The metric depends on other ways, which may be gone.
fn is_same(one: &NodeRoute, other: &NodeRoute) -> bool {
    (one.destination, one.table, one.gateway, one.source)
        == (other.destination, other.table, other.gateway, other.source)
}
