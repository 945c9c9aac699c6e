//! The undo plan that an apply saves: the inverse of each change, without the cluster as it will
//! be when the plan is used.

use std::collections::BTreeSet;

use super::{action, hazard};
use crate::plan::blocked::{Blocked, UndoObstacle};
use crate::plan::change::{
    Change, CiliumNodeObject, Edit, NodeChange, NodeConfigEdit, NodeConfigObject, Reason, Target,
};
use crate::plan::document::{Intent, PlanDocument};
use crate::plan::{Plan, digest, exceeded_limits};
use ipam_cilium::observed::{AgentTrace, Node, ObjectVersion, Observed, range_setting};
use ipam_core::model::{PerFamily, Waiver};
use ipam_core::net::Block;
use ipam_desired::Desired;

/// The write that restores the current values of a node's fields. `None` if the API server would
/// refuse it (`spec.podCIDRs` is write-once), if a value is unreadable, or if a running agent uses
/// the field.
pub(in crate::plan) fn inverse(observed: &Observed, node: &Node, edit: &Edit) -> Option<Edit> {
    match edit {
        Edit::NodeSpec { .. } => None,
        Edit::CiliumNode { object, .. } => inverse_of_cilium_node(observed, node, object),
        Edit::NodeConfig(config) => inverse_of_node_config(observed, config),
        // An unreadable value could not be restored.
        Edit::NodeAnnotations { .. } if node.unreadable_annotation.is_some() => None,
        Edit::NodeAnnotations { values } => {
            let values = values
                .keys()
                .map(|key| (*key, node.annotation_at(key)))
                .collect();
            Some(Edit::NodeAnnotations { values })
        }
    }
}

fn inverse_of_cilium_node(
    observed: &Observed,
    node: &Node,
    object: &CiliumNodeObject,
) -> Option<Edit> {
    match object {
        CiliumNodeObject::New(_) | CiliumNodeObject::Filled => Some(Edit::CiliumNode {
            pod_cidrs: Vec::new(),
            object: CiliumNodeObject::Deleted(ObjectVersion::default()),
        }),
        CiliumNodeObject::Seen(version) => {
            let seen = observed.cilium_nodes.get(&node.name)?;
            let is_in_use = seen.agent == AgentTrace::Started || !seen.unreadable.is_empty();
            (!is_in_use).then(|| Edit::CiliumNode {
                pod_cidrs: seen.pod_cidrs.clone(),
                object: CiliumNodeObject::Seen(version.clone()),
            })
        }
        CiliumNodeObject::Deleted(_) => None,
    }
}

fn inverse_of_node_config(observed: &Observed, config: &NodeConfigEdit) -> Option<Edit> {
    let seen = observed.node_config(&config.name);
    let mut earlier = NodeConfigEdit {
        ranges: PerFamily::NONE,
        removed: BTreeSet::new(),
        object: NodeConfigObject::Seen(ObjectVersion::default()),
        ..config.clone()
    };
    for family in config.ranges.families() {
        match seen.and_then(|seen| seen.defaults.get(range_setting(family))) {
            None => {
                earlier.removed.insert(family);
            }
            Some(text) => {
                let block: Block = text.parse().ok()?;
                if block.family() != family {
                    return None;
                }
                earlier.ranges.offer(block);
            }
        }
    }
    Some(Edit::NodeConfig(Box::new(earlier)))
}

impl PlanDocument {
    /// The plan that undoes these changes, with the waivers that it needs. Changes that cannot be
    /// undone are blocked in it.
    pub fn undoing(
        changes: &[&NodeChange],
        directory: &str,
        desired: &Desired,
        observed: &Observed,
    ) -> PlanDocument {
        let undone = changes.iter().filter_map(|change| {
            let undone = inverted(change, change.undo.clone()?);
            Some(Change::Node(Box::new(undone)))
        });
        let undone: Vec<Change> = undone.collect();
        let blocked = changes
            .iter()
            .filter(|change| change.undo.is_none())
            .map(|change| Blocked {
                target: Target::Node(change.node.clone()),
                reason: UndoObstacle::NodeKeeps(change.edit.write_path(), change.after.clone())
                    .into(),
                origin: None,
            });
        let limits = exceeded_limits(&undone, &desired.policy, observed);
        let plan = Plan {
            waivers: limits.into_iter().map(Waiver::Limit).collect(),
            blocked: blocked.collect(),
            changes: undone,
            desired_digest: digest::of_desired(desired),
            ..Plan::default()
        };
        PlanDocument {
            intent: Intent::Undo,
            ..PlanDocument::new(&plan, directory)
        }
        .sealed()
    }
}

fn inverted(change: &NodeChange, undo: Edit) -> NodeChange {
    let (before, after) = match undo {
        // A setting that is removed lets the node return to the block that it held.
        Edit::NodeConfig(_) => (change.after.clone(), change.before.clone()),
        _ => (
            change.edit.blocks().into_iter().collect(),
            undo.blocks().into_iter().collect(),
        ),
    };
    NodeChange {
        action: action(&undo, &before, &after),
        hazard: hazard(&undo, &after),
        // A document has no use for it: an undo is planned again before it is applied.
        freed: Vec::new(),
        before,
        after,
        undo: Some(change.edit.clone()),
        edit: undo,
        reason: Reason::Undo,
        origin: None,
        needs_approval: Vec::new(),
        ..change.clone()
    }
}
