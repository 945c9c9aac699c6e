//! Reads links, addresses and routes from the kernel. Unknown attributes are passed over, so that a
//! new kind of link does not prevent the use of others. Must never change anything.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use netlink_packet_core::DefaultNla;

use super::messages::*;
use super::namespace;
use crate::kernel::netlink::{Attributes, Message, Netlink, attributes, malformed};
use crate::nic::{Kind, Link, MODES, Mac, NodeAddress, NodeRoute, State};

/// Lengths of the fixed parts: `ifinfomsg`, `ifaddrmsg`, `rtmsg`.
const LINK: usize = 16;
pub(crate) const ADDRESS: usize = 8;
pub(crate) const ROUTE: usize = 12;

/// All links of a namespace, with their addresses.
pub(crate) fn links(netlink: &Netlink) -> io::Result<Vec<Link>> {
    let mut addresses = addresses(netlink)?;
    let mut links = Vec::new();
    for message in netlink.list(&Message::new(RTM_GETLINK, &[0; LINK], &[]))? {
        if message.kind == RTM_NEWLINK {
            let mut link = link(&message)?;
            link.addresses = addresses.remove(&link.index).unwrap_or_default();
            for address in &mut link.addresses {
                address.label.take_if(|label| *label == link.name);
            }
            links.push(link);
        }
    }
    Ok(links)
}

fn link(message: &Message) -> io::Result<Link> {
    let (fixed, attributes) = message.parts(LINK)?;
    let get = |kind| attribute(&attributes, kind);
    let (index, flags) = (number(&fixed[4..8])?, number(&fixed[8..12])?);
    let name = text(get(IFLA_IFNAME)).ok_or_else(|| malformed(&"a link has no name"))?;
    let info = self::attributes(get(IFLA_LINKINFO).unwrap_or_default())?;
    let kind_name = info
        .iter()
        .find(|(kind, _)| *kind == IFLA_INFO_KIND)
        .and_then(|(_, value)| text(Some(value)));
    let device = match (
        text(get(IFLA_PARENT_DEV_BUS_NAME)),
        text(get(IFLA_PARENT_DEV_NAME)),
    ) {
        (Some(bus), Some(device)) => namespace::device(&bus, &device),
        // Before Linux 5.14. Its sysfs shows the links of the node only.
        _ => None,
    };
    let kind = match (kind_name.as_deref(), &device) {
        _ if flags & IFF_LOOPBACK != 0 => Kind::Other("loopback".to_owned()),
        (Some("veth"), _) => Kind::Veth,
        (Some("tun"), _) => Kind::Tap,
        (Some(other), _) => Kind::Other(other.to_owned()),
        (None, Some(_)) => Kind::Physical,
        (None, None) => {
            Kind::Other("link whose device the kernel does not name (Linux 5.14 does)".to_owned())
        }
    };
    let is_from_elsewhere = get(IFLA_LINK_NETNSID).is_some();
    let below = optional_number(get(IFLA_LINK))?.filter(|_| !is_from_elsewhere);
    Ok(Link {
        index,
        name,
        other_names: other_names(get(IFLA_PROP_LIST).unwrap_or_default())?,
        alias: text(get(IFLA_IFALIAS)),
        mtu: optional_number(get(IFLA_MTU))?.unwrap_or_default(),
        mac: get(IFLA_ADDRESS).and_then(mac),
        permanent: get(IFLA_PERM_ADDRESS).and_then(mac),
        pci: device.as_deref().and_then(namespace::pci),
        driver: device.as_deref().and_then(namespace::driver).or(kind_name),
        device: device.as_deref().and_then(namespace::identity),
        kind,
        state: if flags & IFF_UP == 0 {
            State::Down
        } else {
            State::Up
        },
        modes: flags & MODES,
        master: optional_number(get(IFLA_MASTER))?,
        below,
        is_from_elsewhere,
        addresses: Vec::new(),
    })
}

fn other_names(list: &[u8]) -> io::Result<BTreeSet<String>> {
    let names = attributes(list)?;
    Ok(names
        .into_iter()
        .filter(|(kind, _)| *kind == IFLA_ALT_IFNAME)
        .filter_map(|(_, value)| text(Some(value)))
        .collect())
}

fn addresses(netlink: &Netlink) -> io::Result<BTreeMap<u32, Vec<NodeAddress>>> {
    let mut addresses: BTreeMap<u32, Vec<NodeAddress>> = BTreeMap::new();
    for message in netlink.list(&Message::new(RTM_GETADDR, &[0; ADDRESS], &[]))? {
        if message.kind == RTM_NEWADDR
            && let Some((index, address)) = address(&message)?
        {
            addresses.entry(index).or_default().push(address);
        }
    }
    Ok(addresses)
}

fn address(message: &Message) -> io::Result<Option<(u32, NodeAddress)>> {
    let (fixed, attributes) = message.parts(ADDRESS)?;
    let get = |kind| attribute(&attributes, kind);
    // On a point-to-point link, `IFA_ADDRESS` is the other end.
    let (first, local) = (get(IFA_ADDRESS).and_then(ip), get(IFA_LOCAL).and_then(ip));
    let Some(own) = local.or(first) else {
        return Ok(None);
    };
    let Ok(net) = IpNet::new(own, fixed[1]) else {
        return Ok(None);
    };
    let address = NodeAddress {
        address: net,
        peer: first.filter(|first| *first != own),
        broadcast: get(IFA_BROADCAST)
            .and_then(ip)
            .and_then(|address| match address {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            }),
        scope: fixed[3],
        flags: NodeAddress::lasting(
            optional_number(get(IFA_FLAGS))?.unwrap_or_else(|| fixed[2].into()),
        ),
        label: text(get(IFA_LABEL)),
        metric: optional_number(get(IFA_RT_PRIORITY))?,
    };
    Ok(Some((number(&fixed[4..8])?, address)))
}

/// The routes of a namespace through one of its links.
pub(crate) fn routes(netlink: &Netlink, index: u32) -> io::Result<Vec<NodeRoute>> {
    let mut routes = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let mut fixed = [0; ROUTE];
        fixed[0] = family;
        // Kernels before 4.20 ignore the link.
        let message = Message::new(
            RTM_GETROUTE,
            &fixed,
            &[DefaultNla::new(RTA_OIF, index.to_ne_bytes().to_vec())],
        );
        for message in netlink.list(&message)? {
            if message.kind == RTM_NEWROUTE
                && let Some(route) = route(&message, index)?
            {
                routes.push(route);
            }
        }
    }
    Ok(routes)
}

fn route(message: &Message, index: u32) -> io::Result<Option<NodeRoute>> {
    let (fixed, attributes) = message.parts(ROUTE)?;
    let get = |kind| attribute(&attributes, kind);
    let flags = number(&fixed[8..12])?;
    let is_through_it = optional_number(get(RTA_OIF))? == Some(index)
        || has_next_hop(get(RTA_MULTIPATH).unwrap_or_default(), index);
    if !is_through_it || flags & RTM_F_CLONED != 0 {
        return Ok(None);
    }
    let all = if fixed[0] == AF_INET {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
    };
    let Ok(destination) = IpNet::new(get(RTA_DST).and_then(ip).unwrap_or(all), fixed[1]) else {
        return Ok(None);
    };
    let metrics = self::attributes(get(RTA_METRICS).unwrap_or_default())?;
    let mut unknown: Vec<u16> = attributes
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| !ROUTE_KNOWN.contains(kind))
        .collect();
    unknown.extend(
        metrics
            .iter()
            .filter(|(kind, value)| *kind != RTAX_MTU && value.iter().any(|byte| *byte != 0))
            .map(|_| RTA_METRICS),
    );
    // A route for one type of service or one source cannot be restored.
    unknown.extend((fixed[2] != 0 || fixed[3] != 0).then_some(RTA_SRC));
    Ok(Some(NodeRoute {
        destination,
        gateway: get(RTA_GATEWAY).and_then(ip),
        source: get(RTA_PREFSRC).and_then(ip),
        table: optional_number(get(RTA_TABLE))?.unwrap_or_else(|| fixed[4].into()),
        protocol: fixed[5],
        scope: fixed[6],
        kind: fixed[7],
        flags: flags & RTNH_F_ONLINK,
        metric: optional_number(get(RTA_PRIORITY))?,
        mtu: metrics
            .iter()
            .find(|(kind, _)| *kind == RTAX_MTU)
            .map(|(_, value)| number(value))
            .transpose()?,
        unknown,
    }))
}

/// Attributes that are read, and those that need not be restored: the statistics of a cached route
/// and a router's preference.
const ROUTE_KNOWN: [u16; 9] = [
    RTA_DST,
    RTA_OIF,
    RTA_GATEWAY,
    RTA_PRIORITY,
    RTA_PREFSRC,
    RTA_METRICS,
    RTA_CACHEINFO,
    RTA_TABLE,
    RTA_PREF,
];

/// Whether one of a route's next hops (`rtnexthop`) leads through the link.
fn has_next_hop(ways: &[u8], index: u32) -> bool {
    let mut rest = ways;
    while let Some((way, _)) = rest.split_at_checked(8) {
        if number(&way[4..8]).is_ok_and(|through| through == index) {
            return true;
        }
        let length = usize::from(u16::from_ne_bytes([way[0], way[1]]))
            .next_multiple_of(4)
            .max(8);
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

pub(crate) fn attribute<'b>(attributes: &Attributes<'b>, wanted: u16) -> Option<&'b [u8]> {
    attributes
        .iter()
        .find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| *value)
}

pub(crate) fn number(bytes: &[u8]) -> io::Result<u32> {
    bytes
        .try_into()
        .map(u32::from_ne_bytes)
        .map_err(|_| malformed(&"a number has another length"))
}

pub(crate) fn optional_number(bytes: Option<&[u8]>) -> io::Result<Option<u32>> {
    bytes.map(number).transpose()
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    let bytes = bytes?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

pub(crate) fn mac(bytes: &[u8]) -> Option<Mac> {
    bytes
        .try_into()
        .ok()
        .filter(|bytes| *bytes != [0; 6])
        .map(Mac)
}

pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}
