//! Rules on names in the files that no object of the cluster has.
//!
//! Labels of selectors that a node can give itself.

use std::collections::{BTreeMap, BTreeSet};

use ipam_cilium::observed::Observed;
use ipam_core::model::{
    Finding, NearNames, NodeName, ObjectRef, PoolName, Rule, Severity, count, first_of,
    grouped_digits,
};
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
    // Another check reports a cluster without nodes.
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

/// Limit of the label keys that are named; more are counted.
const NAMED: usize = 10;

/// Kubernetes' own keys that a kubelet may set on its Node (`kubeletLabels`,
/// `k8s.io/kubelet/pkg/apis/well_known_labels.go` @ 1.36).
const OF_KUBELET: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Whether admission allows a kubelet to set the label on its own Node
/// (`getForbiddenLabels`, `plugin/pkg/admission/noderestriction/admission.go` @ 1.36).
fn may_be_set_by_kubelet(key: &str) -> bool {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_in = |domain: &str| {
        namespace
            .strip_suffix(domain)
            .is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    };
    if is_in("node-restriction.kubernetes.io") {
        return false;
    }
    let is_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
    !is_kubernetes
        || OF_KUBELET.contains(&key)
        || is_in("kubelet.kubernetes.io")
        || is_in("node.kubernetes.io")
}

/// One finding for the whole directory, without a place in it: most directories use such labels, and
/// only a person knows whether the nodes are trusted.
pub(super) fn labels_of_kubelets(desired: &Desired) -> Vec<Finding> {
    let mut by_key: BTreeMap<&str, BTreeSet<&PoolName>> = BTreeMap::new();
    for pool in desired.pools.values() {
        for key in pool
            .selector
            .keys()
            .filter(|key| may_be_set_by_kubelet(key))
        {
            by_key.entry(key).or_default().insert(&pool.name);
        }
    }
    let pools: BTreeSet<&PoolName> = by_key.values().flatten().copied().collect();
    if pools.is_empty() {
        return Vec::new();
    }
    let select = if pools.len() == 1 {
        "selects"
    } else {
        "select"
    };
    let select = format!("{} {select}", count(pools.len(), "pool"));
    let message = format!(
        "{select} nodes by labels that a kubelet can set: {}",
        listed(&by_key)
    );
    let finding = Finding::new(
        Severity::Info,
        Rule("selector-uses-kubelet-labels"),
        message,
    );
    let finding = finding.causes("root on a node can choose the pool of that node");
    vec![finding.help("if nodes are not trusted, use `node-restriction.kubernetes.io/` labels")]
}

/// `a (2), b (1) and 3 more`, with the number of pools.
fn listed(by_key: &BTreeMap<&str, BTreeSet<&PoolName>>) -> String {
    let keys = by_key.iter();
    let named = keys.map(|(key, pools)| format!("`{key}` ({})", grouped_digits(pools.len())));
    first_of(NAMED, named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_admission_allows_a_kubelet_to_set() {
        for key in [
            "rack",
            "example.com/rack",
            "notkubernetes.io/rack",
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
            "node.kubernetes.io/rack",
            "sub.node.kubernetes.io/rack",
            "kubelet.kubernetes.io/rack",
            "beta.kubernetes.io/os",
        ] {
            assert!(may_be_set_by_kubelet(key), "{key}");
        }
        for key in [
            "node-restriction.kubernetes.io/rack",
            "example.com.node-restriction.kubernetes.io/rack",
            "node-role.kubernetes.io/control-plane",
            "kubernetes.io/rack",
            "k8s.io/rack",
            "cloud.k8s.io/rack",
            "topology.kubernetes.io/rack",
        ] {
            assert!(!may_be_set_by_kubelet(key), "{key}");
        }
    }
}
