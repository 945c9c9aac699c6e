//! From what a pool was inferred, such as a node label whose values separate the held blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::InferredPool;
use crate::proposal::{
    CidrSource, held, held_by, is_selectable, labels, names_places, rank, smallest_around,
};
use ipam_cilium::observed::{BlockAllocator, ModeSeen, Observed};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Family, RangeIndex};
use ipam_desired::Policy;
use ipam_plan::allocators::OtherAllocator;

/// From what a pool was inferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub source: RangeSource,
    /// Key and value of the label by which its nodes were found.
    pub label: Option<(String, String)>,
    /// Nodes that hold a block of the pool.
    pub nodes: BTreeSet<NodeName>,
    /// Lowest and highest block that they hold, of each family in use.
    pub held: Vec<(Block, Block)>,
    /// CIDRs outside the source, which nodes hold.
    pub outside: Vec<Block>,
    /// Nodes without a block, because of which the pool gives no new blocks.
    pub waiting: BTreeSet<NodeName>,
}

/// Where the CIDRs of a pool come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSource {
    /// The settings `cluster-pool-ipv4-cidr` and `cluster-pool-ipv6-cidr`.
    CiliumSettings,
    /// The flag `--cluster-cidr` of kube-controller-manager.
    ControllerManager,
    /// The smallest CIDRs around the held blocks.
    HeldBlocks,
    /// The held blocks themselves: they have another size than those of most nodes.
    UnusualBlocks,
    /// The CIDRs of a `CiliumPodIPPool`.
    PodPool,
}

impl From<CidrSource> for RangeSource {
    fn from(source: CidrSource) -> RangeSource {
        match source {
            CidrSource::Cilium => RangeSource::CiliumSettings,
            CidrSource::ControllerManager => RangeSource::ControllerManager,
            CidrSource::HeldBlocks | CidrSource::Usual => RangeSource::HeldBlocks,
        }
    }
}

impl Evidence {
    pub(super) fn new(source: RangeSource) -> Evidence {
        Evidence {
            source,
            label: None,
            nodes: BTreeSet::new(),
            held: Vec::new(),
            outside: Vec::new(),
            waiting: BTreeSet::new(),
        }
    }
}

/// Adds to each pool the nodes that hold a block in its CIDRs.
pub(super) fn add_holders(observed: &Observed, pools: &mut [InferredPool]) {
    let cidrs = pools.iter().enumerate().flat_map(|(place, pool)| {
        let cidrs = pool.cidrs.iter();
        cidrs.map(move |cidr| (cidr.range(), (place, *cidr)))
    });
    let cidrs = RangeIndex::new(cidrs.collect::<Vec<_>>());
    let mut held: BTreeMap<usize, Vec<Block>> = BTreeMap::new();
    let blocks = held_blocks(observed);
    for (node, block) in &blocks {
        let around = cidrs.overlapping(&block.range());
        let pool = around.map(|(_, found)| *found).find(|(place, cidr)| {
            let size = pools[*place].sizes.get(block.family());
            cidr.contains(*block) && size == Some(&block.size())
        });
        if let Some((place, _)) = pool {
            pools[place].evidence.nodes.insert((*node).clone());
            held.entry(place).or_default().push(*block);
        }
    }
    for (place, mut blocks) in held {
        blocks.sort_by_key(|block| (block.range().first_and_family(), block.prefix_len()));
        let families = blocks.chunk_by(|one, other| one.family() == other.family());
        let ends = families.filter_map(|of_family| Some((*of_family.first()?, *of_family.last()?)));
        pools[place].evidence.held = ends.collect();
    }
}

fn held_blocks(observed: &Observed) -> Vec<(&NodeName, Block)> {
    if observed.is_multi_pool() {
        let allocated = observed.allocated_of_pools();
        return allocated.into_values().flatten().collect();
    }
    let nodes = observed.nodes.values();
    nodes
        .flat_map(|node| {
            let held = held_by(observed, node);
            let blocks: Vec<Block> = held.iter().copied().collect();
            blocks.into_iter().map(|block| (&node.name, block))
        })
        .collect()
}

/// Labels that kubelets and clouds set, and that say nothing of the place of a node. Their values
/// could separate blocks only by accident.
const NO_PLACES: [&str; 7] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
];

/// Fewest holders of each value of a label that names neither racks nor zones: fewer may lie apart
/// by accident.
const FEWEST: usize = 2;

/// A label whose values separate the held blocks.
pub(super) struct Separation {
    pub(super) key: String,
    /// The smallest CIDRs around the blocks of each value, without stray blocks. They do not overlap.
    pub(super) cidrs: Vec<Block>,
}

/// The first label that separates the blocks: those of racks, then zones, then all others. None if
/// an allocator gives blocks without regard to labels: the next block would end the separation.
pub(super) fn find(observed: &Observed) -> Option<Separation> {
    if allocator_ignores_labels(observed) {
        return None;
    }
    let keys = labels(observed);
    let mut keys = keys.iter().filter(|key| !NO_PLACES.contains(&key.as_str()));
    keys.find_map(|key| {
        let fewest = if names_places(key) { 1 } else { FEWEST };
        by_label(observed, key, fewest)
    })
}

/// The separation by one label, if its values separate the blocks.
pub(super) fn by_key(observed: &Observed, key: &str) -> Option<Separation> {
    by_label(observed, key, 1)
}

fn by_label(observed: &Observed, key: &str, fewest: usize) -> Option<Separation> {
    let value = |name: &NodeName| observed.nodes.get(name)?.labels.get(key);
    let mut blocks: BTreeMap<(&str, Family), Vec<Block>> = BTreeMap::new();
    let mut holders: BTreeMap<&str, BTreeSet<&NodeName>> = BTreeMap::new();
    for (name, block) in held(observed) {
        let value = value(name)?;
        holders.entry(value).or_default().insert(name);
        let of_value = blocks.entry((value, block.family())).or_default();
        of_value.push(block);
    }
    if holders.len() < 2 || holders.values().any(|nodes| nodes.len() < fewest) {
        return None;
    }
    let around = blocks.values().map(|held| smallest_around(held));
    let (cidrs, strays): (Vec<_>, Vec<_>) = around.unzip();
    let mut cidrs: Vec<Block> = cidrs.concat();
    cidrs.sort_by_key(|cidr| cidr.range().first_and_family());
    let mut all = [cidrs.clone(), strays.concat()].concat();
    all.sort_by_key(|cidr| cidr.range().first_and_family());
    let is_disjoint = all.windows(2).all(|pair| !pair[0].overlaps(pair[1]));
    is_disjoint.then(|| Separation {
        key: key.to_owned(),
        cidrs,
    })
}

/// The first label of racks or zones with a value that no selector can have, and the number of nodes
/// with such a value.
pub(super) fn unusable(observed: &Observed) -> Option<(String, usize)> {
    let mut nodes: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    for (key, value) in observed.nodes.values().flat_map(|node| &node.labels) {
        if names_places(key) && !is_selectable(key, value) {
            *nodes.entry((rank(key), key)).or_default() += 1;
        }
    }
    let ((_, key), number) = nodes.into_iter().next()?;
    Some((key.to_owned(), number))
}

/// Whether Cilium's operator or a controller of Kubernetes gives the next node its block.
fn allocator_ignores_labels(observed: &Observed) -> bool {
    if observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool) {
        let mut nodes = observed.nodes.values();
        return nodes.any(|node| match observed.block_allocator(node) {
            BlockAllocator::Operator | BlockAllocator::ScaledToZero | BlockAllocator::Unseen => {
                true
            }
            BlockAllocator::SkippedNode | BlockAllocator::External => false,
        });
    }
    OtherAllocator::of(observed, &Policy::default())
        .active()
        .is_some()
}
