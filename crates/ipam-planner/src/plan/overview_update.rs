//! What the numbers of a plan become when single nodes change after it.

use std::collections::{BTreeMap, BTreeSet};

use super::Misplaced;
use super::change::Target;
use super::overview::{BlockCounts, Overview, Progress};
use ipam_core::model::{NodeName, PoolName};
use ipam_core::net::Family;

/// What changed in an [`Overview`].
#[derive(Clone, Debug, Default)]
pub struct OverviewUpdate {
    /// Number of observed nodes.
    pub nodes: usize,
    /// The pools that changed.
    pub pools: BTreeMap<PoolName, PoolUpdate>,
    /// The pins of nodes that changed.
    pub pins: BTreeMap<NodeName, Progress>,
    /// Nodes whose change is blocked from now on, with the reason, or no longer.
    pub blocked: BTreeMap<NodeName, Option<String>>,
    /// The misplaced blocks of nodes that changed.
    pub misplaced: Vec<MisplacedUpdate>,
}

/// A pool in new numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolUpdate {
    /// Nodes that have a block of it.
    pub nodes: usize,
    /// Its blocks, by family.
    pub blocks: BTreeMap<Family, BlockCounts>,
}

/// The misplaced blocks of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MisplacedUpdate {
    /// Before the change.
    pub before: Vec<Misplaced>,
    /// After it.
    pub after: Vec<Misplaced>,
}

impl Overview {
    /// Takes over an update that was made from the same plan.
    pub fn update(&mut self, update: &OverviewUpdate) {
        self.nodes = update.nodes;
        for (name, PoolUpdate { nodes, blocks }) in &update.pools {
            if let Some(pool) = self.pools.get_mut(name) {
                pool.nodes = *nodes;
                pool.blocks.clone_from(blocks);
            }
        }
        self.pins.extend(update.pins.clone());
        for (node, reason) in &update.blocked {
            let target = Target::Node(node.clone());
            match reason {
                Some(reason) => self.blocked.insert(target, reason.clone()),
                None => self.blocked.remove(&target),
            };
        }
        for MisplacedUpdate { before, after } in &update.misplaced {
            self.forget_misplaced(before);
            self.add_misplaced(after);
        }
    }

    fn forget_misplaced(&mut self, misplaced: &[Misplaced]) {
        for code in codes(misplaced) {
            let nodes = self.misplaced.entry(code).or_default();
            *nodes = nodes.saturating_sub(1);
        }
        for one in misplaced {
            let pool = one.pool.as_ref().and_then(|name| self.pools.get_mut(name));
            let Some(pool) = pool else { continue };
            let reason = one.reason.to_string();
            let blocks = pool.misplaced.remove(&reason).unwrap_or_default();
            if blocks > 1 {
                pool.misplaced.insert(reason, blocks - 1);
            }
        }
    }

    fn add_misplaced(&mut self, misplaced: &[Misplaced]) {
        for code in codes(misplaced) {
            *self.misplaced.entry(code).or_default() += 1;
        }
        for one in misplaced {
            let pool = one.pool.as_ref().and_then(|name| self.pools.get_mut(name));
            if let Some(pool) = pool {
                *pool.misplaced.entry(one.reason.to_string()).or_default() += 1;
            }
        }
    }
}

/// A node counts once for each reason.
fn codes(misplaced: &[Misplaced]) -> BTreeSet<&'static str> {
    misplaced.iter().map(|one| one.reason.code()).collect()
}
