//! Reads what a secondary route consists of, and what surrounds it, from the kernel. Must never change
//! anything.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use netlink_packet_core::DefaultNla;

use crate::kernel::dump::{self, ADDRESS, ROUTE, attribute, ip, mac, number, optional_number};
use crate::kernel::messages::{bytes, family};
use crate::kernel::netlink::{Message, Netlink};
use crate::kernel::numbers::*;
use crate::nic::{Link, NodeRoute, State};
use crate::unnumbered::{Neighbour, RULE_PRIORITY, Rule};

/// Lengths of the fixed parts: `ndmsg`, `fib_rule_hdr`.
const NEIGHBOUR: usize = 12;
const RULE: usize = 12;

/// `RT_SCOPE_UNIVERSE`: others can reach such an address.
const UNIVERSE: u8 = 0;

/// Addresses in duplicate detection, by whether it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unsettled {
    pub(super) tentative: BTreeSet<IpAddr>,
    pub(super) duplicate: BTreeSet<IpAddr>,
}

pub(super) fn unsettled(netlink: &Netlink) -> io::Result<Unsettled> {
    let mut unsettled = Unsettled::default();
    for message in netlink.list(&Message::new(RTM_GETADDR, &[0; ADDRESS], &[]))? {
        let (fixed, attributes) = message.parts(ADDRESS)?;
        let flags = optional_number(attribute(&attributes, IFA_FLAGS))?;
        let flags = flags.unwrap_or_else(|| fixed[2].into());
        let Some(address) = attribute(&attributes, IFA_ADDRESS).and_then(ip) else {
            continue;
        };
        if flags & IFA_F_DADFAILED != 0 {
            unsettled.duplicate.insert(address);
        } else if flags & IFA_F_TENTATIVE != 0 {
            unsettled.tentative.insert(address);
        }
    }
    Ok(unsettled)
}

/// The addresses of the node that others can reach, in the order of its links.
pub(super) fn reachable(links: &[Link], unsettled: &Unsettled) -> Vec<IpAddr> {
    let mut links: Vec<&Link> = links
        .iter()
        .filter(|link| link.state == State::Up)
        .collect();
    links.sort_by_key(|link| link.index);
    let addresses = links.into_iter().flat_map(|link| &link.addresses);
    let reachable = addresses
        .filter(|one| one.scope == UNIVERSE && !one.is_link_local())
        .map(|one| one.address.addr());
    let is_settled = |address: &IpAddr| {
        !unsettled.tentative.contains(address) && !unsettled.duplicate.contains(address)
    };
    reachable.filter(is_settled).collect()
}

/// How the node sends to an address now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WayThere {
    pub(super) source: Option<IpAddr>,
    /// The index of the link.
    pub(super) through: Option<u32>,
}

pub(super) fn way_to(netlink: &Netlink, address: IpAddr) -> io::Result<Option<WayThere>> {
    let net = ipnet::IpNet::from(address);
    let mut fixed = [0; ROUTE];
    [fixed[0], fixed[1]] = [family(&net), net.prefix_len()];
    let asked = DefaultNla::new(RTA_DST, bytes(address));
    let Some(message) = netlink.get(Message::new(RTM_GETROUTE, &fixed, &[asked]))? else {
        return Ok(None);
    };
    let (_, attributes) = message.parts(ROUTE)?;
    Ok(Some(WayThere {
        source: attribute(&attributes, RTA_PREFSRC).and_then(ip),
        through: optional_number(attribute(&attributes, RTA_OIF))?,
    }))
}

/// All links of a namespace with their routes.
pub(super) fn links_with_routes(netlink: &Netlink) -> io::Result<Vec<(Link, Vec<NodeRoute>)>> {
    let with_routes = |link: Link| Ok((dump::routes(netlink, link.index)?, link));
    let links = dump::links(netlink)?.into_iter().map(with_routes);
    links
        .map(|one| one.map(|(routes, link)| (link, routes)))
        .collect()
}

/// The permanent neighbour entries of a link.
pub(super) fn neighbours(netlink: &Netlink, index: u32) -> io::Result<BTreeSet<Neighbour>> {
    let mut neighbours = BTreeSet::new();
    for message in netlink.list(&Message::new(RTM_GETNEIGH, &[0; NEIGHBOUR], &[]))? {
        let (fixed, attributes) = message.parts(NEIGHBOUR)?;
        let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
        if message.kind != RTM_NEWNEIGH || number(&fixed[4..8])? != index || state != NUD_PERMANENT
        {
            continue;
        }
        let address = attribute(&attributes, NDA_DST).and_then(ip);
        let mac = attribute(&attributes, NDA_LLADDR).and_then(mac);
        neighbours.extend(
            address
                .zip(mac)
                .map(|(address, mac)| Neighbour { address, mac }),
        );
    }
    Ok(neighbours)
}

/// The rules of a namespace that have our priority.
pub(super) fn rules(netlink: &Netlink) -> io::Result<BTreeSet<Rule>> {
    let mut rules = BTreeSet::new();
    for family in [AF_INET, AF_INET6] {
        let mut fixed = [0; RULE];
        fixed[0] = family;
        for message in netlink.list(&Message::new(RTM_GETRULE, &fixed, &[]))? {
            let (fixed, attributes) = message.parts(RULE)?;
            let get = |kind| attribute(&attributes, kind);
            let source = get(FRA_SRC).and_then(ip);
            let is_one_address = match source {
                Some(IpAddr::V4(_)) => fixed[2] == 32,
                Some(IpAddr::V6(_)) => fixed[2] == 128,
                None => false,
            };
            let is_ours = optional_number(get(FRA_PRIORITY))? == Some(RULE_PRIORITY);
            if message.kind != RTM_NEWRULE || !is_one_address || !is_ours {
                continue;
            }
            let table = optional_number(get(FRA_TABLE))?;
            rules.extend(
                source
                    .zip(table)
                    .map(|(source, table)| Rule { source, table }),
            );
        }
    }
    Ok(rules)
}
