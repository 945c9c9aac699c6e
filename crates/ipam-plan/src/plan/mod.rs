//! The plan: every change with its reason, every blocked change, and every drift.
//!
//! A plan is complete and deterministic: equal inputs give equal bytes, and an apply decides
//! nothing. Nothing here writes.
//!
//! Whether the API server keeps every field of a write.

mod allocation;
mod blocked;
mod candidates;
mod change;
mod decide;
mod digest;
mod document;
mod drift;
mod file_blocks;
mod kept_addresses;
mod lb;
mod misplaced;
mod node_planner;
mod owned;
mod owners;
mod pod_pools;
mod pool_use;
mod ports;
mod refusals;
mod rule_cases;
mod rules;
mod selection;
mod staleness;
mod unattended;
mod undo;
mod write_path;

use std::collections::BTreeSet;

use blocked::NotKept;
use serde_json::{Value, json};
use strum::VariantNames;

use ipam_cilium::observed::{CiliumKind, Observed, range_setting};
use ipam_core::model::{Finding, Origin, Waiver};

pub use blocked::{
    Blocked, BlockedReason, CommonObstacle, NodeConfigObstacle, NodeObstacle, OperatorObstacle,
    PinObstacle, PodPoolObstacle, UndoObstacle, WritePathObstacle,
};
pub use candidates::foreign_ranges;
pub(crate) use candidates::{Candidates, full_pool, supply};
pub use change::{
    Action, Change, ChangeAction, CiliumNodeObject, Edit, NodeChange, NodeConfigEdit,
    NodeConfigObject, Reason, Sequence, Target, TargetKind, UnapprovedBlock, node_changes,
};
pub use decide::plan;
pub use digest::of_text as sha256_hex;
pub use document::{
    BlockedDocument, ChangeDocument, DriftDocument, EditDocument, FORMAT_VERSION, FindingDocument,
    Intent, LbSummary, Losing, LostAddressDocument, MisplacedDocument, OriginDocument,
    PlanDocument, PlanFileError, PlanOutcome, PodPoolSummary, RefusalDocument,
    ServiceEffectDocument, SourceDocument, Summary, UnapprovedBlockDocument, Verdict,
    WriterDocument,
};
pub use drift::{Drift, FieldDrift, PairsDrift};
pub use file_blocks::pools_of;
pub(crate) use lb::at_start;
pub use lb::{
    AddressPoolChange, AddressPoolObject, AddressUser, Effects, LbObstacle, LossTime, LostAddress,
    Outlook, ServiceChange, ServiceEffect, effects,
};
pub use misplaced::{Misplaced, MisplacedReason};
pub use owned::{Owned, OwnedChange, PoolAction};
pub use owners::{claim_changes, settle_applied};
pub use pod_pools::priority_in;
pub use pod_pools::{PodPoolChange, PodPoolObject, PodPoolSpec};
pub(crate) use pool_use::holders;
pub use pool_use::{BlockCounts, PoolUse, RangeUse, nodes_by_pool, pool_use, range_use};
pub use ports::blocks_in_use;
pub use ports::{PortChange, without_awaited_pairs};
pub use refusals::{Refusal, exceeded_limits, refusals};
pub use rule_cases::{CaseOutcome, TestedCase, TestedPolicy, test_policy};
pub use selection::{LeftOut, Selected, Selection};
pub use staleness::{BlockedChange, Staleness, shows, still_wanted};
pub use unattended::{Unattended, VersionRules, unattended};
pub use undo::plan_undo;
pub use write_path::{HOSTNAME_LABEL, node_config_name};

/// The changes of the cluster, and everything that is blocked, misplaced or wrong.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The changes, in the order in which they are sent: LoadBalancer pools and Services; then
    /// nodes, those that need approval first, by pool and name; then ports.
    pub changes: Vec<Change>,
    /// Effects of the changes on Services of type LoadBalancer.
    pub effects: Effects,
    /// Limits and checks that the plan waives.
    pub waivers: BTreeSet<Waiver>,
    /// Why the plan may not be applied as a whole, waived reasons included.
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
    /// The objects to which the plan is limited.
    pub selection: Selection,
    /// What the limit leaves out; `None` for a whole plan.
    pub left_out: Option<LeftOut>,
}

impl Plan {
    /// Records the decision about one object: a change, nothing to do, or a reason to wait.
    fn record(
        &mut self,
        target: Target,
        origin: Option<&Origin>,
        decided: Result<Option<impl Into<Change>>, impl Into<BlockedReason>>,
    ) {
        match decided {
            Ok(Some(change)) => self.changes.push(change.into()),
            Ok(None) => self.unchanged.push(target),
            Err(reason) => self.block(target, origin, reason),
        }
    }

    fn block(&mut self, target: Target, origin: Option<&Origin>, reason: impl Into<BlockedReason>) {
        self.blocked.push(Blocked {
            target,
            reason: reason.into(),
            origin: origin.cloned(),
        });
    }

    /// Appends the decisions about other objects of the same cluster.
    fn append(&mut self, part: Plan) {
        let Plan {
            changes,
            effects: _,
            waivers: _,
            refusals: _,
            blocked,
            misplaced,
            drift,
            findings,
            unchanged,
            desired_digest: _,
            selection: _,
            left_out: _,
        } = part;
        self.changes.extend(changes);
        self.blocked.extend(blocked);
        self.misplaced.extend(misplaced);
        self.drift.extend(drift);
        self.findings.extend(findings);
        self.unchanged.extend(unchanged);
    }
}

/// Every code of a blocked change and of a misplaced block.
pub fn reason_codes() -> BTreeSet<&'static str> {
    blocked::codes()
        .chain(MisplacedReason::VARIANTS.iter().copied())
        .collect()
}

/// Blocks a write in this version, such as `cilium.io/v2`, of which the server would not keep every
/// field. A definition that cannot be read blocks nothing: the server validates each write, too.
pub(super) fn keeps(
    observed: &Observed,
    kind: CiliumKind,
    api: &str,
    object: &Value,
) -> Result<(), BlockedReason> {
    let Some(served) = observed.definitions.of(kind) else {
        return Ok(());
    };
    let version = api.rsplit('/').next().unwrap_or(api);
    let blocked = |fields: Vec<String>| {
        let not_kept = NotKept {
            kind,
            api: api.to_owned(),
            fields,
        };
        Err(CommonObstacle::FieldsNotKept(Box::new(not_kept)).into())
    };
    if !served.serves(version) {
        return blocked(Vec::new());
    }
    let schema = served
        .versions
        .get(version)
        .and_then(|version| version.schema.as_ref());
    match schema.map(|schema| schema.pruned(object)) {
        Some(fields) if !fields.is_empty() => blocked(fields),
        _ => Ok(()),
    }
}

/// Blocks the write of a node of which the server would not keep every field.
pub(super) fn keeps_edit(observed: &Observed, edit: &Edit) -> Result<(), BlockedReason> {
    match edit {
        Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => Ok(()),
        Edit::CiliumNode { pod_cidrs, .. } => {
            let texts: Vec<String> = pod_cidrs.iter().map(ToString::to_string).collect();
            let object = json!({"spec": {"ipam": {"podCIDRs": texts}}});
            keeps(observed, CiliumKind::Node, "cilium.io/v2", &object)
        }
        Edit::NodeConfig(config) => {
            let NodeConfigEdit { api, ranges, .. } = &**config;
            let mut defaults = json!({});
            for block in ranges.iter() {
                defaults[range_setting(block.family())] = json!(block.to_string());
            }
            let object =
                json!({"spec": {"nodeSelector": {"matchLabels": {}}, "defaults": defaults}});
            keeps(observed, CiliumKind::NodeConfig, api.as_str(), &object)
        }
    }
}
