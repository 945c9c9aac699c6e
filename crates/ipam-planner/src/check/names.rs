//! Rules on names in the files that no object of the cluster has.

use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, NearNames, NodeName, ObjectRef, Rule, Severity};
use ipam_desired::Desired;

fn missing(rule: &'static str, node: &NodeName, message: String, help: String) -> Finding {
    Finding::new(Severity::Warning, Rule(rule), message)
        .about(ObjectRef::node(node))
        .help(help)
}

/// A pin for a future node is usual. A name that nearly equals that of a node is probably a typo.
pub(super) fn missing_pinned_nodes(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let mut pins = desired
        .pins
        .values()
        .filter(|pin| !observed.nodes.contains_key(&pin.node))
        .peekable();
    if pins.peek().is_none() {
        return Vec::new();
    }
    // A node with its own pin is not the intended one.
    let unpinned = observed
        .nodes
        .keys()
        .filter(|node| !desired.pins.contains_key(*node));
    let unpinned = NearNames::new(unpinned.map(NodeName::as_str));
    let findings = pins.filter_map(|pin| {
        let near = unpinned.of(pin.node.as_str())?;
        let message = format!(
            "pinned node `{}` does not exist, but node `{near}` does",
            pin.node
        );
        let finding = missing(
            "pinned-node-missing",
            &pin.node,
            message,
            format!("did you mean `{near}`?"),
        );
        Some(finding.at(&pin.origin, "no such node"))
    });
    findings.collect()
}

/// A protection of a name without a node has no effect.
pub(super) fn missing_protected_nodes(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    // A cluster without nodes has its own finding.
    if observed.nodes.is_empty() {
        return Vec::new();
    }
    let protected = &desired.policy.protected;
    let mut missing_nodes = protected
        .nodes
        .iter()
        .filter(|node| !observed.nodes.contains_key(*node))
        .peekable();
    if missing_nodes.peek().is_none() {
        return Vec::new();
    }
    let known = NearNames::new(observed.nodes.keys().map(NodeName::as_str));
    let finding = |node: &NodeName| {
        let message =
            format!("protected node `{node}` does not exist, so its protection has no effect");
        let help = match known.of(node.as_str()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "correct the name, or remove it from `protected`".to_owned(),
        };
        let finding = missing("protected-node-missing", node, message, help);
        match protected.node_origins.get(node) {
            Some(origin) => finding.at(origin, "no such node"),
            None => finding,
        }
    };
    missing_nodes.map(finding).collect()
}
