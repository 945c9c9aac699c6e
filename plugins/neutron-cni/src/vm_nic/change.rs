//! Sends steps to the kernel. Must never decide which steps.

use std::io;
use std::os::fd::AsRawFd;

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NLM_F_CREATE, NLM_F_EXCL};

use crate::kernel::dump;
use crate::kernel::messages::{bytes, family, new_route, of_link, zero_at_end, *};
use crate::kernel::namespace::Namespace;
use crate::kernel::netlink::Message;
use crate::nic::{CHOSEN_OF_ADDRESS, Change, MODES, NodeAddress, NodeRoute, Side, State, Step};

/// The two namespaces of a move.
pub(super) struct Namespaces<'n> {
    pub(super) node: &'n Namespace,
    pub(super) pod: Option<&'n Namespace>,
}

impl Namespaces<'_> {
    fn at(&self, side: Side) -> io::Result<&Namespace> {
        match side {
            Side::Node => Ok(self.node),
            Side::Pod => self.pod.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, "the Pod's namespace is gone")
            }),
        }
    }

    /// Executes a step. An address or a route that already exists is no error.
    pub(super) fn execute(&self, step: &Step) -> io::Result<()> {
        match step {
            Step::Change(side, index, change) => {
                let to = change.to.map(|to| self.at(to)).transpose()?;
                self.at(*side)?
                    .netlink
                    .change(set_link(*index, change, to), 0)
            }
            Step::Name(side, index, name) => {
                let flags = NLM_F_CREATE | NLM_F_EXCL;
                self.at(*side)?
                    .netlink
                    .change(other_name(RTM_NEWLINKPROP, *index, name), flags)
            }
            Step::Unname(side, index, name) => self
                .at(*side)?
                .netlink
                .change(other_name(RTM_DELLINKPROP, *index, name), 0),
            Step::Address(side, index, address) => {
                let done = self
                    .at(*side)?
                    .netlink
                    .change(new_address(*index, address), NLM_F_CREATE | NLM_F_EXCL);
                done.or_else(if_there)
            }
            Step::Route(side, index, route) => {
                let netlink = &self.at(*side)?.netlink;
                let done = netlink.change(new_route(*index, route), NLM_F_CREATE | NLM_F_EXCL);
                // The existing route may lead through another link.
                let is_this = |other: &NodeRoute| {
                    (other.destination, other.table) == (route.destination, route.table)
                };
                match done {
                    Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                        if dump::routes(netlink, *index)?.iter().any(is_this) {
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
        put(IFLA_NET_NS_FD, to.file.as_raw_fd().to_ne_bytes().to_vec());
    }
    if let Some(name) = name {
        put(IFLA_IFNAME, zero_at_end(name));
    }
    if let Some(mac) = mac {
        put(IFLA_ADDRESS, mac.0.to_vec());
    }
    if let Some(mtu) = mtu {
        put(IFLA_MTU, mtu.to_ne_bytes().to_vec());
    }
    if let Some(alias) = alias {
        // An empty attribute removes the alias.
        put(IFLA_IFALIAS, alias.as_bytes().to_vec());
    }
    Message::new(RTM_SETLINK, &fixed, &attributes)
}

fn other_name(kind: u16, index: u32, name: &str) -> Message {
    let name = DefaultNla::new(IFLA_ALT_IFNAME, zero_at_end(name));
    let mut list = vec![0; name.buffer_len()];
    name.emit(&mut list);
    Message::new(
        kind,
        &of_link(index, 0, 0),
        &[DefaultNla::new(IFLA_PROP_LIST | NLA_F_NESTED, list)],
    )
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
        DefaultNla::new(IFA_LOCAL, bytes(net.addr())),
        DefaultNla::new(IFA_ADDRESS, bytes(peer.unwrap_or(net.addr()))),
        DefaultNla::new(IFA_FLAGS, flags.to_ne_bytes().to_vec()),
    ];
    attributes.extend(
        broadcast.map(|broadcast| DefaultNla::new(IFA_BROADCAST, broadcast.octets().to_vec())),
    );
    attributes.extend(
        label
            .as_deref()
            .map(|label| DefaultNla::new(IFA_LABEL, zero_at_end(label))),
    );
    attributes.extend(
        metric.map(|metric| DefaultNla::new(IFA_RT_PRIORITY, metric.to_ne_bytes().to_vec())),
    );
    Message::new(RTM_NEWADDR, &fixed, &attributes)
}
