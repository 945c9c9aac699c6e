//! Writes the blocks of one node where the running Cilium reads them: an ordinary change of a plan
//! with a pin, claimed before it is written.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::mode::{IPAM_SETTING, remove_setting, set_mode};
use super::observations::Observations;
use super::reserve::{in_force, is_quarantined_for, read_claims, replace_claims};
use super::{MigrationError, RESERVED_FOR, observed};
use crate::prepare::prepare;
use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterError, Workloads, Write, WriteError, Written};
use ipam_core::claims::{ClaimGuard, ClaimRequest, Claims};
use ipam_core::model::{IpamMode, Origin, WritePath, WritePathChoice};
use ipam_core::net::Block;
use ipam_desired::{Desired, Pin};
use ipam_planner::migration::{AssignOutcome, Direction, Method, NodeRecord, NodeSeen};
use ipam_planner::plan::{Change, plan};

/// What assignments of a wave share.
pub(super) struct Assigning<'a> {
    pub(super) desired: &'a Desired,
    /// The claims are one object: two replacements at once would only fail.
    pub(super) turn: &'a tokio::sync::Mutex<()>,
    pub(super) observations: &'a Observations<Observed>,
}

impl Assigning<'_> {
    /// Writes the goal of the record.
    pub(super) async fn assign<C: Workloads>(
        &self,
        cluster: &C,
        record: &NodeRecord,
        seen: &NodeSeen,
    ) -> Result<AssignOutcome, MigrationError> {
        // As it is now: a program without claims, such as Cilium's operator, may have given a block
        // since the schedule.
        let observed = self.observations.after_now(|| observed(cluster)).await?;
        if record.method == Method::NodeConfig
            && record.direction == Direction::Back
            && let Some(outcome) = remove_setting(cluster, &observed, record, seen).await
        {
            return Ok(outcome);
        }
        if record.method == Method::ToMultiPool {
            return self.assign_pool(cluster, &observed, record, seen).await;
        }
        let mode = match (record.method, record.direction) {
            (
                Method::CiliumNode | Method::NodeConfig | Method::NodeObject | Method::ToMultiPool,
                _,
            ) => {
                return self.assign_blocks(cluster, &observed, record).await;
            }
            (Method::ToKubernetes, Direction::Forward) => {
                let outcome = self.assign_blocks(cluster, &observed, record).await?;
                if outcome != AssignOutcome::Shown {
                    return Ok(outcome);
                }
                Some(IpamMode::Kubernetes)
            }
            (Method::ToClusterPool, Direction::Forward) => Some(IpamMode::ClusterPool),
            // The Node keeps its blocks: they can be written only once, and are right.
            (Method::ToKubernetes | Method::ToClusterPool, Direction::Back) => None,
        };
        let settings = mode.map(|mode| [(IPAM_SETTING, mode.as_str())].into());
        set_mode(cluster, &observed, record, seen, settings).await
    }

    async fn assign_blocks<C: Workloads>(
        &self,
        cluster: &C,
        observed: &Observed,
        record: &NodeRecord,
    ) -> Result<AssignOutcome, MigrationError> {
        let change = match self.planned(record, &as_changeable(observed, record)) {
            Ok(change) => change,
            Err(outcome) => return Ok(outcome),
        };
        let mut prepared = prepare(cluster, &[(0, change)], NonZeroUsize::MIN).await;
        if let Some((_, why)) = prepared.refused.pop() {
            return Ok(AssignOutcome::Blocked(why));
        }
        let Some((_, change)) = prepared.ready.pop() else {
            return Ok(AssignOutcome::Again(
                "another program created the object".to_owned(),
            ));
        };
        let Change::Node(change) = &change else {
            return Ok(AssignOutcome::Shown);
        };
        let request = change.claim_request();
        if let Err(outcome) = self.claim(cluster, record, request).await? {
            return Ok(outcome);
        }
        Ok(outcome(cluster.write(&Write::from(&**change)).await))
    }

    /// The change of the node in a plan of the files with this pin.
    fn planned(&self, record: &NodeRecord, observed: &Observed) -> Result<Change, AssignOutcome> {
        let mut desired = self.desired.clone();
        desired.policy.write_path = WritePathChoice::Forced(match record.method {
            Method::CiliumNode | Method::ToClusterPool | Method::ToMultiPool => {
                WritePath::CiliumNode
            }
            Method::NodeConfig => WritePath::NodeConfig,
            Method::NodeObject | Method::ToKubernetes => WritePath::NodeSpec,
        });
        // The schedule was made with the subnets; without them, the plan would wait for them.
        desired.neutron_pools.clear();
        let pin = Pin {
            node: record.node.clone(),
            pool: record.pool.clone(),
            blocks: record.goal().iter().copied().collect(),
            origin: Origin::whole_file(&Arc::from("the record of the migration")),
        };
        desired.pins.insert(record.node.clone(), pin);
        let plan = plan(&desired, observed, Vec::new());
        let target = ipam_planner::plan::Target::Node(record.node.clone());
        if let Some(blocked) = plan.blocked.iter().find(|blocked| blocked.target == target) {
            let why = blocked.reason.to_string();
            // The agent or the operator made the CiliumNode anew since it was looked at.
            let is_back = observed.cilium_nodes.contains_key(&record.node);
            return Err(match (record.method, is_back) {
                (Method::CiliumNode, true) => AssignOutcome::Again(why),
                _ => AssignOutcome::Blocked(why),
            });
        }
        let change = plan
            .changes
            .into_iter()
            .find(|change| change.target() == target);
        change.ok_or(match record.method {
            // It was deleted, so a plan that has nothing to write saw another moment.
            Method::CiliumNode => {
                AssignOutcome::Again("another program wrote the CiliumNode".to_owned())
            }
            _ => AssignOutcome::Shown,
        })
    }

    /// Claims the blocks of a write. Claims of others are kept even if they look dead: the lists
    /// may be older than they are.
    pub(super) async fn claim<C: Workloads>(
        &self,
        cluster: &C,
        record: &NodeRecord,
        request: ClaimRequest<'_>,
    ) -> Result<Result<(), AssignOutcome>, MigrationError> {
        let _turn = self.turn.lock().await;
        let stored = read_claims(cluster).await?;
        // The reservation proves that no other program was given the block since the schedule,
        // however long this one was paused: whoever gives it away replaces the entry.
        let new_blocks = &request.new_blocks;
        let is_reserved = |block: &Block| is_quarantined_for(&stored.claims, *block, &record.node);
        if let Some(block) = new_blocks.iter().find(|block| !is_reserved(block)) {
            let why = format!("{block} is no longer reserved for the node");
            return Ok(Err(AssignOutcome::Blocked(why)));
        }
        // The node's own claims of these blocks, on objects that were replaced since.
        let mut held = in_force(&stored.claims, cluster.now());
        held.in_flight.retain(|block, claim| {
            let is_replaced = claim.node == record.node
                && claim.uid != request.uid
                && matches!(claim.guard, ClaimGuard::Version(_));
            !(is_replaced && new_blocks.contains(block))
        });
        let (claims, conflicts): (Claims, BTreeMap<usize, _>) =
            held.claim_batch(std::slice::from_ref(&request), cluster.now(), RESERVED_FOR);
        if let Some(conflict) = conflicts.values().next() {
            return Ok(Err(AssignOutcome::Blocked(conflict.to_string())));
        }
        match replace_claims(cluster, &stored, &claims).await {
            Ok(()) => Ok(Ok(())),
            Err(WriteError::Superseded(why)) => Ok(Err(AssignOutcome::Again(why))),
            Err(error) => Err(ClusterError::Claims(error).into()),
        }
    }
}

/// The cluster in which a plan may change the node of the record.
fn as_changeable(observed: &Observed, record: &NodeRecord) -> Observed {
    let mut observed = observed.clone();
    observed.migration = None;
    if let Some(node) = observed.nodes.get_mut(&record.node) {
        Arc::make_mut(node).migration = None;
    }
    match record.method {
        // The old agent still shows the old block, which the new Node does not have.
        Method::NodeObject => drop(observed.cilium_nodes.remove(&record.node)),
        Method::ToKubernetes => observed.cilium.mode_override = Some(IpamMode::Kubernetes),
        Method::CiliumNode | Method::NodeConfig | Method::ToClusterPool | Method::ToMultiPool => {}
    }
    observed
}

/// What the answer to a write means for the node.
pub(super) fn outcome(answer: Result<Written, WriteError>) -> AssignOutcome {
    match answer {
        Ok(_) => AssignOutcome::Shown,
        Err(error @ (WriteError::Superseded(_) | WriteError::Busy(_) | WriteError::Unknown(_))) => {
            AssignOutcome::Again(error.to_string())
        }
        Err(error @ (WriteError::Refused(_) | WriteError::Forbidden(_))) => {
            AssignOutcome::Blocked(error.to_string())
        }
    }
}
