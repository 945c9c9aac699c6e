//! How changes become claims: each change of a node is a request to the claims.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::change::{Change, NodeChange};
use ipam_core::claims::{ClaimRequest, Claims, Conflict};

/// The claims with those of these changes, and the changes, by their index, that must not be
/// written because another node has one of their blocks. `claims` must be those in force; freed
/// blocks are quarantined before the write, so that a kill in between forgets nothing.
pub fn claim_changes(
    claims: &Claims,
    changes: &[Change],
    now: Timestamp,
    quarantine: SignedDuration,
) -> (Claims, BTreeMap<usize, Conflict>) {
    let (places, requests): (Vec<usize>, Vec<ClaimRequest<'_>>) = changes
        .iter()
        .enumerate()
        .filter_map(|(place, change)| Some((place, change.as_node()?.claim_request())))
        .unzip();
    let (claims, conflicts) = claims.claim_batch(&requests, now, quarantine);
    let conflicts = conflicts
        .into_iter()
        .map(|(index, conflict)| (places[index], conflict));
    (claims, conflicts.collect())
}

/// The claims after these changes were applied. Claims of other writes stay, and so do those of a
/// write whose outcome is unknown, and of an object that was created by name.
pub fn settle_applied<'c>(
    claims: &Claims,
    applied: impl Iterator<Item = &'c NodeChange>,
    now: Timestamp,
    quarantine: SignedDuration,
) -> Claims {
    claims.settle(applied.map(NodeChange::claim_request), now, quarantine)
}
