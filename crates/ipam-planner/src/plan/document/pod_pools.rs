//! The part of a plan's JSON that is about pools of Pods.

use serde::{Deserialize, Serialize};

use super::{ChangeDocument, EditDocument, GuardDocument, OriginDocument};
use crate::plan::Plan;
use crate::plan::change::{Change, Target};
use crate::plan::lb::PoolAction;
use crate::plan::pod_pools::{PodPoolChange, PodPoolObject, PodPoolSpec};
use ipam_cilium::observed::Observed;
use ipam_core::model::Hazard;

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
        let count = |wanted: PoolAction| {
            let of = |change: &&Change| matches!(change, Change::PodPool(change) if change.action == wanted);
            plan.changes.iter().filter(of).count()
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

    /// Whether none of them would change.
    pub fn changes_nothing(&self) -> bool {
        self.create + self.update + self.adopt + self.delete == 0
    }
}

impl From<&PodPoolChange> for ChangeDocument {
    fn from(change: &PodPoolChange) -> ChangeDocument {
        let PodPoolChange {
            action,
            object,
            pool,
            before,
            after,
            hazard,
            disturbed: _,
            guard,
            origin,
        } = change;
        let texts =
            |spec: &Option<PodPoolSpec>| spec.as_ref().map(PodPoolSpec::texts).unwrap_or_default();
        let target = object.target();
        ChangeDocument {
            action: action.as_str().to_owned(),
            kind: target.kind().to_owned(),
            name: target.name(),
            write_path: "pod-ip-pool".to_owned(),
            before: texts(before),
            after: texts(after),
            pool: Some(pool.to_string()),
            reason: reason(change),
            hazard: hazard.as_str().to_owned(),
            edit: EditDocument::PodPool(after.as_ref().map(PodPoolSpec::to_json)),
            undo: None,
            guard: GuardDocument {
                uid: guard.uid.clone(),
                resource_version: guard.resource_version.clone(),
            },
            origin: origin.as_ref().map(OriginDocument::from),
            needs_approval: Vec::new(),
        }
    }
}

fn reason(change: &PodPoolChange) -> String {
    let pool = &change.pool;
    let why = match (&change.object, &change.after) {
        (PodPoolObject::Pool(_), Some(_)) => {
            format!("addresses of pool {pool}, without what is reserved or used")
        }
        (PodPoolObject::Choice(..), Some(_)) => {
            format!("makes pool {pool} the default of its nodes")
        }
        (_, None) => format!("no file declares pool {pool}"),
    };
    let when = match (&change.object, change.hazard) {
        (PodPoolObject::Choice(..), Hazard::Disruptive | Hazard::Destructive) => {
            "; takes effect when agents restart"
        }
        _ => "",
    };
    why + when
}

/// Whether the object has the planned spec.
pub(in crate::plan) fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    let EditDocument::PodPool(wanted) = &saved.edit else {
        return false;
    };
    let shown = match saved.kind.as_str() {
        "CiliumPodIPPool" => observed
            .pod_pools
            .get(&saved.name)
            .map(|pool| PodPoolSpec::Pool(pool.ranges.clone()).to_json()),
        _ => observed.node_config(&saved.name).map(|config| {
            let pool = config.default_pool().unwrap_or_default().to_owned();
            PodPoolSpec::Choice {
                nodes: config.nodes.clone(),
                pool,
            }
            .to_json()
        }),
    };
    shown == *wanted
}

/// Whether the observed object no longer exists.
pub(in crate::plan) fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    let version = match saved.kind.as_str() {
        "CiliumPodIPPool" => observed
            .pod_pools
            .get(&saved.name)
            .map(|pool| &pool.version),
        _ => observed
            .node_config(&saved.name)
            .map(|config| &config.version),
    };
    version.is_none_or(|version| version.uid != saved.guard.uid)
}
