//! When an undo may give addresses to a pool or take them away, and which pool may be chosen.

use std::collections::BTreeSet;

use super::super::PodPoolSpec;
use super::super::pools::remembers_given;
use super::{Cidrs, Existence, Planned, UndoPlanner, Wanted};
use crate::plan::blocked::{BlockedReason, NodeConfigObstacle, PodPoolObstacle, UndoObstacle};
use crate::plan::change::Target;
use ipam_cilium::observed::{CiliumNode, PodPoolsServed, PodRanges};
use ipam_core::model::{NodeName, PerFamily};
use ipam_core::net::{Block, Family, touching};

impl UndoPlanner<'_> {
    pub(super) fn obstacle_to_choice(
        &self,
        wanted: &Wanted,
        planned: &Planned,
    ) -> Option<BlockedReason> {
        let Some(PodPoolSpec::Choice { pool, .. }) = &wanted.to else {
            // Its nodes may need the choice that is blocked.
            let waits_for = |first: &Target| UndoObstacle::WaitsFor(Box::new(first.clone()));
            return planned.first_blocked().map(|first| waits_for(first).into());
        };
        let exists = match self.pools.get(pool.as_str()) {
            Some(Existence::Exists) => !planned.is_blocked(pool),
            Some(Existence::Deleted) => false,
            None => self.cluster.observed.pod_pools.contains_key(pool),
        };
        let missing = || NodeConfigObstacle::ChosenPoolBlocked(wanted.pool.clone());
        (!exists).then(|| missing().into())
    }

    pub(super) fn obstacle_to_pool(
        &self,
        name: &str,
        wanted: &Wanted,
        planned: &Planned,
    ) -> Option<BlockedReason> {
        let none = PerFamily::NONE;
        let spec = |spec: &Option<PodPoolSpec>| {
            spec.as_ref()
                .and_then(PodPoolSpec::as_pool)
                .cloned()
                .unwrap_or(none.clone())
        };
        let (from, to) = (spec(&wanted.from), spec(&wanted.to));
        if self.cluster.observed.pod_pools_served == PodPoolsServed::No {
            return Some(PodPoolObstacle::NotServed.into());
        }
        self.obstacle_to_more(name, &from, &to)
            .or_else(|| self.obstacle_to_less(name, &from, &to))
            .or_else(|| match wanted.to {
                Some(_) => None,
                None => self
                    .chooser(name, planned)
                    .map(|name| PodPoolObstacle::Chosen(name).into()),
            })
    }

    /// Why the pool may not have the addresses that it gets.
    fn obstacle_to_more(
        &self,
        name: &str,
        from: &PerFamily<PodRanges>,
        to: &PerFamily<PodRanges>,
    ) -> Option<BlockedReason> {
        let resized = from.iter().find(|was| {
            let now = to.get(was.size.family());
            now.is_some_and(|now| now.size != was.size)
        });
        if let Some(was) = resized {
            return Some(PodPoolObstacle::Size(was.size).into());
        }
        let shown = Cidrs::new(Some(from));
        let cidrs = to.iter().flat_map(|ranges| ranges.cidrs.iter().copied());
        let mut given_back = cidrs.filter(|cidr| !shown.have(*cidr)).peekable();
        given_back.peek()?;
        if let Some(unresolved) = self.subnets.unresolved() {
            return Some(BlockedReason::NeutronUnknown(Box::new(unresolved.clone())));
        }
        if let Some(cidr) = given_back.find(|cidr| !touching(&self.taken, &cidr.range()).is_empty())
        {
            return Some(UndoObstacle::CannotBeGivenBack(cidr).into());
        }
        let (block, other) = self.cluster.overlapping(name, to)?;
        Some(PodPoolObstacle::Overlaps(Box::new((block, other.to_owned()))).into())
    }

    /// Why the pool may not lose the addresses that it loses.
    fn obstacle_to_less(
        &self,
        name: &str,
        from: &PerFamily<PodRanges>,
        to: &PerFamily<PodRanges>,
    ) -> Option<BlockedReason> {
        let left = Cidrs::new(Some(to));
        let lost: BTreeSet<Family> = from
            .iter()
            .filter(|was| was.cidrs.iter().any(|cidr| !left.have(*cidr)))
            .map(|was| was.size.family())
            .collect();
        let recut = || self.recut(name, from, to);
        if lost.is_empty() {
            return recut();
        }
        let held = self.cluster.allocated.get(name);
        let mut held = held.into_iter().flatten();
        if let Some((node, block)) = held.find(|(_, block)| !left.have(*block)) {
            return Some(UndoObstacle::PodPoolInUse((*node).clone(), Some(*block)).into());
        }
        let is_deleted = to.is_empty();
        if let Some(node) = self.requesting(name, |family| is_deleted || lost.contains(&family)) {
            return Some(UndoObstacle::PodPoolInUse(node, None).into());
        }
        recut()
    }

    /// Why the pool's CIDRs may not be other ones, even with the same addresses: some operators
    /// forget what a CIDR gave that leaves the list. A pool that gave no block has nothing to
    /// forget.
    fn recut(
        &self,
        name: &str,
        from: &PerFamily<PodRanges>,
        to: &PerFamily<PodRanges>,
    ) -> Option<BlockedReason> {
        let stays = |was: &PodRanges| {
            let now = to.get(was.size.family());
            now.is_some_and(|now| {
                let now: BTreeSet<&Block> = now.cidrs.iter().collect();
                was.cidrs.iter().all(|cidr| now.contains(cidr))
            })
        };
        let gave = self.cluster.allocated.contains_key(name);
        let is_recut = gave && !remembers_given(self.cluster.observed) && !from.iter().all(stays);
        is_recut.then(|| PodPoolObstacle::Recut.into())
    }

    /// The first node that requests more addresses of the pool than it has.
    fn requesting(&self, pool: &str, counts: impl Fn(Family) -> bool) -> Option<NodeName> {
        let lacks = |node: &CiliumNode, family: Family| {
            let requests = node.requested.iter().filter(|(name, _)| name == pool);
            let mut needed = requests.filter_map(|(_, needed)| needed.get(family));
            needed.any(|needed| u128::from(*needed) > width(node, pool, family))
        };
        let families = || Family::BOTH.into_iter().filter(|family| counts(*family));
        let mut nodes = self.requesting.get(pool).into_iter().flatten();
        let asking = nodes.find(|node| families().any(|family| lacks(node, family)));
        asking.map(|node| node.name.clone())
    }

    /// A `CiliumNodeConfig` that will still choose the pool.
    fn chooser(&self, pool: &str, planned: &Planned) -> Option<String> {
        let mut choosing = self.choosing.get(pool).into_iter().flatten();
        let still = choosing.find(|config| planned.still_chooses(&config.name, pool));
        still.map(|config| config.name.clone())
    }
}

/// Number of addresses of the pool that the node has.
fn width(node: &CiliumNode, pool: &str, family: Family) -> u128 {
    let of_pool = node.allocated.iter().filter(|(name, _)| name == pool);
    let blocks = of_pool.flat_map(|(_, blocks)| blocks);
    let of_family = blocks.filter(|block| block.family() == family);
    of_family.fold(0, |sum, block| sum.saturating_add(block.range().width()))
}
