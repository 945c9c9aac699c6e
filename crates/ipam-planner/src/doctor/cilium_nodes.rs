//! CiliumNodes without their Node, and CiliumNodes that the operator will refuse.

use std::sync::Arc;

use super::finding;
use ipam_cilium::observed::{
    BlockAllocator, CiliumNode, Observed, OperatorBlocks, OperatorRefusal,
};
use ipam_core::model::{Finding, ObjectRef, Severity};

pub(super) fn subject(node: &CiliumNode) -> ObjectRef {
    ObjectRef {
        kind: "CiliumNode",
        name: node.name.to_string(),
    }
}

/// The lists of Nodes and CiliumNodes are consistent, so a joining node never appears here.
pub(super) fn orphans(observed: &Observed) -> Vec<Finding> {
    let orphans = observed
        .cilium_nodes
        .values()
        .filter(|node| !observed.nodes.contains_key(&node.name));
    let finding = |node: &Arc<CiliumNode>| {
        let message = format!("CiliumNode `{}` has no Node", node.name);
        let finding =
            finding(Severity::Warning, "orphan-cilium-node", message).about(subject(node));
        let keeper = node
            .keeper
            .as_deref()
            .unwrap_or("nothing: Cilium's operator removes it within minutes");
        let evidence = [
            format!("spec.ipam.podCIDRs: {}", super::spaced(&node.pod_cidrs)),
            format!("kept by {keeper}"),
        ];
        let finding = finding
            .seen(evidence)
            .causes("its blocks stay in use, and every agent keeps a route to it");
        finding.help(format!(
            "if the machine is gone: kubectl delete ciliumnode {}",
            node.name
        ))
    };
    orphans.map(finding).collect()
}

/// In ipam `cluster-pool`: blocks that the operator will refuse when it reads them, with its own
/// message.
pub(super) fn refused_soon(observed: &Observed) -> Vec<Finding> {
    let operator_blocks = OperatorBlocks::new(observed);
    let finding = |node: &Arc<CiliumNode>| {
        let giver = observed
            .nodes
            .get(&node.name)
            .map(|node| observed.block_allocator(node));
        let keeps_account = matches!(
            giver,
            Some(BlockAllocator::Operator | BlockAllocator::ScaledToZero)
        );
        let has_error = !keeps_account || node.operator_error.is_some();
        let mut refusals = node.pod_cidrs.iter().filter(|_| !has_error);
        let refusal = refusals.find_map(|block| {
            let refusal = operator_blocks.cluster_pool_refusal(observed, *block, &node.name);
            refusal.filter(|refusal| matches!(refusal, OperatorRefusal::OutOfRange(_)))
        })?;
        let message = format!(
            "Cilium's operator will not accept what CiliumNode `{}` shows: {refusal}",
            node.name
        );
        let evidence = [format!(
            "spec.ipam.podCIDRs: {}",
            super::spaced(&node.pod_cidrs)
        )];
        let finding = finding(Severity::Warning, "operator-will-refuse", message)
            .about(subject(node))
            .seen(evidence);
        let finding =
            finding.causes("the operator flags it permanently; its agent uses the block anyway");
        Some(
            finding
                .help("append the range to cluster-pool-ipv4-cidr or cluster-pool-ipv6-cidr and restart the operator"),
        )
    };
    observed.cilium_nodes.values().filter_map(finding).collect()
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
