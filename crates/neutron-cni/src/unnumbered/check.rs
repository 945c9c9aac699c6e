//! Compares a secondary route with what is there (CHECK).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::nic::{Link, NodeRoute, State};
use crate::unnumbered::secondary_route::{End, Neighbour, Rule, SecondaryRoute};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    Address(IpAddr),
    End(End, String),
    Neighbour(End, IpAddr),
    Route(End, IpNet),
    Rule(IpAddr),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |end: &End| match end {
            End::Node => "the node",
            End::Pod => "the Pod",
        };
        match self {
            Lack::Address(address) => write!(f, "the interface no longer has {address}"),
            Lack::End(end, name) => {
                write!(
                    f,
                    "{} has no {name} that is up and as it was made",
                    place(end)
                )
            }
            Lack::Neighbour(end, address) => {
                write!(f, "{} has no neighbour entry for {address}", place(end))
            }
            Lack::Route(end, net) => write!(f, "{} has no such route to {net}", place(end)),
            Lack::Rule(source) => write!(f, "the Pod has no rule for what it sends from {source}"),
        }
    }
}

impl SecondaryRoute {
    /// What a CHECK does not find. An address that the node got later is no lack: nothing is sent
    /// from it to the Pod.
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
