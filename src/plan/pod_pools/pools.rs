//! Which `CiliumPodIPPool`s change, and how.

use super::super::decide::foreign_ranges;
use super::super::lb::PoolAction;
use super::{PodPoolChange, PodPoolObject, PodPoolPlan, PodPoolSpec};
use crate::desired::{Desired, Pool, PoolState};
use crate::model::{OWNER_LABEL, ObjectVersion, PerFamily, PoolName};
use crate::net::{Block, Range, merge};
use crate::observed::{FamilyUse, Observed, ObservedKind, PodPoolsServed, PodRanges, SeenPodPool};
use crate::plan::blocked::BlockedReason;
use crate::plan::change::{Hazard, Target};

pub(super) fn decide(desired: &Desired, observed: &Observed, plan: &mut PodPoolPlan) {
    let reserved = desired.pools.values().flat_map(|pool| pool.reserved.iter().copied());
    let taken = merge(foreign_ranges(desired, observed).into_iter().chain(reserved));
    for pool in desired.pools.values() {
        let target = Target::PodPool(pool.name.to_string());
        match wanted(pool, &taken, desired, observed) {
            Ok(Some(change)) => plan.changes.push(change),
            Ok(None) => plan.unchanged.push(target),
            Err(reason) => {
                plan.blocked.push(super::Blocked { target, reason, origin: Some(pool.origin.clone()) });
            }
        }
    }
    for (name, seen) in observed.pod_pools.iter().filter(|(_, seen)| seen.is_ours()) {
        let Ok(pool) = name.parse::<PoolName>() else { continue };
        if desired.pools.contains_key(&pool) {
            continue;
        }
        match deletion(&pool, seen, observed) {
            Ok(change) => plan.changes.push(change),
            Err(reason) => {
                plan.blocked.push(super::Blocked { target: Target::PodPool(name.clone()), reason, origin: None });
            }
        }
    }
}

fn wanted(
    pool: &Pool,
    taken: &[Range],
    desired: &Desired,
    observed: &Observed,
) -> Result<Option<PodPoolChange>, BlockedReason> {
    if let Some(spot) = observed.blind_spot(ObservedKind::PodIpPool) {
        return Err(BlockedReason::PodPoolsHidden(spot.why.clone()));
    }
    if observed.pod_pools_served == PodPoolsServed::No {
        return Err(BlockedReason::PodPoolsNotServed);
    }
    if pool.state == PoolState::Disabled {
        return Err(BlockedReason::PodPoolDisabled);
    }
    let after = compiled(pool, taken, observed);
    if after.is_empty() {
        return Err(BlockedReason::PodPoolEmpty);
    }
    not_of_others(pool, &after, desired, observed)?;
    let change = |action, before, guard, hazard| PodPoolChange {
        action,
        object: PodPoolObject::Pool(pool.name.to_string()),
        pool: pool.name.clone(),
        before,
        after: Some(PodPoolSpec::Pool(after.clone())),
        hazard,
        guard,
        origin: Some(pool.origin.clone()),
    };
    let Some(seen) = observed.pod_pools.get(pool.name.as_str()) else {
        return Ok(Some(change(PoolAction::Create, None, ObjectVersion::default(), Hazard::None)));
    };
    let action = match seen.labels.get(OWNER_LABEL.0) {
        _ if seen.is_ours() => PoolAction::Update,
        None => PoolAction::Adopt,
        Some(owner) => return Err(BlockedReason::ManagedByAnother(owner.clone())),
    };
    if let Some(text) = seen.unreadable.first() {
        return Err(BlockedReason::Unreadable(text.clone()));
    }
    if action == PoolAction::Update && seen.ranges == after {
        return Ok(None);
    }
    if !seen.version.is_known() {
        return Err(BlockedReason::NoIdentity);
    }
    let hazard = shrinks(pool, seen, &after, observed)?;
    Ok(Some(change(action, Some(PodPoolSpec::Pool(seen.ranges.clone())), seen.version.clone(), hazard)))
}

/// What the operator may hand out: the pool's ranges without what is reserved, excluded or used by something else.
fn compiled(pool: &Pool, taken: &[Range], observed: &Observed) -> PerFamily<PodRanges> {
    let mut compiled = PerFamily::NONE;
    for family in pool.families().filter(|family| observed.cilium.use_of(*family) != FamilyUse::Off) {
        let Some(size) = pool.block_size.get(family).copied() else { continue };
        let ranges = pool.ranges.iter().map(|range| range.block).filter(|block| block.family() == family);
        let cidrs: Vec<Block> = ranges.flat_map(|block| block.without(taken, size)).collect();
        *compiled.get_mut(family) = (!cidrs.is_empty()).then_some(PodRanges { cidrs, size });
    }
    compiled
}

/// A pool that is none of the files may hand out the same addresses.
fn not_of_others(
    pool: &Pool,
    after: &PerFamily<PodRanges>,
    desired: &Desired,
    observed: &Observed,
) -> Result<(), BlockedReason> {
    let is_ours =
        |name: &str, seen: &SeenPodPool| seen.is_ours() || desired.pools.keys().any(|pool| pool.as_str() == name);
    let others = observed.pod_pools.iter().filter(|(name, seen)| *name != pool.name.as_str() && !is_ours(name, seen));
    let blocks: Vec<Block> = after.iter().flat_map(|ranges| ranges.cidrs.iter().copied()).collect();
    for (name, seen) in others {
        if let Some(block) = seen.cidrs().find(|cidr| blocks.iter().any(|block| block.overlaps(*cidr))) {
            return Err(BlockedReason::PodPoolOverlaps(Box::new((block, name.clone()))));
        }
    }
    Ok(())
}

/// What changes for a pool that is in use: sizes never, and addresses that a node has stay.
fn shrinks(
    pool: &Pool,
    seen: &SeenPodPool,
    after: &PerFamily<PodRanges>,
    observed: &Observed,
) -> Result<Hazard, BlockedReason> {
    for was in seen.ranges.iter() {
        let family = was.size.family();
        if after.get(family).is_some_and(|now| now.size != was.size) {
            return Err(BlockedReason::PodPoolSize(was.size));
        }
    }
    let stays = |block: Block| after.iter().flat_map(|now| &now.cidrs).any(|cidr| cidr.contains(block));
    let allocated = observed.allocated_of_pools();
    let mut held = allocated.get(pool.name.as_str()).into_iter().flatten();
    if let Some((node, block)) = held.find(|(_, block)| !stays(*block)) {
        return Err(BlockedReason::PodPoolInUse(*block, (*node).clone()));
    }
    // A block that is handed out at this moment stays with its node, and the operator complains.
    Ok(if seen.cidrs().all(stays) { Hazard::None } else { Hazard::Disruptive })
}

fn deletion(pool: &PoolName, seen: &SeenPodPool, observed: &Observed) -> Result<PodPoolChange, BlockedReason> {
    let allocated = observed.allocated_of_pools();
    if let Some((node, block)) = allocated.get(pool.as_str()).and_then(|held| held.first()) {
        return Err(BlockedReason::PodPoolInUse(*block, (*node).clone()));
    }
    if !seen.version.is_known() {
        return Err(BlockedReason::NoIdentity);
    }
    Ok(PodPoolChange {
        action: PoolAction::Delete,
        object: PodPoolObject::Pool(pool.to_string()),
        pool: pool.clone(),
        before: Some(PodPoolSpec::Pool(seen.ranges.clone())),
        after: None,
        hazard: Hazard::Disruptive,
        guard: seen.version.clone(),
        origin: None,
    })
}
