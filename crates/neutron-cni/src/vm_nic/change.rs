//! Steps as requests to the kernel.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, Emitable, NLM_F_CREATE, NLM_F_EXCL};

use crate::nic::{CHOSEN_OF_ADDRESS, Change, MODES, NodeAddress, NodeRoute, Place, State, Step};
use crate::vm_nic::look;
use crate::vm_nic::namespace::Namespace;
use crate::vm_nic::netlink::Message;

const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_OTHER_NAME: u16 = 108;
const DELETE_OTHER_NAME: u16 = 109;

const IFF_UP: u32 = 1;

/// `NLA_F_NESTED`: the kernel wants to be told of an attribute made of others.
const NESTED: u16 = 1 << 15;

/// Both ends of a handover.
pub(super) struct Places<'n> {
    pub(super) node: &'n Namespace,
    pub(super) pod: Option<&'n Namespace>,
}

impl Places<'_> {
    fn at(&self, place: Place) -> io::Result<&Namespace> {
        match place {
            Place::Node => Ok(self.node),
            Place::Pod => self.pod.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, "the Pod's namespace is gone")
            }),
        }
    }

    /// Does it; what is there already is no fault.
    pub(super) fn execute(&self, step: &Step) -> io::Result<()> {
        match step {
            Step::Change(place, index, change) => {
                let to = change.to.map(|to| self.at(to)).transpose()?;
                self.at(*place)?
                    .netlink
                    .change(set_link(*index, change, to), 0)
            }
            Step::Name(place, index, name) => {
                let flags = NLM_F_CREATE | NLM_F_EXCL;
                self.at(*place)?
                    .netlink
                    .change(other_name(NEW_OTHER_NAME, *index, name), flags)
            }
            Step::Unname(place, index, name) => self
                .at(*place)?
                .netlink
                .change(other_name(DELETE_OTHER_NAME, *index, name), 0),
            Step::Address(place, index, address) => {
                let done = self
                    .at(*place)?
                    .netlink
                    .change(new_address(*index, address), NLM_F_CREATE | NLM_F_EXCL);
                done.or_else(if_there)
            }
            Step::Route(place, index, route) => {
                let netlink = &self.at(*place)?.netlink;
                let done = netlink.change(new_route(*index, route), NLM_F_CREATE | NLM_F_EXCL);
                // There may be one through another link, which is not this one.
                let is_this = |other: &NodeRoute| {
                    (other.destination, other.table) == (route.destination, route.table)
                };
                match done {
                    Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                        if look::routes(netlink, *index)?.iter().any(is_this) {
                            Ok(())
                        } else {
                            Err(why)
                        }
                    }
                    done => done,
                }
            }
        }
    }
}

fn if_there(why: io::Error) -> io::Result<()> {
    if why.kind() == io::ErrorKind::AlreadyExists {
        Ok(())
    } else {
        Err(why)
    }
}

fn set_link(index: u32, change: &Change, to: Option<&Namespace>) -> Message {
    let Change {
        to: _,
        name,
        mac,
        mtu,
        alias,
        state,
        modes,
    } = change;
    let (up, changed) = match state {
        Some(State::Up) => (IFF_UP, IFF_UP),
        Some(State::Down) => (0, IFF_UP),
        None => (0, 0),
    };
    let fixed = of_link(
        index,
        up | modes.unwrap_or_default(),
        changed | modes.map_or(0, |_| MODES),
    );
    let mut attributes = Vec::new();
    let mut put = |number: u16, value: Vec<u8>| attributes.push(DefaultNla::new(number, value));
    if let Some(to) = to {
        put(28, to.file.as_raw_fd().to_ne_bytes().to_vec());
    }
    if let Some(name) = name {
        put(3, zero_at_end(name));
    }
    if let Some(mac) = mac {
        put(1, mac.0.to_vec());
    }
    if let Some(mtu) = mtu {
        put(4, mtu.to_ne_bytes().to_vec());
    }
    if let Some(alias) = alias {
        // Empty takes it away.
        put(20, alias.as_bytes().to_vec());
    }
    Message::new(SET_LINK, &fixed, &attributes)
}

/// `ifinfomsg`.
fn of_link(index: u32, flags: u32, changed: u32) -> Vec<u8> {
    let mut fixed = vec![0; 4];
    for word in [index, flags, changed] {
        fixed.extend(word.to_ne_bytes());
    }
    fixed
}

fn other_name(kind: u16, index: u32, name: &str) -> Message {
    let name = DefaultNla::new(53, zero_at_end(name));
    let mut list = vec![0; name.buffer_len()];
    name.emit(&mut list);
    Message::new(
        kind,
        &of_link(index, 0, 0),
        &[DefaultNla::new(52 | NESTED, list)],
    )
}

fn zero_at_end(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn new_address(index: u32, address: &NodeAddress) -> Message {
    let NodeAddress {
        address: net,
        peer,
        broadcast,
        scope,
        flags,
        label,
        metric,
    } = address;
    let flags = flags & CHOSEN_OF_ADDRESS;
    let mut fixed = vec![
        family(net),
        net.prefix_len(),
        flags.to_le_bytes()[0],
        *scope,
    ];
    fixed.extend(index.to_ne_bytes());
    let mut attributes = vec![
        DefaultNla::new(2, bytes(net.addr())),
        DefaultNla::new(1, bytes(peer.unwrap_or(net.addr()))),
        DefaultNla::new(8, flags.to_ne_bytes().to_vec()),
    ];
    attributes.extend(broadcast.map(|broadcast| DefaultNla::new(4, broadcast.octets().to_vec())));
    attributes.extend(
        label
            .as_deref()
            .map(|label| DefaultNla::new(3, zero_at_end(label))),
    );
    attributes.extend(metric.map(|metric| DefaultNla::new(9, metric.to_ne_bytes().to_vec())));
    Message::new(NEW_ADDRESS, &fixed, &attributes)
}

fn new_route(index: u32, route: &NodeRoute) -> Message {
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
    put(15, table.to_ne_bytes().to_vec());
    put(4, index.to_ne_bytes().to_vec());
    if destination.prefix_len() > 0 {
        put(1, bytes(destination.network()));
    }
    if let Some(gateway) = gateway {
        put(5, bytes(*gateway));
    }
    if let Some(source) = source {
        put(7, bytes(*source));
    }
    if let Some(metric) = metric {
        put(6, metric.to_ne_bytes().to_vec());
    }
    if let Some(mtu) = mtu {
        let mtu = DefaultNla::new(2, mtu.to_ne_bytes().to_vec());
        let mut metrics = vec![0; mtu.buffer_len()];
        mtu.emit(&mut metrics);
        put(8, metrics);
    }
    Message::new(NEW_ROUTE, &fixed, &attributes)
}

fn family(net: &IpNet) -> u8 {
    match net {
        IpNet::V4(_) => 2,
        IpNet::V6(_) => 10,
    }
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
