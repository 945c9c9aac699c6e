//! The undo of pools of Pods that an apply saves, without the cluster as it will be when the undo is
//! used.

use super::super::{PodPoolCause, PodPoolChange, order};
use super::{disturbed, hazard};
use crate::plan::blocked::{Blocked, UndoObstacle};
use crate::plan::change::Change;
use crate::plan::lb::PoolAction;
use ipam_cilium::observed::Observed;

/// The changes that undo these, in the order in which they are sent, and those that would lose
/// fields.
pub(in crate::plan) fn inverted(
    changes: &[&Change],
    observed: &Observed,
) -> (Vec<Change>, Vec<Blocked>) {
    let (mut undone, mut blocked) = (Vec::new(), Vec::new());
    for change in changes {
        let Change::PodPool(change) = change else {
            continue;
        };
        if !change.lost_fields.is_empty() {
            blocked.push(Blocked {
                target: change.object.target(),
                reason: UndoObstacle::LosesFields(change.lost_fields.clone()).into(),
                origin: None,
            });
            continue;
        }
        // Agents may start before the plan is used.
        let disturbed = disturbed(&change.before, &change.after, |nodes| {
            let nodes = observed
                .nodes
                .values()
                .filter(|node| nodes.matches(&node.labels));
            nodes.map(|node| node.name.clone()).collect()
        });
        undone.push(PodPoolChange {
            action: inverse(change.action),
            before: change.after.clone(),
            after: change.before.clone(),
            hazard: hazard(&change.after, &change.before),
            disturbed,
            origin: None,
            cause: PodPoolCause::Undo,
            ..(**change).clone()
        });
    }
    undone.sort_by_key(order);
    (undone.into_iter().map(Change::from).collect(), blocked)
}

fn inverse(action: PoolAction) -> PoolAction {
    match action {
        PoolAction::Create => PoolAction::Delete,
        PoolAction::Delete => PoolAction::Create,
        PoolAction::Update | PoolAction::Restore => PoolAction::Restore,
        PoolAction::Adopt => PoolAction::Disown,
        PoolAction::Disown => PoolAction::Adopt,
    }
}
