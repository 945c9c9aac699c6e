//! What gives nodes their blocks without the files: Cilium's operator, its pools of Pods, and programs
//! that assign `spec.podCIDRs`. By the IPAM mode of the cluster.

use std::collections::BTreeSet;

use super::{Row, Supplier, TimeLeft, Unknown, ranges_of};
use crate::allocators::reads_nodes;
use crate::check::operator_settings;
use crate::plan::BlockCounts;
use ipam_cilium::behaviours;
use ipam_cilium::observed::operator_settings::{mask_key, ranges_key};
use ipam_cilium::observed::{
    Allocator, AllocatorStatus, BlockAllocator, CiliumNode, FamilyUse, ModeSeen, Observed,
    ObservedKind, OperatorAttention, PodRanges, SeenPodPool,
};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, BlockSize, Family, Range, Slots, largest_gap, merge};

/// Widest difference of an IPv6 range and its blocks (`pkg/controller/nodeipam/ipam/cidrset` @
/// 1.36).
const MOST_BITS: u8 = 16;

/// The ranges of a family from which an allocator gives nodes blocks of one size.
#[derive(Clone, Debug)]
pub struct Supply<'o> {
    pub of: Supplier,
    /// Each once, in the order of the allocator.
    pub ranges: Vec<Block>,
    pub size: BlockSize,
    /// The blocks that count as used, with their nodes.
    pub held: Vec<(&'o NodeName, Block)>,
    /// Ranges that no node gets.
    pub kept_free: Vec<Range>,
    order: Order,
}

/// Whether the next block is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The lowest free block of the first range with one. The allocator goes on behind its last block
    /// until it restarts, so only the range is sure.
    FirstRange,
    /// It depends on what nodes ask for.
    ByRequest,
}

/// The next block of a family for a new node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextBlock {
    pub of: Supplier,
    pub family: Family,
    /// The range with a free block that the allocator uses first; `None` if all are full.
    pub range: Option<Range>,
}

impl<'o> Supply<'o> {
    fn new(
        of: Supplier,
        ranges: &[Block],
        size: BlockSize,
        held: Vec<(&'o NodeName, Block)>,
    ) -> Self {
        let mut seen = BTreeSet::new();
        let ranges = ranges.iter().filter(|range| seen.insert(**range));
        Supply {
            of,
            ranges: ranges.copied().collect(),
            size,
            held,
            kept_free: Vec::new(),
            order: Order::FirstRange,
        }
    }

    /// The operator's pool of a family; `None` if the family is off, or needs no range and has none.
    pub fn of_cluster_pool(
        observed: &'o Observed,
        family: Family,
    ) -> Result<Option<Supply<'o>>, Unknown> {
        let unreadable = |key: &str| Unknown {
            of: Supplier::ClusterPool,
            family: Some(family),
            why: format!("the value of `{key}` is not visible, or not readable"),
        };
        if observed.cilium.use_of(family) == FamilyUse::Off {
            return Ok(None);
        }
        let ranges = observed.operator_ranges(family);
        if ranges.is_empty() {
            let [ipv4, ipv6] = observed.written_pools();
            let written = match family {
                Family::Ipv4 => ipv4,
                Family::Ipv6 => ipv6,
            };
            let is_needed = observed.cilium.use_of(family) == FamilyUse::Required;
            return match written.ranges.effective() {
                None | Some("") if !is_needed => Ok(None),
                _ => Err(unreadable(ranges_key(family))),
            };
        }
        let mask = observed.operator_mask(family).map(u64::from);
        let size = mask.and_then(|mask| BlockSize::new(family, mask).ok());
        let size = size.ok_or_else(|| unreadable(mask_key(family)))?;
        let nodes = observed.cilium_nodes.values().map(|node| &**node);
        let nodes = nodes.filter(|node| is_counted(observed, node));
        let held = nodes.flat_map(|node| node.pod_cidrs.iter().map(|block| (&node.name, *block)));
        let of = Supplier::ClusterPool;
        Ok(Some(Supply::new(of, &ranges, size, held.collect())))
    }

    /// A family of a `CiliumPodIPPool`, of which nodes have these blocks.
    pub fn of_pod_pool(
        (name, pool): (&str, &SeenPodPool),
        ranges: &PodRanges,
        held: &[(&'o NodeName, Block)],
    ) -> Supply<'o> {
        let family = ranges.size.family();
        let held = held.iter().filter(|(_, block)| block.family() == family);
        let kept_free = pool
            .reserved
            .iter()
            .filter(|range| range.family() == family);
        let of = Supplier::PodPool(name.to_owned());
        Supply {
            kept_free: kept_free.copied().collect(),
            order: Order::ByRequest,
            ..Supply::new(of, &ranges.cidrs, ranges.size, held.copied().collect())
        }
    }

    /// Ranges of one family that an allocator cuts for Nodes.
    pub fn of_cluster_cidrs(
        observed: &'o Observed,
        allocator: &Allocator,
        ranges: &[Block],
        size: BlockSize,
    ) -> Supply<'o> {
        let held = observed.nodes.values().flat_map(|node| {
            let blocks = node.spec.get(size.family()).into_iter();
            blocks.map(|block| (&node.name, *block))
        });
        // The controller marks Service CIDRs inside its ranges as used (`filterOutServiceRange` of
        // `pkg/controller/nodeipam/ipam/range_allocator.go` @ 1.36).
        let services = observed.service_ranges.iter();
        let is_inside = |range: &&Range| ranges.iter().any(|of| of.range().overlaps(range));
        let of = Supplier::Allocator(allocator.name.clone());
        Supply {
            kept_free: services.filter(is_inside).copied().collect(),
            ..Supply::new(of, ranges, size, held.collect())
        }
    }

    pub fn family(&self) -> Family {
        self.size.family()
    }

    /// The slots of each range that has some, with the blocks of the nodes that count as taken.
    fn slots(&self, counts: impl Fn(&NodeName) -> bool) -> Vec<Slots> {
        let ranges = self.ranges.iter();
        let mut slots: Vec<Slots> = ranges
            .filter_map(|range| Slots::new(*range, self.size))
            .collect();
        for (_, block) in self.held.iter().filter(|(name, _)| counts(name)) {
            slots
                .iter_mut()
                .for_each(|slots| slots.take(&block.range()));
        }
        slots
    }

    /// Number of its blocks that these nodes use.
    pub fn used_by(&self, counts: impl Fn(&NodeName) -> bool) -> u128 {
        self.slots(counts).iter().map(Slots::taken).sum()
    }

    fn with_kept_free(&self, mut slots: Vec<Slots>) -> Vec<Slots> {
        for range in &self.kept_free {
            slots.iter_mut().for_each(|slots| slots.take(range));
        }
        slots
    }

    pub fn counts(&self) -> BlockCounts {
        let sum = |slots: &[Slots], count: fn(&Slots) -> u128| slots.iter().map(count).sum();
        let by_nodes = self.slots(|_| true);
        let (total, used) = (sum(&by_nodes, Slots::count), sum(&by_nodes, Slots::taken));
        let free: u128 = sum(&self.with_kept_free(by_nodes), Slots::free);
        BlockCounts {
            total,
            used,
            reserved: total - used - free,
            free,
        }
    }

    /// The first range with a free block, if the allocator uses its ranges in order.
    pub(super) fn next(&self) -> Option<NextBlock> {
        let mut slots = self.with_kept_free(self.slots(|_| true)).into_iter();
        (self.order == Order::FirstRange).then(|| NextBlock {
            of: self.of.clone(),
            family: self.family(),
            range: slots
                .find(|slots| slots.free() > 0)
                .map(|slots| *slots.range()),
        })
    }

    pub(super) fn row(self) -> Row {
        let taken = self.held.iter().map(|(_, block)| block.range());
        let taken = merge(taken.chain(self.kept_free.iter().copied()));
        let counts = self.counts();
        let is_inside = |block: &Block| self.ranges.iter().any(|range| range.overlaps(*block));
        let holders = self.held.iter().filter(|(_, block)| is_inside(block));
        let gaps = self
            .ranges
            .iter()
            .filter_map(|range| largest_gap(&range.range(), &taken));
        Row {
            family: self.family(),
            ranges: ranges_of(&self.ranges),
            size: Some(self.size),
            counts,
            longest_free: gaps.max_by_key(Range::width).filter(|_| counts.free > 0),
            holders: holders.map(|(name, _)| (*name).clone()).collect(),
            time_left: TimeLeft::Unknown,
            of: self.of,
        }
    }
}

/// The supplies of the cluster's IPAM mode, and those of which too little is known.
pub fn supplies(observed: &Observed) -> Vec<Result<Supply<'_>, Unknown>> {
    match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::ClusterPool) => of_operator(observed),
        ModeSeen::Known(IpamMode::MultiPool) => of_pod_pools(observed),
        ModeSeen::Known(IpamMode::Kubernetes) => of_allocators(observed),
        ModeSeen::Known(mode) => vec![unknown_mode(&format!(
            "`{mode}` takes addresses from elsewhere"
        ))],
        ModeSeen::Unknown(mode) => {
            vec![unknown_mode(&format!(
                "`{}` is not known",
                mode.escape_debug()
            ))]
        }
        ModeSeen::NoSettings => vec![unknown_mode("cilium-config is not visible")],
    }
}

fn unknown_mode(why: &str) -> Result<Supply<'static>, Unknown> {
    unknown(Supplier::Cilium, None, why)
}

fn unknown<'o>(of: Supplier, family: Option<Family>, why: &str) -> Result<Supply<'o>, Unknown> {
    let why = why.to_owned();
    Err(Unknown { of, family, why })
}

fn of_operator(observed: &Observed) -> Vec<Result<Supply<'_>, Unknown>> {
    // If another program gives nodes their blocks, the operator's ranges are idle.
    let is_idle = |node| observed.block_allocator(node) == BlockAllocator::External;
    let mut nodes = observed.nodes.values();
    if nodes.len() > 0 && nodes.all(|node| is_idle(node)) {
        return Vec::new();
    }
    if operator_settings::keep_it_from_starting(observed) {
        let why = "Cilium's operator does not start with its settings (operator-setting-rejected)";
        return vec![unknown(Supplier::ClusterPool, None, why)];
    }
    let families = Family::BOTH.into_iter();
    families
        .filter_map(|family| Supply::of_cluster_pool(observed, family).transpose())
        .collect()
}

/// Whether the operator counts the blocks of a CiliumNode as used.
fn is_counted(observed: &Observed, node: &CiliumNode) -> bool {
    let skips = |release| behaviours::IGNORED_NODES.include(release);
    let is_skipped = observed.cilium.oldest_operator().is_some_and(skips);
    !(is_skipped && node.attention == OperatorAttention::Ignored)
}

fn of_pod_pools(observed: &Observed) -> Vec<Result<Supply<'_>, Unknown>> {
    if let Some(blind) = observed.blind_spot(ObservedKind::PodIpPool) {
        return vec![unknown(Supplier::PodPool(String::new()), None, &blind.why)];
    }
    let held = observed.allocated_of_pools();
    let supplies = observed.pod_pools.iter().flat_map(|(name, pool)| {
        let held = held.get(name.as_str()).cloned().unwrap_or_default();
        let of = Supplier::PodPool(name.clone());
        if let Some(first) = pool.unreadable.first() {
            let why = format!("`{}` is not a CIDR or a size", first.escape_debug());
            return vec![unknown(of, None, &why)];
        }
        let pool_and_name = (name.as_str(), pool);
        let supply = |ranges: &PodRanges| Ok(Supply::of_pod_pool(pool_and_name, ranges, &held));
        pool.ranges.iter().map(supply).collect()
    });
    supplies.collect()
}

fn of_allocators(observed: &Observed) -> Vec<Result<Supply<'_>, Unknown>> {
    if !reads_nodes(observed) {
        return Vec::new();
    }
    let mut supplies = Vec::new();
    for allocator in &observed.allocators {
        match allocator.status {
            AllocatorStatus::Inactive => {}
            AllocatorStatus::Unknown => {
                let why = format!("it may assign pod CIDRs: {}", allocator.evidence);
                let of = Supplier::Allocator(allocator.name.clone());
                supplies.push(unknown(of, None, &why));
            }
            AllocatorStatus::Active => supplies.extend(of_allocator(observed, allocator)),
        }
    }
    supplies
}

/// The ranges of an active allocator, one supply for each family.
fn of_allocator<'o>(
    observed: &'o Observed,
    allocator: &Allocator,
) -> Vec<Result<Supply<'o>, Unknown>> {
    let of = || Supplier::Allocator(allocator.name.clone());
    let cidrs = &allocator.cluster_cidrs;
    let ranges: Vec<Block> = cidrs
        .ranges
        .iter()
        .filter_map(Range::largest_block)
        .collect();
    if ranges.is_empty() {
        return vec![unknown(of(), None, "its ranges are not visible")];
    }
    let families = Family::BOTH.into_iter();
    let supplies = families.filter_map(|family| {
        let ranges = ranges.iter().filter(|range| range.family() == family);
        let ranges: Vec<Block> = ranges.copied().collect();
        let first = ranges.first()?;
        let Some(size) = cidrs.block_sizes.get(family).copied() else {
            return Some(unknown(
                of(),
                Some(family),
                "the size of its blocks is not visible",
            ));
        };
        if let Some(why) = refused(*first, size) {
            return Some(unknown(of(), Some(family), why));
        }
        Some(Ok(Supply::of_cluster_cidrs(
            observed, allocator, &ranges, size,
        )))
    });
    supplies.collect()
}

/// Why kube-controller-manager does not start with a range and blocks of this size.
pub fn refused(range: Block, size: BlockSize) -> Option<&'static str> {
    let is_wide = size.prefix_len().saturating_sub(range.prefix_len()) > MOST_BITS;
    match Slots::new(range, size) {
        None => Some("the range is smaller than one block"),
        Some(_) if is_wide && range.family() == Family::Ipv6 => {
            Some("they are more than 16 bits apart")
        }
        Some(_) => None,
    }
}
