//! Areas of ranges: pools, Service CIDRs, what pools reserve, what is kept free, and pins that no
//! node holds.

use std::collections::{BTreeMap, BTreeSet};

use super::area::{Area, AreaKind, Presence};
use crate::openstack::SubnetPools;
use crate::plan::{Change, Plan, PodPoolSpec};
use ipam_cilium::observed::{ModeSeen, Observed};
use ipam_core::model::IpamMode;
use ipam_core::net::{Block, Range};
use ipam_desired::{Desired, PoolState};

pub(super) fn areas(desired: &Desired, observed: &Observed, plan: &Plan) -> Vec<Area> {
    let mut areas = of_files(desired, observed);
    areas.extend(of_cluster(observed));
    areas.extend(of_claims(desired, observed));
    areas.extend(of_objects(
        AreaKind::AddressPool,
        &address_pools(observed, plan),
    ));
    areas.extend(of_objects(AreaKind::PodPool, &pod_pools(observed, plan)));
    areas
}

fn spread(kind: AreaKind, range: &Range, owner: &str) -> Vec<Area> {
    let blocks = range.blocks().into_iter();
    blocks.map(|block| Area::new(kind, block, owner)).collect()
}

fn of_files(desired: &Desired, observed: &Observed) -> Vec<Area> {
    let mut areas = Vec::new();
    for pool in desired.pools.values() {
        let kind = match pool.state {
            PoolState::Active => AreaKind::Pool,
            PoolState::Disabled => AreaKind::DisabledPool,
        };
        let name = pool.name.as_str();
        for range in &pool.ranges {
            let size = pool.block_size.get(range.block.family());
            let area = Area::new(kind, range.block, name).with_note(&range.origin);
            areas.push(match size {
                Some(size) => area.with_note(format!("gives {size} blocks")),
                None => area,
            });
        }
        areas.extend(
            pool.reserved
                .iter()
                .flat_map(|range| spread(AreaKind::Reserved, range, name)),
        );
    }
    for (pool, range) in SubnetPools::resolve(desired, observed).ranges() {
        let area = Area::new(AreaKind::Subnet, range, &pool.name);
        areas.push(area.with_note(&pool.subnet_origin));
    }
    for pin in desired.pins.values() {
        let held = observed.pod_blocks_of(&pin.node);
        let missing = pin.blocks.iter().filter(|block| !held.contains(block));
        areas
            .extend(missing.map(|block| {
                Area::new(AreaKind::Pinned, *block, &pin.node).with_note(&pin.origin)
            }));
    }
    let excluded = desired.policy.excluded.iter();
    areas.extend(excluded.flat_map(|range| spread(AreaKind::Excluded, range, "Policy")));
    areas
}

fn of_cluster(observed: &Observed) -> Vec<Area> {
    let services = observed.service_ranges.iter();
    let mut areas: Vec<Area> = services
        .flat_map(|range| spread(AreaKind::ServiceCidr, range, "ServiceCIDR"))
        .collect();
    if observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool) {
        for key in ["cluster-pool-ipv4-cidr", "cluster-pool-ipv6-cidr"] {
            let blocks = observed.cilium.cluster_pool(key).into_iter().flatten();
            areas.extend(blocks.map(|block| Area::new(AreaKind::ClusterPool, block, key)));
        }
    }
    areas
}

fn of_claims(desired: &Desired, observed: &Observed) -> Vec<Area> {
    let claims = observed.live_claims(desired.policy.quarantine);
    let claimed = claims
        .in_flight
        .iter()
        .map(|(block, claim)| Area::new(AreaKind::Claimed, *block, &claim.node));
    let quarantined = claims.quarantined.iter().map(|(block, quarantined)| {
        let area = Area::new(AreaKind::Quarantined, *block, &quarantined.node);
        area.with_note(format!("free at {}", quarantined.free_at))
    });
    claimed.chain(quarantined).collect()
}

/// Ranges of objects by name: those that are there now, and those after the plan.
#[derive(Default)]
struct ObjectRanges {
    now: BTreeSet<Block>,
    after: BTreeSet<Block>,
}

fn of_objects(kind: AreaKind, objects: &BTreeMap<String, ObjectRanges>) -> Vec<Area> {
    let mut areas = Vec::new();
    for (name, ranges) in objects {
        for block in ranges.now.union(&ranges.after) {
            let presence = match (ranges.now.contains(block), ranges.after.contains(block)) {
                (true, false) => Presence::Removed,
                (false, true) => Presence::Added,
                (true, true) | (false, false) => Presence::Stays,
            };
            areas.push(Area::new(kind, *block, name).present(presence));
        }
    }
    areas
}

fn address_pools(observed: &Observed, plan: &Plan) -> BTreeMap<String, ObjectRanges> {
    let mut pools: BTreeMap<String, ObjectRanges> = BTreeMap::new();
    for (name, range) in observed.load_balancer_ranges() {
        let ranges = pools.entry(name.to_owned()).or_default();
        ranges.now.extend(range.blocks());
        ranges.after.extend(range.blocks());
    }
    for change in &plan.changes {
        let Change::AddressPool(change) = change else {
            continue;
        };
        let after = change
            .after
            .iter()
            .flat_map(|manifest| manifest.spec.ranges());
        let ranges = pools.entry(change.name.to_string()).or_default();
        ranges.after = after.flat_map(|range| range.blocks()).collect();
    }
    pools
}

fn pod_pools(observed: &Observed, plan: &Plan) -> BTreeMap<String, ObjectRanges> {
    let mut pools: BTreeMap<String, ObjectRanges> = BTreeMap::new();
    for (name, pool) in &observed.pod_pools {
        let ranges = pools.entry(name.clone()).or_default();
        ranges.now.extend(pool.cidrs());
        ranges.after.extend(pool.cidrs());
    }
    for change in &plan.changes {
        let Change::PodPool(change) = change else {
            continue;
        };
        let crate::plan::PodPoolObject::Pool(_, name) = &change.object else {
            continue;
        };
        let ranges = pools.entry(name.clone()).or_default();
        ranges.after = match &change.after {
            Some(PodPoolSpec::Pool(families)) => families
                .iter()
                .flat_map(|ranges| ranges.cidrs.iter().copied())
                .collect(),
            Some(PodPoolSpec::Choice { .. }) | None => BTreeSet::new(),
        };
    }
    pools
}
