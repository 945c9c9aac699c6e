//! Messages about links and routes that several plugins send.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, Emitable};

use crate::kernel::netlink::Message;
use crate::kernel::numbers::*;
use crate::nic::NodeRoute;

/// `ifinfomsg`.
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
