//! Pools that are nearly full, and pools with scattered free blocks.

use std::cell::LazyCell;

use super::finding;
use crate::growth::Growth;
use crate::plan::{PoolUse, foreign_ranges, pool_use};
use ipam_cilium::observed::{ModeSeen, Observed};
use ipam_core::model::{Finding, IpamMode, ObjectRef, Severity, grouped_digits};
use ipam_core::net::{Block, Family};
use ipam_desired::Desired;

/// Percentage of used blocks from which a pool is nearly full.
const NEARLY: u128 = 90;

pub(super) fn of_pools(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let uses = pool_use(desired, observed);
    let growth = LazyCell::new(|| {
        let shown = observed.shown_blocks().map(|(_, block)| block.range());
        Growth::of_files(
            desired,
            observed,
            shown.chain(foreign_ranges(desired, observed)),
        )
    });
    let exhausted = uses
        .iter()
        .filter(|pool_use| pool_use.nodes > 0)
        .filter_map(|pool_use| exhaustion(pool_use, &growth));
    exhausted
        .chain(uses.iter().filter_map(fragmentation))
        .collect()
}

/// Fewer free blocks than this are always scattered.
const FEW: u128 = 16;

/// A finding if the longest run has less than a quarter of the free blocks.
fn fragmentation(pool_use: &PoolUse<'_>) -> Option<Finding> {
    let PoolUse {
        pool,
        family,
        free,
        longest_free,
        ..
    } = pool_use;
    let size = pool.block_size.get(*family)?;
    let block_width = 1u128 << (family.bits() - size.prefix_len()).min(127);
    let run = longest_free.map_or(0, |range| range.width() / block_width + 1);
    (*free >= FEW && run.saturating_mul(4) < *free).then_some(())?;
    let message = format!(
        "the {free} free {family} blocks of pool `{}` are scattered: at most {run} of them are adjacent",
        pool.name
    );
    let finding =
        finding(Severity::Info, "pool-fragmented", message).about(ObjectRef::pool(&pool.name));
    let range = longest_free.map(|range| format!("the longest run: {range}"));
    let finding = finding.at(&pool.origin, "scattered").seen(range);
    Some(
        finding
            .causes("routers cannot summarise the next blocks")
            .help("if summaries matter, add a further range for new nodes"),
    )
}

fn exhaustion<'g>(
    pool_use: &PoolUse<'_>,
    growth: &LazyCell<Growth<'g>, impl FnOnce() -> Growth<'g>>,
) -> Option<Finding> {
    let PoolUse {
        pool,
        family,
        total,
        used,
        reserved,
        free,
        ..
    } = pool_use;
    let usable = total.saturating_sub(*reserved);
    let percent = used.saturating_mul(100).checked_div(usable).unwrap_or(100);
    (percent >= NEARLY || *free == 0).then_some(())?;
    let message = match free {
        0 => format!("pool `{}` has no free {family} block", pool.name),
        _ => format!(
            "pool `{}` has {} of {} {family} blocks left",
            pool.name,
            grouped_digits(free),
            grouped_digits(usable)
        ),
    };
    let [used, reserved, free, total] = [used, reserved, free, total].map(grouped_digits);
    let finding = finding(Severity::Warning, "pool-nearly-exhausted", message)
        .about(ObjectRef::pool(&pool.name));
    let finding = finding
        .at(&pool.origin, format!("{percent} % used"))
        .seen([format!(
            "{used} used, {reserved} reserved, {free} free of {total}"
        )]);
    Some(
        finding
            .causes("new nodes get no block of it")
            .help(growth.advice(pool, *family, 1)),
    )
}

/// Cilium's own cluster pool.
pub(super) fn of_cluster_pool(observed: &Observed) -> Vec<Finding> {
    if observed.cilium.mode() != ModeSeen::Known(IpamMode::ClusterPool) {
        return Vec::new();
    }
    Family::BOTH
        .into_iter()
        .filter_map(|family| of_cluster_pool_family(observed, family))
        .collect()
}

fn of_cluster_pool_family(observed: &Observed, family: Family) -> Option<Finding> {
    let (ranges, size) = match family {
        Family::Ipv4 => ("cluster-pool-ipv4-cidr", "cluster-pool-ipv4-mask-size"),
        Family::Ipv6 => ("cluster-pool-ipv6-cidr", "cluster-pool-ipv6-mask-size"),
    };
    let ranges = observed.cilium.cluster_pool(ranges)?;
    let size: u8 = observed.common_setting(size)?.value.parse().ok()?;
    let blocks =
        |range: &Block| 1u128.checked_shl(u32::from(size.checked_sub(range.prefix_len())?));
    let total = ranges
        .iter()
        .filter_map(blocks)
        .fold(0u128, u128::saturating_add);
    let is_inside = |block: &&Block| ranges.iter().any(|range| range.contains(**block));
    let used = observed
        .cilium_nodes
        .values()
        .flat_map(|node| &node.pod_cidrs)
        .filter(is_inside)
        .count() as u128;
    (total > 0 && used.saturating_mul(100) / total >= NEARLY).then_some(())?;
    let [left, total, used] = [total.saturating_sub(used), total, used].map(grouped_digits);
    let message = format!("Cilium's cluster pool has {left} of {total} {family} blocks left");
    let finding = finding(Severity::Warning, "cluster-pool-nearly-exhausted", message);
    let finding = finding.seen([
        format!(
            "cilium-config: {} in blocks of /{size}",
            super::spaced(&ranges)
        ),
        format!("{used} nodes hold one"),
    ]);
    Some(
        finding
            .causes("new nodes get no block, and their agents wait")
            .help(Growth::of_cluster(observed).advice_for_operator(family)),
    )
}
