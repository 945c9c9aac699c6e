//! The plan: every change with its reason, every blocked change, and every drift.
//!
//! A plan is complete and deterministic: equal inputs give equal bytes, and an apply decides
//! nothing. Nothing here writes.

mod allocation;
mod approval;
mod block_source;
mod blocked;
mod candidates;
mod change;
mod claimed_blocks;
mod claiming;
mod decide;
mod digest;
mod document;
mod drift;
mod fell_over;
mod file_blocks;
mod kept_addresses;
mod lb;
mod misplaced;
mod node_planner;
mod overview;
mod owners;
mod pins;
mod pod_pools;
mod pool_use;
mod ports;
mod refusals;
mod rule_cases;
mod rules;
mod schema;
mod selection;
mod staleness;
mod supply;
mod unattended;
mod undo;
mod write_path;

use std::collections::BTreeSet;

use strum::VariantNames;

use ipam_core::model::{Finding, Waiver};

pub use approval::VersionRules;
pub use blocked::{
    Blocked, BlockedReason, NodeConfigObstacle, NodeObstacle, OperatorObstacle, PinObstacle,
    PodPoolObstacle, UndoObstacle, WritePathObstacle,
};
pub use change::{
    Action, Change, CiliumNodeObject, Edit, NodeChange, NodeConfigEdit, NodeConfigObject, Reason,
    Sequence, Target, UnapprovedBlock, node_changes,
};
pub use claiming::{claim_changes, settle_applied};
pub use decide::plan;
pub(crate) use digest::of_text as sha256_hex;
pub use document::{
    BlockedDocument, ChangeDocument, DriftDocument, EditDocument, FORMAT_VERSION, FindingDocument,
    GuardDocument, Intent, LbSummary, Losing, LostAddressDocument, MisplacedDocument,
    OriginDocument, PlanDocument, PlanFileError, PlanOutcome, PodPoolSummary, RefusalDocument,
    SelectionDocument, ServiceEffectDocument, SourceDocument, Summary, UnapprovedBlockDocument,
    Verdict, WriterDocument,
};
pub use drift::{Drift, FieldDrift, PairsDrift};
pub(crate) use file_blocks::pools_of;
pub use lb::{
    AddressPoolChange, AddressUser, Effects, LbObstacle, LossTime, LostAddress, PoolAction,
    ServiceChange, ServiceEffect, effects,
};
pub use misplaced::{Misplaced, MisplacedReason};
pub use overview::{BlockCounts, Overview, PoolOverview, Progress};
pub(crate) use pod_pools::priority_in;
pub use pod_pools::{PodPoolChange, PodPoolObject, PodPoolSpec};
pub use pool_use::{PoolUse, RangeUse, pool_use, range_use};
pub(crate) use ports::blocks_in_use;
pub use ports::{PortChange, without_awaited_pairs};
pub use refusals::{Refusal, exceeded_limits, refusals};
pub use rule_cases::{CaseOutcome, TestedCase, TestedPolicy, test_policy};
pub use selection::{LeftOut, Selected, Selection};
pub use staleness::{BlockedChange, Staleness, shows, still_wanted};
pub use supply::foreign_ranges;
pub use unattended::{Unattended, unattended};
pub use undo::plan_undo;
pub use write_path::HOSTNAME_LABEL;
pub use write_path::node_config_name;

/// The changes of the cluster, and everything that is blocked, misplaced or wrong.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The changes, in the order in which they are sent: LoadBalancer pools and Services; then
    /// nodes, those that need approval first, by pool and name; then ports.
    pub changes: Vec<Change>,
    /// Their effects on Services of type LoadBalancer.
    pub effects: Effects,
    /// Limits and checks that the plan waives.
    pub waivers: BTreeSet<Waiver>,
    /// Why it may not be applied as a whole, waived reasons included.
    pub refusals: Vec<Refusal>,
    /// Blocked changes, by object.
    pub blocked: Vec<Blocked>,
    /// Blocks that nodes hold and that the files would not give them today, by reason and pool.
    pub misplaced: Vec<Misplaced>,
    /// Fields and ports that differ from the pin or the applied value.
    pub drift: Vec<Drift>,
    /// Results of all checks.
    pub findings: Vec<Finding>,
    /// Objects that need no change.
    pub unchanged: Vec<Target>,
    /// SHA-256 over the meaning of the files, without places and comments.
    pub desired_digest: String,
    /// The objects to which it is limited.
    pub selection: Selection,
    /// What the limit leaves out; `None` for a whole plan.
    pub left_out: Option<LeftOut>,
}

/// Every code of a blocked change and of a misplaced block.
pub fn reason_codes() -> BTreeSet<&'static str> {
    blocked::codes()
        .chain(MisplacedReason::VARIANTS.iter().copied())
        .collect()
}
