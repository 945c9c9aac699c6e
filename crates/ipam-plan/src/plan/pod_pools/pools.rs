//! Changes of `CiliumPodIPPool`s.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::owned::PoolAction;
use super::{PodPoolChange, PodPoolObject, PodPoolSpec, others_are_readable, reserved_stay};
use crate::openstack::SubnetPools;
use crate::plan::blocked::{BlockedReason, CommonObstacle, PodPoolObstacle};
use crate::plan::change::Target;
use crate::plan::{self, Plan, foreign_ranges};
use ipam_cilium::behaviours;
use ipam_cilium::observed::{
    BlindSpot, CiliumKind, FamilyUse, NodeConfig, Observed, ObservedKind, PodPoolsServed,
    PodRanges, SeenPodPool,
};
use ipam_core::model::{Hazard, NodeName, PerFamily, PoolName};
use ipam_core::net::{Block, Family, Range, RangeIndex, covers, merge};
use ipam_desired::{Desired, Pool, PoolRange, PoolState};

/// Limit of the bits between the prefix of an IPv6 CIDR and that of its blocks.
const WIDEST: u8 = 16;

pub(super) fn decide(desired: &Desired, observed: &Observed, plan: &mut Plan) {
    let pools = desired.pools.values();
    let reserved = pools.flat_map(|pool| pool.reserved.iter().copied());
    let taken = merge(
        foreign_ranges(desired, observed)
            .into_iter()
            .chain(reserved),
    );
    let subnets = SubnetPools::resolve(desired, observed);
    let cluster = ClusterPools::new(observed);
    for pool in desired.pools.values() {
        let target = Target::PodPool(pool.name.to_string());
        let decided = subnets.only_resolved(wanted(pool, &taken, &cluster));
        plan.record(target, Some(&pool.origin), decided);
    }
    for (name, seen) in observed.pod_pools.iter().filter(|(_, seen)| seen.is_ours()) {
        let Ok(pool) = name.parse::<PoolName>() else {
            continue;
        };
        if desired.pools.contains_key(&pool) {
            continue;
        }
        let decided = deletion(&pool, seen, &cluster).map(Some);
        plan.record(Target::PodPool(name.clone()), None, decided);
    }
}

/// The pools of the cluster and their blocks, indexed for all pools of the files.
pub(super) struct ClusterPools<'o> {
    pub(super) observed: &'o Observed,
    /// CIDRs of pools. First the name of the pool, then the place in its list.
    cidrs: RangeIndex<(&'o str, usize, Block)>,
    /// Blocks of nodes, each with its pool and index as in `cidrs`.
    held: RangeIndex<(&'o str, usize, Block)>,
    pub(super) allocated: BTreeMap<&'o str, Vec<(&'o NodeName, Block)>>,
    /// The first `CiliumNodeConfig` of another owner that chooses each pool.
    chosen_by: BTreeMap<&'o str, &'o NodeConfig>,
}

impl<'o> ClusterPools<'o> {
    pub(super) fn new(observed: &'o Observed) -> ClusterPools<'o> {
        let allocated = observed.allocated_of_pools();
        let place = |pool: &'o str| {
            move |(place, block): (usize, Block)| (block.range(), (pool, place, block))
        };
        let cidrs = observed
            .pod_pools
            .iter()
            .flat_map(|(name, seen)| seen.cidrs().enumerate().map(place(name)));
        let held = allocated.iter().flat_map(|(name, held)| {
            let blocks = held.iter().map(|(_, block)| *block);
            blocks.enumerate().map(place(name))
        });
        let mut chosen_by = BTreeMap::new();
        for config in observed.node_configs.iter().filter(|one| !one.is_ours()) {
            if let Some(pool) = config.default_pool() {
                chosen_by.entry(pool).or_insert(config);
            }
        }
        ClusterPools {
            cidrs: RangeIndex::new(cidrs),
            held: RangeIndex::new(held),
            chosen_by,
            observed,
            allocated,
        }
    }

    /// The addresses of the pool's retiring ranges that no node uses. Cilium's operator cannot allocate
    /// from a CIDR that consists of allocated blocks.
    fn unheld_retiring(&self, pool: &Pool) -> Vec<Range> {
        let held = self.allocated.get(pool.name.as_str());
        let held = held.into_iter().flatten().map(|(_, block)| block.range());
        let held = merge(held);
        let sized = |range: &PoolRange| {
            let size = pool.block_size.get(range.block.family()).copied()?;
            Some((range.block, size))
        };
        let retiring = pool.retiring.iter().filter_map(sized);
        retiring
            .flat_map(|(block, size)| block.without(&held, size))
            .map(Block::range)
            .collect()
    }

    /// The first other pool with addresses of these, and its first block that has some.
    pub(super) fn overlapping(
        &self,
        pool: &str,
        wanted: &PerFamily<PodRanges>,
    ) -> Option<(Block, &'o str)> {
        let first = |index: &RangeIndex<(&'o str, usize, Block)>| {
            let wanted = wanted.iter().flat_map(|ranges| &ranges.cidrs);
            wanted
                .flat_map(|cidr| index.overlapping(&cidr.range()))
                .map(|(_, found)| *found)
                .filter(|(name, _, _)| *name != pool)
                .min()
        };
        let (name, _, block) = first(&self.cidrs).or_else(|| first(&self.held))?;
        Some((block, name))
    }
}

fn wanted(
    pool: &Pool,
    taken: &[Range],
    cluster: &ClusterPools<'_>,
) -> Result<Option<PodPoolChange>, BlockedReason> {
    let observed = cluster.observed;
    if is_left_alone(pool, observed)? {
        return Ok(None);
    }
    let after = match pool.retiring.is_empty() {
        true => compiled(pool, taken, observed)?,
        false => {
            let unheld = cluster.unheld_retiring(pool);
            let taken = merge(taken.iter().copied().chain(unheld));
            compiled(pool, &taken, observed)?
        }
    };
    if after.is_empty() {
        return Err(PodPoolObstacle::Empty.into());
    }
    check_ranges(pool, &after, cluster)?;
    let api = observed.pod_pool_api();
    let wanted = PodPoolSpec::Pool(after.clone());
    let spec = json!({"spec": wanted.to_json()});
    plan::keeps(observed, CiliumKind::PodIpPool, api.as_str(), &spec)?;
    let object = PodPoolObject::Pool(api, pool.name.to_string());
    let seen = observed.pod_pools.get(pool.name.as_str());
    let shown = seen.map(|seen| (&seen.labels, &seen.version, seen.into()));
    let is_as_wanted = |shown: &_, wanted: &_| match seen.and_then(|seen| seen.unreadable.first()) {
        Some(text) => Err(CommonObstacle::PodCidrUnreadable(text.clone()).into()),
        None => Ok(shown == wanted),
    };
    let Some(change) = PodPoolChange::towards(wanted, object, shown, is_as_wanted)? else {
        return Ok(None);
    };
    others_are_readable(pool, observed)?;
    let hazard = match seen {
        Some(seen) => {
            reserved_stay(seen, &after)?;
            shrinks(pool, seen, &after, cluster)?
        }
        None => Hazard::None,
    };
    let name = &pool.name;
    Ok(Some(PodPoolChange {
        pool: Some(name.clone()),
        reason: format!("addresses of pool {name}, without what is reserved or used"),
        hazard,
        origin: Some(pool.origin.clone()),
        ..change
    }))
}

/// Whether another owner keeps a pool that the files disable; only its blocks are known to the files.
fn is_left_alone(pool: &Pool, observed: &Observed) -> Result<bool, BlockedReason> {
    if let Some(spot) = hidden(observed) {
        return Err(PodPoolObstacle::Hidden(spot.why.clone()).into());
    }
    if observed.pod_pools_served == PodPoolsServed::No {
        return Err(PodPoolObstacle::NotServed.into());
    }
    if pool.state != PoolState::Disabled {
        return Ok(false);
    }
    match observed.pod_pools.get(pool.name.as_str()) {
        Some(seen) if !seen.is_ours() => Ok(true),
        _ => Err(PodPoolObstacle::Disabled.into()),
    }
}

/// Whether the cluster can take these ranges for the pool.
fn check_ranges(
    pool: &Pool,
    after: &PerFamily<PodRanges>,
    cluster: &ClusterPools<'_>,
) -> Result<(), BlockedReason> {
    // Cilium does not compare its pools, so it would hand out shared addresses twice. A pool that
    // gives addresses up does so in an earlier plan.
    if let Some((block, other)) = cluster.overlapping(pool.name.as_str(), after) {
        return Err(PodPoolObstacle::Overlaps(Box::new((block, other.to_owned()))).into());
    }
    let cilium = &cluster.observed.cilium;
    let is_missing = |family: &Family| {
        cilium.use_of(*family) == FamilyUse::Required && after.get(*family).is_none()
    };
    match Family::BOTH.into_iter().find(is_missing) {
        Some(family) => Err(CommonObstacle::FamilyMissing(family).into()),
        None => Ok(()),
    }
}

/// The ranges that the operator may hand out: those of the pool without reserved, excluded or used
/// addresses.
fn compiled(
    pool: &Pool,
    taken: &[Range],
    observed: &Observed,
) -> Result<PerFamily<PodRanges>, BlockedReason> {
    let mut compiled = PerFamily::NONE;
    for family in pool
        .families()
        .filter(|family| observed.cilium.use_of(*family) != FamilyUse::Off)
    {
        let Some(size) = pool.block_size.get(family).copied() else {
            continue;
        };
        let ranges = pool
            .ranges
            .iter()
            .map(|range| range.block)
            .filter(|block| block.family() == family);
        let cidrs: Vec<Block> = ranges
            .flat_map(|block| block.without(taken, size))
            .collect();
        // The operator refuses wider ones, and with them the whole pool
        // (`pkg/ipam/cidrset/cidr_set.go` ErrCIDRSetSubNetTooBig).
        if family == Family::Ipv6
            && cidrs
                .iter()
                .any(|cidr| size.prefix_len() - cidr.prefix_len() > WIDEST)
        {
            return Err(PodPoolObstacle::TooWide(WIDEST).into());
        }
        *compiled.get_mut(family) = (!cidrs.is_empty()).then_some(PodRanges { cidrs, size });
    }
    Ok(compiled)
}

/// The hazard of a change of a pool that is in use. Block sizes never change, and a node keeps its
/// addresses.
fn shrinks(
    pool: &Pool,
    seen: &SeenPodPool,
    after: &PerFamily<PodRanges>,
    cluster: &ClusterPools<'_>,
) -> Result<Hazard, BlockedReason> {
    for was in seen.ranges.iter() {
        let family = was.size.family();
        if after.get(family).is_some_and(|now| now.size != was.size) {
            return Err(PodPoolObstacle::Size(was.size).into());
        }
    }
    let cidrs = after.iter().flat_map(|now| &now.cidrs);
    let cidrs = RangeIndex::new(cidrs.map(|cidr| (cidr.range(), *cidr)));
    let stays = |block: Block| {
        let mut around = cidrs.overlapping(&block.range());
        around.any(|(_, cidr)| cidr.contains(block))
    };
    let held = cluster.allocated.get(pool.name.as_str());
    let mut held = held.into_iter().flatten();
    if let Some((node, block)) = held.find(|(_, block)| !stays(*block)) {
        return Err(PodPoolObstacle::InUse(*block, (*node).clone()).into());
    }
    let only_grows = seen.ranges.iter().all(|was| {
        let now = after
            .get(was.size.family())
            .map(|now| now.cidrs.as_slice())
            .unwrap_or_default();
        now.starts_with(&was.cidrs)
    });
    if !only_grows && !remembers_given(cluster.observed) {
        return Err(PodPoolObstacle::Recut.into());
    }
    let cidrs = after.iter().flat_map(|now| &now.cidrs);
    let cidrs = cidrs.map(|cidr| cidr.range());
    let kept_or_retiring = merge(cidrs.chain(pool.retiring_ranges()));
    let is_expected = |cidr: Block| covers(&kept_or_retiring, &cidr.range());
    // A node keeps a block that the operator hands out at this moment; the operator logs errors.
    Ok(if seen.cidrs().all(is_expected) {
        Hazard::None
    } else {
        Hazard::Disruptive
    })
}

/// Whether the operator remembers the blocks that it gave from a CIDR that is cut.
pub(super) fn remembers_given(observed: &Observed) -> bool {
    let oldest = observed.cilium.oldest_operator();
    oldest.is_some_and(|version| behaviours::GIVEN_REMEMBERED.include(version))
}

/// A kind that cannot be read and that pools depend on.
pub(super) fn hidden(observed: &Observed) -> Option<&BlindSpot> {
    let spots = [ObservedKind::PodIpPool, ObservedKind::CiliumNodeConfig]
        .map(|kind| observed.blind_spot(kind));
    spots.into_iter().flatten().next()
}

fn deletion(
    pool: &PoolName,
    seen: &SeenPodPool,
    cluster: &ClusterPools<'_>,
) -> Result<PodPoolChange, BlockedReason> {
    if let Some(spot) = hidden(cluster.observed) {
        return Err(PodPoolObstacle::Hidden(spot.why.clone()).into());
    }
    if let Some(config) = cluster.chosen_by.get(pool.as_str()) {
        return Err(PodPoolObstacle::Chosen(config.name.clone()).into());
    }
    let held = cluster.allocated.get(pool.as_str());
    if let Some((node, block)) = held.and_then(|held| held.first()) {
        return Err(PodPoolObstacle::InUse(*block, (*node).clone()).into());
    }
    if !seen.version.is_known() {
        return Err(CommonObstacle::MissingUid.into());
    }
    let object = PodPoolObject::Pool(cluster.observed.pod_pool_api(), pool.to_string());
    Ok(PodPoolChange {
        pool: Some(pool.clone()),
        reason: format!("no file declares pool {pool}"),
        hazard: Hazard::Disruptive,
        lost_fields: seen.other_fields.clone(),
        ..PodPoolChange::new(
            PoolAction::Delete,
            object,
            (Some(seen.into()), None),
            seen.version.clone(),
        )
    })
}
