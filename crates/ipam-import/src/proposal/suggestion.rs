//! Defaults of the questions, from the observed cluster.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::division::joined;
use super::groups::{Near, held_by, is_selectable, set_apart};
use super::{Split, in_other_use};
use ipam_cilium::observed::{DEFAULT_POOL_SETTING, FamilyUse, ModeSeen, Observed, SeenPodPool};
use ipam_core::model::{IpamMode, NodeName, PerFamily};
use ipam_core::net::{Block, BlockSize, Family, Range, touching};
use ipam_plan::allocators::reads_nodes;

/// Fewest blocks around held ones, so that a small cluster can grow.
const FEWEST: u128 = 16;

/// The label of failure domains that clouds and Kubernetes itself set.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Usual ranges of Pods that are proposed if nothing is known, in order: kubeadm's own example
/// first, then wider ones for more nodes.
const USUAL_IPV4: [&str; 6] = [
    "10.244.0.0/16",
    "10.200.0.0/16",
    "172.24.0.0/16",
    "10.128.0.0/10",
    "10.64.0.0/10",
    "100.64.0.0/10",
];

/// Sizes of Cilium's blocks (Helm: `clusterPoolIPv4MaskSize`, `clusterPoolIPv6MaskSize` @ 1.20).
const USUAL_SIZES: [(Family, u64); 2] = [(Family::Ipv4, 24), (Family::Ipv6, 120)];

/// Defaults for the options of a person.
#[derive(Clone, Debug)]
pub struct Suggestion {
    pub cidrs: Vec<Block>,
    /// Where the CIDRs come from.
    pub source: CidrSource,
    pub split: Split,
    /// Labels by which the nodes can be split: those of racks, then zones, then all others.
    pub labels: Vec<String>,
    /// For both families, whether Cilium uses them or not.
    pub sizes: PerFamily<BlockSize>,
}

/// Where suggested CIDRs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidrSource {
    /// Cilium's own settings or pools.
    Cilium,
    /// `--cluster-cidr` of kube-controller-manager.
    ControllerManager,
    /// The blocks of nodes.
    HeldBlocks,
    /// A usual range that nothing in the cluster uses.
    Usual,
}

/// Whether CIDRs that are found around held blocks have room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    ForGrowth,
    /// They are the smallest around the held blocks of the common size.
    None,
}

/// Suggests what fits the cluster. An empty cluster gives the usual values.
pub fn suggest(observed: &Observed) -> Suggestion {
    suggest_with(observed, Room::ForGrowth)
}

pub(crate) fn suggest_with(observed: &Observed, room: Room) -> Suggestion {
    let sizes = sizes(observed);
    let mut cidrs = Vec::new();
    let mut source = CidrSource::Usual;
    for family in used_families(observed) {
        let Some(size) = sizes.get(family) else {
            continue;
        };
        let (found, from) = cidrs_of(observed, *size, room);
        if cidrs.is_empty() {
            source = from;
        }
        cidrs.extend(found);
    }
    let labels = labels(observed);
    Suggestion {
        cidrs,
        source,
        split: split(observed, &labels),
        labels,
        sizes,
    }
}

/// The `CiliumPodIPPool` that nodes use without a setting of their own, in ipam `multi-pool`.
pub(super) fn own_pod_pool(observed: &Observed) -> Option<(&str, &SeenPodPool)> {
    if !observed.is_multi_pool() {
        return None;
    }
    let setting = observed.common_setting(DEFAULT_POOL_SETTING);
    let name = setting.map_or("default", |setting| setting.value);
    observed.pod_pools.get(name).map(|pool| (name, pool))
}

/// Families of the pools. Without settings, IPv4 and what nodes hold.
fn used_families(observed: &Observed) -> Vec<Family> {
    let held = common_sizes(observed);
    let is_used = |family: &Family| match observed.cilium.use_of(*family) {
        FamilyUse::Required => true,
        FamilyUse::Off => false,
        FamilyUse::Unspecified => *family == Family::Ipv4 || held.get(*family).is_some(),
    };
    Family::BOTH.into_iter().filter(is_used).collect()
}

pub(crate) fn held(observed: &Observed) -> impl Iterator<Item = (&NodeName, Block)> {
    observed.nodes.values().flat_map(|node| {
        let held = held_by(observed, node);
        let blocks: Vec<Block> = held.iter().copied().collect();
        blocks.into_iter().map(|block| (&node.name, block))
    })
}

/// The size that most nodes hold, of each family that any node holds.
pub(super) fn common_sizes(observed: &Observed) -> PerFamily<BlockSize> {
    let mut counts: BTreeMap<BlockSize, usize> = BTreeMap::new();
    for (_, block) in held(observed) {
        *counts.entry(block.size()).or_default() += 1;
    }
    let mut common = PerFamily::NONE;
    for family in Family::BOTH {
        let of_family = counts.iter().filter(|(size, _)| size.family() == family);
        let most = of_family.max_by_key(|(_, count)| **count);
        *common.get_mut(family) = most.map(|(size, _)| *size);
    }
    common
}

fn sizes(observed: &Observed) -> PerFamily<BlockSize> {
    let held = common_sizes(observed);
    let own = own_pod_pool(observed).map(|(_, pool)| &pool.ranges);
    let mut sizes = PerFamily::NONE;
    for (family, usual) in USUAL_SIZES {
        let of_pool = own.and_then(|ranges| Some(ranges.get(family)?.size));
        let of_operator = observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool);
        let of_operator = of_operator && !observed.operator_ranges(family).is_empty();
        let mask = observed.operator_mask(family).filter(|_| of_operator);
        let usual = mask.map_or(usual, u64::from);
        let usual = || BlockSize::new(family, usual).ok();
        let held = held.get(family).copied().or(of_pool);
        *sizes.get_mut(family) = held
            .or_else(|| of_controller(observed, family))
            .or_else(usual);
    }
    sizes
}

/// The size of the blocks that a controller of Kubernetes assigns, or assigned before it was switched
/// off.
fn of_controller(observed: &Observed, family: Family) -> Option<BlockSize> {
    let with_ranges = observed.allocators.iter().filter(|one| {
        let mut ranges = one.cluster_cidrs.ranges.iter();
        reads_nodes(observed) && ranges.any(|range| range.family() == family)
    });
    let assigning = with_ranges.min_by_key(|one| Reverse(one.status))?;
    assigning.cluster_cidrs.block_sizes.get(family).copied()
}

fn cidrs_of(observed: &Observed, size: BlockSize, room: Room) -> (Vec<Block>, CidrSource) {
    let family = size.family();
    let own = own_pod_pool(observed).and_then(|(_, pool)| pool.ranges.get(family));
    if let Some(ranges) = own.filter(|ranges| !ranges.cidrs.is_empty()) {
        return (joined(ranges.cidrs.iter().copied()), CidrSource::Cilium);
    }
    let held: Vec<Block> = held(observed)
        .map(|(_, block)| block)
        .filter(|block| block.family() == family)
        .collect();
    let fits = |cidrs: &[Block]| {
        let contains = |block: &Block| cidrs.iter().any(|cidr| cidr.contains(*block));
        !cidrs.is_empty() && (held.is_empty() || held.iter().any(contains))
    };
    let of_cilium = match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::ClusterPool) => observed.operator_ranges(family),
        ModeSeen::Known(_) | ModeSeen::Unknown(_) | ModeSeen::NoSettings => Vec::new(),
    };
    if fits(&of_cilium) {
        return (joined(of_cilium.into_iter()), CidrSource::Cilium);
    }
    let ranges = observed.cluster_cidrs();
    let of_manager: Vec<Block> = ranges
        .iter()
        .filter(|range| range.family() == family)
        .filter_map(Range::largest_block)
        .collect();
    if fits(&of_manager) {
        return (
            joined(of_manager.into_iter()),
            CidrSource::ControllerManager,
        );
    }
    if held.is_empty() {
        let usual = usual(observed, size);
        return (usual.into_iter().collect(), CidrSource::Usual);
    }
    let cidrs = match room {
        Room::ForGrowth => around(&held, observed, size),
        Room::None => smallest_around(&of_size(&held, size)).0,
    };
    (cidrs, CidrSource::HeldBlocks)
}

fn of_size(blocks: &[Block], size: BlockSize) -> Vec<Block> {
    let fitting = blocks.iter().filter(|block| block.size() == size);
    fitting.copied().collect()
}

/// The smallest CIDRs around blocks of one family without stray ones, and those. Blocks that are far
/// apart have one CIDR each.
pub(crate) fn smallest_around(blocks: &[Block]) -> (Vec<Block>, Vec<Block>) {
    let (near, strays) = set_apart(near(blocks));
    let grown = near.into_iter().map(|(widest, near)| cover(&near, widest));
    (distinct(grown.collect()), strays)
}

/// The smallest CIDRs around the held blocks that have twice as many blocks as there are nodes,
/// and at least [`FEWEST`]. They do not grow over addresses in other use, and leave stray blocks
/// out.
fn around(held: &[Block], observed: &Observed, size: BlockSize) -> Vec<Block> {
    let wanted = (observed.nodes.len() as u128 * 2).max(FEWEST);
    let others = in_other_use(observed, None);
    let (near, _) = set_apart(near(held));
    let grown = near.into_iter().map(|(widest, blocks)| {
        let suffices = |wide: &Block| {
            let bits = u32::from(size.prefix_len().saturating_sub(wide.prefix_len()));
            1u128.checked_shl(bits).is_none_or(|slots| slots >= wanted)
        };
        let is_free = |wide: &Block| touching(&others, &wide.range()).is_empty();
        let start = cover(&blocks, widest);
        let mut wide = start;
        for next in start.enclosing().skip(1) {
            if suffices(&wide) || !widest.contains(next) || !is_free(&next) {
                break;
            }
            wide = next;
        }
        wide
    });
    distinct(grown.collect())
}

/// The blocks by the widest CIDR that may be suggested around them.
fn near(blocks: &[Block]) -> Near {
    let widest = |block: &Block| {
        let bits = growth_bits(block.family());
        let enclosing = block.enclosing();
        let near = enclosing.take_while(|wide| wide.prefix_len() + bits >= block.prefix_len());
        near.last().unwrap_or(*block)
    };
    let mut near = Near::new();
    for block in blocks {
        near.entry(widest(block)).or_default().push(*block);
    }
    near
}

/// The smallest CIDR that contains all these blocks.
pub(super) fn cover(blocks: &[Block], widest: Block) -> Block {
    let covers = |wide: &Block| blocks.iter().all(|block| wide.contains(*block));
    blocks[0].enclosing().find(covers).unwrap_or(widest)
}

/// Without CIDRs inside others. Of two that overlap, one contains the other.
fn distinct(mut cidrs: Vec<Block>) -> Vec<Block> {
    cidrs.sort_by_key(|block| (block.range().first_and_family(), block.prefix_len()));
    cidrs.dedup_by(|later, earlier| earlier.contains(*later));
    joined(cidrs.into_iter())
}

/// How much shorter the prefix of a suggested CIDR is than that of a block. Kubernetes allows 16 at
/// most (`pkg/controller/nodeipam/ipam/cidrset` @ 1.36).
fn growth_bits(family: Family) -> u8 {
    match family {
        Family::Ipv4 => 8,
        Family::Ipv6 => 16,
    }
}

fn usual(observed: &Observed, size: BlockSize) -> Option<Block> {
    let others = in_other_use(observed, None);
    let texts: Vec<String> = match size.family() {
        Family::Ipv4 => USUAL_IPV4.map(str::to_owned).into(),
        Family::Ipv6 => {
            let length = size
                .prefix_len()
                .saturating_sub(growth_bits(Family::Ipv6))
                .max(8);
            ["fd00:10:244::", "fd00:10:200::"]
                .map(|first| format!("{first}/{length}"))
                .into()
        }
    };
    let blocks: Vec<Block> = texts
        .iter()
        .filter_map(|text| Block::lenient(text).ok())
        .filter(|block| block.prefix_len() <= size.prefix_len())
        .filter(|block| touching(&others, &block.range()).is_empty())
        .collect();
    let has_room = |block: &&Block| {
        let bits = u32::from(size.prefix_len() - block.prefix_len());
        let slots = 1u128.checked_shl(bits).unwrap_or(u128::MAX);
        slots >= observed.nodes.len() as u128 * 2
    };
    blocks.iter().find(has_room).or(blocks.first()).copied()
}

/// Labels with at least two values that selectors can have.
pub(crate) fn labels(observed: &Observed) -> Vec<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for node in observed.nodes.values() {
        for (key, value) in &node.labels {
            if is_selectable(key, value) {
                values.entry(key).or_default().insert(value);
            }
        }
    }
    let mut keys: Vec<&str> = values
        .iter()
        .filter(|(_, values)| values.len() > 1)
        .map(|(key, _)| *key)
        .collect();
    keys.sort_by_key(|key| (rank(key), *key));
    keys.into_iter().map(str::to_owned).collect()
}

/// Racks first: people label them themselves, while clouds set zones.
pub(crate) fn rank(key: &str) -> u8 {
    match key.rsplit('/').next() {
        Some("rack") => 0,
        _ if key == ZONE => 1,
        _ => 2,
    }
}

/// Whether the values of this label are racks or zones.
pub fn names_places(key: &str) -> bool {
    rank(key) < 2
}

/// The first label of racks or zones whose nodes hold neighbouring blocks, or none. A split of
/// alternating blocks would give each pool a long list of CIDRs.
fn split(observed: &Observed, labels: &[String]) -> Split {
    if own_pod_pool(observed).is_some() {
        return Split::None;
    }
    let known = labels.iter().filter(|key| names_places(key));
    let key = known.into_iter().find(|key| {
        let value = |name: &NodeName| observed.nodes.get(name)?.labels.get(*key);
        let mut held: Vec<_> = held(observed)
            .map(|(name, block)| (block.range().first_and_family(), value(name)))
            .collect();
        held.sort();
        let groups: BTreeSet<_> = held
            .iter()
            .map(|((family, _), value)| (family, value))
            .collect();
        let runs = held.chunk_by(|(_, one), (_, next)| one == next).count();
        runs <= groups.len() * 2
    });
    match key {
        Some(key) => Split::ByLabel {
            key: key.clone(),
            values: BTreeSet::new(),
        },
        None => Split::None,
    }
}
