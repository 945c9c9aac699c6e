//! Ipam `multi-pool`: pools of Pods with addresses in common, and nodes whose default pool does not
//! exist.

use std::collections::BTreeMap;

use super::{finding, named};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::model::{Finding, NodeName, ObjectRef, Severity};
use ipam_core::net::{Block, Range, overlapping_pairs};

fn subject(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "CiliumPodIPPool",
        name: name.to_owned(),
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
        let (first, second) = (first.escape_debug(), second.escape_debug());
        let message = format!("CiliumPodIPPools `{first}` and `{second}` have addresses in common");
        let finding = finding(Severity::Error, "pod-pools-overlap", message)
            .about(subject(&second.to_string()));
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
        let pool = pool.escape_debug().to_string();
        let message = format!(
            "CiliumPodIPPool `{pool}`, the default pool of {}, does not exist",
            named(&nodes)
        );
        let finding =
            finding(Severity::Error, "default-pool-missing", message).about(subject(&pool));
        let finding = nodes.iter().fold(finding, |finding, name| {
            finding.about_also(ObjectRef::node(name))
        });
        let holders = held.get(pool.as_str()).into_iter().flatten();
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
