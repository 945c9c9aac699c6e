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
//!
//! Undo of the `CiliumNodeConfig` of one node.
//!
//! Undo of pod-CIDR annotations.

use std::collections::{BTreeMap, BTreeSet};

use super::{Step, UndoPlanner};
use crate::plan::blocked::{BlockedReason, CommonObstacle, UndoObstacle};
use crate::plan::change::{CiliumNodeObject, Edit, NodeConfigEdit, NodeConfigObject};
use crate::plan::document::EditDocument;
use crate::plan::write_path::node_config_name;
use ipam_cilium::observed::{
    ANNOTATION_KEYS, AgentTrace, Author, BlockAllocator, CiliumNode, FIELD_MANAGER, HoldingField,
    Node, NodeConfig, ObjectVersion, family_of_annotation, range_setting,
};
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, Family};

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
        // The field manager alone proves nothing: every apply of `cilium-ipam` has the same one.
        if matches!(to, EditDocument::NoCiliumNode(())) && !seen.is_ours() {
            return Err(UndoObstacle::NotCreatedByUs(seen.pod_cidrs.clone()).into());
        }
        if !seen.version.is_known() {
            return Err(CommonObstacle::MissingUid.into());
        }
        if let Some(text) = seen.unreadable.first() {
            return Err(CommonObstacle::PodCidrUnreadable(text.clone()).into());
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

type Settings = BTreeMap<Family, Option<Block>>;

impl UndoPlanner<'_> {
    /// `None` if the object of the node does not show `from`.
    pub(super) fn node_config(
        &self,
        node: &Node,
        to: &BTreeMap<String, Option<String>>,
        from: &BTreeMap<String, Option<String>>,
    ) -> Option<Result<Step, BlockedReason>> {
        let (to, from) = (settings(to)?, settings(from)?);
        let seen = self.observed.node_config(&node_config_name(&node.name));
        if to.keys().ne(from.keys()) || !shows(seen, &from) || shows(seen, &to) {
            return None;
        }
        let is_written = |seen: &NodeConfig| {
            let is_owned = seen.owner.as_ref().is_none_or(|owner| *owner == node.uid);
            seen.is_ours() && is_owned
        };
        if !seen.is_none_or(is_written) {
            return None;
        }
        Some(self.config_edit(node, seen, &to).map(|edit| {
            let redo = NodeConfigEdit {
                ranges: ranges(&from),
                removed: removed(&from),
                object: NodeConfigObject::Seen(ObjectVersion::default()),
                ..edit.clone()
            };
            Step {
                before: self.used(node, &from),
                after: self.used(node, &to),
                edit: Edit::NodeConfig(Box::new(edit)),
                redo: Edit::NodeConfig(Box::new(redo)),
            }
        }))
    }

    /// The blocks that the agent uses with these settings, after it restarts. Without a setting,
    /// the node returns to the block that it held before.
    fn used(&self, node: &Node, settings: &Settings) -> Vec<Block> {
        let others = self
            .observed
            .holds_without(node, &node_config_name(&node.name));
        let of_node = |family: Family| others.get(family).map(|holding| holding.block);
        settings
            .iter()
            .filter_map(|(family, block)| block.or_else(|| of_node(*family)))
            .collect()
    }

    fn config_edit(
        &self,
        node: &Node,
        seen: Option<&NodeConfig>,
        settings: &Settings,
    ) -> Result<NodeConfigEdit, BlockedReason> {
        let mut edit = self.paths.node_config(node, &ranges(settings))?;
        edit.removed = removed(settings);
        // Settings that other writers added are kept.
        let is_removed = |key: &String| {
            let mut keys = edit.removed.iter().map(|family| range_setting(*family));
            keys.any(|removed| removed == key)
        };
        if let Some(seen) = seen
            && edit.ranges.is_empty()
            && seen.defaults.keys().all(is_removed)
        {
            edit.object = NodeConfigObject::Deleted(seen.version.clone());
        }
        Ok(edit)
    }
}

fn ranges(settings: &Settings) -> PerFamily<Block> {
    settings.values().flatten().copied().collect()
}

fn removed(settings: &Settings) -> BTreeSet<Family> {
    let removed = settings.iter().filter(|(_, block)| block.is_none());
    removed.map(|(family, _)| *family).collect()
}

fn shows(seen: Option<&NodeConfig>, settings: &Settings) -> bool {
    let shown = |family: Family| seen.and_then(|seen| seen.defaults.get(range_setting(family)));
    settings
        .iter()
        .all(|(family, block)| shown(*family).map(|text| text.parse().ok()) == block.map(Some))
}

/// The settings of a saved edit; `None` with another key, or a block of another family.
fn settings(saved: &BTreeMap<String, Option<String>>) -> Option<Settings> {
    let entry = |(key, text): (&String, &Option<String>)| {
        let family = Family::BOTH
            .into_iter()
            .find(|family| range_setting(*family) == key)?;
        let Some(text) = text else {
            return Some((family, None));
        };
        let block: Block = text.parse().ok()?;
        (block.family() == family).then_some((family, Some(block)))
    };
    saved.iter().map(entry).collect()
}

type Values = BTreeMap<&'static str, Option<Block>>;

/// `None` if the node does not show `from`.
pub(super) fn step(node: &Node, to: &EditDocument, from: &EditDocument) -> Option<Step> {
    let (to, from) = (values(to)?, values(from)?);
    let shows = |values: &Values| {
        values
            .iter()
            .all(|(key, block)| node.annotation_at(key) == *block)
    };
    if to.keys().ne(from.keys()) || !shows(&from) || shows(&to) {
        return None;
    }
    let mut pairs = to
        .iter()
        .map(|(key, block)| (from.get(key).copied().flatten(), *block));
    if pairs.any(|(from, to)| from.is_some() && to.is_some() && from != to) {
        return None;
    }
    Some(Step {
        before: annotated_blocks(&from),
        after: annotated_blocks(&to),
        edit: Edit::NodeAnnotations { values: to },
        redo: Edit::NodeAnnotations { values: from },
    })
}

pub(super) fn annotated_blocks(values: &Values) -> Vec<Block> {
    let blocks: BTreeSet<Block> = values.values().flatten().copied().collect();
    blocks.into_iter().collect()
}

/// The annotations of a saved edit; `None` with a foreign key, a text that is no block, or a block
/// of another family than the key's.
pub(super) fn values(edit: &EditDocument) -> Option<Values> {
    let EditDocument::Annotations(values) = edit else {
        return None;
    };
    let entry = |(key, text): (&String, &Option<String>)| {
        let key = ANNOTATION_KEYS.into_iter().find(|known| known == key)?;
        let Some(text) = text else {
            return Some((key, None));
        };
        let block: Block = text.parse().ok()?;
        (family_of_annotation(key) == Some(block.family())).then_some((key, Some(block)))
    };
    values.iter().map(entry).collect()
}
