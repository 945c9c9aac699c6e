//! Ipam `multi-pool`: pools without free blocks or with addresses in common, blocks of nodes that
//! no pool has any more, and nodes whose default pool does not exist.

use std::collections::{BTreeMap, BTreeSet};

use super::orphans::Orphans;
use super::pod_pool_surplus::{RELEASE, Surplus};
use super::{about_nodes, finding, named};
use ipam_cilium::observed::{
    CiliumNode, Observed, ObservedKind, OperatorComplaint, PodRanges, SeenPodPool,
};
use ipam_core::model::{Finding, NodeName, ObjectRef, Severity, grouped_digits};
use ipam_core::net::{Block, Family, Range, overlapping_pairs};
use ipam_desired::Desired;
use ipam_plan::capacity::Supply;
use ipam_plan::capacity::waiting::asks_for_more;
use ipam_plan::plan::BlockCounts;

fn subject(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "CiliumPodIPPool",
        name: name.to_owned(),
    }
}

/// Whether the pools of this mode were read.
fn are_known(observed: &Observed) -> bool {
    observed.is_multi_pool() && observed.blind_spot(ObservedKind::PodIpPool).is_none()
}

/// Whether the agent asks for more addresses of a pool than the node has.
pub(super) fn waits_for(node: &CiliumNode, pool: &str) -> bool {
    Family::BOTH
        .into_iter()
        .any(|family| asks_for_more(node, pool, family))
}

/// Pools with few free blocks or none. Nodes that wait for one make it an error.
pub(super) fn exhausted(
    desired: Option<&Desired>,
    observed: &Observed,
    orphans: &Orphans<'_>,
) -> Vec<Finding> {
    if !are_known(observed) {
        return Vec::new();
    }
    let of_nodes = observed.allocated_of_pools();
    let pools = observed.pod_pools.iter().flat_map(|(name, pool)| {
        let families = Family::BOTH.into_iter();
        families.filter_map(move |family| {
            Some(((name.as_str(), pool), family, pool.ranges.get(family)?))
        })
    });
    let pools = pools.filter(|((name, _), family, _)| !orphans.fill(Some(name), *family));
    // A pool of the files has its own rule.
    let is_of_files = |name: &str| {
        desired.is_some_and(|desired| desired.pools.keys().any(|pool| pool.as_str() == name))
    };
    let finding = |((name, pool), family, ranges): ((&str, &SeenPodPool), Family, &PodRanges)| {
        let held = of_nodes.get(name).map(Vec::as_slice).unwrap_or_default();
        let surplus = Surplus::of(observed, (name, family), ranges, held);
        let usage = Usage(Supply::of_pod_pool((name, pool), ranges, held).counts());
        let waiting: Vec<&NodeName> = observed
            .cilium_nodes
            .values()
            .filter(|node| usage.0.free == 0 && asks_for_more(node, name, family))
            .map(|node| &node.name)
            .collect();
        let is_worth_it = usage.is_nearly_full() && !is_of_files(name);
        match is_worth_it || !waiting.is_empty() {
            true => Some(usage.finding(name, family, ranges, &waiting, &surplus)),
            false => surplus.finding(name, family),
        }
    };
    pools.filter_map(finding).collect()
}

/// The blocks of a family of a pool.
struct Usage(BlockCounts);

impl Usage {
    fn is_nearly_full(&self) -> bool {
        super::is_nearly_full(self.0.total - self.0.free, self.0.total)
    }

    fn finding(
        &self,
        name: &str,
        family: Family,
        ranges: &PodRanges,
        waiting: &[&NodeName],
        surplus: &Surplus<'_>,
    ) -> Finding {
        let name_text = name.escape_debug();
        let BlockCounts {
            free, total, used, ..
        } = self.0;
        let [free, total, used] = [free, total, used].map(grouped_digits);
        let message = match waiting {
            [] => {
                format!("CiliumPodIPPool `{name_text}` has {free} of {total} {family} blocks left")
            }
            _ => format!(
                "CiliumPodIPPool `{name_text}` has no free {family} block, and {} ask for more",
                named(waiting)
            ),
        };
        let severity = match waiting {
            [] => Severity::Warning,
            _ => Severity::Error,
        };
        let finding = finding(severity, "pod-pool-nearly-exhausted", message).about(subject(name));
        let finding = about_nodes(finding, waiting.iter().copied());
        let finding = finding.seen([
            format!(
                "spec.cidrs: {} in blocks of /{}",
                super::spaced(&ranges.cidrs),
                ranges.size.prefix_len()
            ),
            format!("{used} of {total} blocks are in spec.ipam.pools.allocated of CiliumNodes"),
        ]);
        let consequence = match waiting {
            [] => "nodes that need a further block get none, and new Pods there do not start",
            _ => "new Pods of this pool do not start there",
        };
        let append = "append a CIDR to the pool; never remove one that nodes use, and note that its mask size cannot change";
        let help = match surplus.is_empty() {
            true => append.to_owned(),
            false => format!(
                "{} keep many more blocks than they request: {RELEASE}. Or {append}",
                surplus.names()
            ),
        };
        finding
            .seen(surplus.evidence())
            .causes(consequence)
            .help(help)
    }
}

/// Blocks of nodes that no pool of that name has. Up to 1.18 the operator forgets such blocks, and
/// gives them again when the CIDR returns (`pkg/ipam/allocator/multipool/pool_allocator.go` @ 1.18
/// and 1.19).
pub(super) fn lost(observed: &Observed) -> Vec<Finding> {
    if !are_known(observed) {
        return Vec::new();
    }
    // A missing default pool has its own rule.
    let defaults: BTreeSet<&str> = observed
        .nodes
        .values()
        .map(|node| observed.default_pool(node))
        .collect();
    let mut gone: BTreeMap<&str, Vec<(&NodeName, Block)>> = BTreeMap::new();
    let mut cut: BTreeMap<&str, Vec<(&NodeName, Block)>> = BTreeMap::new();
    for (name, held) in observed.allocated_of_pools() {
        match observed.pod_pools.get(name) {
            None if defaults.contains(name) => {}
            None => gone.entry(name).or_default().extend(held),
            // An unreadable CIDR may be that of any block.
            Some(pool) if !pool.unreadable.is_empty() => {}
            Some(pool) => {
                let is_outside = |(_, block): &(&NodeName, Block)| {
                    !pool.cidrs().any(|cidr| cidr.contains(*block))
                };
                let outside: Vec<_> = held.into_iter().filter(is_outside).collect();
                if !outside.is_empty() {
                    cut.entry(name).or_default().extend(outside);
                }
            }
        }
    }
    let gone = gone.into_iter().map(|(pool, held)| deleted(pool, &held));
    let cut = cut.into_iter().map(|(pool, held)| shrunk(pool, &held));
    gone.chain(cut).collect()
}

fn about_holders(finding: Finding, pool: &str, held: &[(&NodeName, Block)]) -> Finding {
    let finding = about_nodes(finding.about(subject(pool)), distinct(held));
    let line = |(name, block): &(&NodeName, Block)| {
        format!("CiliumNode `{name}` spec.ipam.pools.allocated: {block}")
    };
    finding.seen(held.iter().map(line))
}

fn distinct<'n>(held: &[(&'n NodeName, Block)]) -> Vec<&'n NodeName> {
    let names: BTreeSet<&NodeName> = held.iter().map(|(name, _)| *name).collect();
    names.into_iter().collect()
}

fn deleted(pool: &str, held: &[(&NodeName, Block)]) -> Finding {
    let message = format!(
        "CiliumPodIPPool `{}` does not exist, but {} still have blocks of it",
        pool.escape_debug(),
        named(&distinct(held))
    );
    let finding = finding(Severity::Error, "pod-pool-deleted-in-use", message);
    about_holders(finding, pool, held)
        .causes("its nodes get no further block; up to Cilium 1.18, another pool with these addresses gives them a second time")
        .help("create the pool again with the same CIDRs and mask size; to remove it, first move its Pods and wait until no CiliumNode has a block of it")
}

fn shrunk(pool: &str, held: &[(&NodeName, Block)]) -> Finding {
    let message = format!(
        "CiliumPodIPPool `{}` has no CIDR for blocks that {} still have of it",
        pool.escape_debug(),
        named(&distinct(held))
    );
    let finding = finding(Severity::Error, "pod-pool-cut-in-use", message);
    about_holders(finding, pool, held)
        .causes("up to Cilium 1.18 the operator forgets these blocks, and gives them to other nodes when the CIDR returns")
        .help("add the CIDR to the pool again and restart Cilium's operator; to remove it, drain these nodes, delete their CiliumNodes and restart their agents first")
}

/// Whether the rules of this module, or the rule about missing default pools, report this complaint
/// of the operator about the node.
pub(super) fn tells(observed: &Observed, node: &CiliumNode, complaint: &OperatorComplaint) -> bool {
    if !are_known(observed) {
        return false;
    }
    match complaint {
        OperatorComplaint::PoolEmpty(pool) => {
            observed.pod_pools.contains_key(pool) && waits_for(node, pool)
        }
        OperatorComplaint::PoolMissing(pool) => {
            let has_block = node.allocated.iter().any(|(name, _)| name == pool);
            let is_default = observed
                .nodes
                .get(&node.name)
                .is_some_and(|node| observed.default_pool(node) == pool);
            !observed.pod_pools.contains_key(pool) && (has_block || is_default)
        }
        OperatorComplaint::Full | OperatorComplaint::Other(_) => false,
    }
}

/// The operator tracks each pool separately (`operator/pkg/ipam/allocator/multipool` @
/// 1.15 to 1.19).
pub(super) fn overlaps(observed: &Observed) -> Vec<Finding> {
    if !observed.is_multi_pool() {
        return Vec::new();
    }
    let ranges: Vec<(Range, &str)> = observed
        .pod_pools
        .iter()
        .flat_map(|(name, pool)| pool.cidrs().map(move |cidr| (cidr.range(), name.as_str())))
        .collect();
    let mut pairs: Vec<(&str, &str)> = overlapping_pairs(ranges)
        .into_iter()
        .filter(|(a, b)| a != b)
        .collect();
    pairs.iter_mut().for_each(|(a, b)| {
        if a > b {
            std::mem::swap(a, b);
        }
    });
    pairs.sort_unstable();
    pairs.dedup();
    let finding = |(first, second): (&str, &str)| {
        let message = format!(
            "CiliumPodIPPools `{}` and `{}` have addresses in common",
            first.escape_debug(),
            second.escape_debug()
        );
        let finding = finding(Severity::Error, "pod-pools-overlap", message).about(subject(second));
        let finding =
            finding.causes("Cilium does not compare its pools, so two nodes get the same block");
        finding.help("remove the CIDR from the pool that no node has a block of, and restart Cilium's operator")
    };
    pairs.into_iter().map(finding).collect()
}

/// An agent waits for its default pool before its node gets ready.
pub(super) fn missing_defaults(observed: &Observed) -> Vec<Finding> {
    let is_blind =
        observed.is_blind_to_any(&[ObservedKind::PodIpPool, ObservedKind::CiliumNodeConfig]);
    if !observed.is_multi_pool() || is_blind {
        return Vec::new();
    }
    let mut missing: BTreeMap<&str, Vec<&NodeName>> = BTreeMap::new();
    for node in observed.nodes.values() {
        let pool = observed.default_pool(node);
        if !observed.pod_pools.contains_key(pool) {
            missing.entry(pool).or_default().push(&node.name);
        }
    }
    let held = observed.allocated_of_pools();
    let finding = |(pool, nodes): (&str, Vec<&NodeName>)| {
        let message = format!(
            "CiliumPodIPPool `{}`, the default pool of {}, does not exist",
            pool.escape_debug(),
            named(&nodes)
        );
        let finding =
            finding(Severity::Error, "default-pool-missing", message).about(subject(pool));
        let finding = about_nodes(finding, nodes.iter().copied());
        let holders = held.get(pool).into_iter().flatten();
        let line = |(name, block): &(&NodeName, Block)| {
            format!("CiliumNode `{name}` spec.ipam.pools.allocated: {block}")
        };
        let finding = finding
            .seen(holders.map(line))
            .causes("agents that start there wait for it, and Pods get no address");
        finding.help("create the pool, or set ipam-default-ip-pool to another one (`cilium-ipam apply` does both)")
    };
    missing.into_iter().map(finding).collect()
}
