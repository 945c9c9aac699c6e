//! The write path: the field that the running Cilium reads, or why no field can be written.
//!
//! Knows which IPAM mode reads which object. Never chooses a block.

mod cilium_node;
mod from_node;
mod node_config;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::blocked::{BlockedReason, WritePathObstacle};
use super::change::Edit;
use crate::allocators::OtherAllocator;
use ipam_cilium::observed::{
    Allocator, FamilyUse, Holding, ModeSeen, Node, Observed, OperatorBlocks, Reading,
};
use ipam_core::model::{IpamMode, NodeName, PerFamily, WritePath, WritePathChoice};
use ipam_core::net::{Block, Family};
use ipam_desired::Policy;

pub use node_config::HOSTNAME_LABEL;
pub use node_config::node_config_name;
pub(super) use node_config::{Moving, moves_nodes};

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
    /// The Node.
    Node(NodeField),
    /// The CiliumNode.
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
    /// It reads them already.
    AlreadyRead,
    /// This write.
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

    /// The CiliumNode with these blocks, which it does not show.
    pub(super) fn cilium_node(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
    ) -> Result<Edit, BlockedReason> {
        match self.path.clone()? {
            ModePath::CiliumNode(wanted) => self.on_cilium_node(node, wanted, blocks),
            ModePath::Node(_) => Err(BlockedReason::WritePath(
                WritePathObstacle::WritePathNotRead(WritePath::CiliumNode, IpamMode::Kubernetes),
            )),
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
            return Err(BlockedReason::FamilyMissing(*family));
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
            return Err(BlockedReason::WritePath(WritePathObstacle::ModeUnknown(
                text.clone(),
            )));
        }
        ModeSeen::NoSettings => return Err(BlockedReason::NoCilium),
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
        (IpamMode::Kubernetes | IpamMode::ClusterPool | IpamMode::MultiPool, Forced(path)) => Err(
            BlockedReason::WritePath(WritePathObstacle::WritePathNotRead(path, mode)),
        ),
        (mode, _) => Err(BlockedReason::WritePath(
            WritePathObstacle::UnsupportedIpamMode(mode),
        )),
    }
}
