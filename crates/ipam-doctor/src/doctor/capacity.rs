//! Pools that are nearly full or have scattered free blocks, nodes with misplaced blocks, and allowed
//! address pairs of VMs' ports that differ from the blocks of their nodes.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::orphans::Orphans;
use super::{NEARLY, about_nodes, finding, is_nearly_full, named, spaced};
use ipam_cilium::observed::{ModeSeen, Observed};
use ipam_core::model::{
    Finding, IpamMode, NodeName, ObjectRef, PoolName, Rule, Severity, grouped_digits,
};
use ipam_core::net::Family;
use ipam_core::neutron::Id;
use ipam_desired::Desired;
use ipam_plan::capacity::Supply;
use ipam_plan::growth::Growth;
use ipam_plan::plan::{
    BlockCounts, Misplaced, MisplacedReason, Plan, PoolUse, PortChange, blocks_in_use,
    foreign_ranges, nodes_by_pool, pool_use,
};

pub(super) fn of_pools(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let uses = pool_use(desired, observed);
    let selected = nodes_by_pool(desired, observed);
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
        .filter(|pool_use| selected.contains_key(&pool_use.pool.name))
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
        counts: BlockCounts { free, .. },
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
        counts,
        ..
    } = pool_use;
    let BlockCounts {
        total,
        used,
        reserved,
        free,
    } = counts;
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
pub(super) fn of_cluster_pool(observed: &Observed, orphans: &Orphans<'_>) -> Vec<Finding> {
    if observed.cilium.mode() != ModeSeen::Known(IpamMode::ClusterPool) {
        return Vec::new();
    }
    Family::BOTH
        .into_iter()
        .filter(|family| !orphans.fill(None, *family))
        .filter_map(|family| of_cluster_pool_family(observed, family))
        .collect()
}

/// Cilium's own pool; `None` if nothing of it is known.
fn cluster_pool(observed: &Observed, family: Family) -> Option<Supply<'_>> {
    Supply::of_cluster_pool(observed, family).ok().flatten()
}

/// Whether Cilium's own pool has no free block.
pub(super) fn is_cluster_pool_full(observed: &Observed, family: Family) -> bool {
    cluster_pool(observed, family).is_some_and(|pool| pool.counts().free == 0)
}

fn of_cluster_pool_family(observed: &Observed, family: Family) -> Option<Finding> {
    let pool = cluster_pool(observed, family)?;
    let BlockCounts {
        total, used, free, ..
    } = pool.counts();
    is_nearly_full(used, total).then_some(())?;
    let [left, total, used] = [free, total, used].map(grouped_digits);
    let message = format!("Cilium's cluster pool has {left} of {total} {family} blocks left");
    let finding = finding(Severity::Warning, "cluster-pool-nearly-exhausted", message);
    let finding = finding.seen([
        format!(
            "cilium-config: {} in blocks of /{}",
            super::spaced(&pool.ranges),
            pool.size.prefix_len()
        ),
        format!("CiliumNodes use {used}"),
    ]);
    Some(
        finding
            .causes("new nodes get no block, and their agents wait")
            .help(Growth::of_cluster(observed).advice_for_operator(family, 1)),
    )
}

/// Findings of a plan about held blocks: one for each reason and pool, and one for each object that
/// fills a pool alone.
pub(super) fn of_plan(plan: &Plan) -> Vec<Finding> {
    let fillers = plan
        .findings
        .iter()
        .filter(|finding| finding.rule == Rule("one-node-fills-pool"));
    let fillers = fillers.map(|finding| {
        let consequence = "other nodes do not get these blocks".to_owned();
        Finding {
            consequence,
            ..finding.clone()
        }
    });
    misplaced(plan).into_iter().chain(fillers).collect()
}

fn misplaced(plan: &Plan) -> Vec<Finding> {
    let mut causes: BTreeMap<(&MisplacedReason, Option<&PoolName>), Vec<&Misplaced>> =
        BTreeMap::new();
    // These reasons have their own rules, which cover ipam `multi-pool`, too.
    let is_reported_here = |one: &&Misplaced| {
        !matches!(
            one.reason,
            MisplacedReason::InNoPool | MisplacedReason::UsedByOthers
        )
    };
    for one in plan.misplaced.iter().filter(is_reported_here) {
        causes
            .entry((&one.reason, one.pool.as_ref()))
            .or_default()
            .push(one);
    }
    causes
        .into_iter()
        .map(|((reason, pool), blocks)| of_cause(reason, pool, &blocks))
        .collect()
}

fn of_cause(reason: &MisplacedReason, pool: Option<&PoolName>, blocks: &[&Misplaced]) -> Finding {
    let nodes: BTreeSet<&NodeName> = blocks.iter().map(|one| &one.node).collect();
    let nodes: Vec<&NodeName> = nodes.into_iter().collect();
    let place = pool
        .map(|pool| format!(" of pool `{pool}`"))
        .unwrap_or_default();
    let (nodes_named, all) = (super::named(&nodes), grouped_digits(nodes.len()));
    let message = format!("{nodes_named} ({all} in all): blocks{place} are misplaced: {reason}");
    let evidence = blocks
        .iter()
        .map(|one| format!("`{}`: {} in {}", one.node, one.block, one.field));
    let finding = finding(Severity::Warning, "block-misplaced", message).seen(evidence);
    let finding =
        finding.causes("the nodes keep their blocks; new nodes with the same labels get others");
    let finding = finding.help(reason.help());
    let finding = super::about_nodes(finding, nodes);
    match blocks.first().and_then(|one| one.origin.as_ref()) {
        Some(origin) => finding.at(origin, "the pool of these blocks"),
        None => finding,
    }
}

/// Ranges by node and port.
type Ranges<'p> = BTreeMap<(&'p NodeName, &'p Id), BTreeSet<IpNet>>;

/// Findings of a plan about ports: what they lack, what they allow without need, and why that is
/// unknown.
pub(super) fn pairs_of_plan(plan: &Plan, observed: &Observed) -> Vec<Finding> {
    let ports = || plan.changes.iter().filter_map(|change| change.as_port());
    let held = |change: &PortChange| -> BTreeSet<IpNet> {
        let node = observed.nodes.get(&change.node).into_iter();
        let blocks = node.flat_map(|node| blocks_in_use(observed, node));
        blocks.map(IpNet::from).collect()
    };
    // No Pod has an address of a block that this plan would give.
    let missing = ports().map(|change| (change, &change.added & &held(change)));
    let stale = ports().map(|change| (change, change.removed.clone()));
    let unknown = plan
        .findings
        .iter()
        .filter(|finding| finding.rule.0.starts_with("address-pairs-"));
    lacking(&by_port(missing))
        .into_iter()
        .chain(excess(&by_port(stale)))
        .chain(unknown.cloned())
        .collect()
}

fn by_port<'p>(ranges: impl Iterator<Item = (&'p PortChange, BTreeSet<IpNet>)>) -> Ranges<'p> {
    let some = ranges.filter(|(_, ranges)| !ranges.is_empty());
    some.map(|(change, ranges)| ((&change.node, &change.port), ranges))
        .collect()
}

fn lacking(missing: &Ranges<'_>) -> Option<Finding> {
    let (nodes, evidence) = shown(missing, "lacks")?;
    let message = format!("{nodes}: the ports of their VMs do not allow pod CIDRs");
    let finding = finding(Severity::Error, "address-pairs-missing", message).seen(evidence);
    let finding = finding.causes("Neutron drops the packets that their Pods send");
    Some(about(missing, finding).help("`cilium-ipam apply` adds the pairs"))
}

fn excess(stale: &Ranges<'_>) -> Option<Finding> {
    let (nodes, evidence) = shown(stale, "allows")?;
    let message =
        format!("{nodes}: the ports of their VMs allow blocks that the nodes do not hold");
    let finding = finding(Severity::Warning, "address-pairs-stale", message).seen(evidence);
    let finding = finding.causes("such a VM can send from the addresses of another node's Pods");
    Some(about(stale, finding).help("`cilium-ipam apply` removes the pairs"))
}

/// The nodes, and one line for each port; `None` without ports.
fn shown(ranges: &Ranges<'_>, verb: &str) -> Option<(String, Vec<String>)> {
    let nodes = nodes(ranges);
    if nodes.is_empty() {
        return None;
    }
    let all = grouped_digits(nodes.len());
    let nodes = format!("{} ({all} in all)", named(&nodes));
    let line = |((node, port), ranges): (&(&NodeName, &Id), &BTreeSet<IpNet>)| {
        format!("`{node}`: port {port} {verb} {}", spaced(ranges))
    };
    Some((nodes, ranges.iter().map(line).collect()))
}

fn about(ranges: &Ranges<'_>, finding: Finding) -> Finding {
    about_nodes(finding, nodes(ranges))
}

fn nodes<'p>(ranges: &Ranges<'p>) -> Vec<&'p NodeName> {
    let nodes: BTreeSet<&NodeName> = ranges.keys().map(|(node, _)| *node).collect();
    nodes.into_iter().collect()
}
