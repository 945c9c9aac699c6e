//! CiliumNodes without a Node, and CiliumNodes that the operator refuses.

use std::sync::Arc;

use super::finding;
use ipam_cilium::observed::{
    BlockAllocator, CiliumNode, Observed, OperatorBlocks, OperatorRefusal,
};
use ipam_core::model::{Finding, ObjectRef, Severity};

fn subject(node: &CiliumNode) -> ObjectRef {
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

/// `status.ipam.operator-status.error`, with the operator's message.
pub(super) fn refused(observed: &Observed) -> Vec<Finding> {
    let finding = |node: &Arc<CiliumNode>| {
        let error = node.operator_error.as_ref()?;
        let message = format!(
            "Cilium's operator does not accept what CiliumNode `{}` asks for: {}",
            node.name,
            error.escape_debug()
        );
        let evidence = [
            format!("spec.ipam.podCIDRs: {}", super::spaced(&node.pod_cidrs)),
            format!(
                "status.ipam.operator-status.error: {}",
                error.escape_debug()
            ),
        ];
        let finding = finding(Severity::Error, "operator-error", message)
            .about(subject(node))
            .seen(evidence);
        let finding = finding.causes(
            "its agent uses these blocks anyway, and the operator may give them to another node",
        );
        Some(finding.help("drain the node, delete the CiliumNode, and create it with a block that is free and inside the operator's ranges"))
    };
    observed.cilium_nodes.values().filter_map(finding).collect()
}
