//! The running release of Cilium, if its rules are unknown.
//!
//! A migration that is not over.
//!
//! Other allocators of pod CIDRs, compared with the files.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{operator_settings, shared_slots};
use crate::allocators::{OtherAllocator, described, fix, reads_nodes};
use ipam_cilium::observed::{
    Allocator, AllocatorProof, AllocatorStatus, CloudRoutes, Observed, ObservedKind,
    UnfinishedMigration,
};
use ipam_cilium::releases::{NEWEST, why_unknown};
use ipam_core::model::{CiliumVersion, Finding, ObjectRef, Rule, Severity};
use ipam_core::net::Range;
use ipam_core::text::joined;
use ipam_desired::{Desired, Pool};

/// Code of the finding about an unknown release.
pub const UNKNOWN_VERSION: &str = "unknown-version";

/// Findings that every command shows: they tell how far its answer can be trusted.
const ABOUT_CILIUM: [&str; 3] = [
    UNKNOWN_VERSION,
    "objects-like-cilium",
    "multiple-cilium-installations",
];

/// Releases that are visible, each with its source.
fn seen(observed: &Observed) -> BTreeSet<(CiliumVersion, String)> {
    let cilium = &observed.cilium;
    let detected = cilium.version.iter();
    let detected = detected.map(|(version, evidence)| (*version, evidence.to_string()));
    let operators = cilium.operator_versions.iter().flatten();
    let operators = operators.map(|version| (*version, "image tag of the operator".to_owned()));
    let agents = cilium.agents.iter().filter_map(|agent| agent.version);
    let agents = agents.map(|version| (version, "image tag of an agent".to_owned()));
    detected.chain(operators).chain(agents).collect()
}

/// Whether the rules of every release that runs are known.
pub(crate) fn are_known(observed: &Observed) -> bool {
    unknown(observed).is_empty()
}

/// Agents run, and no object tells their release.
fn is_hidden(observed: &Observed) -> bool {
    let cilium = &observed.cilium;
    let has_agents = !cilium.agents.is_empty() || cilium.agent_arguments.is_some();
    has_agents && seen(observed).is_empty()
}

/// A release that runs and is not known.
pub(crate) fn unknown(observed: &Observed) -> Vec<Finding> {
    let seen = seen(observed);
    let unknown = || {
        seen.iter()
            .filter_map(|(of, source)| Some((of, source, why_unknown(*of)?)))
    };
    let (why, fix) = match unknown().next_back() {
        Some((_, _, why)) => (why, "use a cilium-ipam that knows this release"),
        None if is_hidden(observed) => (
            "no image tag, chart label or CustomResourceDefinition tells the release of Cilium"
                .to_owned(),
            "run images with the tags of Cilium's releases, or let this account read the CustomResourceDefinition of CiliumNode",
        ),
        None => return Vec::new(),
    };
    let finding = Finding::new(Severity::Warning, Rule("unknown-version"), why);
    let finding = finding
        .seen(unknown().map(|(version, source, _)| format!("{source}: {version}")))
        .causes(format!(
            "the rules of {NEWEST} are used, and `watch` writes only `spec.podCIDRs` without approval"
        ));
    vec![finding.help(format!(
        "{fix}; until then, read the release notes of Cilium and approve each change with `apply`"
    ))]
}

/// What makes answers about Services uncertain. Without an operator, no Service gets an address.
pub fn about_services(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let faults = operator_settings::faults(desired, observed);
    about_cilium(observed).into_iter().chain(faults).collect()
}

/// What makes every answer about blocks of nodes uncertain: a command that shows no plan tells it, too.
pub fn about_blocks(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let is_uncertain = |finding: &Finding| finding.severity == Severity::Warning;
    let allocator = unclear(desired, observed).filter(is_uncertain);
    let active = acknowledged_and_active(desired, observed);
    let mut findings = about_services(desired, observed);
    let allocators = active.into_iter().chain(allocator);
    findings.extend(allocators.filter(|_| !desired.pools.is_empty()));
    findings.extend(shared_slots::removed_at_operator_start(desired, observed));
    findings
}

/// The findings about Cilium itself that every command shows.
pub fn about_cilium(observed: &Observed) -> Vec<Finding> {
    let seen = observed.findings.iter().cloned();
    let mut findings: Vec<Finding> = seen.chain(unknown(observed)).collect();
    findings.retain(|finding| ABOUT_CILIUM.contains(&finding.rule.0));
    findings.sort();
    findings
}

/// Says how far the migration came. The nodes that it still moves are blocked in a plan.
pub(super) fn unfinished(_: &Desired, observed: &Observed) -> Vec<Finding> {
    let finding = |migration: &UnfinishedMigration| {
        let UnfinishedMigration {
            id,
            state,
            waves,
            waves_done,
            nodes,
            moved,
            ..
        } = migration;
        let (id, state) = (id.escape_debug(), state.escape_debug());
        let far = match state.to_string().as_str() {
            "undoing" => format!("its {nodes} nodes go back"),
            _ => format!("{moved} of {nodes} nodes are moved ({waves_done} of {waves} waves)"),
        };
        let message = format!("migration {id} is unfinished: {far}, its state is `{state}`");
        Finding::new(Severity::Warning, Rule("migration-unfinished"), message).help(
            "look at it with `cilium-ipam migrate status`, then finish it with `migrate resume` or `migrate undo`",
        )
    };
    observed.migration.iter().map(finding).collect()
}

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
pub fn pools_outside(desired: &Desired, observed: &Observed) -> Vec<Finding> {
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
    let ranges = &allocator.cluster_cidrs.ranges;
    let is_outside = |range: Range| !ranges.iter().any(|around| around.contains(&range));
    let mut pools = desired.pools.values().filter_map(|pool: &Pool| {
        let mut outside = pool.ranges.iter();
        let range = outside.find(|range| is_outside(range.block.range()))?;
        Some((pool, range))
    });
    let (pool, range) = pools.next().filter(|_| !ranges.is_empty())?;
    let of = joined(ranges, " ");
    let message = format!(
        "pool `{}` has {}, outside {}: {} {needs} for this range only",
        pool.name,
        range.block,
        allocator.setting_of(&of),
        allocator.name.escape_debug()
    );
    let finding = Finding::new(
        Severity::Warning,
        Rule("pool-outside-cluster-cidr"),
        message,
    );
    let finding = finding
        .at(&range.origin, "outside")
        .about(ObjectRef::pool(&pool.name));
    let finding = finding.about_all(pools.map(|(pool, _)| ObjectRef::pool(&pool.name)));
    let finding = finding.seen([described(allocator)]).causes(consequence);
    Some(finding.help(format!(
        "use CIDRs inside {of}, or widen {} so that it covers every pool",
        allocator.setting_to_change()
    )))
}
