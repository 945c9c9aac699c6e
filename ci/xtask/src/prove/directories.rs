//! Directories that conflict over the same addresses.

use std::net::Ipv4Addr;

use anyhow::Result;
use xtask::node;
use xtask::pools::{Pools, document, pin, pool};

/// Room in every /14 for 4,096 nodes.
const BLOCK_SIZE: u32 = 26;

/// Without a quarantine of freed blocks, claims alone must keep blocks unique.
const POLICY: &str = "quarantine: 0s";

/// The addresses that directories conflict over.
#[derive(Clone, Copy)]
pub struct Space {
    first: u32,
    length: u32,
}

impl Space {
    /// 10.0.0.0/10, room for as many nodes as a proof may ask for.
    pub const WHOLE: Self = Self {
        first: 10 << 24,
        length: 10,
    };

    /// A /14 of its own for each number below 16.
    pub fn part(number: u32) -> Self {
        Self {
            first: Self::WHOLE.first + (number << (32 - 14)),
            length: 14,
        }
    }

    /// All of it.
    pub fn cidr(self) -> String {
        format!("{}/{}", Ipv4Addr::from_bits(self.first), self.length)
    }

    /// A pool for every node, which gives the lowest blocks to the oldest nodes.
    pub fn plain(self) -> Result<Pools> {
        self.directory("plain", BLOCK_SIZE, "priority: 0", "")
    }

    /// As [`Space::plain`], with a Policy that acknowledges kube-controller-manager. Otherwise, what
    /// that one wrote on new Nodes blocks every change.
    pub fn beside_controller_manager(self) -> Result<Pools> {
        let policy = format!("{POLICY}, acknowledgedAllocators: [kube-controller-manager]");
        let spec = format!("cidrs: [{}], blockSize: {BLOCK_SIZE}", self.cidr());
        Pools::of(&(document("IPAMPolicy", "default", &policy) + &pool("plain", &spec)))
    }

    /// The same blocks for every node, but each goes to a node that stands a few places further
    /// ahead.
    pub fn shifted(self) -> Result<Pools> {
        self.directory(
            "shifted",
            BLOCK_SIZE,
            &format!("priority: 7, reserved: [{}]", self.block(3)),
            "",
        )
    }

    /// Blocks of twice the size: they overlap those of the others, and none is written like one of
    /// theirs.
    pub fn doubled(self) -> Result<Pools> {
        self.directory("doubled", BLOCK_SIZE - 1, "priority: 8", "")
    }

    /// A pool for every node, and pins that give the lowest blocks to these nodes, whatever their
    /// age.
    pub fn pinned(self, nodes: impl IntoIterator<Item = usize>) -> Result<Pools> {
        self.directory("pinned", BLOCK_SIZE, "priority: 9", &self.pins(nodes))
    }

    /// Pins that give the lowest blocks to these nodes, and nothing for any other node.
    pub fn only_pins(self, nodes: impl IntoIterator<Item = usize>) -> Result<Pools> {
        let nobody = "nodeSelector: {matchLabels: {nobody: has-this-label}}";
        self.directory("only-pins", BLOCK_SIZE, nobody, &self.pins(nodes))
    }

    fn directory(self, name: &str, block_size: u32, more: &str, pins: &str) -> Result<Pools> {
        let spec = format!("cidrs: [{}], blockSize: {block_size}, {more}", self.cidr());
        Pools::of(&(document("IPAMPolicy", "default", POLICY) + &pool(name, &spec) + pins))
    }

    fn pins(self, nodes: impl IntoIterator<Item = usize>) -> String {
        nodes
            .into_iter()
            .zip(0..)
            .map(|(node, place)| pin(&node::name(node), &self.block(place)))
            .collect()
    }

    /// The block at this place.
    fn block(self, place: u32) -> String {
        format!(
            "{}/{BLOCK_SIZE}",
            Ipv4Addr::from_bits(self.first + (place << (32 - BLOCK_SIZE)))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_parts_lie_side_by_side() {
        assert_eq!(
            [0, 1, 4].map(|place| Space::WHOLE.block(place)),
            ["10.0.0.0/26", "10.0.0.64/26", "10.0.1.0/26"]
        );
        assert_eq!(
            [0, 1, 15].map(|part| Space::part(part).cidr()),
            ["10.0.0.0/14", "10.4.0.0/14", "10.60.0.0/14"]
        );
    }
}
