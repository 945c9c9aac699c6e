//! From what a pool was inferred.

use std::collections::{BTreeMap, BTreeSet};

use super::InferredPool;
use crate::proposal::{CidrSource, held_by};
use ipam_cilium::observed::Observed;
use ipam_core::model::NodeName;
use ipam_core::net::{Block, RangeIndex};

/// From what a pool was inferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub source: RangeSource,
    /// Key and value of the label by which its nodes were found.
    pub label: Option<(String, String)>,
    /// Nodes that hold a block of it.
    pub nodes: BTreeSet<NodeName>,
    /// Lowest and highest block that they hold, of each family in use.
    pub held: Vec<(Block, Block)>,
    /// CIDRs outside of the source, which nodes hold.
    pub outside: Vec<Block>,
    /// Nodes without a block, because of which it gives none.
    pub waiting: BTreeSet<NodeName>,
}

/// Where the CIDRs of a pool come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSource {
    /// `cluster-pool-ipv4-cidr` and `cluster-pool-ipv6-cidr`.
    CiliumSettings,
    /// `--cluster-cidr` of kube-controller-manager.
    ControllerManager,
    /// The smallest CIDRs around the held blocks.
    HeldBlocks,
    /// The held blocks themselves: they have another size than those of most nodes.
    UnusualBlocks,
    /// A `CiliumPodIPPool`.
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
