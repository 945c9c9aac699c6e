//! The plan: every change with its reason, what must wait and why, and where the cluster went its
//! own way.
//!
//! A plan is complete and deterministic, equal inputs give equal bytes, and it leaves nothing to
//! decide for those who execute it. Nothing here writes.

mod blocked;
mod candidates;
mod change;
mod claiming;
mod decide;
mod describe;
mod digest;
mod document;
mod document_edit;
mod document_findings;
mod document_lb;
mod document_pod_pools;
mod drift;
mod file_blocks;
mod lb;
mod limits;
mod misplaced;
mod node_change;
mod others;
mod overview;
mod pairs;
mod pairs_undo;
mod pins;
mod planned_state;
mod pod_pools;
mod pool_use;
mod staleness;
mod summary;
mod unattended;
mod undo;
mod withheld;
mod write_path;

use std::collections::BTreeSet;

use ipam_core::model::{Finding, Waiver};

pub use blocked::{Blocked, BlockedReason};
pub use change::{
    Action, Change, CiliumNodeObject, Edit, NodeChange, NodeConfigEdit, NodeConfigObject,
    PassedOverPool, Reason, Sequence, Target, UnapprovedBlock, node_changes,
};
pub use claiming::{claim_changes, settle_applied};
pub use decide::{foreign_ranges, plan};
pub use document::{
    ChangeDocument, FORMAT_VERSION, GuardDocument, Intent, OriginDocument, PlanDocument,
    PlanFileError, SourceDocument, Summary,
};
pub use document_edit::EditDocument;
pub use document_findings::{
    BlockedDocument, DriftDocument, FindingDocument, MisplacedDocument, RefusalDocument,
};
pub use document_lb::{LbSummary, LostAddressDocument, ServiceEffectDocument};
pub use document_pod_pools::PodPoolSummary;
pub use drift::{Drift, FieldDrift, PairsDrift};
pub use lb::{
    AddressPoolChange, AddressUser, Effects, LbObstacle, LossTime, LostAddress, PoolAction,
    ServiceAction, ServiceChange, ServiceEffect, effects,
};
pub use limits::{Refusal, exceeded_limits, refusals};
pub use misplaced::{Misplaced, MisplacedReason};
pub use overview::{BlockCounts, Overview, PoolOverview, Progress};
pub use pairs::{PortCause, PortChange};
pub use planned_state::{Newcomers, PlannedState};
pub use pod_pools::{PodPoolChange, PodPoolObject, PodPoolSpec};
pub use pool_use::{PoolUse, pool_use};
pub use staleness::{Staleness, shows, still_wanted};
pub use unattended::{Unattended, unattended};
pub use undo::plan_undo;
pub use write_path::HOSTNAME_LABEL;

/// What would be done, and what would not.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The changes, in the order in which they are sent: of LoadBalancer pools and Services, and
    /// then of nodes by pool and name.
    pub changes: Vec<Change>,
    /// What they do to Services of type LoadBalancer.
    pub effects: Effects,
    /// Limits that it may exceed, and what else it may do.
    pub waivers: BTreeSet<Waiver>,
    /// Why it may not be applied as a whole; what is waived is among them.
    pub refusals: Vec<Refusal>,
    /// What must wait, by name.
    pub blocked: Vec<Blocked>,
    /// Blocks that nodes hold and that the files would not give them today, by reason and pool.
    pub misplaced: Vec<Misplaced>,
    /// Where the cluster differs from what was applied or pinned.
    pub drift: Vec<Drift>,
    /// Results of all checks.
    pub findings: Vec<Finding>,
    /// Objects that are as they should be.
    pub unchanged: Vec<Target>,
    /// SHA-256 over what the files mean, without places and comments.
    pub desired_digest: String,
}
