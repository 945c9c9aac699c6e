//! Sends the steps of a secondary route to the kernel. Must never decide which steps.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::{fs, io};

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};

use crate::kernel::dump;
use crate::kernel::messages::{bytes, family, new_route, of_link, zero_at_end};
use crate::kernel::namespace::Namespace;
use crate::kernel::netlink::{Message, nested};
use crate::kernel::numbers::*;
use crate::nic::Mac;
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

/// `ENODEV`.
const NO_DEVICE: i32 = 19;

/// Both namespaces of a pair, and the indexes of its ends once they exist.
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

/// `ndmsg`.
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

/// `fib_rule_hdr`.
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
