//! `status.ipam.operator-status.error` of CiliumNodes: what it means for the node, and the fix.

use super::cilium_nodes::subject;
use super::{finding, pod_pool_use};
use crate::growth::Growth;
use ipam_cilium::observed::{
    CiliumNode, FamilyUse, ModeSeen, Observed, ObservedKind, OperatorComplaint,
};
use ipam_core::model::{Finding, IpamMode, Severity};
use ipam_core::net::Family;

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

pub(super) fn all(observed: &Observed) -> Vec<Finding> {
    let growth = Growth::of_cluster(observed);
    let nodes = observed.cilium_nodes.values();
    nodes
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

fn blocks_of(observed: &Observed, node: &CiliumNode) -> String {
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
            full_family(observed, node).map_or_else(String::new, |family| {
                growth.advice_for_operator(family)
            }),
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

/// The first enabled family that the node has no block of.
fn full_family(observed: &Observed, node: &CiliumNode) -> Option<Family> {
    let lacks = |family: &Family| !node.pod_cidrs.iter().any(|block| block.family() == *family);
    let is_used = |family: &Family| observed.cilium.use_of(*family) != FamilyUse::Off;
    Family::BOTH
        .into_iter()
        .find(|family| is_used(family) && lacks(family))
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
