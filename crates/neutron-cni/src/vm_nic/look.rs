//! What the kernel tells of links, addresses and routes (`include/uapi/linux/if_link.h`,
//! `if_addr.h` and `rtnetlink.h` of Linux). What is not known here is passed over, so that a new
//! kind of link keeps nobody from taking another one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use netlink_packet_core::DefaultNla;

use crate::nic::{Kind, Link, MODES, Mac, NodeAddress, NodeRoute, State};
use crate::vm_nic::netlink::{Message, Netlink, attributes, nonsense};
use crate::vm_nic::sysfs;

const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

/// Lengths of the fixed parts: `ifinfomsg`, `ifaddrmsg`, `rtmsg`.
const LINK: usize = 16;
const ADDRESS: usize = 8;
const ROUTE: usize = 12;

const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;

/// All links of a namespace, with their addresses.
pub(super) fn links(netlink: &Netlink) -> io::Result<Vec<Link>> {
    let mut addresses = addresses(netlink)?;
    let mut links = Vec::new();
    for message in netlink.list(&Message::new(GET_LINK, &[0; LINK], &[]))? {
        if message.kind == NEW_LINK {
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
    let get = |number: u16| {
        attributes
            .iter()
            .find(|(kind, _)| *kind == number)
            .map(|(_, value)| *value)
    };
    let (index, flags) = (number(&fixed[4..8])?, number(&fixed[8..12])?);
    let name = text(get(3)).ok_or_else(|| nonsense(&"a link without a name"))?;
    let info = self::attributes(get(18).unwrap_or_default())?;
    let kind_name = info
        .iter()
        .find(|(kind, _)| *kind == 1)
        .and_then(|(_, value)| text(Some(value)));
    let device = match (text(get(57)), text(get(56))) {
        (Some(bus), Some(device)) => sysfs::device(&bus, &device),
        // Before Linux 5.14; its sysfs would tell of the node's links alone.
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
    let is_from_elsewhere = get(37).is_some();
    let below = optional_number(get(5))?.filter(|_| !is_from_elsewhere);
    Ok(Link {
        index,
        name,
        other_names: other_names(get(52).unwrap_or_default())?,
        alias: text(get(20)),
        mtu: optional_number(get(4))?.unwrap_or_default(),
        mac: get(1).and_then(mac),
        permanent: get(54).and_then(mac),
        pci: device.as_deref().and_then(sysfs::pci),
        driver: device.as_deref().and_then(sysfs::driver).or(kind_name),
        device: device.as_deref().and_then(sysfs::identity),
        kind,
        state: if flags & IFF_UP == 0 {
            State::Down
        } else {
            State::Up
        },
        modes: flags & MODES,
        master: optional_number(get(10))?,
        below,
        is_from_elsewhere,
        addresses: Vec::new(),
    })
}

fn other_names(list: &[u8]) -> io::Result<BTreeSet<String>> {
    let names = attributes(list)?;
    Ok(names
        .into_iter()
        .filter(|(kind, _)| *kind == 53)
        .filter_map(|(_, value)| text(Some(value)))
        .collect())
}

fn addresses(netlink: &Netlink) -> io::Result<BTreeMap<u32, Vec<NodeAddress>>> {
    let mut addresses: BTreeMap<u32, Vec<NodeAddress>> = BTreeMap::new();
    for message in netlink.list(&Message::new(GET_ADDRESS, &[0; ADDRESS], &[]))? {
        if message.kind == NEW_ADDRESS
            && let Some((index, address)) = address(&message)?
        {
            addresses.entry(index).or_default().push(address);
        }
    }
    Ok(addresses)
}

fn address(message: &Message) -> io::Result<Option<(u32, NodeAddress)>> {
    let (fixed, attributes) = message.parts(ADDRESS)?;
    let get = |number: u16| {
        attributes
            .iter()
            .find(|(kind, _)| *kind == number)
            .map(|(_, value)| *value)
    };
    // Of a pair of addresses, the first is the other end's.
    let (first, local) = (get(1).and_then(ip), get(2).and_then(ip));
    let Some(own) = local.or(first) else {
        return Ok(None);
    };
    let Ok(net) = IpNet::new(own, fixed[1]) else {
        return Ok(None);
    };
    let address = NodeAddress {
        address: net,
        peer: first.filter(|first| *first != own),
        broadcast: get(4).and_then(ip).and_then(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }),
        scope: fixed[3],
        flags: NodeAddress::lasting(optional_number(get(8))?.unwrap_or_else(|| fixed[2].into())),
        label: text(get(3)),
        metric: optional_number(get(9))?,
    };
    Ok(Some((number(&fixed[4..8])?, address)))
}

/// The routes of a namespace through one of its links.
pub(super) fn routes(netlink: &Netlink, index: u32) -> io::Result<Vec<NodeRoute>> {
    let mut routes = Vec::new();
    for family in [2, 10] {
        let mut fixed = [0; ROUTE];
        fixed[0] = family;
        // Older kernels take no notice of the link.
        let message = Message::new(
            GET_ROUTE,
            &fixed,
            &[DefaultNla::new(4, index.to_ne_bytes().to_vec())],
        );
        for message in netlink.list(&message)? {
            if message.kind == NEW_ROUTE
                && let Some(route) = route(&message, index)?
            {
                routes.push(route);
            }
        }
    }
    Ok(routes)
}

/// `RTM_F_CLONED`: kept for a while, and made by nobody.
const CLONED: u32 = 0x200;
/// `RTNH_F_ONLINK`, the only flag that somebody sets.
const SETTABLE: u32 = 4;

fn route(message: &Message, index: u32) -> io::Result<Option<NodeRoute>> {
    let (fixed, attributes) = message.parts(ROUTE)?;
    let get = |number: u16| {
        attributes
            .iter()
            .find(|(kind, _)| *kind == number)
            .map(|(_, value)| *value)
    };
    let flags = number(&fixed[8..12])?;
    let is_through_it =
        optional_number(get(4))? == Some(index) || is_one_way(get(9).unwrap_or_default(), index);
    if !is_through_it || flags & CLONED != 0 {
        return Ok(None);
    }
    let all = if fixed[0] == 2 {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
    };
    let Ok(destination) = IpNet::new(get(1).and_then(ip).unwrap_or(all), fixed[1]) else {
        return Ok(None);
    };
    let metrics = self::attributes(get(8).unwrap_or_default())?;
    let mut unknown: Vec<u16> = attributes
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| !ROUTE_KNOWN.contains(kind))
        .collect();
    unknown.extend(
        metrics
            .iter()
            .filter(|(kind, value)| *kind != 2 && value.iter().any(|byte| *byte != 0))
            .map(|_| 8),
    );
    // A route of one kind of packets only, or of one source, is more than is understood here.
    unknown.extend((fixed[2] != 0 || fixed[3] != 0).then_some(2));
    Ok(Some(NodeRoute {
        destination,
        gateway: get(5).and_then(ip),
        source: get(7).and_then(ip),
        table: optional_number(get(15))?.unwrap_or_else(|| fixed[4].into()),
        protocol: fixed[5],
        scope: fixed[6],
        kind: fixed[7],
        flags: flags & SETTABLE,
        metric: optional_number(get(6))?,
        mtu: metrics
            .iter()
            .find(|(kind, _)| *kind == 2)
            .map(|(_, value)| number(value))
            .transpose()?,
        unknown,
    }))
}

/// Destination, link, gateway, metric, source, metrics, table; and what the kernel tells of a route
/// that it keeps, and a router's preference.
const ROUTE_KNOWN: [u16; 9] = [1, 4, 5, 6, 7, 8, 12, 15, 20];

/// Whether one of several ways (`rtnexthop`) goes through the link.
fn is_one_way(ways: &[u8], index: u32) -> bool {
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

fn number(bytes: &[u8]) -> io::Result<u32> {
    bytes
        .try_into()
        .map(u32::from_ne_bytes)
        .map_err(|_| nonsense(&"a number of another length"))
}

fn optional_number(bytes: Option<&[u8]>) -> io::Result<Option<u32>> {
    bytes.map(number).transpose()
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    let bytes = bytes?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

fn mac(bytes: &[u8]) -> Option<Mac> {
    bytes
        .try_into()
        .ok()
        .filter(|bytes| *bytes != [0; 6])
        .map(Mac)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}
