//! The address space as areas: which object has, gives or keeps free which addresses, now and after
//! the plan, divided into panels that a page can draw.
//!
//! Knows no pixel and no format. It decides nothing: the planned changes come from the plan.
//!
//! Divides the address space into panels: ranges that lie near each other come into one panel, with
//! the gaps between them; far ones get panels of their own.
//!
//! Areas of ranges: pools, Service CIDRs, what pools reserve, what is kept free, and pins that no
//! node holds.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use ipam_cilium::observed::operator_settings::ranges_key;
use ipam_cilium::observed::{ModeSeen, Observed};
use ipam_core::model::IpamMode;
use ipam_core::net::{Block, Family, Range, merge};
use ipam_desired::{Desired, PoolState};
use ipam_plan::capacity::{Capacity, Supplier, capacity};
use ipam_plan::openstack::SubnetPools;
use ipam_plan::plan::{Change, Plan, PodPoolSpec};

pub use nodes::{Area, AreaKind, Presence};

/// All areas of a cluster's address map.
#[derive(Clone, Debug, Default)]
pub struct AddressMap {
    /// The parts of the address space in which something lies, IPv4 first, by address. No two
    /// overlap, and every area lies in one.
    pub panels: Vec<Panel>,
    /// The node label by which areas are grouped into failure domains.
    pub domain_label: String,
    /// The time of the observation.
    pub at: Timestamp,
}

impl AddressMap {
    /// The areas of the files and of the cluster, and what the plan changes.
    pub fn new(desired: &Desired, observed: &Observed, plan: &Plan) -> AddressMap {
        let mut areas = areas(desired, observed, plan);
        areas.extend(nodes::areas(desired, observed, plan));
        areas.extend(nodes::service_areas(observed, plan));
        count(&mut areas, &capacity(observed, Some((desired, plan))));
        AddressMap {
            panels: divide(areas),
            domain_label: desired.policy.failure_domain.clone(),
            at: observed.at,
        }
    }

    /// Every area, by panel.
    pub fn areas(&self) -> impl Iterator<Item = &Area> {
        self.panels.iter().flat_map(|panel| &panel.areas)
    }
}

/// Tells of each range how much of its pool is used.
fn count(areas: &mut [Area], capacity: &Capacity) {
    let mut used: BTreeMap<(AreaKind, Family, &str), String> = BTreeMap::new();
    for row in &capacity.rows {
        let (kind, owner) = match &row.of {
            Supplier::Pool(name) => (AreaKind::Pool, name.as_str()),
            Supplier::PodPool(name) => (AreaKind::PodPool, name.as_str()),
            Supplier::AddressPool(name) => (AreaKind::AddressPool, name.as_str()),
            Supplier::ClusterPool => (AreaKind::ClusterPool, ranges_key(row.family)),
            Supplier::Allocator(_) | Supplier::Cilium => continue,
        };
        used.insert((kind, row.family, owner), row.used_of_usable());
    }
    for area in areas {
        let key = (area.kind, area.block.family(), area.owner.as_str());
        area.used = used.get(&key).cloned();
    }
}

/// A panel is not wider than this many times what its ranges cover.
const GAPS: u128 = 4;

/// Prefix length of the network that is drawn around an address outside every range.
const NETWORK_IPV4: u8 = 24;
const NETWORK_IPV6: u8 = 64;

/// A part of the address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    pub block: Block,
    /// What lies in it, in the order of drawing: wide before narrow.
    pub areas: Vec<Area>,
}

/// Panels with all areas, IPv4 first.
pub(super) fn divide(mut areas: Vec<Area>) -> Vec<Panel> {
    areas.extend(networks(&areas));
    let outlines = areas
        .iter()
        .filter(|area| !is_clipped(area.kind))
        .map(|area| area.block);
    let mut panels: BTreeMap<Block, Vec<Area>> = joined(outlines)
        .into_iter()
        .map(|block| (block, Vec::new()))
        .collect();
    for area in areas {
        if is_clipped(area.kind) {
            clip(area, &mut panels);
        } else if let Some(panel) = panel_of(area.block, &mut panels) {
            panel.push(area);
        }
    }
    let panel = |(block, mut areas): (Block, Vec<Area>)| {
        areas.sort_by_cached_key(|area| {
            (
                area.block.prefix_len(),
                area.kind,
                area.block,
                area.owner.clone(),
            )
        });
        Panel { block, areas }
    };
    panels.into_iter().map(panel).collect()
}

/// What the Policy excludes may be far wider than everything else, so it makes no panel.
fn is_clipped(kind: AreaKind) -> bool {
    kind == AreaKind::Excluded
}

fn clip(area: Area, panels: &mut BTreeMap<Block, Vec<Area>>) {
    for (panel, areas) in panels {
        let part = panel.range().intersection(&area.block.range());
        for block in part.iter().flat_map(Range::blocks) {
            areas.push(Area {
                block,
                ..area.clone()
            });
        }
    }
}

fn panel_of(block: Block, panels: &mut BTreeMap<Block, Vec<Area>>) -> Option<&mut Vec<Area>> {
    let panel = block.enclosing().find(|outer| panels.contains_key(outer))?;
    panels.get_mut(&panel)
}

/// Networks around the addresses that lie in no range, with their number.
fn networks(areas: &[Area]) -> Vec<Area> {
    let ranges = merge(
        areas
            .iter()
            .filter(|area| area.kind.is_range())
            .map(|area| area.block.range()),
    );
    let mut networks: BTreeMap<Block, usize> = BTreeMap::new();
    for area in areas {
        let is_single = matches!(area.kind, AreaKind::Machine | AreaKind::Service);
        if is_single && !ipam_core::net::covers(&ranges, &area.block.range()) {
            let length = match area.block.family() {
                Family::Ipv4 => NETWORK_IPV4,
                Family::Ipv6 => NETWORK_IPV6,
            };
            let network = area
                .block
                .enclosing()
                .find(|outer| outer.prefix_len() <= length);
            *networks.entry(network.unwrap_or(area.block)).or_default() += 1;
        }
    }
    let area = |(block, count): (Block, usize)| {
        let note = match count {
            1 => "1 address".to_owned(),
            _ => format!("{count} addresses"),
        };
        Area::new(AreaKind::Network, block, "machines").with_note(note)
    };
    networks.into_iter().map(area).collect()
}

/// The widest blocks, with near ones joined.
fn joined(blocks: impl Iterator<Item = Block>) -> Vec<Block> {
    let mut blocks: Vec<Block> = blocks.collect();
    blocks.sort_by_key(|block| {
        let range = block.range();
        (range.first_and_family(), block.prefix_len())
    });
    let mut panels: Vec<(Block, u128)> = Vec::new();
    for block in blocks {
        if panels.last().is_some_and(|(last, _)| last.contains(block)) {
            continue;
        }
        panels.push((block, block.range().width()));
        while let [.., (a, of_a), (b, of_b)] = panels[..] {
            let covered = of_a.saturating_add(of_b);
            let Some(outer) = a.enclosing().find(|outer| outer.contains(b)) else {
                break;
            };
            if outer.range().width() / GAPS > covered {
                break;
            }
            panels.truncate(panels.len() - 2);
            panels.push((outer, covered));
        }
    }
    panels.into_iter().map(|(block, _)| block).collect()
}

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
            pool.never_given()
                .flat_map(|range| spread(AreaKind::Reserved, &range, name)),
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
        for family in Family::BOTH {
            let (key, blocks) = (ranges_key(family), observed.operator_ranges(family));
            let area = |block| Area::new(AreaKind::ClusterPool, block, key);
            areas.extend(blocks.into_iter().map(area));
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
        let ranges = pools.entry(change.object.name.to_string()).or_default();
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
        let ipam_plan::plan::PodPoolObject::Pool(_, name) = &change.object else {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blocks(texts: &[&str]) -> Vec<Block> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn near_ranges_share_a_panel_and_far_ones_do_not() {
        let ranges = blocks(&["10.20.0.0/16", "10.22.0.0/16", "10.96.0.0/12", "fd00::/48"]);
        assert_eq!(
            joined(ranges.into_iter()),
            blocks(&["10.20.0.0/14", "10.96.0.0/12", "fd00::/48"])
        );
        // The join of the later two contains the first.
        let ranges = blocks(&["10.0.0.0/20", "10.3.0.0/16", "10.4.0.0/15"]);
        assert_eq!(joined(ranges.into_iter()), blocks(&["10.0.0.0/13"]));
    }

    #[test]
    fn what_the_policy_excludes_makes_no_panel_and_is_cut_to_those_that_are_there() {
        let area = |kind, text: &str| Area::new(kind, text.parse().unwrap(), "x");
        let panels = divide(vec![
            area(AreaKind::Excluded, "10.0.0.0/8"),
            area(AreaKind::Pool, "10.20.0.0/16"),
            area(AreaKind::Machine, "192.168.1.7/32"),
        ]);
        let drawn: Vec<(String, Vec<String>)> = panels
            .iter()
            .map(|panel| {
                let areas = panel.areas.iter();
                let areas = areas.map(|area| format!("{} {}", area.kind, area.block));
                (panel.block.to_string(), areas.collect())
            })
            .collect();
        assert_eq!(
            drawn,
            [
                (
                    "10.20.0.0/16".to_owned(),
                    vec![
                        "IPPool 10.20.0.0/16".to_owned(),
                        "excluded 10.20.0.0/16".to_owned()
                    ]
                ),
                (
                    "192.168.1.0/24".to_owned(),
                    vec![
                        "network of machines 192.168.1.0/24".to_owned(),
                        "machine address 192.168.1.7/32".to_owned()
                    ]
                )
            ]
        );
    }

    proptest! {
        #[test]
        fn panels_do_not_overlap_and_hold_every_block(
            seeds in prop::collection::vec((any::<u32>(), 4u8..=32), 1..40)
        ) {
            let ranges: Vec<Block> = seeds
                .iter()
                .map(|(bits, length)| {
                    let address = std::net::Ipv4Addr::from(bits & 0x0f0f_ffff);
                    Block::lenient(&format!("{address}/{length}")).unwrap()
                })
                .collect();
            let panels = joined(ranges.iter().copied());
            for (index, panel) in panels.iter().enumerate() {
                for other in &panels[index + 1..] {
                    prop_assert!(!panel.overlaps(*other), "{panel} and {other}");
                }
            }
            for range in ranges {
                prop_assert!(panels.iter().any(|panel| panel.contains(range)), "{range}");
            }
        }
    }
}
