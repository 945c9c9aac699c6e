//! Names that follow from the attachment alone, so that each run finds what an earlier one made,
//! without a file: a kill leaves nothing that has no name.

use ring::digest::{Context, SHA256};

use crate::cni::Attachment;
use crate::nic::{Kind, Link, Mac};

/// The start of a mark in the alias of both ends.
const MARK: &str = "cni-unnumbered-ptp ";

/// The start of the name of a node's end.
const NODE_END: &str = "unp";

/// Hexadecimal digits of the network in a mark.
const NETWORK_DIGITS: usize = 16;

/// Hexadecimal digits in the name of a node's end: with `NODE_END`, the longest name of a link.
const NAME_DIGITS: usize = 12;

/// The tables of this plugin: above those that people and other programs number.
const FIRST_TABLE: u32 = 0x4000_0000;

/// Identifies the secondary route of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WayKey {
    network: String,
    hash: Vec<u8>,
}

impl WayKey {
    pub fn new(network: &str, attachment: &Attachment) -> WayKey {
        WayKey {
            network: hex(&digest(&[network]))
                .chars()
                .take(NETWORK_DIGITS)
                .collect(),
            hash: digest(&[network, &attachment.to_string()]),
        }
    }

    /// The name of the node's end.
    pub fn node_end(&self) -> String {
        let digits: String = hex(&self.hash).chars().take(NAME_DIGITS).collect();
        format!("{NODE_END}{digits}")
    }

    /// The alias of both ends.
    pub fn mark(&self) -> String {
        format!("{MARK}{} {}", self.network, hex(&self.hash[..16]))
    }

    /// Hardware addresses of the node's and the Pod's end. They are set rather than chosen by the
    /// kernel: systemd-udevd replaces a chosen one, and the neighbour entries would be wrong.
    pub fn macs(&self) -> [Mac; 2] {
        [0, 5].map(|from| {
            let mut mac = [2; 6];
            mac[1..].copy_from_slice(&self.hash[from..from + 5]);
            // The two ends must differ.
            mac[1] = (mac[1] & 0xfe) | u8::from(from > 0);
            Mac(mac)
        })
    }

    /// The Pod's routing table for what it sends from the addresses of this attachment.
    pub fn table(&self) -> u32 {
        let number = self.hash[28..]
            .iter()
            .fold(0, |number: u32, byte| (number << 8) | u32::from(*byte));
        FIRST_TABLE | (number & (FIRST_TABLE - 1))
    }

    /// Whether the link is an end of this attachment, on the node. A killed run may not have marked
    /// it.
    pub fn is_node_end(&self, link: &Link) -> bool {
        match link.alias.as_deref() {
            Some(alias) => alias == self.mark() && link.kind == Kind::Veth,
            None => link.name == self.node_end() && link.kind == Kind::Veth,
        }
    }
}

/// Whether the link has a mark of any network.
pub(super) fn is_marked(link: &Link) -> bool {
    link.alias
        .as_deref()
        .is_some_and(|alias| alias.starts_with(MARK))
}

/// Whether the link is marked as an end of an attachment to this network.
pub fn is_of_network(network: &str, link: &Link) -> bool {
    let digits: String = hex(&digest(&[network]))
        .chars()
        .take(NETWORK_DIGITS)
        .collect();
    let start = format!("{MARK}{digits} ");
    link.kind == Kind::Veth
        && link
            .alias
            .as_deref()
            .is_some_and(|alias| alias.starts_with(&start))
}

/// Whether the link is a node's end that a killed run did not mark.
pub fn is_unmarked_end(link: &Link) -> bool {
    let digits = link.name.strip_prefix(NODE_END);
    link.kind == Kind::Veth
        && link.alias.is_none()
        && digits.is_some_and(|digits| {
            digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

fn digest(parts: &[&str]) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finish().as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
