//! The plan of an undo of pools of Pods, object by object, and what depends on what.

use std::collections::BTreeMap;

use super::super::{PodPoolChange, PodPoolObject, PodPoolSpec, order};
use super::is_pool;
use crate::plan::blocked::{Blocked, BlockedReason, PodPoolObstacle};
use crate::plan::change::{Change, Target};
use crate::plan::document::{ChangeDocument, EditDocument};
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, overlapping_pairs};

/// The order in which an undo is planned: each phase depends on those before it only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    LastingPools,
    LastingChoices,
    DeletedChoices,
    DeletedPools,
}

impl Phase {
    pub(super) const ALL: [Phase; 4] = [
        Phase::LastingPools,
        Phase::LastingChoices,
        Phase::DeletedChoices,
        Phase::DeletedPools,
    ];

    pub(super) fn of(document: &ChangeDocument) -> Phase {
        match (is_pool(document), &document.edit) {
            (false, EditDocument::PodPool(None)) => Phase::DeletedChoices,
            (false, _) => Phase::LastingChoices,
            (true, EditDocument::PodPool(None)) => Phase::DeletedPools,
            (true, _) => Phase::LastingPools,
        }
    }
}

/// The changes and the blocked objects so far.
#[derive(Default)]
pub(super) struct Planned {
    changes: Vec<PodPoolChange>,
    blocked: BTreeMap<Target, BlockedReason>,
    /// The pool that each changed `CiliumNodeConfig` will choose; `None` if it chooses none.
    choices: BTreeMap<String, Option<String>>,
}

impl Planned {
    pub(super) fn add(&mut self, outcome: Result<PodPoolChange, (Target, BlockedReason)>) {
        match outcome {
            Ok(change) => {
                if let PodPoolObject::Choice(_, _, name) = &change.object {
                    self.choices.insert(name.clone(), chosen(&change));
                }
                self.changes.push(change);
            }
            Err((target, reason)) => {
                self.blocked.insert(target, reason);
            }
        }
    }

    pub(super) fn first_blocked(&self) -> Option<&Target> {
        self.blocked.keys().next()
    }

    pub(super) fn is_blocked(&self, pool: &str) -> bool {
        self.blocked.contains_key(&Target::PodPool(pool.to_owned()))
    }

    /// Whether a `CiliumNodeConfig` that chooses the pool now still does so after the undo.
    pub(super) fn still_chooses(&self, config: &str, pool: &str) -> bool {
        let after = self.choices.get(config);
        after.is_none_or(|after| after.as_deref() == Some(pool))
    }

    /// Blocks pools that would get addresses which another change of the same undo gives to its
    /// pool. No apply leaves such an undo, and Cilium does not compare pools.
    pub(super) fn refuse_overlapping(&mut self) {
        let refused = overlapping_each_other(&self.changes);
        let mut index = 0;
        self.changes.retain(|change| {
            let obstacle = refused.get(&index);
            index += 1;
            if let Some(obstacle) = obstacle {
                let reason = obstacle.clone().into();
                self.blocked.insert(change.object.target(), reason);
            }
            obstacle.is_none()
        });
    }

    pub(super) fn finish(self) -> (Vec<Change>, Vec<Blocked>) {
        let mut changes = self.changes;
        changes.sort_by_key(order);
        let blocked = self.blocked.into_iter().map(|(target, reason)| Blocked {
            target,
            reason,
            origin: None,
        });
        let changes = changes.into_iter().map(Change::from);
        (changes.collect(), blocked.collect())
    }
}

fn chosen(change: &PodPoolChange) -> Option<String> {
    match &change.after {
        Some(PodPoolSpec::Choice { pool, .. }) => Some(pool.clone()),
        Some(PodPoolSpec::Pool(_)) | None => None,
    }
}

/// Why pools must not get addresses, by the index of their change.
fn overlapping_each_other(changes: &[PodPoolChange]) -> BTreeMap<usize, PodPoolObstacle> {
    let cidrs = changes.iter().enumerate().flat_map(|(index, change)| {
        let pool = change.after.as_ref().and_then(PodPoolSpec::as_pool);
        let ranges = pool.into_iter().flat_map(PerFamily::iter);
        ranges
            .flat_map(|ranges| ranges.cidrs.iter().copied())
            .map(move |cidr| (cidr, index))
    });
    let cidrs: Vec<(Block, usize)> = cidrs.collect();
    let places = cidrs.iter().enumerate();
    let pairs = overlapping_pairs(places.map(|(place, (cidr, _))| (cidr.range(), place)));
    let mut refused = BTreeMap::new();
    for (one, other) in pairs {
        let (one, other) = (cidrs[one], cidrs[other]);
        if one.1 == other.1 {
            continue;
        }
        for (cidr, index, rival) in [(one.0, one.1, other.1), (other.0, other.1, one.1)] {
            let name = changes[rival].pool.to_string();
            let obstacle = PodPoolObstacle::Overlaps(Box::new((cidr, name)));
            refused.entry(index).or_insert(obstacle);
        }
    }
    refused
}
