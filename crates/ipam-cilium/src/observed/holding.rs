//! Which blocks a node holds, and through which field.

use std::fmt;

use jiff::Timestamp;

use super::{
    ANNOTATION_IPV4, ANNOTATION_IPV6, AnnotationKeys, AnnotationReads, FamilyUse, ModeSeen, Node,
    OLD_ANNOTATION_IPV4, OLD_ANNOTATION_IPV6, Observed, ObservedKind, Reader, Understood,
};
use ipam_core::model::{IpamMode, NodeName, PerFamily};
use ipam_core::net::{Block, Family};

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
    /// The setting `ipv4-range` or `ipv6-range`.
    Setting,
    /// `CiliumNode.spec.ipam.pools.allocated`.
    Allocated,
}

impl HoldingField {
    /// As printed.
    pub fn as_str(self) -> &'static str {
        match self {
            HoldingField::NodeSpec => "spec.podCIDRs",
            HoldingField::Annotation => "annotation network.cilium.io/ipv*-pod-cidr",
            HoldingField::OldAnnotation => "annotation io.cilium.network.ipv*-pod-cidr",
            HoldingField::CiliumNode => "CiliumNode.spec.ipam.podCIDRs",
            HoldingField::Setting => "setting ipv*-range",
            HoldingField::Allocated => "CiliumNode.spec.ipam.pools.allocated",
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
    /// The field that shows it.
    pub field: HoldingField,
    /// Whether the running agent would take it from there.
    pub reading: Reading,
}

/// Whether the running agent takes a block from a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It does.
    Read,
    /// It does not, or it is not known.
    NotRead,
}

impl Node {
    /// What ParseNode (`pkg/k8s/node.go`, 1.9 to 1.20) takes from the Node: spec, or else the
    /// annotations that the agent reads, of which the newer key hides the older one.
    fn read_by_agent(
        &self,
        family: Family,
        reads: AnnotationReads,
    ) -> Option<(Block, HoldingField)> {
        if let Some(block) = self.spec.get(family) {
            return Some((*block, HoldingField::NodeSpec));
        }
        let newer = self
            .annotation
            .get(family)
            .map(|block| (*block, HoldingField::Annotation));
        let older = self
            .old_annotation
            .get(family)
            .map(|block| (*block, HoldingField::OldAnnotation));
        match reads {
            AnnotationReads::Yes(AnnotationKeys::Both) => newer.or(older),
            AnnotationReads::Yes(AnnotationKeys::Older) => older,
            AnnotationReads::GateClosed | AnnotationReads::VersionUnknown => None,
        }
    }

    /// The block that one of the annotation keys shows; `None` for any other key.
    pub fn annotation_at(&self, key: &str) -> Option<Block> {
        let is_older = matches!(key, OLD_ANNOTATION_IPV4 | OLD_ANNOTATION_IPV6);
        let blocks = if is_older {
            &self.old_annotation
        } else {
            &self.annotation
        };
        blocks.get(family_of_annotation(key)?).copied()
    }

    /// The block that the annotations show, whether the agent reads them or not; the newer key
    /// first.
    pub fn annotated(&self, family: Family) -> Option<(Block, HoldingField)> {
        let newer = self
            .annotation
            .get(family)
            .map(|block| (*block, HoldingField::Annotation));
        newer.or(self
            .old_annotation
            .get(family)
            .map(|block| (*block, HoldingField::OldAnnotation)))
    }
}

/// The family whose block an annotation key holds; `None` for any other key.
pub fn family_of_annotation(key: &str) -> Option<Family> {
    match key {
        ANNOTATION_IPV4 | OLD_ANNOTATION_IPV4 => Some(Family::Ipv4),
        ANNOTATION_IPV6 | OLD_ANNOTATION_IPV6 => Some(Family::Ipv6),
        _ => None,
    }
}

/// Every block that one object shows, from what is understood of it, where it is. One that cannot
/// be read shows none.
pub fn blocks_shown(kind: ObservedKind, json: &str, understood: Option<&Understood>) -> Vec<Block> {
    let mut reader = Reader::default();
    match understood {
        Some(understood) => reader.understood(understood),
        None if reader.object(kind, json).is_ok() => {}
        None => return Vec::new(),
    }
    let observed = reader.finish(Timestamp::UNIX_EPOCH);
    let mut blocks: Vec<Block> = observed.shown_blocks().map(|(_, block)| block).collect();
    blocks.extend(observed.ranges_of_nobody());
    blocks.extend(&observed.unattributed);
    blocks.sort();
    blocks.dedup();
    blocks
}

impl Observed {
    /// What a node holds. In ipam `cluster-pool` that is what its CiliumNode shows, and nothing
    /// else is read. Otherwise it is what its agent reads from the Node, or from the setting that
    /// stands in for it; or else what its CiliumNode shows, which is what a running agent uses; or
    /// else what an annotation shows that nobody reads.
    pub fn holds(&self, node: &Node) -> PerFamily<Holding> {
        let reads = self.annotation_reads(node);
        let is_cluster_pool = self.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool);
        let mut held = PerFamily::NONE;
        for family in Family::BOTH {
            if is_cluster_pool {
                let shown = self.cilium_node_shows(&node.name, family);
                *held.get_mut(family) = shown.map(|(block, field)| Holding {
                    block,
                    field,
                    reading: Reading::Read,
                });
                continue;
            }
            let set = self
                .set_range(node, family)
                .map(|block| (block, HoldingField::Setting));
            let read = node
                .read_by_agent(family, reads)
                .map(|found| (set.unwrap_or(found), Reading::Read));
            let unread = || {
                set.or(self.cilium_node_shows(&node.name, family))
                    .or_else(|| node.annotated(family))
            };
            let found = read.or_else(|| unread().map(|found| (found, Reading::NotRead)));
            *held.get_mut(family) = found.map(|((block, field), reading)| Holding {
                block,
                field,
                reading,
            });
        }
        held
    }

    /// The block that the CiliumNode of a node shows.
    pub fn cilium_node_shows(
        &self,
        node: &NodeName,
        family: Family,
    ) -> Option<(Block, HoldingField)> {
        let cilium_node = self.cilium_nodes.get(node)?;
        let block = cilium_node
            .pod_cidrs
            .iter()
            .find(|block| block.family() == family)?;
        Some((*block, HoldingField::CiliumNode))
    }

    /// Every block that any field of any Node or CiliumNode shows, or a setting gives to it, with
    /// its node. A block is taken whichever field shows it, even one that the running Cilium would
    /// not read.
    pub fn shown_blocks(&self) -> impl Iterator<Item = (&NodeName, Block)> {
        let of_nodes = self
            .nodes
            .values()
            .flat_map(|node| node.shown.iter().map(move |block| (&node.name, *block)));
        let of_cilium_nodes = self
            .cilium_nodes
            .values()
            .flat_map(|node| node.pod_cidrs.iter().map(move |block| (&node.name, *block)));
        let allocated = self.cilium_nodes.values().flat_map(|node| {
            let blocks = node.allocated.iter().flat_map(|(_, blocks)| blocks);
            blocks.map(move |block| (&node.name, *block))
        });
        of_nodes
            .chain(of_cilium_nodes)
            .chain(allocated)
            .chain(self.set_ranges())
    }

    /// What the agent of a node could not read, and so what nobody knows about what the node holds.
    /// An annotation does not matter where spec has a block of each family that is in use.
    pub fn unreadable<'n>(&'n self, node: &'n Node) -> Option<&'n str> {
        let is_needed = |family: &Family| {
            self.cilium.use_of(*family) != FamilyUse::Off && node.spec.get(*family).is_none()
        };
        let needs_annotation = node.spec.is_empty() || Family::BOTH.iter().any(is_needed);
        let annotation = node
            .unreadable_annotation
            .as_deref()
            .filter(|_| needs_annotation);
        let cilium_node = self
            .cilium_nodes
            .get(&node.name)
            .and_then(|cilium_node| cilium_node.unreadable.first());
        node.unreadable_spec
            .as_deref()
            .or(annotation)
            .or(cilium_node.map(String::as_str))
    }
}
