//! The parts of a secondary route: the pair, neighbours, routes and rules at both ends, and the
//! steps of an ADD in their order.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::choose::WayKey;
use crate::cni::CniError;
use crate::nic::{Gateway, Link, MAIN_TABLE, Mac, NodeRoute};
use crate::unnumbered::choose::{destinations, metric, mtu, pod_end, refuse_contradictions};
use crate::unnumbered::previous::Previous;
use crate::unnumbered::settings::Wanted;
use ipam_core::net::Family;

/// The next hops of the Pod. No link has these addresses: permanent neighbour entries lead to the
/// node's end, so that neither ARP nor its settings on the node matter. The node's own address as
/// next hop would end with that address.
const NEXT_HOPS: (Ipv4Addr, Ipv6Addr) = (
    Ipv4Addr::new(169, 254, 1, 1),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
);

/// The priority of the rules: before the main table.
pub const RULE_PRIORITY: u32 = 10_000;

/// One end of the veth pair, or the namespace of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Node,
    Pod,
}

/// The pair of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub node_end: String,
    pub pod_end: String,
    pub node_mac: Mac,
    pub pod_mac: Mac,
    /// MTU of both ends, in bytes.
    pub mtu: u32,
}

/// A permanent neighbour entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    pub address: IpAddr,
    pub mac: Mac,
}

/// Packets that a Pod sends from this address use this routing table first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub source: IpAddr,
    pub table: u32,
}

/// One request to the kernel. A killed run ends between two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates both ends of the pair, each in its namespace.
    Create(Pair),
    /// Writes the mark to the alias of an end.
    Mark(End, String),
    /// Makes the node's end safe from the Pod.
    Protect(String),
    /// Brings an end up.
    Up(End),
    Neighbour(End, Neighbour),
    Rule(Rule),
    Route(End, NodeRoute),
}

/// What an ADD sees on the node and in the Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Addresses of the node that other machines can reach.
    pub node_addresses: BTreeSet<IpAddr>,
    /// The address from which the node sends to the Pod, for each family.
    pub sources: Vec<IpAddr>,
    /// The sizes of a packet on the Pod's interface and on the node's uplink, in bytes.
    pub mtus: Vec<u32>,
    /// Links of the Pod other than the pair's end, with their routes.
    pub pod_links: Vec<(Link, Vec<NodeRoute>)>,
}

/// A secondary route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondaryRoute {
    key: WayKey,
    pub pair: Pair,
    /// The addresses of the Pod's interface.
    pub(super) addresses: Vec<IpAddr>,
    /// What the Pod reaches through the node.
    destinations: Vec<IpNet>,
    pub(super) sources: Vec<IpAddr>,
    metric: u32,
}

impl SecondaryRoute {
    /// # Errors
    /// Fails if settings, addresses and surroundings contradict each other.
    pub fn new(
        key: WayKey,
        interface: &str,
        wanted: &Wanted,
        previous: &Previous,
        around: &Surroundings,
    ) -> Result<SecondaryRoute, CniError> {
        let addresses = &previous.addresses;
        refuse_contradictions(wanted, addresses, around)?;
        let families: BTreeSet<Family> = addresses.iter().copied().map(Family::of).collect();
        let destinations = destinations(wanted, &families, &around.node_addresses)?;
        let [node_mac, pod_mac] = key.macs();
        let pair = Pair {
            node_end: key.node_end(),
            pod_end: pod_end(wanted, interface)?,
            node_mac,
            pod_mac,
            mtu: mtu(wanted, &families, around)?,
        };
        let of_family = |source: &&IpAddr| families.contains(&Family::of(**source));
        Ok(SecondaryRoute {
            metric: metric(&destinations, around)?,
            sources: around.sources.iter().filter(of_family).copied().collect(),
            key,
            pair,
            addresses: addresses.clone(),
            destinations,
        })
    }

    /// The steps of an ADD for this route, in their order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = vec![
            Step::Create(self.pair.clone()),
            Step::Mark(End::Node, self.key.mark()),
            Step::Mark(End::Pod, self.key.mark()),
            Step::Protect(self.pair.node_end.clone()),
            Step::Up(End::Node),
            Step::Up(End::Pod),
        ];
        for end in [End::Node, End::Pod] {
            let neighbours = self.neighbours(end).into_iter();
            steps.extend(neighbours.map(|neighbour| Step::Neighbour(end, neighbour)));
        }
        let of_node = self.routes(End::Node).into_iter();
        steps.extend(of_node.map(|route| Step::Route(End::Node, route)));
        steps.extend(self.rules().into_iter().map(Step::Rule));
        let of_pod = self.routes(End::Pod).into_iter();
        steps.extend(of_pod.map(|route| Step::Route(End::Pod, route)));
        steps
    }

    pub(super) fn neighbours(&self, end: End) -> Vec<Neighbour> {
        match end {
            End::Node => {
                let mac = self.pair.pod_mac;
                let of_pod = |address: &IpAddr| Neighbour {
                    address: *address,
                    mac,
                };
                self.addresses.iter().map(of_pod).collect()
            }
            End::Pod => {
                let hops: BTreeSet<IpAddr> = self.addresses.iter().map(next_hop).collect();
                let mac = self.pair.node_mac;
                hops.into_iter()
                    .map(|address| Neighbour { address, mac })
                    .collect()
            }
        }
    }

    pub(super) fn rules(&self) -> Vec<Rule> {
        let table = self.key.table();
        let from = |source: &IpAddr| Rule {
            source: *source,
            table,
        };
        self.addresses.iter().map(from).collect()
    }

    /// The Pod has each route twice: for what it sends from these addresses, whichever other ways
    /// it has, and for what has no address yet, which takes the first of these.
    pub(super) fn routes(&self, end: End) -> Vec<NodeRoute> {
        match end {
            End::Node => self.addresses.iter().map(|one| self.to_pod(*one)).collect(),
            End::Pod => {
                let to_node = |table, metric| {
                    let route = move |net: &IpNet| NodeRoute {
                        table,
                        metric,
                        ..self.to_node(*net)
                    };
                    self.destinations.iter().map(route)
                };
                to_node(self.key.table(), None)
                    .chain(to_node(MAIN_TABLE, Some(self.metric)))
                    .collect()
            }
        }
    }

    fn to_pod(&self, address: IpAddr) -> NodeRoute {
        let is_same = |source: &&IpAddr| source.is_ipv4() == address.is_ipv4();
        NodeRoute {
            source: self.sources.iter().find(is_same).copied(),
            ..NodeRoute::new(IpNet::from(address), Gateway::None, None)
        }
    }

    fn to_node(&self, net: IpNet) -> NodeRoute {
        let is_same = |address: &&IpAddr| address.is_ipv4() == net.addr().is_ipv4();
        let address = self.addresses.iter().find(is_same).copied();
        let gateway = match address.as_ref().map(next_hop) {
            // A link-local next hop of IPv6 is always on its link.
            Some(hop @ IpAddr::V6(_)) => Gateway::InPrefix(hop),
            Some(hop) => Gateway::Beyond(hop),
            None => Gateway::None,
        };
        NodeRoute {
            source: address,
            ..NodeRoute::new(net, gateway, None)
        }
    }
}

fn next_hop(address: &IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => NEXT_HOPS.0.into(),
        IpAddr::V6(_) => NEXT_HOPS.1.into(),
    }
}
