//! Keeps the claims of one pass: adds claims before a batch is written, and drops them once the
//! writes are applied.
//!
//! It writes nothing but the claims. `ipam_core::claims` decides what a claim means.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::Loaded;
use ipam_cilium::observed::{
    OWN_NAMESPACE, ObjectVersion, Observed, ObservedKind, ReadError, Reader, StoredClaims,
};
use ipam_cluster::{Cluster, ClusterError, ListVisitor, Moment, Write, WriteError};
use ipam_core::claims::{Claims, Conflict, MOST_BYTES};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_plan::plan::{Change, NodeChange, claim_changes, settle_applied};

/// The claims as observed, with the changes of this pass. Each replacement is guarded by the
/// version, so it fails if another process has changed the claims.
pub(super) struct ClaimStore<'l, C> {
    cluster: &'l C,
    quarantine_for: SignedDuration,
    /// Commit of the files, if they were read from Git.
    revision: Option<&'l str>,
    /// The claims as the cluster has them.
    stored: Claims,
    /// The claims with the changes of this pass.
    claims: Claims,
    version: Option<ObjectVersion>,
}

/// How many changes fit into the claims.
#[derive(Default)]
pub(super) struct ClaimCapacity {
    /// The number of changes, from the first one on.
    pub(super) count: usize,
    /// Changes that would fit but must not be written, by index.
    pub(super) conflicts: BTreeMap<usize, Conflict>,
}

/// Quarantines blocks for their nodes. A cluster that went back in time does not show them, but
/// they are in use.
///
/// # Errors
/// Fails if the claims cannot be read or replaced.
pub(super) async fn quarantine_forgotten<C: Cluster>(
    cluster: &C,
    forgotten: &BTreeMap<Block, NodeName>,
    loaded: &Loaded,
) -> Result<(), ClusterError> {
    let mut reader = Reader::default();
    let mut visitor = Objects(&mut reader);
    cluster
        .list(
            ObservedKind::Claims,
            OWN_NAMESPACE,
            &Moment::Latest,
            &mut visitor,
        )
        .await?;
    let StoredClaims {
        mut claims,
        version,
    } = reader.finish(cluster.now()).claims;
    for (block, node) in forgotten {
        claims.quarantine(
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

struct Objects<'r>(&'r mut Reader);

impl ListVisitor for Objects<'_> {
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
        let (quarantine_for, revision) =
            (loaded.desired.policy.quarantine, loaded.revision.as_deref());
        let (stored, version) = (
            observed.claims.claims.clone(),
            observed.claims.version.clone(),
        );
        ClaimStore {
            cluster,
            quarantine_for,
            revision,
            stored,
            claims: observed.claims_to_store(quarantine_for),
            version,
        }
    }

    /// Claims the blocks of as many changes as the object has space for, from the first one on.
    /// Writes nothing if not even one fits.
    pub(super) async fn claim(&mut self, changes: &[Change]) -> Result<ClaimCapacity, WriteError> {
        let now = self.cluster.now();
        let before = self.claims.to_json().len();
        let mut count = changes.len();
        loop {
            let (claims, conflicts) =
                claim_changes(&self.claims, &changes[..count], now, self.quarantine_for);
            let size = claims.to_json().len();
            if size <= MOST_BYTES.max(before) {
                self.replace(claims).await?;
                return Ok(ClaimCapacity { count, conflicts });
            }
            // The average size of these claims gives an estimate of how many fit.
            let fitting = count * MOST_BYTES.saturating_sub(before) / (size - before);
            count = fitting.min(count - 1);
            if count == 0 {
                return Ok(ClaimCapacity::default());
            }
        }
    }

    /// The error for a full object while no write is in flight.
    pub(super) fn full(&self) -> ClusterError {
        ClusterError::ClaimsFull {
            quarantined: self.claims.quarantined.len(),
            claimed: self.claims.in_flight.len(),
        }
    }

    /// Drops the claims of applied changes. The next replacement writes that to the cluster.
    pub(super) fn record_applied<'c>(&mut self, applied: impl Iterator<Item = &'c NodeChange>) {
        self.claims = settle_applied(
            &self.claims,
            applied,
            self.cluster.now(),
            self.quarantine_for,
        );
    }

    /// Writes the dropped claims to the cluster. If that fails, the dead claims stay until the next
    /// apply reads them.
    pub(super) async fn close(mut self) {
        if self.claims != self.stored {
            let _ = self.replace(self.claims.clone()).await;
        }
    }

    /// Replaces the claims. With equal claims this only checks that the version is still current.
    async fn replace(&mut self, claims: Claims) -> Result<(), WriteError> {
        let write = Write::claims(&claims, self.revision, self.version.as_ref());
        self.version = Some(self.cluster.write(&write).await?.version);
        self.stored = claims.clone();
        self.claims = claims;
        Ok(())
    }
}
