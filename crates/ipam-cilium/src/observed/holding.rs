//! The blocks that a node holds, and the fields that show them.

use jiff::Timestamp;

use super::{
    ANNOTATION_IPV4, ANNOTATION_IPV6, AnnotationKeys, AnnotationReads, FamilyUse, ModeSeen, Node,
    OLD_ANNOTATION_IPV4, OLD_ANNOTATION_IPV6, Observed, ObservedKind, Reader, Understood,
};
use ipam_core::model::{IpamMode, NodeName, PerFamily};
use ipam_core::net::{Block, Family};

ipam_core::text_enum! {
    /// A field that shows a block. The text is printed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum HoldingField {
        /// `Node.spec.podCIDRs`.
        NodeSpec = "spec.podCIDRs",
        /// The annotations that Cilium 1.13 and later read first.
        Annotation = "annotation network.cilium.io/ipv*-pod-cidr",
        /// The annotations that Cilium reads if the newer ones are absent.
        OldAnnotation = "annotation io.cilium.network.ipv*-pod-cidr",
        /// `CiliumNode.spec.ipam.podCIDRs`.
        CiliumNode = "CiliumNode.spec.ipam.podCIDRs",
        /// The setting `ipv4-range` or `ipv6-range`.
        Setting = "setting ipv*-range",
        /// `CiliumNode.spec.ipam.pools.allocated`.
        Allocated = "CiliumNode.spec.ipam.pools.allocated",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub block: Block,
    pub field: HoldingField,
    pub reading: Reading,
}

/// Whether the running agent reads a block from its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Read,
    /// The agent does not read the block, or this is unknown.
    NotRead,
}

impl Node {
    /// Every block that a field of the Node shows, read by an agent or not.
    pub fn blocks_by_field(&self) -> impl Iterator<Item = (HoldingField, Block)> + use<'_> {
        let fields = [
            (HoldingField::NodeSpec, &self.spec),
            (HoldingField::Annotation, &self.annotation),
            (HoldingField::OldAnnotation, &self.old_annotation),
        ];
        fields
            .into_iter()
            .flat_map(|(field, blocks)| blocks.iter().map(move |block| (field, *block)))
    }

    /// What ParseNode (`pkg/k8s/node.go`, 1.9 to 1.20) reads from the Node: spec, or else the
    /// annotations. The newer key hides the older one.
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

    /// The block of one annotation key; `None` for any other key.
    pub fn annotation_at(&self, key: &str) -> Option<Block> {
        let is_older = matches!(key, OLD_ANNOTATION_IPV4 | OLD_ANNOTATION_IPV6);
        let blocks = if is_older {
            &self.old_annotation
        } else {
            &self.annotation
        };
        blocks.get(family_of_annotation(key)?).copied()
    }

    /// The block of the annotations, even if the agent ignores them. The newer key wins.
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

/// The family of an annotation key; `None` for any other key.
pub fn family_of_annotation(key: &str) -> Option<Family> {
    match key {
        ANNOTATION_IPV4 | OLD_ANNOTATION_IPV4 => Some(Family::Ipv4),
        ANNOTATION_IPV6 | OLD_ANNOTATION_IPV6 => Some(Family::Ipv6),
        _ => None,
    }
}

/// Every block that one object shows. `understood` saves parsing it again. An unreadable object
/// shows none.
pub fn blocks_shown(kind: ObservedKind, json: &str, understood: Option<&Understood>) -> Vec<Block> {
    let mut reader = Reader::default();
    match understood {
        Some(understood) => reader.understood(understood),
        None if reader.object(kind, json).is_ok() => {}
        None => return Vec::new(),
    }
    let observed = reader.finish(Timestamp::UNIX_EPOCH);
    let mut blocks: Vec<Block> = observed.shown_blocks().map(|(_, block)| block).collect();
    blocks.extend(observed.unowned_ranges());
    blocks.extend(&observed.unattributed);
    blocks.sort();
    blocks.dedup();
    blocks
}

impl Observed {
    /// The blocks that a node holds.
    ///
    /// In ipam `cluster-pool`, only the CiliumNode counts. Otherwise the first of these that has a
    /// block:
    /// 1. The fields of the Node that its agent reads, or the setting that replaces them.
    /// 2. The CiliumNode, which a running agent uses.
    /// 3. An annotation that the agent ignores.
    pub fn holds(&self, node: &Node) -> PerFamily<Holding> {
        self.holds_with(node, |family| self.set_range(node, family))
    }

    /// The blocks that a node would hold without the `CiliumNodeConfig` of this name.
    pub fn holds_without(&self, node: &Node, config: &str) -> PerFamily<Holding> {
        self.holds_with(node, |family| self.set_range_without(node, family, config))
    }

    fn holds_with(
        &self,
        node: &Node,
        set_range: impl Fn(Family) -> Option<Block>,
    ) -> PerFamily<Holding> {
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
            let set = set_range(family).map(|block| (block, HoldingField::Setting));
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

    /// The block of the node's CiliumNode.
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

    /// Every block in any field of a Node or CiliumNode, or in a setting, with its node. A block
    /// counts as taken even if the running Cilium ignores the field.
    pub fn shown_blocks(&self) -> impl Iterator<Item = (&NodeName, Block)> {
        let of_nodes = self
            .nodes
            .values()
            .flat_map(|node| node.shown.iter().map(move |block| (&node.name, *block)));
        let of_cilium_nodes = self.cilium_nodes.values().flat_map(|node| {
            let blocks = node.pod_cidrs.iter().chain(&node.near);
            blocks.map(move |block| (&node.name, *block))
        });
        let allocated = self.cilium_nodes.values().flat_map(|node| {
            let blocks = node.allocated.iter().flat_map(|(_, blocks)| blocks);
            blocks.map(move |block| (&node.name, *block))
        });
        of_nodes
            .chain(of_cilium_nodes)
            .chain(allocated)
            .chain(self.set_ranges())
    }

    /// The first unreadable field of a node, so that its blocks are unknown. An annotation does not
    /// count if spec has a block of each enabled family.
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
