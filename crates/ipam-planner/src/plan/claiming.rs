//! What changes claim before they are written, and what they free.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::change::{Change, NodeChange};
use super::others::Claimed;
use ipam_core::claims::{Claim, ClaimGuard, Claims, Conflict};
use ipam_core::net::{Block, overlapping_pairs};

/// The claims with those of these changes, and the changes, by their place, that must not be
/// written because another node has a block of theirs. `claims` must be those in force; what
/// changes free rests for `rest`, from before the write on, so that a kill in between forgets
/// nothing.
pub fn claim_changes(
    claims: &Claims,
    changes: &[Change],
    now: Timestamp,
    rest: SignedDuration,
) -> (Claims, BTreeMap<usize, Conflict>) {
    let conflicts = conflicts(claims, changes);
    let mut claims = claims.clone();
    for (_, change) in nodes(changes).filter(|(index, _)| !conflicts.contains_key(index)) {
        for block in &change.new_blocks() {
            let (uid, guard) = change.claim_guard();
            let is_creation = |claim: &Claim| {
                claim.guard == ClaimGuard::Creation && claim.uid == change.guard.uid
            };
            // That creation may land still.
            if !claims.in_flight.get(block).is_some_and(is_creation) {
                claims.in_flight.insert(
                    *block,
                    Claim {
                        node: change.node.clone(),
                        uid: uid.to_owned(),
                        guard,
                    },
                );
            }
        }
        for block in freed(change, &change.edit.blocks()) {
            claims.rest(block, &change.node, now, rest);
        }
    }
    (claims, conflicts)
}

/// The changes of nodes, with their places.
fn nodes(changes: &[Change]) -> impl Iterator<Item = (usize, &NodeChange)> {
    changes
        .iter()
        .enumerate()
        .filter_map(|(index, change)| Some((index, change.as_node()?)))
}

/// Changes with a block that another node has, or that an earlier change gives to another node. A
/// plan has none of them; but what a plan has is not what uniqueness may rest on.
fn conflicts(claims: &Claims, changes: &[Change]) -> BTreeMap<usize, Conflict> {
    let claimed = Claimed::new(claims);
    let conflict = |(index, change)| Some((index, claimed.conflict(change)?));
    let mut conflicts: BTreeMap<usize, Conflict> = nodes(changes).filter_map(conflict).collect();
    let ranges = |change: &NodeChange| {
        change
            .new_blocks()
            .into_iter()
            .map(Block::range)
            .collect::<Vec<_>>()
    };
    let wanted = nodes(changes)
        .flat_map(|(index, change)| ranges(change).into_iter().map(move |range| (range, index)));
    for (first, second) in overlapping_pairs(wanted) {
        let (first, second) = (first.min(second), first.max(second));
        let (Some(first), Some(change)) = (changes[first].as_node(), changes[second].as_node())
        else {
            continue;
        };
        let holder = &first.node;
        if let Some(block) = change
            .new_blocks()
            .first()
            .filter(|_| *holder != change.node)
        {
            conflicts.insert(
                second,
                Conflict {
                    block: *block,
                    holder: holder.clone(),
                },
            );
        }
    }
    conflicts
}

/// The claims when changes were applied: their objects are the record now, and what they freed
/// rests from now on. Nobody else's claim is dropped, nor one of a write whose fate is not known,
/// nor one of an object that was created by name.
pub fn settle_applied<'c>(
    claims: &Claims,
    applied: impl Iterator<Item = &'c NodeChange>,
    now: Timestamp,
    rest: SignedDuration,
) -> Claims {
    let mut claims = claims.clone();
    for change in applied {
        let blocks = change.edit.blocks();
        for block in &blocks {
            let is_ours = |claim: &Claim| {
                let is_guarded = matches!(claim.guard, ClaimGuard::Version(_));
                is_guarded && claim.node == change.node && claim.uid == change.claim_guard().0
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

fn freed(change: &NodeChange, kept: &BTreeSet<Block>) -> Vec<Block> {
    change
        .before
        .iter()
        .copied()
        .filter(|block| !kept.contains(block))
        .collect()
}
