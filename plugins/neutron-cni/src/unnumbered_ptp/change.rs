//! Sends the steps of a secondary route to the kernel, and reads from it what the route consists
//! of and what surrounds it. Must never decide which steps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::{fs, io};

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};

use crate::kernel::dump::{self, ADDRESS, ROUTE, attribute, ip, mac, number, optional_number};
use crate::kernel::messages::{bytes, family, new_route, of_link, zero_at_end, *};
use crate::kernel::namespace::Namespace;
use crate::kernel::netlink::{Message, Netlink, nested};
use crate::nic::{Link, Mac, NodeRoute, State};
use crate::unnumbered::{End, Neighbour, Pair, RULE_PRIORITY, Rule, Step};

/// Settings of the node's end (ip-sysctl of Linux). The Pod may be hostile: it must not route the
/// node by router advertisements or redirects, nor send from addresses of others.
const PROTECTION: [(&str, &str, &str); 5] = [
    ("ipv4", "rp_filter", "1"),
    ("ipv4", "accept_redirects", "0"),
    ("ipv4", "send_redirects", "0"),
    ("ipv6", "accept_ra", "0"),
    ("ipv6", "accept_redirects", "0"),
];

/// Settings of the network, of the namespace in which the plugin runs.
const SYSCTLS: &str = "/proc/sys/net";

/// `ENODEV` of Linux: the device does not exist.
const NO_DEVICE: i32 = 19;

/// The node's and the Pod's namespace, and the indexes of the pair's ends once they exist.
pub(super) struct Ends<'n> {
    pub(super) node: &'n Namespace,
    pub(super) pod: &'n Namespace,
    pub(super) indexes: BTreeMap<End, u32>,
}

impl Ends<'_> {
    fn at(&self, end: End) -> &Namespace {
        match end {
            End::Node => self.node,
            End::Pod => self.pod,
        }
    }

    fn index(&self, end: End) -> io::Result<u32> {
        let index = self.indexes.get(&end).copied();
        index.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the pair is gone"))
    }

    pub(super) fn execute(&mut self, step: &Step) -> io::Result<()> {
        let create = NLM_F_CREATE | NLM_F_EXCL;
        match step {
            Step::Create(pair) => self.create(pair),
            Step::Mark(end, mark) => {
                let alias = DefaultNla::new(IFLA_IFALIAS, mark.as_bytes().to_vec());
                let fixed = of_link(self.index(*end)?, 0, 0);
                self.send(*end, Message::new(RTM_SETLINK, &fixed, &[alias]), 0)
            }
            Step::Protect(name) => protect(name),
            Step::Up(end) => {
                let fixed = of_link(self.index(*end)?, IFF_UP, IFF_UP);
                self.send(*end, Message::new(RTM_SETLINK, &fixed, &[]), 0)
            }
            Step::Neighbour(end, neighbour) => {
                let message = new_neighbour(self.index(*end)?, neighbour);
                self.send(*end, message, NLM_F_CREATE | NLM_F_REPLACE)
            }
            Step::Rule(one) => self.send(End::Pod, rule(RTM_NEWRULE, one), create),
            Step::Route(end, route) => {
                let message = new_route(self.index(*end)?, route);
                self.send(*end, message, create)
            }
        }
    }

    fn send(&self, end: End, message: Message, flags: u16) -> io::Result<()> {
        self.at(end).netlink.change(message, flags)
    }

    fn create(&mut self, pair: &Pair) -> io::Result<()> {
        let namespace = self.pod.file.as_raw_fd().to_ne_bytes().to_vec();
        let mut of_pod = of_end(&pair.pod_end, pair.pod_mac, pair.mtu);
        of_pod.push(DefaultNla::new(IFLA_NET_NS_FD, namespace));
        let peer = nested(VETH_INFO_PEER, &of_link(0, 0, 0), &of_pod);
        let kind = DefaultNla::new(IFLA_INFO_KIND, b"veth".to_vec());
        let data = nested(IFLA_INFO_DATA, &[], &[peer]);
        let mut attributes = of_end(&pair.node_end, pair.node_mac, pair.mtu);
        attributes.push(nested(IFLA_LINKINFO, &[], &[kind, data]));
        let message = Message::new(RTM_NEWLINK, &of_link(0, 0, 0), &attributes);
        self.send(End::Node, message, NLM_F_CREATE | NLM_F_EXCL)?;
        for (end, name) in [(End::Node, &pair.node_end), (End::Pod, &pair.pod_end)] {
            let links = dump::links(&self.at(end).netlink)?;
            let made = links.into_iter().find(|link| link.name == *name);
            self.indexes.extend(made.map(|link| (end, link.index)));
        }
        Ok(())
    }
}

/// Deletes a link of a namespace. One that is gone is no error.
pub(super) fn delete_link(namespace: &Namespace, index: u32) -> io::Result<()> {
    let message = Message::new(RTM_DELLINK, &of_link(index, 0, 0), &[]);
    match namespace.netlink.change(message, 0) {
        Err(why) if why.raw_os_error() == Some(NO_DEVICE) => Ok(()),
        done => done,
    }
}

/// Deletes a rule of a namespace. One that is gone is no error.
pub(super) fn delete_rule(namespace: &Namespace, one: &Rule) -> io::Result<()> {
    match namespace.netlink.change(rule(RTM_DELRULE, one), 0) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn protect(name: &str) -> io::Result<()> {
    for (family, setting, value) in PROTECTION {
        let folder = Path::new(SYSCTLS).join(family).join("conf").join(name);
        match fs::write(folder.join(setting), value) {
            // A node without IPv6.
            Err(why) if why.kind() == io::ErrorKind::NotFound && family == "ipv6" => {}
            done => done?,
        }
    }
    Ok(())
}

fn of_end(name: &str, mac: Mac, mtu: u32) -> Vec<DefaultNla> {
    vec![
        DefaultNla::new(IFLA_IFNAME, zero_at_end(name)),
        DefaultNla::new(IFLA_ADDRESS, mac.0.to_vec()),
        DefaultNla::new(IFLA_MTU, mtu.to_ne_bytes().to_vec()),
    ]
}

/// A message that sets a neighbour entry (`ndmsg` of Linux).
fn new_neighbour(index: u32, neighbour: &Neighbour) -> Message {
    let Neighbour { address, mac } = neighbour;
    let mut fixed = vec![family(&IpNet::from(*address)), 0, 0, 0];
    fixed.extend(index.to_ne_bytes());
    fixed.extend(NUD_PERMANENT.to_ne_bytes());
    fixed.extend([0, 0]);
    let attributes = [
        DefaultNla::new(NDA_DST, bytes(*address)),
        DefaultNla::new(NDA_LLADDR, mac.0.to_vec()),
    ];
    Message::new(RTM_NEWNEIGH, &fixed, &attributes)
}

/// A message about a routing rule (`fib_rule_hdr` of Linux).
fn rule(kind: u16, rule: &Rule) -> Message {
    let Rule { source, table } = rule;
    let net = IpNet::from(*source);
    let mut fixed = vec![family(&net), 0, net.prefix_len(), 0, 0, 0, 0, FR_ACT_TO_TBL];
    fixed.extend(0u32.to_ne_bytes());
    let attributes = [
        DefaultNla::new(FRA_SRC, bytes(*source)),
        DefaultNla::new(FRA_PRIORITY, RULE_PRIORITY.to_ne_bytes().to_vec()),
        DefaultNla::new(FRA_TABLE, table.to_ne_bytes().to_vec()),
    ];
    Message::new(kind, &fixed, &attributes)
}

/// Lengths of the fixed parts: `ndmsg`, `fib_rule_hdr`.
const NEIGHBOUR: usize = 12;
const RULE: usize = 12;

/// `RT_SCOPE_UNIVERSE` of Linux: other machines can reach an address of this scope.
const UNIVERSE: u8 = 0;

/// Addresses whose duplicate detection runs, or has failed.
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
    /// Index of the link through which the node sends.
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

/// Rules of a namespace with the priority of this plugin's rules.
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
