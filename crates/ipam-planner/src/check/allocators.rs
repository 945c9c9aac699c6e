//! Other allocators of pod CIDRs, compared with the files.

use std::sync::Arc;

use crate::allocators::{OtherAllocator, described, fix, reads_nodes};
use ipam_cilium::observed::{
    Allocator, AllocatorProof, AllocatorStatus, CloudRoutes, Observed, ObservedKind,
};
use ipam_core::model::{Finding, ObjectRef, Rule, Severity};
use ipam_core::net::Range;
use ipam_desired::{Desired, Pool};

/// An allocator that may assign pod CIDRs, or of which nothing is visible.
pub(super) fn unclear(desired: &Desired, observed: &Observed) -> Option<Finding> {
    match OtherAllocator::of(observed, &desired.policy) {
        OtherAllocator::Unknown(allocator) if reads_nodes(observed) => {
            let message = format!(
                "{}, so it is unknown whether it assigns spec.podCIDRs, too",
                described(allocator)
            );
            let finding = Finding::new(Severity::Warning, Rule("allocator-unknown"), message);
            let finding = finding.causes("two programs could assign one block to two nodes");
            Some(finding.help(fix(allocator)))
        }
        OtherAllocator::Unseen if observed.blind_spot(ObservedKind::ControllerPod).is_none() => {
            let message = "no Pod of kube-controller-manager is visible, so it is unknown whether it assigns blocks, too";
            let finding = Finding::new(Severity::Info, Rule("controller-manager-unseen"), message);
            Some(finding.help("make sure that it runs with --allocate-node-cidrs=false"))
        }
        _ => None,
    }
}

/// Allocators whose flags contradict the Policy, which says that they assign no more.
pub(super) fn acknowledged_and_active(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if !reads_nodes(observed) {
        return Vec::new();
    }
    let acknowledged = &desired.policy.acknowledged_allocators;
    let assigns = |one: &&Arc<Allocator>| {
        acknowledged.contains(&one.name)
            && one.status == AllocatorStatus::Active
            && one.proof == AllocatorProof::Flags
    };
    let allocators = observed.allocators.iter().filter(assigns);
    let contradicts = |allocator: &Arc<Allocator>| {
        let message = format!(
            "{}, and `acknowledgedAllocators` of the Policy says that it assigns no pod CIDRs",
            described(allocator)
        );
        let rule = Rule("acknowledged-allocator-active");
        let finding = Finding::new(Severity::Warning, rule, message);
        let finding = finding.causes("two programs can assign one block to two nodes");
        finding.help(&allocator.switch_off)
    };
    allocators.map(contradicts).collect()
}

/// A controller that makes routes, or fails to start, for blocks of its own range only.
pub(super) fn pools_outside(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    if !reads_nodes(observed) {
        return Vec::new();
    }
    let allocators = observed.allocators.iter();
    allocators
        .filter_map(|allocator| outside(desired, allocator))
        .collect()
}

fn outside(desired: &Desired, allocator: &Allocator) -> Option<Finding> {
    let (needs, consequence) = match (allocator.routes, allocator.status) {
        (CloudRoutes::On, _) => (
            "makes cloud routes",
            "Pods of nodes with a block of the pool are unreachable from other nodes",
        ),
        (CloudRoutes::Off, AllocatorStatus::Active) => (
            "assigns blocks",
            "it fails at its next start if a Node has a block of the pool",
        ),
        _ => return None,
    };
    let ranges = &allocator.cluster_cidrs;
    let is_outside = |range: Range| !ranges.iter().any(|around| around.contains(&range));
    let mut pools = desired.pools.values().filter_map(|pool: &Pool| {
        let mut outside = pool.ranges.iter();
        let range = outside.find(|range| is_outside(range.block.range()))?;
        Some((pool, range))
    });
    let (pool, range) = pools.next().filter(|_| !ranges.is_empty())?;
    let (name, of) = (allocator.name.escape_debug(), crate::doctor::spaced(ranges));
    let message = format!(
        "pool `{}` has {}, outside --cluster-cidr {of} of {name}, which {needs} for this range only",
        pool.name, range.block
    );
    let finding = Finding::new(
        Severity::Warning,
        Rule("pool-outside-cluster-cidr"),
        message,
    );
    let finding = finding
        .at(&range.origin, "outside")
        .about(ObjectRef::pool(&pool.name));
    let finding = pools.fold(finding, |finding, (pool, _)| {
        finding.about_also(ObjectRef::pool(&pool.name))
    });
    let finding = finding.seen([described(allocator)]).causes(consequence);
    Some(finding.help(format!(
        "use CIDRs inside {of}, or widen --cluster-cidr of {name} so that it covers every pool"
    )))
}
