//! Which blocks a node holds, and through which field.

use std::fmt;

use super::{Node, Observed};
use crate::model::{NodeName, PerFamily};
use crate::net::{Block, Family};

/// A field that shows a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldingField {
    /// `Node.spec.podCIDRs`.
    NodeSpec,
    /// The newer annotation.
    Annotation,
    /// The older annotation.
    OldAnnotation,
    /// `CiliumNode.spec.ipam.podCIDRs`.
    CiliumNode,
}

impl HoldingField {
    /// As printed.
    pub fn as_str(self) -> &'static str {
        match self {
            HoldingField::NodeSpec => "spec.podCIDRs",
            HoldingField::Annotation => "annotation network.cilium.io/ipv*-pod-cidr",
            HoldingField::OldAnnotation => "annotation io.cilium.network.ipv*-pod-cidr",
            HoldingField::CiliumNode => "CiliumNode.spec.ipam.podCIDRs",
        }
    }
}

impl fmt::Display for HoldingField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A block that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The block.
    pub block: Block,
    /// The field that shows it, in Cilium's own order of precedence.
    pub field: HoldingField,
}

impl Node {
    /// The first field that shows a block of the family, in the precedence of ParseNode (`pkg/k8s/node.go`, 1.9 to
    /// 1.20): spec, newer annotation, older annotation.
    pub fn shows(&self, family: Family) -> Option<Holding> {
        let fields = [
            (&self.spec, HoldingField::NodeSpec),
            (&self.annotation, HoldingField::Annotation),
            (&self.old_annotation, HoldingField::OldAnnotation),
        ];
        fields.into_iter().find_map(|(blocks, field)| blocks.get(family).map(|block| Holding { block: *block, field }))
    }
}

impl Observed {
    /// What a node holds: what its Node shows, or else what its CiliumNode shows.
    pub fn holds(&self, node: &Node) -> PerFamily<Holding> {
        let mut held = PerFamily::NONE;
        for family in Family::BOTH {
            *held.get_mut(family) = node.shows(family).or_else(|| self.cilium_node_shows(&node.name, family));
        }
        held
    }

    fn cilium_node_shows(&self, node: &NodeName, family: Family) -> Option<Holding> {
        let cilium_node = self.cilium_nodes.get(node)?;
        let block = cilium_node.pod_cidrs.iter().find(|block| block.family() == family)?;
        Some(Holding { block: *block, field: HoldingField::CiliumNode })
    }

    /// Every block that any field of any Node or CiliumNode shows, with its node. A block is taken whichever field shows
    /// it, even one that the running Cilium would not read.
    pub fn shown_blocks(&self) -> impl Iterator<Item = (&NodeName, Block)> {
        let of_nodes = self.nodes.values().flat_map(|node| {
            let blocks = node.spec.iter().chain(node.annotation.iter()).chain(node.old_annotation.iter());
            blocks.map(move |block| (&node.name, *block))
        });
        let of_cilium_nodes =
            self.cilium_nodes.values().flat_map(|node| node.pod_cidrs.iter().map(move |block| (&node.name, *block)));
        of_nodes.chain(of_cilium_nodes)
    }
}
