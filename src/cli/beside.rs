//! What `watch` and the operator, which no merge starts, would write of a plan that is refused. Must
//! never know forges.

use jiff::Timestamp;

use super::planning::MadePlan;
use super::safety_arguments::SafetyArguments;
use super::{Common, lock};
use crate::render::{Program, Unattended};
use ipam_cluster::{Cluster, LeaseName, LockSeen, Opening};
use ipam_planner::plan::unattended;

/// What they would write, and which of them runs.
pub(super) struct Beside {
    changes: usize,
    running: Option<Running>,
}

/// A program that holds a Lease of ours.
struct Running {
    program: Program,
    holder: String,
}

impl Beside {
    /// `None` if nothing is refused. Reads the Leases of a live cluster; a file has none.
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
            running: running(common).await,
        })
    }

    pub(super) fn shown(&self) -> Unattended<'_> {
        let Beside { changes, running } = self;
        Unattended {
            changes: *changes,
            running: running.as_ref().map(|one| (one.program, &*one.holder)),
        }
    }
}

/// The program that the Leases name, as far as they can be read.
async fn running(common: &Common) -> Option<Running> {
    if common.cluster_file.is_some() {
        return None;
    }
    let cluster = common.target(Opening::Read).await.ok()?;
    for (name, program) in [
        (LeaseName::Leader, Program::Operator),
        (LeaseName::Apply, Program::Watch),
    ] {
        let Ok(LockSeen::Record(record)) = cluster.lock(name).await else {
            continue;
        };
        let is_of_it = name == LeaseName::Leader || record.operation == "watch";
        let now: Timestamp = cluster.now();
        if is_of_it && lock::is_held(&record, now) {
            return Some(Running {
                program,
                holder: record.holder,
            });
        }
    }
    None
}
