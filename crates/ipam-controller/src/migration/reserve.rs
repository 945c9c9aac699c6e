//! Reserves the blocks of a migration for its nodes, and gives them back.
//!
//! A reservation is a quarantine for the node itself: every applier, of any version, keeps such a
//! block for it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::run::Migration;
use super::store::{Stored, stored};
use super::{Host, MigrationError, RESERVED_FOR};
use ipam_cilium::observed::{Observed, ObservedKind, Reader, StoredClaims};
use ipam_cluster::{ClusterError, Target, Workloads, Write, WriteError};
use ipam_core::claims::{ClaimIndex, Claims};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_migrate::migration::{Direction, MigrationRecord, NodeRecord, State};

/// Bytes of claims that leave room for those of other appliers: a ConfigMap holds 1 MiB
/// (`pkg/apis/core/validation` @ 1.36).
const MOST_BYTES: usize = 1_000_000;

/// Attempts to replace the claims while other appliers do the same.
const ATTEMPTS: usize = 20;

/// The stored claims, read now.
pub(super) async fn read_claims<C: Workloads>(cluster: &C) -> Result<StoredClaims, MigrationError> {
    let Some(object) = cluster.object(&Target::Claims).await? else {
        return Ok(StoredClaims::default());
    };
    let mut reader = Reader::default();
    reader.object(ObservedKind::Claims, &object.to_string())?;
    Ok(reader.finish(cluster.now()).claims)
}

/// Replaces the claims, if nothing has changed them since they were read.
pub(super) async fn replace_claims<C: Workloads>(
    cluster: &C,
    stored: &StoredClaims,
    claims: &Claims,
) -> Result<(), WriteError> {
    let write = Write::claims(claims, None, stored.version.as_ref());
    cluster.write(&write).await.map(drop)
}

/// The claims without quarantines that are over.
pub(super) fn in_force(claims: &Claims, now: Timestamp) -> Claims {
    let mut claims = claims.clone();
    claims
        .quarantined
        .retain(|_, quarantined| quarantined.free_at > now);
    claims
}

/// Reserves blocks for nodes. `decided_on` are the live claims on which the schedule was decided,
/// with the version of the stored ones: only these are replaced.
///
/// # Errors
/// Fails if another node has one of the blocks, or another program replaced the claims.
pub(super) async fn reserve<C: Workloads>(
    cluster: &C,
    blocks: &BTreeMap<Block, NodeName>,
    duration: SignedDuration,
    decided_on: &StoredClaims,
) -> Result<(), MigrationError> {
    let mut claims = decided_on.claims.clone();
    let index = ClaimIndex::new(&decided_on.claims);
    for (block, node) in blocks {
        if let Some(other) = index.claimant(*block, node) {
            let why = format!(
                "{block} of node {node} is claimed for, or quarantined after, node {other}"
            );
            return Err(MigrationError::Reserve(why));
        }
        claims.quarantine(*block, node, cluster.now(), duration);
    }
    let bytes = claims.to_json().len();
    if bytes > MOST_BYTES {
        let why = format!(
            "with those of {} blocks the claims would have {bytes} bytes, and a ConfigMap holds 1 MiB: move fewer nodes at once, with --node",
            blocks.len()
        );
        return Err(MigrationError::Reserve(why));
    }
    let replaced = replace_claims(cluster, decided_on, &claims).await;
    Ok(replaced.map_err(ClusterError::Claims)?)
}

/// Replaces the stored claims by what `amend` makes of them, however often others are faster.
async fn amend<C: Workloads>(
    cluster: &C,
    amend: impl Fn(&mut Claims, Timestamp),
) -> Result<(), MigrationError> {
    for _ in 0..ATTEMPTS {
        let stored = read_claims(cluster).await?;
        let mut claims = stored.claims.clone();
        amend(&mut claims, cluster.now());
        match replace_claims(cluster, &stored, &claims).await {
            Ok(()) => return Ok(()),
            Err(WriteError::Superseded(_)) => {}
            Err(error) => return Err(ClusterError::Claims(error).into()),
        }
    }
    Err(MigrationError::Reserve(
        "other appliers replace the claims all the time".to_owned(),
    ))
}

/// Whether the block is reserved for the node, or quarantined after it.
pub(super) fn is_quarantined_for(claims: &Claims, block: Block, node: &NodeName) -> bool {
    let quarantined = claims.quarantined.get(&block);
    quarantined.is_some_and(|quarantined| quarantined.node == *node)
}

/// Renews reservations. A block that another node has got since stays as it is: nothing is written
/// without its reservation.
pub(super) async fn renew<C: Workloads>(
    cluster: &C,
    blocks: &BTreeMap<Block, NodeName>,
    duration: SignedDuration,
) -> Result<(), MigrationError> {
    let renew = |claims: &mut Claims, now: Timestamp| {
        let known = in_force(claims, now);
        for (block, node) in blocks {
            if is_quarantined_for(&known, *block, node) {
                claims.quarantine(*block, node, now, duration);
            }
        }
    };
    amend(cluster, renew).await
}

/// Ends reservations: the nodes hold `kept` blocks, which needs no entry, and `left` ones are
/// quarantined as freed blocks are.
pub(super) async fn release<C: Workloads>(
    cluster: &C,
    kept: &BTreeMap<Block, NodeName>,
    left: &BTreeMap<Block, NodeName>,
    quarantine: SignedDuration,
) -> Result<(), MigrationError> {
    let release = |claims: &mut Claims, now: Timestamp| {
        for (block, node) in kept {
            if is_quarantined_for(claims, *block, node) {
                claims.quarantined.remove(block);
            }
        }
        for (block, node) in left {
            if is_quarantined_for(claims, *block, node) {
                claims.quarantine(*block, node, now, quarantine);
            }
        }
    };
    amend(cluster, release).await
}

/// Every block of these nodes, old and new.
pub(super) fn blocks_of<'r>(
    records: impl Iterator<Item = &'r NodeRecord>,
) -> BTreeMap<Block, NodeName> {
    let blocks = records.flat_map(|one| {
        let both = one.to.iter().chain(&one.from);
        both.map(|block| (*block, one.node.clone()))
    });
    blocks.collect()
}

impl<C: Workloads, H: Host> Migration<'_, C, H> {
    pub(super) async fn renew(&self) -> Result<(), MigrationError> {
        renew(self.cluster, &self.blocks(), RESERVED_FOR).await
    }

    /// Every block of every node, old and new.
    pub(super) fn blocks(&self) -> BTreeMap<Block, NodeName> {
        blocks_of(self.nodes.values().map(|stored| &stored.record))
    }

    /// Ends the reservations of nodes that are all moved, or all back.
    pub(super) async fn end_reservations(
        &self,
        direction: Direction,
    ) -> Result<(), MigrationError> {
        let (mut kept, mut left) = (BTreeMap::new(), BTreeMap::new());
        for stored in self.nodes.values() {
            let NodeRecord { node, from, to, .. } = &stored.record;
            let (held, freed) = match direction {
                Direction::Forward => (to, from),
                Direction::Back => (from, to),
            };
            kept.extend(held.iter().map(|block| (*block, node.clone())));
            left.extend(freed.iter().map(|block| (*block, node.clone())));
        }
        release(self.cluster, &kept, &left, self.desired.policy.quarantine).await
    }

    /// If another program took over and has ended the migration, it did not see what this one
    /// reserved last. Then this one ends the reservations as well.
    pub(super) async fn unless_ended<T>(
        &self,
        result: Result<T, MigrationError>,
    ) -> Result<T, MigrationError> {
        if matches!(result, Err(MigrationError::TakenOver(_))) {
            let main = stored(self.cluster).await?.migration;
            let is_this = |main: &Stored<MigrationRecord>| main.record.id == self.main.record.id;
            match main.filter(is_this).map(|main| main.record.state) {
                Some(State::Done) => self.end_reservations(Direction::Forward).await?,
                Some(State::Undone) => self.end_reservations(Direction::Back).await?,
                Some(State::Running | State::TurningBack | State::Stopped | State::Undoing)
                | None => {}
            }
        }
        result
    }
}

/// The live claims of an observation, which replace the stored ones.
pub(super) fn decided_on(observed: &Observed, desired: &Desired) -> StoredClaims {
    StoredClaims {
        claims: observed.claims_to_store(desired.policy.quarantine),
        version: observed.claims.version.clone(),
    }
}
