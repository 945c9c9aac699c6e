//! The part of a plan's JSON that is about pools of Pods.

use serde::{Deserialize, Serialize};

use super::{ChangeDocument, EditDocument};
use crate::plan::Plan;
use crate::plan::change::{Change, Target, TargetKind};
use crate::plan::owned::PoolAction;
use crate::plan::pod_pools::PodPoolSpec;
use ipam_cilium::observed::{NodeConfig, Observed, SeenPodPool};

/// Counts of `CiliumPodIPPool`s and of the `CiliumNodeConfig`s that choose among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodPoolSummary {
    /// Objects that are created.
    pub create: usize,
    /// Objects that are changed.
    pub update: usize,
    /// Objects that become ours.
    pub adopt: usize,
    /// Objects that are deleted.
    pub delete: usize,
    /// Objects that need no change.
    pub unchanged: usize,
}

impl PodPoolSummary {
    pub(in crate::plan) fn new(plan: &Plan) -> PodPoolSummary {
        let count = |action: PoolAction| {
            plan.count(|change| matches!(change, Change::PodPool(pool) if pool.action == action))
        };
        let is_of = |target: &&Target| matches!(target, Target::PodPool(_) | Target::NodeConfig(_));
        PodPoolSummary {
            create: count(PoolAction::Create),
            update: count(PoolAction::Update),
            adopt: count(PoolAction::Adopt),
            delete: count(PoolAction::Delete),
            unchanged: plan.unchanged.iter().filter(is_of).count(),
        }
    }

    /// Number of objects that change.
    pub fn changes(&self) -> usize {
        self.create + self.update + self.adopt + self.delete
    }

    /// Whether no pool of Pods changes.
    pub fn changes_nothing(&self) -> bool {
        self.changes() == 0
    }
}

/// Whether the object has the planned spec.
pub(in crate::plan) fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    let EditDocument::PodPool(wanted) = &saved.edit else {
        return false;
    };
    let (shown, is_ours) = match saved.kind {
        TargetKind::PodPool => {
            let seen = observed.pod_pools.get(&saved.name);
            (seen.map(PodPoolSpec::from), seen.map(SeenPodPool::is_ours))
        }
        _ => {
            let seen = observed.node_config(&saved.name);
            (seen.map(PodPoolSpec::from), seen.map(NodeConfig::is_ours))
        }
    };
    shown.as_ref().map(PodPoolSpec::to_json) == *wanted && is_ours.unwrap_or(true)
}

/// Whether the observed object no longer exists. The saved UID is empty if the plan was saved
/// before the object was created.
pub(in crate::plan) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    let version = match saved.kind {
        TargetKind::PodPool => observed
            .pod_pools
            .get(&saved.name)
            .map(|pool| &pool.version),
        _ => observed
            .node_config(&saved.name)
            .map(|config| &config.version),
    };
    let saved = &saved.guard.uid;
    version.is_none_or(|version| !saved.is_empty() && version.uid != *saved)
}
