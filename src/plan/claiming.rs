//! What changes claim before they are written, and what they free.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::change::Change;
use crate::claims::{Claim, ClaimGuard, Claims, Conflict};
use crate::net::Block;

/// The claims with those of these changes, and the changes, by their place, that must not be written because another node has a
/// block of theirs. `claims` must be those in force; what changes free rests for `rest`, from before the write on, so that a kill in
/// between forgets nothing.
pub fn claim_changes(
    claims: &Claims,
    changes: &[Change],
    now: Timestamp,
    rest: SignedDuration,
) -> (Claims, BTreeMap<usize, Conflict>) {
    let mut claims = claims.clone();
    let mut conflicts = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let blocks = change.edit.blocks();
        // All blocks of a node or none.
        let mut with_change = Vec::new();
        let claimed = blocks.iter().try_for_each(|block| {
            let guard = ClaimGuard::Version(change.guard.resource_version.clone());
            let claim = Claim { node: change.node.clone(), uid: change.guard.uid.clone(), guard };
            let before = claims.in_flight.get(block).cloned();
            claims.claim(*block, claim)?;
            with_change.push((*block, before));
            Ok(())
        });
        if let Err(conflict) = claimed {
            for (block, before) in with_change {
                match before {
                    Some(claim) => claims.in_flight.insert(block, claim),
                    None => claims.in_flight.remove(&block),
                };
            }
            conflicts.insert(index, conflict);
            continue;
        }
        for block in freed(change, &blocks) {
            claims.rest(block, &change.node, now, rest);
        }
    }
    (claims, conflicts)
}

/// The claims when changes were applied: their objects are the record now, and what they freed rests from now on. Nobody else's claim is
/// dropped, nor one of a write whose fate is not known, nor one of an object that was created by name.
pub fn settle_applied<'c>(
    claims: &Claims,
    applied: impl Iterator<Item = &'c Change>,
    now: Timestamp,
    rest: SignedDuration,
) -> Claims {
    let mut claims = claims.clone();
    for change in applied {
        let blocks = change.edit.blocks();
        for block in &blocks {
            let is_ours = |claim: &Claim| {
                let is_guarded = matches!(claim.guard, ClaimGuard::Version(_));
                is_guarded && claim.node == change.node && claim.uid == change.guard.uid
            };
            if claims.in_flight.get(block).is_some_and(is_ours) {
                claims.in_flight.remove(block);
            }
        }
        for block in freed(change, &blocks) {
            claims.rest(block, &change.node, now, rest);
        }
    }
    claims
}

fn freed(change: &Change, kept: &BTreeSet<Block>) -> Vec<Block> {
    change.before.iter().copied().filter(|block| !kept.contains(block)).collect()
}
