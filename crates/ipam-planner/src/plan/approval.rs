//! What a person must approve: changes that depend on unknown rules of a release, and blocks. Blocks
//! are those that only the node's own agent can have written, and
//! that the files would not give the node. Written unattended, they would let a node choose its
//! addresses.

use super::change::{Change, Edit, NodeChange, UnapprovedBlock};
use super::drift;
use super::file_blocks::FileBlocks;
use crate::check;
use ipam_cilium::observed::{Holding, HoldingField, Node, Observed};
use ipam_core::model::PerFamily;
use ipam_core::net::Block;

/// New blocks of the change that need approval. `chosen` are those that the files or the allocator
/// chose.
pub(super) fn unapproved(
    observed: &Observed,
    files: &FileBlocks<'_>,
    node: &Node,
    held: &PerFamily<Holding>,
    change: &NodeChange,
    chosen: &PerFamily<Block>,
) -> Vec<UnapprovedBlock> {
    let new = change.new_blocks();
    let is_new = |holding: &&Holding| {
        let is_chosen = chosen.get(holding.block.family()) == Some(&holding.block);
        !is_chosen && new.contains(&holding.block)
    };
    let unapproved = |holding: &Holding| {
        Some(UnapprovedBlock {
            block: holding.block,
            field: holding.field,
            reason: files.obstacle_to_new(node, holding.block)?,
            author: drift::author(observed, &node.name, holding.field),
        })
    };
    held.iter()
        .filter(|holding| agent_can_write(holding.field))
        .filter(is_new)
        .filter_map(unapproved)
        .collect()
}

/// Whether the node's own agent may write the field.
fn agent_can_write(field: HoldingField) -> bool {
    match field {
        HoldingField::CiliumNode | HoldingField::Annotation | HoldingField::OldAnnotation => true,
        HoldingField::NodeSpec | HoldingField::Setting | HoldingField::Allocated => false,
    }
}

/// Whether the rules of the running release are known. Of operators of several releases, any may
/// lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionRules {
    Known,
    Unknown,
}

impl VersionRules {
    pub fn of(observed: &Observed) -> VersionRules {
        let is_one = observed.operator_releases().len() == 1;
        match is_one && check::are_known(observed) {
            true => VersionRules::Known,
            false => VersionRules::Unknown,
        }
    }

    /// Whether the change needs approval because it depends on the rules of a release. Every release
    /// reads `spec.podCIDRs` in the same way; pairs of ports are not Cilium's.
    pub fn hold_back(self, change: &Change) -> bool {
        let depends = match change {
            Change::Node(change) => !matches!(change.edit, Edit::NodeSpec { .. }),
            Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) => true,
            Change::Port(_) => false,
        };
        self == VersionRules::Unknown && depends
    }
}
