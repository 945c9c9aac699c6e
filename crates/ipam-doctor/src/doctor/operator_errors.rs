//! CiliumNodes that the operator refuses or will refuse, with the meaning and the fix of
//! `status.ipam.operator-status.error`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::capacity::is_cluster_pool_full;
use super::orphans::Orphans;
use super::{finding, pod_pool_use};
use ipam_cilium::observed::{
    BlockAllocator, CiliumNode, FamilyUse, ModeSeen, Observed, ObservedKind, OperatorBlocks,
    OperatorComplaint, OperatorRefusal, OtherUser,
};
use ipam_core::model::{Finding, IpamMode, ObjectRef, Severity, count};
use ipam_core::net::{Block, Family, RangeIndex};
use ipam_plan::check::operator_settings;
use ipam_plan::growth::Growth;

/// What an error of the operator means for its node.
enum Meaning {
    /// Other findings name the cause.
    Told,
    /// What it complains about is over: the operator did not clear it (cilium#28758).
    Outdated,
    /// The node has no block, so nothing of it is at risk.
    NoBlock(&'static str, String),
    /// The agent uses blocks that the operator does not accept.
    Refused,
}

pub(super) fn all(observed: &Observed, orphans: &Orphans<'_>) -> Vec<Finding> {
    let growth = Growth::of_cluster(observed);
    let nodes = observed.cilium_nodes.values();
    nodes
        .filter(|node| !orphans.keep_from(&node.name))
        .filter_map(|node| of_node(observed, node, &growth))
        .collect()
}

fn of_node(observed: &Observed, node: &CiliumNode, growth: &Growth<'_>) -> Option<Finding> {
    let error = node.operator_error.as_ref()?;
    let evidence = [
        format!("spec.ipam: {}", blocks_of(observed, node)),
        format!(
            "status.ipam.operator-status.error: {}",
            error.escape_debug()
        ),
    ];
    let text = error.escape_debug();
    let name = &node.name;
    let of = |severity, rule, message| {
        finding(severity, rule, message)
            .about(subject(node))
            .seen(evidence)
    };
    Some(match meaning(observed, node, error, growth) {
        Meaning::Told => return None,
        Meaning::Outdated => {
            let message = format!("CiliumNode `{name}` still shows an error that is over: {text}");
            let finding = of(Severity::Info, "operator-error-outdated", message);
            finding
                .causes("nothing: the node has what it asks for")
                .help("none needed; the operator clears it at its next write to the node, at the latest after a restart")
        }
        Meaning::NoBlock(causes, help) => {
            let message = format!("Cilium's operator gives CiliumNode `{name}` no block: {text}");
            let finding = of(Severity::Error, "operator-error", message);
            finding.causes(causes).help(help)
        }
        Meaning::Refused => {
            let message = format!(
                "Cilium's operator does not accept what CiliumNode `{name}` asks for: {text}"
            );
            let finding = of(Severity::Error, "operator-error", message);
            finding
                .causes("its agent uses these blocks anyway, and the operator may give them to another node")
                .help("drain the node, delete the CiliumNode, and create it with a block that is free and inside the operator's ranges")
        }
    })
}

pub(super) fn blocks_of(observed: &Observed, node: &CiliumNode) -> String {
    let blocks = if observed.is_multi_pool() {
        observed.pod_blocks_of(&node.name)
    } else {
        node.pod_cidrs.clone()
    };
    match blocks.is_empty() {
        true => "no block".to_owned(),
        false => super::spaced(blocks),
    }
}

fn meaning(observed: &Observed, node: &CiliumNode, error: &str, growth: &Growth<'_>) -> Meaning {
    let complaints = OperatorComplaint::all_of(error);
    if complaints.is_empty() {
        return Meaning::Refused;
    }
    let is_full = complaints.contains(&OperatorComplaint::Full);
    let full_family = full_family(observed, node);
    // A mask that is too short for a range has a finding of its own.
    if is_full && full_family.is_some_and(|one| operator_settings::give_no_block(observed, one)) {
        return Meaning::Told;
    }
    let left: Vec<&OperatorComplaint> = complaints
        .iter()
        .filter(|complaint| !is_outdated(observed, node, complaint))
        .collect();
    if left.is_empty() {
        return Meaning::Outdated;
    }
    let tells = |complaint: &&OperatorComplaint| pod_pool_use::tells(observed, node, complaint);
    if left.iter().all(tells) {
        return Meaning::Told;
    }
    let missing = left.iter().find_map(|complaint| match complaint {
        OperatorComplaint::PoolMissing(pool) => Some(pool),
        _ => None,
    });
    if let Some(pool) = missing {
        return Meaning::NoBlock(
            "Pods that ask for this pool do not start there",
            format!(
                "create CiliumPodIPPool `{}`, or correct the annotation ipam.cilium.io/ip-pool of the Pods and namespaces that name it",
                pool.escape_debug()
            ),
        );
    }
    match left.contains(&&OperatorComplaint::Full) {
        true => Meaning::NoBlock(
            "its agent waits for a block, and no Pod starts there",
            full_family.map_or_else(String::new, |family| growth.advice_for_operator(family, 1)),
        ),
        false if has_no_block(observed, node) => Meaning::NoBlock(
            "its agent waits for a block, and no Pod starts there",
            "fix what the operator names; neither drain the node nor delete its CiliumNode, as it holds no block".to_owned(),
        ),
        false => Meaning::Refused,
    }
}

fn has_no_block(observed: &Observed, node: &CiliumNode) -> bool {
    node.unreadable.is_empty() && observed.pod_blocks_of(&node.name).is_empty()
}

/// The enabled family of which the operator has no block for the node. It asks for IPv4 first, and
/// gives blocks of both families or none.
fn full_family(observed: &Observed, node: &CiliumNode) -> Option<Family> {
    let lacks = |family: &Family| !node.pod_cidrs.iter().any(|block| block.family() == *family);
    let is_used = |family: &Family| observed.cilium.use_of(*family) != FamilyUse::Off;
    let families = Family::BOTH.into_iter();
    let mut lacking = families.filter(|family| is_used(family) && lacks(family));
    let full = lacking
        .clone()
        .find(|one| is_cluster_pool_full(observed, *one));
    full.or_else(|| lacking.next())
}

/// Whether the cluster shows that the cause is gone.
fn is_outdated(observed: &Observed, node: &CiliumNode, complaint: &OperatorComplaint) -> bool {
    let is_cluster_pool = observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool);
    let knows_pools =
        observed.is_multi_pool() && observed.blind_spot(ObservedKind::PodIpPool).is_none();
    match complaint {
        OperatorComplaint::Full => is_cluster_pool && full_family(observed, node).is_none(),
        OperatorComplaint::PoolEmpty(pool) => knows_pools && !pod_pool_use::waits_for(node, pool),
        OperatorComplaint::PoolMissing(pool) => {
            let is_there = observed.pod_pools.contains_key(pool);
            knows_pools && is_there && !pod_pool_use::waits_for(node, pool)
        }
        OperatorComplaint::Other(_) => false,
    }
}

pub(super) fn subject(node: &CiliumNode) -> ObjectRef {
    ObjectRef {
        kind: "CiliumNode",
        name: node.name.to_string(),
    }
}

/// How a node gets a block of the operator's ranges.
pub(super) const NEW_BLOCK: &str = "drain the node, delete its CiliumNode and restart its agent: Cilium's operator then gives it a block of its ranges";

/// In ipam `cluster-pool`: blocks outside the ranges of the operator, which it refuses when it reads
/// them, in its own words. One finding for those whose range may be appended, one for the others.
pub(super) fn refused_soon(observed: &Observed) -> Vec<Finding> {
    let operator_blocks = OperatorBlocks::new(observed);
    let others = RangeIndex::new(observed.used_by_others());
    let mut refused: BTreeMap<Appending, Vec<(&CiliumNode, OperatorRefusal)>> = BTreeMap::new();
    for node in observed.cilium_nodes.values() {
        let giver = observed.nodes.get(&node.name);
        let giver = giver.map(|node| observed.block_allocator(node));
        let keeps_account = matches!(
            giver,
            Some(BlockAllocator::Operator | BlockAllocator::ScaledToZero)
        );
        let mut blocks = node.pod_cidrs.iter();
        let refusal = blocks.find_map(|block| {
            match operator_blocks.cluster_pool_refusal(*block, &node.name)? {
                OperatorRefusal::OutOfRange(block) => Some(block),
                OperatorRefusal::NoAllocator(_) | OperatorRefusal::Taken(..) => None,
            }
        });
        if let Some(block) = refusal.filter(|_| keeps_account && node.operator_error.is_none()) {
            let appending = Appending::of(observed, block, &others);
            let refusal = OperatorRefusal::OutOfRange(block);
            refused.entry(appending).or_default().push((node, refusal));
        }
    }
    let refused = refused.into_iter();
    refused
        .filter_map(|(appending, nodes)| refusal(appending, &nodes))
        .collect()
}

/// Whether the operator may get the range of a block in addition to its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Appending {
    Possible,
    /// It contains addresses of machines, Services or load balancers, a range of the operator, or
    /// less than a block.
    Harmful,
}

impl Appending {
    fn of(observed: &Observed, block: Block, others: &RangeIndex<OtherUser<'_>>) -> Appending {
        let family = block.family();
        let ranges = observed.operator_ranges(family);
        let is_in_use = others.overlapping(&block.range()).next().is_some();
        let collides = ranges.iter().any(|range| range.overlaps(block));
        let mask = observed.operator_mask(family);
        let is_small = mask.is_none_or(|mask| block.prefix_len() > mask);
        match is_in_use || collides || is_small {
            true => Appending::Harmful,
            false => Appending::Possible,
        }
    }
}

fn refusal(appending: Appending, nodes: &[(&CiliumNode, OperatorRefusal)]) -> Option<Finding> {
    let [(first, reason), further @ ..] = nodes else {
        return None;
    };
    let message = match further.is_empty() {
        true => format!(
            "Cilium's operator will not accept what CiliumNode `{}` shows: {reason}",
            first.name
        ),
        false => format!(
            "Cilium's operator will not accept what {} show: of CiliumNode `{}`, {reason}",
            count(nodes.len(), "CiliumNode"),
            first.name
        ),
    };
    let line = |(node, _): &(&CiliumNode, OperatorRefusal)| {
        let blocks = super::spaced(&node.pod_cidrs);
        format!("CiliumNode `{}`: spec.ipam.podCIDRs {blocks}", node.name)
    };
    let finding = finding(Severity::Warning, "operator-will-refuse", message);
    let subjects = nodes.iter().map(|(node, _)| subject(node));
    let finding = finding.about_all(subjects).seen(nodes.iter().map(line));
    Some(
        finding
            .causes("the operator flags it permanently; its agent uses the block anyway")
            .help(match appending {
                Appending::Possible => "append the range to cluster-pool-ipv4-cidr or cluster-pool-ipv6-cidr and restart the operator",
                Appending::Harmful => NEW_BLOCK,
            }),
    )
}

/// CiliumNodes whose owner is an earlier Node of the same name. Kubernetes deletes them as soon as
/// its garbage collector compares the UIDs.
pub(super) fn of_earlier_nodes(observed: &Observed) -> Vec<Finding> {
    let finding = |node: &Arc<CiliumNode>| {
        let owner = node.owner.as_ref().filter(|owner| !owner.is_empty())?;
        let uid = &observed.nodes.get(&node.name)?.uid;
        if uid.is_empty() || uid == owner {
            return None;
        }
        let message = format!(
            "CiliumNode `{}` belongs to an earlier Node of this name",
            node.name
        );
        let evidence = [
            format!(
                "CiliumNode metadata.ownerReferences: Node {}",
                owner.escape_debug()
            ),
            format!("Node metadata.uid: {}", uid.escape_debug()),
            format!(
                "spec.ipam: {}",
                super::spaced(observed.pod_blocks_of(&node.name))
            ),
        ];
        let finding = finding(Severity::Error, "stale-ciliumnode", message)
            .about(subject(node))
            .seen(evidence);
        let finding = finding.causes(
            "Kubernetes deletes it, the operator gives its blocks to another node, and the Pods here lose their network",
        );
        Some(finding.help(
            "restart the agent of the node: when it starts, it writes the present Node as owner",
        ))
    };
    observed.cilium_nodes.values().filter_map(finding).collect()
}
