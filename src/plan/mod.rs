//! The plan: every change with its reason, what must wait and why, and where the cluster went its own way.
//!
//! A plan is complete and deterministic, equal inputs give equal bytes, and it leaves nothing to decide for those who
//! execute it. Nothing here writes.

mod candidates;
mod change;
mod claiming;
mod decide;
mod describe;
mod digest;
mod document;
mod drift;
mod limits;
mod node_change;
mod pins;
mod pool_use;
mod staleness;
mod undo;
mod write_path;

use std::collections::BTreeSet;

use crate::model::{Finding, LimitName, NodeName};

pub use change::{Action, Blocked, BlockedReason, Change, Drift, Edit, Hazard, PassedOverPool, Reason};
pub use claiming::{claim_changes, settle_applied};
pub use decide::plan;
pub use document::{
    BlockedDocument, ChangeDocument, DriftDocument, EditDocument, FORMAT_VERSION, FindingDocument, GuardDocument,
    Intent, OriginDocument, PlanDocument, PlanFileError, RefusalDocument, SourceDocument, Summary,
};
pub use limits::{Refusal, exceeded_limits, refusals};
pub use pool_use::{PoolUse, pool_use};
pub use staleness::{Staleness, shows, still_wanted};
pub use undo::plan_undo;

/// What would be done, and what would not.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The changes, by pool and then by name.
    pub changes: Vec<Change>,
    /// Limits that it may exceed.
    pub waivers: BTreeSet<LimitName>,
    /// Why it may not be applied as a whole; what is waived is among them.
    pub refusals: Vec<Refusal>,
    /// What must wait, by name.
    pub blocked: Vec<Blocked>,
    /// Where the cluster differs from what was applied or pinned.
    pub drift: Vec<Drift>,
    /// Results of all checks.
    pub findings: Vec<Finding>,
    /// Nodes that have what they should have.
    pub unchanged: Vec<NodeName>,
    /// SHA-256 over what the files mean, without places and comments.
    pub desired_digest: String,
}
