//! Ranges of allocators over addresses in other use, before a node gets a block there.

use std::collections::BTreeSet;

use super::finding;
use ipam_cilium::observed::{
    Allocator, AllocatorStatus, BlockAllocator, ModeSeen, Observed, ObservedKind, OtherUser,
    setting_key,
};
use ipam_core::model::{Finding, IpamMode, ObjectRef, Severity, grouped_digits};
use ipam_core::net::{Block, BlockSize, Family, Range, RangeIndex};

/// Free blocks before the first overlap, up to which a range is a warning.
const SOON: u128 = 256;

/// A range from which an allocator gives blocks.
struct Supply<'o> {
    range: Range,
    size: BlockSize,
    /// Where the range stands.
    source: String,
    /// The object that has the range, if it is one.
    object: Option<&'o str>,
    help: &'static str,
}

/// The allocators take the lowest free block, so a range bites when the blocks before the overlap
/// are used.
pub(super) fn over_other_addresses(observed: &Observed) -> Vec<Finding> {
    let held: Vec<Range> = observed
        .pod_blocks()
        .map(|(_, block)| block.range())
        .collect();
    let held_index = RangeIndex::new(held.iter().map(|range| (*range, ())));
    // Blocks that overlap already have their own finding.
    let others = observed
        .used_by_others()
        .filter(|(range, _)| held_index.overlapping(range).next().is_none());
    let others = RangeIndex::new(others);
    let supplies = supplies(observed);
    let finding = |supply: &Supply<'_>| of_supply(supply, &others, &held_index);
    supplies.iter().filter_map(finding).collect()
}

fn of_supply(
    supply: &Supply<'_>,
    others: &RangeIndex<OtherUser<'_>>,
    held: &RangeIndex<()>,
) -> Option<Finding> {
    let users: BTreeSet<(Range, OtherUser<'_>)> =
        others.overlapping(&supply.range).copied().collect();
    let (range, user) = users.first()?;
    let left = supply.free_before(range, held);
    let (severity, when) = match left {
        0 => (Severity::Warning, "the next block".to_owned()),
        _ => {
            let severity = match left <= SOON {
                true => Severity::Warning,
                false => Severity::Info,
            };
            (
                severity,
                format!("after {} free blocks", grouped_digits(left)),
            )
        }
    };
    let more = match users.len() - 1 {
        0 => String::new(),
        count => format!(", and {} more", grouped_digits(count)),
    };
    let Supply { source, .. } = supply;
    let message = format!(
        "{source} has {}, which overlaps {range}, {user}{more}: it is reached {when}",
        supply.range
    );
    let finding = finding(severity, "range-over-other-addresses", message);
    let finding = match supply.object {
        Some(name) => finding.about(ObjectRef {
            kind: "CiliumPodIPPool",
            name: name.to_owned(),
        }),
        None => finding,
    };
    let finding = finding.seen(users.iter().map(|(range, user)| format!("{range}: {user}")));
    Some(
        finding
            .causes("the node that gets such a block has Pods whose packets go elsewhere")
            .help(supply.help),
    )
}

impl Supply<'_> {
    /// Free blocks before the first one that overlaps this user.
    fn free_before(&self, user: &Range, held: &RangeIndex<()>) -> u128 {
        let Some(before) = self.range.before(user) else {
            return 0;
        };
        let bits = u32::from(self.size.family().bits() - self.size.prefix_len());
        let whole = before
            .width()
            .saturating_add(1)
            .checked_shr(bits)
            .unwrap_or(0);
        whole.saturating_sub(held.overlapping(&before).count() as u128)
    }
}

fn supplies(observed: &Observed) -> Vec<Supply<'_>> {
    match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::ClusterPool) => of_operator(observed),
        ModeSeen::Known(IpamMode::MultiPool) => of_pod_pools(observed),
        ModeSeen::Known(IpamMode::Kubernetes) => of_controllers(observed),
        ModeSeen::Known(_) | ModeSeen::Unknown(_) | ModeSeen::NoSettings => Vec::new(),
    }
}

fn of_operator(observed: &Observed) -> Vec<Supply<'_>> {
    // If another program gives the blocks, these ranges are idle.
    let is_idle = observed
        .nodes
        .values()
        .all(|node| observed.block_allocator(node) == BlockAllocator::External);
    if is_idle {
        return Vec::new();
    }
    let of_family = |family: Family| {
        let source = match family {
            Family::Ipv4 => setting_key::CLUSTER_POOL_IPV4_CIDR,
            Family::Ipv6 => setting_key::CLUSTER_POOL_IPV6_CIDR,
        };
        let size = observed.operator_mask(family);
        let size = size.and_then(|mask| BlockSize::new(family, u64::from(mask)).ok());
        let ranges = observed.operator_ranges(family).into_iter();
        ranges.filter_map(move |range: Block| {
            Some(Supply {
                range: range.range(),
                size: size?,
                source: format!("{source} of Cilium's operator"),
                object: None,
                help: "before it is reached, append a CIDR elsewhere and give each new node a block of it (`cilium-ipam` reserves these addresses by itself); never change the existing CIDR",
            })
        })
    };
    Family::BOTH.into_iter().flat_map(of_family).collect()
}

fn of_pod_pools(observed: &Observed) -> Vec<Supply<'_>> {
    if observed.blind_spot(ObservedKind::PodIpPool).is_some() {
        return Vec::new();
    }
    let pools = observed.pod_pools.iter();
    let of_pool = pools.flat_map(|(name, pool)| {
        let ranges = pool.ranges.iter();
        ranges.flat_map(move |ranges| {
            ranges.cidrs.iter().map(move |cidr| Supply {
                range: cidr.range(),
                size: ranges.size,
                source: format!("CiliumPodIPPool `{}`", name.escape_debug()),
                object: Some(name.as_str()),
                help: "append CIDRs that leave these addresses out; remove the wide CIDR once no CiliumNode has a block of it",
            })
        })
    });
    of_pool.collect()
}

fn of_controllers(observed: &Observed) -> Vec<Supply<'_>> {
    let supply = |(allocator, range): (&Allocator, &Range)| {
        // `--node-cidr-mask-size` and its IPv6 twin, by default.
        let size = match range.family() {
            Family::Ipv4 => 24,
            Family::Ipv6 => 64,
        };
        Some(Supply {
            range: *range,
            size: BlockSize::new(range.family(), size).ok()?,
            source: format!("--cluster-cidr of {}", allocator.name),
            object: None,
            help: "before it is reached, run the controller with --allocate-node-cidrs=false and let `cilium-ipam` assign the blocks",
        })
    };
    let allocators = observed.allocators.iter();
    let active = allocators.filter(|allocator| allocator.status == AllocatorStatus::Active);
    let ranges = active.flat_map(|one| one.cluster_cidrs.iter().map(move |range| (&**one, range)));
    ranges.filter_map(supply).collect()
}
