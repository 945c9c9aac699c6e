//! Keeps the claims of one round: replaces them before the writes of a batch, and drops those that
//! the writes have settled.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::Loaded;
use ipam_cilium::observed::{
    KeptClaims, OWN_NAMESPACE, ObjectVersion, Observed, ObservedKind, ReadError, Reader,
};
use ipam_cluster::{Cluster, ClusterError, Listener, Moment, Write, WriteError};
use ipam_core::claims::{Claims, Conflict, MOST_BYTES};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_planner::plan::{Change, NodeChange, claim_changes, settle_applied};

/// The claims as they were when the cluster was observed, and as this round changed them since.
/// That nobody else did is what the version says: every replacement fails otherwise.
pub(super) struct ClaimStore<'l, C> {
    cluster: &'l C,
    rest: SignedDuration,
    /// Of the files.
    revision: Option<&'l str>,
    /// What is kept in the cluster.
    kept: Claims,
    /// What is in force.
    claims: Claims,
    version: Option<ObjectVersion>,
}

/// How many changes could be claimed.
#[derive(Default)]
pub(super) struct Room {
    /// So many, from the first on.
    pub(super) count: usize,
    /// Those of them that must not be written, by place.
    pub(super) conflicts: BTreeMap<usize, Conflict>,
}

/// Quarantines blocks for their nodes, whatever else is claimed: a cluster that went back in time
/// does not show them, and they are in use.
///
/// # Errors
/// The claims cannot be read or replaced.
pub(super) async fn quarantine_forgotten<C: Cluster>(
    cluster: &C,
    forgotten: &BTreeMap<Block, NodeName>,
    loaded: &Loaded,
) -> Result<(), ClusterError> {
    let mut reader = Reader::default();
    let mut listener = Objects(&mut reader);
    cluster
        .list(
            ObservedKind::Claims,
            OWN_NAMESPACE,
            &Moment::Latest,
            &mut listener,
        )
        .await?;
    let KeptClaims {
        mut claims,
        version,
    } = reader.finish(cluster.now()).claims;
    for (block, node) in forgotten {
        claims.rest(
            *block,
            node,
            cluster.now(),
            loaded.desired.policy.quarantine,
        );
    }
    let write = Write::claims(&claims, loaded.revision.as_deref(), version.as_ref());
    cluster
        .write(&write)
        .await
        .map(drop)
        .map_err(ClusterError::Claims)
}

/// Reads claims.
struct Objects<'r>(&'r mut Reader);

impl Listener for Objects<'_> {
    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        self.0.object(ObservedKind::Claims, json)
    }
}

impl<'l, C: Cluster> ClaimStore<'l, C> {
    pub(super) fn new(
        cluster: &'l C,
        observed: &Observed,
        loaded: &'l Loaded,
    ) -> ClaimStore<'l, C> {
        let (rest, revision) = (loaded.desired.policy.quarantine, loaded.revision.as_deref());
        let (kept, version) = (
            observed.claims.claims.clone(),
            observed.claims.version.clone(),
        );
        ClaimStore {
            cluster,
            rest,
            revision,
            kept,
            claims: observed.claims_in_force(rest),
            version,
        }
    }

    /// Claims the blocks of as many of these changes as the object has room for, from the first on.
    /// None is too few to write for.
    pub(super) async fn claim(&mut self, changes: &[Change]) -> Result<Room, WriteError> {
        let now = self.cluster.now();
        let before = self.claims.to_json().len();
        let mut count = changes.len();
        loop {
            let (claims, conflicts) =
                claim_changes(&self.claims, &changes[..count], now, self.rest);
            let size = claims.to_json().len();
            if size <= MOST_BYTES.max(before) {
                self.replace(claims).await?;
                return Ok(Room { count, conflicts });
            }
            // About as many as fit, by what these take.
            let fitting = count * MOST_BYTES.saturating_sub(before) / (size - before);
            count = fitting.min(count - 1);
            if count == 0 {
                return Ok(Room::default());
            }
        }
    }

    /// Why there is no room, though nothing is being written.
    pub(super) fn full(&self) -> ClusterError {
        ClusterError::ClaimsFull {
            quarantined: self.claims.quarantined.len(),
            claimed: self.claims.in_flight.len(),
        }
    }

    /// Changes that were applied need no claim any more; the cluster learns of it with the next
    /// replacement.
    pub(super) fn settle<'c>(&mut self, applied: impl Iterator<Item = &'c NodeChange>) {
        self.claims = settle_applied(&self.claims, applied, self.cluster.now(), self.rest);
    }

    /// Tells the cluster what was settled. When that fails, dead claims stay until somebody reads
    /// them.
    pub(super) async fn close(mut self) {
        if self.claims != self.kept {
            let _ = self.replace(self.claims.clone()).await;
        }
    }

    /// Replaces the claims. By equal ones, too: the server then only says whether they are still at
    /// the version that was read.
    async fn replace(&mut self, claims: Claims) -> Result<(), WriteError> {
        let write = Write::claims(&claims, self.revision, self.version.as_ref());
        self.version = Some(self.cluster.write(&write).await?.version);
        self.kept = claims.clone();
        self.claims = claims;
        Ok(())
    }
}
