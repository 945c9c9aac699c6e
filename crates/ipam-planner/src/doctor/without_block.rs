//! Nodes without a block: their agents wait, and no Pod starts there.

use std::sync::Arc;

use super::finding;
use crate::allocators::{OtherAllocator, described, fix};
use ipam_cilium::observed::{FamilyUse, ModeSeen, Node, Observed};
use ipam_core::model::{Finding, IpamMode, NodeName, Severity};
use ipam_core::net::Family;
use ipam_desired::Policy;

/// An agent waits indefinitely until its node has a block of each enabled family.
pub(super) fn nodes(observed: &Observed) -> Vec<Finding> {
    let of_mode: fn(&Observed, &Node) -> bool = match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::Kubernetes) => lacks_in_kubernetes,
        ModeSeen::Known(IpamMode::ClusterPool | IpamMode::MultiPool) => lacks_in_cilium_node,
        ModeSeen::Known(_) | ModeSeen::Unknown(_) | ModeSeen::NoSettings => return Vec::new(),
    };
    let lacks = |node: &&Arc<Node>| of_mode(observed, node);
    let names: Vec<&NodeName> = observed
        .nodes
        .values()
        .filter(lacks)
        .map(|node| &node.name)
        .collect();
    let [first, ..] = &names[..] else {
        return Vec::new();
    };
    let have = if names.len() == 1 { "has" } else { "have" };
    let message = format!(
        "{} {have} no block of an enabled family",
        super::named(&names)
    );
    let is_kubernetes = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
    let line = |name: &&NodeName| match is_kubernetes {
        true => format!("Node `{name}`: no spec.podCIDRs, and no annotation that is read"),
        false => format!("CiliumNode `{name}`: no block, and no error of the operator"),
    };
    let finding = finding(Severity::Warning, "node-without-block", message);
    let finding = super::about_nodes(finding, names.iter().copied()).seen(names.iter().map(line));
    let finding = finding.causes("their agents wait indefinitely, and no Pod starts there");
    // A crashing allocator assigns nothing, and keeps `cilium-ipam` from assigning.
    let rival = OtherAllocator::of(observed, &Policy::default()).active();
    vec![finding.help(match (is_kubernetes, rival) {
        (true, Some(rival)) => format!(
            "{} and has to assign it: see its log and its --cluster-cidr. For blocks of `cilium-ipam`: {}",
            described(rival),
            fix(rival)
        ),
        (true, None) => format!(
            "`cilium-ipam plan` assigns one; if it does not, `cilium-ipam explain {first}` shows why"
        ),
        (false, _) => "check that Cilium's operator runs and what it logs about these nodes; if it says nothing, restart it, and then their agents".to_owned(),
    })]
}

fn lacks(observed: &Observed, has: impl Fn(Family) -> bool) -> bool {
    Family::BOTH
        .into_iter()
        .any(|family| observed.cilium.use_of(family) == FamilyUse::Required && !has(family))
}

/// An annotation that is not read has its own finding.
fn lacks_in_kubernetes(observed: &Observed, node: &Node) -> bool {
    let lives = observed.pod_blocks_of(&node.name);
    lacks(observed, |family| {
        lives.iter().any(|block| block.family() == family) || node.annotated(family).is_some()
    })
}

/// Without a CiliumNode, no agent has started. An error of the operator has its own finding.
fn lacks_in_cilium_node(observed: &Observed, node: &Node) -> bool {
    let Some(cilium_node) = observed.cilium_nodes.get(&node.name) else {
        return false;
    };
    let lives = observed.pod_blocks_of(&node.name);
    let is_told = cilium_node.operator_error.is_some() || !cilium_node.unreadable.is_empty();
    !is_told
        && lacks(observed, |family| {
            lives.iter().any(|block| block.family() == family)
        })
}
