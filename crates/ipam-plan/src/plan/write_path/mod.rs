//! The write path: the field that the running Cilium reads, or why no field can be written.
//!
//! Knows which IPAM mode reads which object. Never chooses a block.
//!
//! Ipam `kubernetes`: agents read the Node. Rules: ParseNode (`pkg/k8s/node.go`, Cilium 1.9 to
//! 1.20) prefers `spec.podCIDRs` and reads annotations only for a family that spec leaves empty;
//! the API server accepts `spec.podCIDRs` only while it is empty
//! (`pkg/apis/core/validation/validation.go` ValidateNodeUpdate @ 1.36).
//!
//! Ipam `cluster-pool`: agents read their CiliumNode, which Cilium's operator usually fills. While
//! the operator assigns pod CIDRs itself, a CiliumNode can only be created before its agent creates
//! it.

mod node_config;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::blocked::{BlockedReason, CommonObstacle, OperatorObstacle, WritePathObstacle};
use super::change::{CiliumNodeObject, Edit};
use crate::allocators::OtherAllocator;
use ipam_cilium::observed::{
    ANNOTATION_IPV4, ANNOTATION_IPV6, Allocator, AnnotationKeys, AnnotationReads, BlockAllocator,
    FamilyUse, Holding, ModeSeen, Node, OLD_ANNOTATION_IPV4, OLD_ANNOTATION_IPV6, Observed,
    OperatorBlocks, Reading,
};
use ipam_core::model::{IpamMode, NodeName, PerFamily, WritePath, WritePathChoice};
use ipam_core::net::{Block, Family};
use ipam_desired::Policy;

pub use node_config::{HOSTNAME_LABEL, node_config_name};
pub(super) use node_config::{Moving, moves_nodes, node_config_place};

/// The write path of every node of the cluster.
pub(super) struct Paths<'p> {
    observed: &'p Observed,
    /// Another program that assigns `spec.podCIDRs`.
    rival: Option<&'p Arc<Allocator>>,
    path: Result<ModePath, BlockedReason>,
    primary: Family,
    /// Families that an agent waits for.
    required: Vec<Family>,
    operator_blocks: OnceCell<OperatorBlocks>,
    /// The nodes with each hostname, by name.
    hostnames: OnceCell<BTreeMap<String, Vec<NodeName>>>,
}

/// The object that the running Cilium reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModePath {
    /// A field of the Node.
    Node(NodeField),
    /// `spec.ipam.podCIDRs` of the CiliumNode.
    CiliumNode(Wanted),
}

/// The field of a Node to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeField {
    Spec,
    Annotation,
}

/// Whether the Policy names this path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    ByName,
    Automatically,
}

/// How Cilium comes to read a node's blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Cilium reads the blocks already.
    AlreadyRead,
    /// Cilium reads the blocks after this write.
    Write(Edit),
}

impl<'p> Paths<'p> {
    pub(super) fn new(observed: &'p Observed, policy: &Policy) -> Paths<'p> {
        let is_required = |family: &Family| observed.cilium.use_of(*family) == FamilyUse::Required;
        Paths {
            observed,
            rival: OtherAllocator::of(observed, policy).active(),
            path: mode_path(&observed.cilium.mode(), policy.write_path),
            primary: observed.primary_family.unwrap_or(Family::Ipv4),
            required: Family::BOTH.into_iter().filter(is_required).collect(),
            operator_blocks: OnceCell::new(),
            hostnames: OnceCell::new(),
        }
    }

    /// How the node comes to show `blocks`, which must include every block that it holds of a used
    /// family.
    pub(super) fn route(
        &self,
        node: &Node,
        held: &PerFamily<Holding>,
        blocks: &PerFamily<Block>,
    ) -> Result<Route, BlockedReason> {
        let path = self.path.clone()?;
        let is_read = |block: &Block| {
            held.get(block.family())
                .is_some_and(|holding| holding.reading == Reading::Read)
        };
        let unread: Vec<Block> = blocks
            .iter()
            .filter(|block| !is_read(block))
            .copied()
            .collect();
        if unread.is_empty() {
            return Ok(Route::AlreadyRead);
        }
        let edit = match path {
            ModePath::Node(field) => self.on_node(node, field, blocks, &unread),
            ModePath::CiliumNode(wanted) => self.on_cilium_node(node, wanted, blocks),
        };
        edit.map(Route::Write)
    }

    /// The write of these blocks to the CiliumNode, which does not show them.
    pub(super) fn cilium_node(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
    ) -> Result<Edit, BlockedReason> {
        match self.path.clone()? {
            ModePath::CiliumNode(wanted) => self.on_cilium_node(node, wanted, blocks),
            ModePath::Node(_) => Err(WritePathObstacle::WritePathNotRead(
                WritePath::CiliumNode,
                IpamMode::Kubernetes,
            )
            .into()),
        }
    }

    /// All blocks, the cluster's first family first; each family that an agent waits for must be
    /// among them.
    fn all_families(&self, blocks: &PerFamily<Block>) -> Result<Vec<Block>, BlockedReason> {
        if let Some(family) = self
            .required
            .iter()
            .find(|family| blocks.get(**family).is_none())
        {
            return Err(CommonObstacle::FamilyMissing(*family).into());
        }
        let mut pod_cidrs: Vec<Block> = blocks.iter().copied().collect();
        pod_cidrs.sort_by_key(|block| block.family() != self.primary);
        Ok(pod_cidrs)
    }
}

fn mode_path(mode: &ModeSeen, choice: WritePathChoice) -> Result<ModePath, BlockedReason> {
    use WritePathChoice::{Auto, Forced};
    let mode = match mode {
        ModeSeen::Known(mode) => *mode,
        ModeSeen::Unknown(text) => {
            return Err(WritePathObstacle::ModeUnknown(text.clone()).into());
        }
        ModeSeen::NoSettings => return Err(CommonObstacle::NoCilium.into()),
    };
    match (mode, choice) {
        (IpamMode::Kubernetes, Auto | Forced(WritePath::NodeSpec | WritePath::NodeConfig)) => {
            Ok(ModePath::Node(NodeField::Spec))
        }
        (IpamMode::Kubernetes, Forced(WritePath::NodeAnnotation)) => {
            Ok(ModePath::Node(NodeField::Annotation))
        }
        (IpamMode::ClusterPool, Auto) => Ok(ModePath::CiliumNode(Wanted::Automatically)),
        (IpamMode::ClusterPool, Forced(WritePath::CiliumNode)) => {
            Ok(ModePath::CiliumNode(Wanted::ByName))
        }
        (IpamMode::Kubernetes | IpamMode::ClusterPool | IpamMode::MultiPool, Forced(path)) => {
            Err(WritePathObstacle::WritePathNotRead(path, mode).into())
        }
        (mode, _) => Err(WritePathObstacle::UnsupportedIpamMode(mode).into()),
    }
}

impl Paths<'_> {
    fn on_node(
        &self,
        node: &Node,
        field: NodeField,
        blocks: &PerFamily<Block>,
        unread: &[Block],
    ) -> Result<Edit, BlockedReason> {
        let reads = self.observed.annotation_reads(node);
        if let Some(first) = unread.first().filter(|_| !node.spec.is_empty()) {
            return match reads {
                AnnotationReads::Yes(keys) => Ok(annotate(unread, keys)),
                _ => Err(WritePathObstacle::SpecIsWriteOnce(first.family()).into()),
            };
        }
        // The other allocator would write `spec.podCIDRs`, and then Cilium ignores the annotation.
        if let Some(rival) = self.rival {
            let obstacle = WritePathObstacle::OtherAllocator(rival.clone());
            return Err(obstacle.into());
        }
        match (field, reads) {
            (NodeField::Spec, _) => Ok(Edit::NodeSpec {
                pod_cidrs: self.all_families(blocks)?,
            }),
            (NodeField::Annotation, AnnotationReads::Yes(keys)) => Ok(annotate(unread, keys)),
            (NodeField::Annotation, AnnotationReads::GateClosed) => {
                Err(WritePathObstacle::AnnotationNotRead.into())
            }
            (NodeField::Annotation, AnnotationReads::VersionUnknown) => {
                Err(WritePathObstacle::VersionUnknown.into())
            }
        }
    }
}

fn annotate(blocks: &[Block], keys: AnnotationKeys) -> Edit {
    let mut values = BTreeMap::new();
    for block in blocks {
        let (newer, older) = match block.family() {
            Family::Ipv4 => (ANNOTATION_IPV4, OLD_ANNOTATION_IPV4),
            Family::Ipv6 => (ANNOTATION_IPV6, OLD_ANNOTATION_IPV6),
        };
        values.insert(older, Some(*block));
        if keys == AnnotationKeys::Both {
            values.insert(newer, Some(*block));
        }
    }
    Edit::NodeAnnotations { values }
}

impl Paths<'_> {
    fn on_cilium_node(
        &self,
        node: &Node,
        wanted: Wanted,
        blocks: &PerFamily<Block>,
    ) -> Result<Edit, BlockedReason> {
        let cilium_node = self.observed.cilium_nodes.get(&node.name);
        if cilium_node
            .is_some_and(|seen| seen.owner.as_ref().is_some_and(|owner| *owner != node.uid))
        {
            return Err(WritePathObstacle::StaleOwner(WritePath::CiliumNode).into());
        }
        let mut new = CiliumNodeObject::New(node.attention);
        match self.observed.block_allocator(node) {
            BlockAllocator::External => {}
            BlockAllocator::SkippedNode => self.outside_operators_ranges(blocks)?,
            BlockAllocator::ScaledToZero => self.as_the_operator_would(node, blocks)?,
            BlockAllocator::Unseen => {
                return Err(OperatorObstacle::Unseen.into());
            }
            BlockAllocator::Operator if wanted == Wanted::Automatically => {
                return Err(OperatorObstacle::Gives.into());
            }
            BlockAllocator::Operator => {
                if cilium_node.is_some() {
                    return Err(OperatorObstacle::Gives.into());
                }
                self.as_the_operator_would(node, blocks)?;
                new = CiliumNodeObject::Filled;
            }
        }
        let object = match cilium_node {
            None => new,
            Some(seen) if !seen.version.is_known() => {
                return Err(CommonObstacle::MissingUid.into());
            }
            Some(seen) => CiliumNodeObject::Seen(seen.version.clone()),
        };
        let mut pod_cidrs = self.all_families(blocks)?;
        // The list is written whole. Its other blocks stay, such as those of an unused family.
        let shown = cilium_node
            .into_iter()
            .flat_map(|seen| &seen.pod_cidrs)
            .copied();
        let others: Vec<Block> = shown.filter(|block| !pod_cidrs.contains(block)).collect();
        pod_cidrs.extend(others);
        Ok(Edit::CiliumNode { pod_cidrs, object })
    }

    /// Checks that the operator would keep the blocks when it reads them.
    fn as_the_operator_would(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
    ) -> Result<(), BlockedReason> {
        let known = self
            .operator_blocks
            .get_or_init(|| OperatorBlocks::new(self.observed));
        for block in blocks.iter() {
            if let Some(refusal) = known.refusal(*block, &node.name) {
                return Err(OperatorObstacle::Refuses(Box::new(refusal)).into());
            }
            let Some(mask) = self.observed.operator_mask(block.family()) else {
                return Err(OperatorObstacle::Unseen.into());
            };
            // The operator would treat a larger block as free while a part of it is free. A smaller
            // one would use up a whole block.
            if block.size().prefix_len() != mask {
                return Err(OperatorObstacle::BlockSize(*block, mask).into());
            }
        }
        Ok(())
    }

    /// The operator does not know the blocks of nodes that it skips.
    fn outside_operators_ranges(&self, blocks: &PerFamily<Block>) -> Result<(), BlockedReason> {
        if blocks
            .families()
            .any(|family| self.observed.operator_ranges(family).is_empty())
        {
            return Err(OperatorObstacle::Unseen.into());
        }
        let is_operators = |block: &&Block| {
            self.observed
                .operator_ranges(block.family())
                .iter()
                .any(|range| range.overlaps(**block))
        };
        blocks.iter().find(is_operators).map_or(Ok(()), |block| {
            Err(OperatorObstacle::InsideRanges(*block).into())
        })
    }
}
