//! Messages about links and routes that several plugins send, with the numbers of rtnetlink under
//! the kernel's names (`include/uapi/linux/if_link.h`, `if_addr.h`, `rtnetlink.h`, `neighbour.h`,
//! `veth.h`, `if.h` and `socket.h` of Linux).

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, Emitable};

use crate::kernel::netlink::Message;
use crate::nic::NodeRoute;

/// The fixed part of a link message (`ifinfomsg` of Linux).
pub(crate) fn of_link(index: u32, flags: u32, changed: u32) -> Vec<u8> {
    let mut fixed = vec![0; 4];
    for word in [index, flags, changed] {
        fixed.extend(word.to_ne_bytes());
    }
    fixed
}

pub(crate) fn zero_at_end(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

pub(crate) fn new_route(index: u32, route: &NodeRoute) -> Message {
    let NodeRoute {
        destination,
        gateway,
        source,
        table,
        protocol,
        scope,
        kind,
        flags,
        metric,
        mtu,
        unknown: _,
    } = route;
    let mut fixed = vec![
        family(destination),
        destination.prefix_len(),
        0,
        0,
        0,
        *protocol,
        *scope,
        *kind,
    ];
    fixed.extend(flags.to_ne_bytes());
    let mut attributes = Vec::new();
    let mut put = |number: u16, value: Vec<u8>| attributes.push(DefaultNla::new(number, value));
    put(RTA_TABLE, table.to_ne_bytes().to_vec());
    put(RTA_OIF, index.to_ne_bytes().to_vec());
    if destination.prefix_len() > 0 {
        put(RTA_DST, bytes(destination.network()));
    }
    if let Some(gateway) = gateway {
        put(RTA_GATEWAY, bytes(*gateway));
    }
    if let Some(source) = source {
        put(RTA_PREFSRC, bytes(*source));
    }
    if let Some(metric) = metric {
        put(RTA_PRIORITY, metric.to_ne_bytes().to_vec());
    }
    if let Some(mtu) = mtu {
        let mtu = DefaultNla::new(RTAX_MTU, mtu.to_ne_bytes().to_vec());
        let mut metrics = vec![0; mtu.buffer_len()];
        mtu.emit(&mut metrics);
        put(RTA_METRICS, metrics);
    }
    Message::new(RTM_NEWROUTE, &fixed, &attributes)
}

pub(crate) fn family(net: &IpNet) -> u8 {
    match net {
        IpNet::V4(_) => AF_INET,
        IpNet::V6(_) => AF_INET6,
    }
}

pub(crate) fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Kinds of messages.
pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_SETLINK: u16 = 19;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_GETADDR: u16 = 22;
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTM_NEWNEIGH: u16 = 28;
pub(crate) const RTM_GETNEIGH: u16 = 30;
pub(crate) const RTM_NEWRULE: u16 = 32;
pub(crate) const RTM_DELRULE: u16 = 33;
pub(crate) const RTM_GETRULE: u16 = 34;
pub(crate) const RTM_NEWLINKPROP: u16 = 108;
pub(crate) const RTM_DELLINKPROP: u16 = 109;

/// Flags of links.
pub(crate) const IFF_UP: u32 = 1;
pub(crate) const IFF_LOOPBACK: u32 = 8;

/// Attributes of links.
pub(crate) const IFLA_ADDRESS: u16 = 1;
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_MTU: u16 = 4;
pub(crate) const IFLA_LINK: u16 = 5;
pub(crate) const IFLA_MASTER: u16 = 10;
pub(crate) const IFLA_LINKINFO: u16 = 18;
pub(crate) const IFLA_IFALIAS: u16 = 20;
pub(crate) const IFLA_NET_NS_FD: u16 = 28;
pub(crate) const IFLA_LINK_NETNSID: u16 = 37;
pub(crate) const IFLA_PROP_LIST: u16 = 52;
pub(crate) const IFLA_ALT_IFNAME: u16 = 53;
pub(crate) const IFLA_PERM_ADDRESS: u16 = 54;
pub(crate) const IFLA_PARENT_DEV_NAME: u16 = 56;
pub(crate) const IFLA_PARENT_DEV_BUS_NAME: u16 = 57;
/// In `IFLA_LINKINFO`: the driver of a link without a device.
pub(crate) const IFLA_INFO_KIND: u16 = 1;
/// Settings of the link's driver, within `IFLA_LINKINFO`.
pub(crate) const IFLA_INFO_DATA: u16 = 2;
/// In `IFLA_INFO_DATA` of a veth: the other end.
pub(crate) const VETH_INFO_PEER: u16 = 1;

/// Attributes of addresses.
pub(crate) const IFA_ADDRESS: u16 = 1;
pub(crate) const IFA_LOCAL: u16 = 2;
pub(crate) const IFA_LABEL: u16 = 3;
pub(crate) const IFA_BROADCAST: u16 = 4;
pub(crate) const IFA_FLAGS: u16 = 8;
pub(crate) const IFA_RT_PRIORITY: u16 = 9;

/// Flags of addresses during duplicate detection, and after it failed.
pub(crate) const IFA_F_DADFAILED: u32 = 0x08;
pub(crate) const IFA_F_TENTATIVE: u32 = 0x40;

/// Attributes of neighbours.
pub(crate) const NDA_DST: u16 = 1;
pub(crate) const NDA_LLADDR: u16 = 2;
/// State of a neighbour entry that the kernel does not check.
pub(crate) const NUD_PERMANENT: u16 = 0x80;

/// Attributes of rules (`fib_rules.h`).
pub(crate) const FRA_SRC: u16 = 2;
pub(crate) const FRA_PRIORITY: u16 = 6;
pub(crate) const FRA_TABLE: u16 = 15;
/// Action of a routing rule: look up a table.
pub(crate) const FR_ACT_TO_TBL: u8 = 1;

/// Attributes of routes.
pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_SRC: u16 = 2;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
pub(crate) const RTA_PRIORITY: u16 = 6;
pub(crate) const RTA_PREFSRC: u16 = 7;
pub(crate) const RTA_METRICS: u16 = 8;
pub(crate) const RTA_MULTIPATH: u16 = 9;
pub(crate) const RTA_CACHEINFO: u16 = 12;
pub(crate) const RTA_TABLE: u16 = 15;
pub(crate) const RTA_PREF: u16 = 20;
/// Key of the MTU among the metrics of a route (`RTA_METRICS`).
pub(crate) const RTAX_MTU: u16 = 2;

/// A copy that the kernel caches, not a configured route.
pub(crate) const RTM_F_CLONED: u32 = 0x200;
/// The only flag of a route that can be set.
pub(crate) const RTNH_F_ONLINK: u32 = 4;

/// Address families.
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;
