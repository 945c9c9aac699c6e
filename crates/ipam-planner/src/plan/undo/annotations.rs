//! Undo of pod-CIDR annotations. An undo never replaces one block with another.

use std::collections::{BTreeMap, BTreeSet};

use super::Step;
use crate::plan::change::Edit;
use crate::plan::document::EditDocument;
use ipam_cilium::observed::{ANNOTATION_KEYS, Node, family_of_annotation};
use ipam_core::net::Block;

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
        before: blocks(&from),
        after: blocks(&to),
        edit: Edit::NodeAnnotations { values: to },
        redo: Edit::NodeAnnotations { values: from },
    })
}

pub(super) fn blocks(values: &Values) -> Vec<Block> {
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
