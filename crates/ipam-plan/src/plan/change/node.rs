//! One change of one node: the blocks, the write, the reason, and what guards the write.

use std::collections::BTreeSet;
use std::fmt;

use super::{CiliumNodeObject, Edit, NodeConfigObject};
use crate::plan::misplaced::MisplacedReason;
use ipam_cilium::observed::HoldingField;
use ipam_core::alloc::PassedOverPools;
use ipam_core::claims::{ClaimGuard, ClaimRequest};
use ipam_core::model::{Hazard, NodeName, ObjectVersion, Origin, PoolName};
use ipam_core::net::Block;

/// What a change does to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The node gets a block.
    Assign,
    /// The node keeps its block, and it is written to the field that the running Cilium reads.
    Update,
    /// The node loses its block.
    Release,
}

/// Why a node gets this block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A `NodeAssignment` names the block.
    Pinned,
    /// A `NodeAssignment` names it, and the node holds this other block.
    MovedByPin {
        /// The block that the node holds now.
        from: Block,
    },
    /// A `NodeAssignment` names one family, and the pool gives the other.
    PinnedInPart,
    /// The lowest free block of the best pool that could serve the node.
    LowestFree {
        /// Better pools that could not serve the node.
        passed_over: PassedOverPools,
    },
    /// The node holds it already, in a field that the running Cilium does not read.
    HeldElsewhere {
        /// The field that shows the block.
        field: HoldingField,
    },
    /// An undo plan restores the block.
    Undo,
}

/// One change of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// What the change does to the node.
    pub action: Action,
    pub node: NodeName,
    /// The pool that the block belongs to, if any.
    pub pool: Option<PoolName>,
    /// What the written field shows now.
    pub before: Vec<Block>,
    /// Blocks that the written field shows after the change.
    pub after: Vec<Block>,
    /// What is quarantined after the write: blocks of `before`, or the parts of them that were kept
    /// out of the pools.
    pub freed: Vec<Block>,
    /// The write that makes the change.
    pub edit: Edit,
    /// The write that undoes the change; `None` if it cannot be undone.
    pub undo: Option<Edit>,
    /// Why the node gets the block.
    pub reason: Reason,
    /// What the change means for workloads on the node.
    pub hazard: Hazard,
    /// The observed Node; the write must fail if another one has replaced it.
    pub guard: ObjectVersion,
    /// The pin or the pool in the files.
    pub origin: Option<Origin>,
    /// Blocks of `after` that a person must approve.
    pub needs_approval: Vec<UnapprovedBlock>,
}

/// A block that only fields show which the node's own agent can write, and that no pool would give
/// the node. Written unattended, it would let one node choose its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnapprovedBlock {
    pub block: Block,
    /// The field that shows the block.
    pub field: HoldingField,
    /// Why no pool would give the node the block.
    pub reason: MisplacedReason,
    /// Field manager and time of the last write of the field, if the server kept them.
    pub author: Option<(String, String)>,
}

impl fmt::Display for UnapprovedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnapprovedBlock {
            block,
            field,
            reason,
            author,
        } = self;
        write!(f, "{block}, which only {field} shows")?;
        if let Some((manager, time)) = author {
            write!(
                f,
                " (written by {} at {})",
                manager.escape_debug(),
                time.escape_debug()
            )?;
        }
        write!(f, ": {reason}")
    }
}

impl NodeChange {
    /// The change after its object was created without blocks in this version. From then on, this
    /// version guards the write and ends the claim.
    pub fn prepared(&self, version: ObjectVersion) -> NodeChange {
        let mut change = self.clone();
        match &mut change.edit {
            Edit::CiliumNode { object, .. } => *object = CiliumNodeObject::Seen(version),
            Edit::NodeConfig(config) => config.object = NodeConfigObject::Seen(version),
            Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => {}
        }
        change
    }

    /// Blocks that the written field comes to show and does not show yet. The object itself records
    /// the others, under the resourceVersion that guards the write.
    pub fn new_blocks(&self) -> BTreeSet<Block> {
        match (&self.edit, &self.undo) {
            (Edit::NodeAnnotations { values }, Some(Edit::NodeAnnotations { values: shown })) => {
                let is_new =
                    |(key, block): &(&&str, &Option<Block>)| shown.get(**key) != Some(*block);
                values
                    .iter()
                    .filter(is_new)
                    .filter_map(|(_, block)| *block)
                    .collect()
            }
            (Edit::NodeAnnotations { .. }, _) => self.edit.blocks(),
            (Edit::NodeSpec { .. } | Edit::CiliumNode { .. } | Edit::NodeConfig(_), _) => {
                let shown: BTreeSet<Block> = self.before.iter().copied().collect();
                self.edit.blocks().difference(&shown).copied().collect()
            }
        }
    }

    /// What the write asks of the claims.
    pub fn claim_request(&self) -> ClaimRequest<'_> {
        let (uid, guard) = self.claim_guard();
        ClaimRequest {
            node: &self.node,
            node_uid: &self.guard.uid,
            uid,
            guard,
            new_blocks: self.new_blocks(),
            freed: self.freed.clone(),
            written: self.edit.blocks(),
        }
    }

    /// UID and guard of the written object, as the claim names them: they keep the write from
    /// landing late.
    pub fn claim_guard(&self) -> (&str, ClaimGuard) {
        let version =
            |version: &ObjectVersion| ClaimGuard::Version(version.resource_version.clone());
        match &self.edit {
            Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => {
                (&self.guard.uid, version(&self.guard))
            }
            Edit::CiliumNode {
                object: CiliumNodeObject::New(_) | CiliumNodeObject::Filled,
                ..
            } => (&self.guard.uid, ClaimGuard::Creation),
            Edit::CiliumNode {
                object: CiliumNodeObject::Seen(seen) | CiliumNodeObject::Deleted(seen),
                ..
            } => (&seen.uid, version(seen)),
            Edit::NodeConfig(config) => match &config.object {
                NodeConfigObject::New { .. } => (&self.guard.uid, ClaimGuard::Creation),
                NodeConfigObject::Seen(seen) | NodeConfigObject::Deleted(seen) => {
                    (&seen.uid, version(seen))
                }
            },
        }
    }
}

#[cfg(test)]
pub(in crate::plan) mod tests {
    use super::*;

    /// A change of a node in pool `a`, whose new block a person must approve or not.
    pub(in crate::plan) fn update(node: &str, needs_approval: bool) -> NodeChange {
        let block: Block = "10.20.128.0/17".parse().unwrap();
        let version = ObjectVersion {
            uid: "1".to_owned(),
            resource_version: "1".to_owned(),
        };
        let unapproved = UnapprovedBlock {
            block,
            field: HoldingField::CiliumNode,
            reason: MisplacedReason::InNoPool,
            author: Some(("agent".to_owned(), "2026-02-01T10:00:00Z".to_owned())),
        };
        NodeChange {
            action: Action::Update,
            node: node.parse().unwrap(),
            pool: Some("a".parse().unwrap()),
            before: Vec::new(),
            after: vec![block],
            freed: Vec::new(),
            edit: Edit::NodeSpec {
                pod_cidrs: vec![block],
            },
            undo: None,
            reason: Reason::Pinned,
            hazard: Hazard::None,
            guard: version,
            origin: None,
            needs_approval: needs_approval.then_some(unapproved).into_iter().collect(),
        }
    }
}
