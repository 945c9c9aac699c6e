//! The undo plan that an apply saves: the inverse of each change, without the cluster as it will
//! be when the plan is used.

use std::collections::BTreeSet;

use super::{action, hazard};
use crate::plan::blocked::{Blocked, BlockedReason, UndoObstacle};
use crate::plan::change::{
    Change, CiliumNodeObject, Edit, NodeChange, NodeConfigEdit, NodeConfigObject, Reason, Target,
    node_changes,
};
use crate::plan::document::{Intent, PlanDocument};
use crate::plan::lb::{self, Effects};
use crate::plan::{Plan, digest, effects, exceeded_limits, pod_pools, ports};
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
        changes: &[&Change],
        directory: &str,
        desired: &Desired,
        observed: &Observed,
    ) -> PlanDocument {
        let nodes = || node_changes(changes.iter().copied());
        let of_nodes = nodes().filter_map(|change| {
            Some(Change::Node(Box::new(inverted(
                change,
                change.undo.clone()?,
            ))))
        });
        let mut undone = undone_lb(changes);
        let lb_effects = match undone.is_empty() {
            true => Effects::default(),
            false => effects(&undone, &lb::after(changes.iter().copied(), observed)),
        };
        let (of_pod_pools, lossy_pod_pools) = pod_pools::inverted(changes, observed);
        undone.extend(of_pod_pools);
        undone.extend(of_nodes);
        let (of_ports, open_ports) = ports::inverted(changes);
        undone.extend(of_ports);
        let blocked = nodes()
            .filter(|change| change.undo.is_none())
            .map(|change| Blocked {
                target: Target::Node(change.node.clone()),
                reason: BlockedReason::Undo(UndoObstacle::NodeKeeps(
                    change.edit.write_path(),
                    change.after.clone(),
                )),
                origin: None,
            });
        let blocked = blocked.chain(lossy_pod_pools).chain(open_ports);
        let limits = exceeded_limits(&undone, &desired.policy, observed)
            .into_iter()
            .map(Waiver::Limit);
        let plan = Plan {
            waivers: limits
                .chain(lb_waivers(changes, &undone, &lb_effects, observed))
                .collect(),
            blocked: blocked.collect(),
            effects: lb_effects,
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

/// Undoes changes of pools and pins: pins first, then changes that remove addresses, then changes
/// that add them.
fn undone_lb(changes: &[&Change]) -> Vec<Change> {
    let mut undone: Vec<Change> = changes
        .iter()
        .rev()
        .filter_map(|change| lb::inverted(change))
        .collect();
    undone.sort_by_key(|change| match change {
        Change::AddressPool(change) => Some(change.action),
        Change::Service(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
    });
    undone
}

/// Waivers for the addresses that Services lose by an undo: those that the undo moves, and each
/// that the changes gave to a Service.
fn lb_waivers(
    changes: &[&Change],
    undone: &[Change],
    lb_effects: &Effects,
    observed: &Observed,
) -> Vec<Waiver> {
    let given = effects(changes.iter().copied(), observed).given;
    let lost = lb_effects.lost().count() + given;
    let lost = u32::try_from(lost).unwrap_or(u32::MAX);
    let deletes = undone
        .iter()
        .any(|change| matches!(change, Change::AddressPool(pool) if pool.after.is_none()));
    let last = deletes.then_some(Waiver::LastAddressPools);
    (lost > 0)
        .then_some(Waiver::LostAddresses(lost))
        .into_iter()
        .chain(last)
        .collect()
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
