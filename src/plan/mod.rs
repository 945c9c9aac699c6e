//! The plan: every change with its reason, what must wait and why, and where the cluster went its own way.
//!
//! A plan is complete and deterministic, equal inputs give equal bytes, and it leaves nothing to decide for those who
//! execute it. Nothing here writes.

mod candidates;
mod change;
mod decide;
mod digest;
mod document;
mod drift;
mod node_change;
mod pins;
mod pool_use;
mod staleness;
mod write_path;

use crate::model::{Finding, NodeName};

pub use change::{Action, Blocked, BlockedReason, Change, Drift, Edit, Guard, Hazard, PassedOverPool, Reason};
pub use decide::plan;
pub use document::{
    BlockedDocument, ChangeDocument, DriftDocument, EditDocument, FORMAT_VERSION, FindingDocument, GuardDocument,
    OriginDocument, PlanDocument, PlanFileError, SourceDocument, Summary,
};
pub use pool_use::{PoolUse, pool_use};
pub use staleness::{Staleness, shows, still_wanted};

/// What would be done, and what would not.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The changes, by pool and then by name.
    pub changes: Vec<Change>,
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
