//! Writes the blocks of one node where the running Cilium reads them: an ordinary change of a plan
//! with a pin, claimed before it is written. The nodes of a wave share their observations.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::act::{remove_setting, set_mode};
use super::reserve::{in_force, is_quarantined_for, read_claims, replace_claims};
use super::{MigrationError, RESERVED_FOR, observed};
use crate::apply::prepare;
use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterError, Workloads, Write, WriteError, Written};
use ipam_core::claims::{ClaimGuard, ClaimRequest, Claims};
use ipam_core::model::IpamMode;
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_migrate::migration::{AssignOutcome, Direction, Method, NodeRecord, NodeSeen, assignment};
use ipam_plan::plan::Change;

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
        // A fresh observation: since the schedule, a program without claims, such as Cilium's
        // operator, may have given a block to another node.
        let observed = self
            .observations
            .after_now(async || observed(cluster).await);
        let observed = observed.await?;
        if record.method == Method::NodeConfig
            && record.direction == Direction::Back
            && let Some(outcome) = remove_setting(cluster, &observed, record, seen).await
        {
            return Ok(outcome);
        }
        let mode = match (record.method, record.direction) {
            (Method::CiliumNode | Method::NodeConfig | Method::NodeObject, _) => {
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
        set_mode(cluster, &observed, record, seen, mode).await
    }

    async fn assign_blocks<C: Workloads>(
        &self,
        cluster: &C,
        observed: &Observed,
        record: &NodeRecord,
    ) -> Result<AssignOutcome, MigrationError> {
        let change = match assignment(self.desired, observed, record) {
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
        Ok(assign_outcome(cluster.write(&Write::from(&**change)).await))
    }

    /// Claims the blocks of a write. Claims of other processes are kept even if they look
    /// abandoned: the lists may be older than these claims.
    async fn claim<C: Workloads>(
        &self,
        cluster: &C,
        record: &NodeRecord,
        request: ClaimRequest<'_>,
    ) -> Result<Result<(), AssignOutcome>, MigrationError> {
        let _turn = self.turn.lock().await;
        let stored = read_claims(cluster).await?;
        // The reservation proves that no other node got the block since the schedule, however long
        // this process was paused: an assignment to another node replaces the reservation.
        let new_blocks = &request.new_blocks;
        let is_reserved = |block: &Block| is_quarantined_for(&stored.claims, *block, &record.node);
        if let Some(block) = new_blocks.iter().find(|block| !is_reserved(block)) {
            let why = format!("{block} is no longer reserved for the node");
            return Ok(Err(AssignOutcome::Blocked(why)));
        }
        // Drops the node's own claims of these blocks on objects that were replaced since.
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

/// What the answer to a write means for the node.
pub(super) fn assign_outcome(answer: Result<Written, WriteError>) -> AssignOutcome {
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

/// The last observation, which several nodes share.
pub(super) struct Observations<T> {
    /// Number of requests up to now.
    asked: AtomicU64,
    latest: Mutex<Option<Latest<T>>>,
}

struct Latest<T> {
    /// Number of the last request before the observation began.
    serves: u64,
    seen: Arc<T>,
}

impl<T> Observations<T> {
    pub(super) fn new() -> Observations<T> {
        Observations {
            asked: AtomicU64::new(0),
            latest: Mutex::new(None),
        }
    }

    /// An observation that begins after this call. Waiting calls share the next observation.
    ///
    /// # Errors
    /// Fails if the observation fails. Only this call gets the error: waiting calls observe again.
    pub(super) async fn after_now<E, F: Future<Output = Result<T, E>>>(
        &self,
        observe: impl FnOnce() -> F,
    ) -> Result<Arc<T>, E> {
        let request = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut latest = self.latest.lock().await;
        if let Some(Latest { serves, seen }) = &*latest
            && *serves >= request
        {
            return Ok(seen.clone());
        }
        let serves = self.asked.load(Ordering::SeqCst);
        let seen = Arc::new(observe().await?);
        *latest = Some(Latest {
            serves,
            seen: seen.clone(),
        });
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::convert::Infallible;

    /// Nodes that ask at once, of which each is due again as soon as it is served, as nodes of a
    /// wave are.
    #[tokio::test]
    async fn requests_at_once_share_an_observation_that_begins_after_them() {
        let observations = Observations::new();
        let (begun, moment) = (AtomicU64::new(0), AtomicU64::new(0));
        let tick = || moment.fetch_add(1, Ordering::SeqCst);
        let observe = || async {
            begun.fetch_add(1, Ordering::SeqCst);
            let at = tick();
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            Ok::<u64, Infallible>(at)
        };
        let request = async |late: usize| {
            for _ in 0..late {
                tokio::task::yield_now().await;
            }
            let asked = tick();
            let seen = observations.after_now(observe).await.unwrap();
            assert!(*seen > asked, "asked at {asked}, seen at {seen}");
        };
        join_all((0..40).map(|number| request(number % 2))).await;
        let begun = begun.load(Ordering::SeqCst);
        assert!((2..=3).contains(&begun), "{begun} observations");
        request(0).await;
    }
}
