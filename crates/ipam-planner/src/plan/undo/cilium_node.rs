//! Undo of a CiliumNode (ipam `cluster-pool`), which is possible until its agent has started.
//!
//! Cilium's operator releases a block only when the CiliumNode is deleted. From 1.19.3 on, it
//! writes a block back that was removed from one (`operator/pkg/ipam/allocator/podcidr` @ 1.20).
//!
//! An undo deletes a CiliumNode only if it carries our label, shows exactly the blocks of the apply,
//! belongs to the same Node, and shows no trace of its agent. We set the label when we create the
//! object. An agent replaces all labels by those of its Node whenever it writes the object
//! (`pkg/nodediscovery/nodediscovery.go` mutateNodeResource @ 1.20), so the label also proves that
//! no agent has written it.

use std::collections::BTreeSet;

use super::{Step, UndoPlanner};
use crate::plan::blocked::{BlockedReason, UndoObstacle};
use crate::plan::change::{CiliumNodeObject, Edit};
use crate::plan::document::EditDocument;
use ipam_cilium::observed::{
    AgentTrace, Author, BlockAllocator, CiliumNode, FIELD_MANAGER, HoldingField, Node,
    ObjectVersion,
};
use ipam_core::model::PerFamily;
use ipam_core::net::Block;

impl UndoPlanner<'_> {
    /// `None` if the CiliumNode does not show `from`.
    pub(super) fn cilium_node(
        &self,
        node: &Node,
        to: &EditDocument,
        from: &EditDocument,
    ) -> Option<Result<Step, BlockedReason>> {
        let (before, after) = (blocks(from)?, blocks(to)?);
        let seen = self.observed.cilium_nodes.get(&node.name);
        let shown: BTreeSet<Block> = seen
            .into_iter()
            .flat_map(|seen| seen.pod_cidrs.iter().copied())
            .collect();
        let is_of_node = |seen: &CiliumNode| {
            let is_owned = seen.owner.as_ref().is_none_or(|owner| *owner == node.uid);
            is_owned && (before.is_empty() || is_written_by_us(seen))
        };
        if shown != before.iter().copied().collect() || !seen.is_none_or(|seen| is_of_node(seen)) {
            return None;
        }
        let left: BTreeSet<Block> = after.iter().copied().collect();
        let edit = match seen {
            _ if shown == left => return None,
            Some(seen) if shown.is_superset(&left) => self.taken_out(node, seen, to, &after),
            // A replaced block would be a move.
            _ if !left.is_superset(&shown) => return None,
            _ => self.given_back(node, &after)?,
        };
        Some(edit.map(|edit| Step {
            redo: saved(from, &before),
            before,
            after,
            edit,
        }))
    }

    /// The CiliumNode without the blocks of the apply.
    fn taken_out(
        &self,
        node: &Node,
        seen: &CiliumNode,
        to: &EditDocument,
        left: &[Block],
    ) -> Result<Edit, BlockedReason> {
        if seen.agent == AgentTrace::Started {
            return Err(UndoObstacle::AgentStarted(seen.pod_cidrs.clone()).into());
        }
        // The field manager alone proves nothing: every apply of ours has the same one.
        if matches!(to, EditDocument::NoCiliumNode(())) && !seen.is_ours() {
            return Err(UndoObstacle::NotCreatedByUs(seen.pod_cidrs.clone()).into());
        }
        if !seen.version.is_known() {
            return Err(BlockedReason::MissingUid);
        }
        if let Some(text) = seen.unreadable.first() {
            return Err(BlockedReason::PodCidrUnreadable(text.clone()));
        }
        let version = seen.version.clone();
        let object = match to {
            EditDocument::NoCiliumNode(()) => CiliumNodeObject::Deleted(version),
            _ => match self.observed.block_allocator(node) {
                BlockAllocator::External
                | BlockAllocator::SkippedNode
                | BlockAllocator::ScaledToZero => CiliumNodeObject::Seen(version),
                BlockAllocator::Operator | BlockAllocator::Unseen => {
                    return Err(UndoObstacle::OperatorKeeps(seen.pod_cidrs.clone()).into());
                }
            },
        };
        Ok(Edit::CiliumNode {
            pod_cidrs: left.to_vec(),
            object,
        })
    }

    /// `None` with two blocks of one family, which no plan writes.
    fn given_back(&self, node: &Node, after: &[Block]) -> Option<Result<Edit, BlockedReason>> {
        let each: PerFamily<Block> = after.iter().copied().collect();
        (each.iter().count() == after.len()).then(|| self.paths.cilium_node(node, &each))
    }
}

/// Whether we wrote its blocks. A server that keeps no authors, such as a cluster file, does not
/// tell.
fn is_written_by_us(seen: &CiliumNode) -> bool {
    let authors = || {
        let of_blocks = |author: &&Author| author.field == HoldingField::CiliumNode;
        seen.authors.iter().filter(of_blocks)
    };
    authors().next().is_none() || authors().any(|author| author.manager == FIELD_MANAGER)
}

/// A saved edit as the write of a redo plan.
fn saved(edit: &EditDocument, pod_cidrs: &[Block]) -> Edit {
    let object = match edit {
        EditDocument::NoCiliumNode(()) => CiliumNodeObject::Deleted(ObjectVersion::default()),
        EditDocument::CiliumNodeBesideOperator(_) => CiliumNodeObject::Filled,
        _ => CiliumNodeObject::Seen(ObjectVersion::default()),
    };
    Edit::CiliumNode {
        pod_cidrs: pod_cidrs.to_vec(),
        object,
    }
}

/// The blocks of a saved edit of a CiliumNode; `None` for another edit, or a text that is no block.
pub(super) fn blocks(edit: &EditDocument) -> Option<Vec<Block>> {
    match edit {
        EditDocument::NoCiliumNode(()) => Some(Vec::new()),
        EditDocument::CiliumNode(texts) | EditDocument::CiliumNodeBesideOperator(texts) => {
            texts.iter().map(|text| text.parse().ok()).collect()
        }
        EditDocument::NodeSpec(_)
        | EditDocument::PodPool(_)
        | EditDocument::NodeConfig(_)
        | EditDocument::Annotations(_)
        | EditDocument::AddressPairs { .. }
        | EditDocument::AddressPool(_) => None,
    }
}
