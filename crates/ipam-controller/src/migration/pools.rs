//! Gives one node a block of its pool for ipam `multi-pool`, beside the one that it has, and makes
//! its agent use it; or takes the agent back. It must never choose the block.

use ipam_cilium::observed::{CiliumNode, DEFAULT_POOL_SETTING, ModeSeen, ObjectVersion, Observed};
use ipam_cluster::{Operation, Target, Workloads, Write};
use ipam_core::claims::{ClaimGuard, ClaimRequest};
use ipam_core::model::IpamMode;
use ipam_planner::migration::{AssignOutcome, Direction, NodeRecord, NodeSeen, pod_pool};
use serde_json::json;

use super::MigrationError;
use super::assign::{Assigning, outcome};
use super::mode::{IPAM_SETTING, set_mode};

impl Assigning<'_> {
    /// Makes the agent of the node take addresses of its pool from its next start on, or no longer.
    pub(super) async fn assign_pool<C: Workloads>(
        &self,
        cluster: &C,
        observed: &Observed,
        record: &NodeRecord,
        seen: &NodeSeen,
    ) -> Result<AssignOutcome, MigrationError> {
        // Later on, the operator hands out the blocks, and does not know the old ones.
        if observed.cilium.mode() != ModeSeen::Known(IpamMode::ClusterPool) {
            let why = "cilium-config does not set ipam `cluster-pool`: set it there, and restart Cilium's operator";
            return Ok(AssignOutcome::Blocked(why.to_owned()));
        }
        if record.direction == Direction::Back {
            return set_mode(cluster, observed, record, seen, None).await;
        }
        let shown = self.create_pool(cluster, observed, record).await;
        let shown = match shown {
            AssignOutcome::Shown => self.show_block(cluster, record, seen).await?,
            other => other,
        };
        if shown != AssignOutcome::Shown {
            return Ok(shown);
        }
        let settings = [
            (IPAM_SETTING, IpamMode::MultiPool.as_str()),
            (DEFAULT_POOL_SETTING, record.pool.as_str()),
        ];
        set_mode(cluster, observed, record, seen, Some(settings.into())).await
    }

    async fn create_pool<C: Workloads>(
        &self,
        cluster: &C,
        observed: &Observed,
        record: &NodeRecord,
    ) -> AssignOutcome {
        match pod_pool(self.assignments.desired(), observed, &record.pool) {
            Ok(None) => AssignOutcome::Shown,
            Ok(Some(change)) => outcome(cluster.write(&Write::from(&change)).await),
            Err(why) => AssignOutcome::Blocked(why),
        }
    }

    /// Writes the goal into the CiliumNode. `spec.ipam.podCIDRs` stays: the operator would write it
    /// again, and it keeps the old block for the way back.
    async fn show_block<C: Workloads>(
        &self,
        cluster: &C,
        record: &NodeRecord,
        seen: &NodeSeen,
    ) -> Result<AssignOutcome, MigrationError> {
        let Some(cilium_node) = &seen.cilium_node else {
            return Ok(AssignOutcome::Again("there is no CiliumNode".to_owned()));
        };
        match shows(cilium_node, record) {
            Shows::Goal => return Ok(AssignOutcome::Shown),
            Shows::Nothing => {}
            Shows::Other(pool) => {
                let why = format!(
                    "the CiliumNode shows blocks of pool {} in spec.ipam.pools.allocated: remove them first",
                    pool.escape_debug()
                );
                return Ok(AssignOutcome::Blocked(why));
            }
        }
        let ObjectVersion {
            uid,
            resource_version,
        } = &cilium_node.version;
        let request = ClaimRequest {
            node: &record.node,
            node_uid: &record.uid,
            uid,
            guard: ClaimGuard::Version(resource_version.clone()),
            new_blocks: record.goal().iter().copied().collect(),
            written: record.goal().iter().copied().collect(),
            freed: Vec::new(),
        };
        if let Err(outcome) = self.claim(cluster, record, request).await? {
            return Ok(outcome);
        }
        let cidrs: Vec<String> = record.goal().iter().map(ToString::to_string).collect();
        let allocated = json!([{"pool": record.pool.as_str(), "cidrs": cidrs}]);
        let write = Write {
            target: Target::CiliumNode(record.node.clone()),
            operation: Operation::Patch(json!({
                "metadata": {"uid": uid, "resourceVersion": resource_version},
                "spec": {"ipam": {"pools": {"allocated": allocated}}},
            })),
        };
        Ok(outcome(cluster.write(&write).await))
    }
}

/// What a CiliumNode shows of pools of Pods.
enum Shows<'c> {
    Nothing,
    /// The blocks that the node shall have.
    Goal,
    /// Others, of this pool.
    Other(&'c str),
}

fn shows<'c>(cilium_node: &'c CiliumNode, record: &NodeRecord) -> Shows<'c> {
    let is_goal = |(pool, blocks): &&(String, Vec<_>)| {
        pool == record.pool.as_str() && record.goal().iter().all(|block| blocks.contains(block))
    };
    if cilium_node.allocated.iter().any(|one| is_goal(&one)) {
        return Shows::Goal;
    }
    match cilium_node.allocated.first() {
        Some((pool, _)) => Shows::Other(pool),
        None => Shows::Nothing,
    }
}
