//! Undo of the `CiliumNodeConfig` of one node. The agent takes the earlier block when it restarts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Step, UndoPlanner};
use crate::plan::blocked::BlockedReason;
use crate::plan::change::{Edit, NodeConfigEdit, NodeConfigObject};
use crate::plan::write_path::node_config_name;
use ipam_cilium::observed::{Node, NodeConfig, ObjectVersion, range_setting};
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, Family};

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
        // Settings that other writers added stay.
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
