//! What `watch` and the operator, which no merge starts, would write of a plan that is refused. Must
//! never know forges.

use super::planning::MadePlan;
use super::safety_arguments::SafetyArguments;
use super::{Common, lock};
use crate::render::Unattended;
use ipam_cluster::{Cluster, LeaseName, LockSeen, Opening};
use ipam_planner::plan::unattended;

/// What they would write, and whether the operator runs.
pub(super) struct Beside {
    changes: usize,
    /// The holder of the operator's Lease.
    operator: Option<String>,
}

impl Beside {
    /// `None` if nothing is refused. Reads the operator's Lease of a live cluster; a file has none.
    pub(super) async fn of(
        made: &MadePlan,
        safety_arguments: &SafetyArguments,
        common: &Common,
    ) -> Option<Beside> {
        let MadePlan {
            plan,
            loaded,
            observed,
            document: _,
        } = made;
        if plan.refusals.is_empty() || plan.changes.is_empty() {
            return None;
        }
        let waivers = safety_arguments.waivers();
        let parted = unattended(plan, &loaded.desired, observed, &waivers);
        Some(Beside {
            changes: parted.applied.len(),
            operator: operator(common).await,
        })
    }

    pub(super) fn shown(&self) -> Unattended<'_> {
        let Beside { changes, operator } = self;
        Unattended {
            changes: *changes,
            operator: operator.as_deref(),
        }
    }
}

/// The operator that leads; `None` if its Lease cannot be read. The other Lease says no more: `watch`
/// and the operator hold it only while they write.
async fn operator(common: &Common) -> Option<String> {
    if common.cluster_file.is_some() {
        return None;
    }
    let cluster = common.target(Opening::Read).await.ok()?;
    match cluster.lock(LeaseName::Leader).await.ok()? {
        LockSeen::Record(record) if lock::is_held(&record, cluster.now()) => Some(record.holder),
        _ => None,
    }
}
