//! The order of the nodes of a schedule: waves by failure domain, in the order in which people read
//! names. It must never choose which nodes move.

use std::collections::{BTreeMap, BTreeSet};

use super::schedule::{NodeMove, Wave};
use super::workloads::Workloads;
use crate::check::pools_outside;
use ipam_cilium::observed::Observed;
use ipam_core::model::NodeName;
use ipam_core::natural::natural_order;
use ipam_core::similar_names::most_similar;
use ipam_desired::Desired;

/// The nodes by failure domain. Nodes without a domain go last.
pub(super) fn waves<'n>(
    observed: &Observed,
    domain_label: &str,
    nodes: impl Iterator<Item = &'n NodeName>,
) -> Vec<Wave> {
    let mut by_domain: BTreeMap<Option<&String>, Vec<NodeName>> = BTreeMap::new();
    for name in nodes {
        let labels = observed.nodes.get(name).map(|node| &node.labels);
        let domain = labels.and_then(|labels| labels.get(domain_label));
        by_domain.entry(domain).or_default().push(name.clone());
    }
    let wave = |(domain, mut nodes): (Option<&String>, Vec<NodeName>)| {
        nodes.sort_by(|a, b| natural_order(a.as_str(), b.as_str()));
        Wave {
            domain: domain.cloned(),
            nodes,
        }
    };
    let mut waves: Vec<Wave> = by_domain.into_iter().map(wave).collect();
    waves.sort_by(|a, b| match (&a.domain, &b.domain) {
        (Some(a), Some(b)) => natural_order(a, b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    waves
}

/// What a person should know of the whole schedule.
pub(super) fn remarks(
    desired: &Desired,
    observed: &Observed,
    workloads: &Workloads,
    moves: &BTreeMap<NodeName, NodeMove>,
) -> Vec<String> {
    let mut remarks: Vec<String> = pools_outside(desired, observed)
        .into_iter()
        .map(|finding| format!("{}: packets to Pods there are masqueraded", finding.message))
        .collect();
    if moves.len() > 1 {
        remarks.extend(no_domains(&desired.policy.failure_domain, observed));
    }
    let evicts = moves.values().any(|one| one.method.renumbers());
    if let (true, Some(why)) = (evicts, workloads.hidden_budgets()) {
        let why = why.escape_debug();
        remarks.push(format!(
            "PodDisruptionBudgets are unknown, so evictions may be refused that this schedule does not show: {why}"
        ));
    }
    remarks
}

/// All nodes are one wave, because none has the label.
fn no_domains(label: &str, observed: &Observed) -> Option<String> {
    let nodes = observed.nodes.values();
    let labels: BTreeSet<&str> = nodes
        .flat_map(|node| node.labels.keys().map(String::as_str))
        .collect();
    if labels.contains(label) {
        return None;
    }
    let advice = match most_similar(label, labels) {
        Some(similar) => format!("; did you mean `{}`?", similar.escape_debug()),
        None => String::new(),
    };
    Some(format!(
        "no node has the label `{}` (`limits.failureDomain` of the Policy), so all nodes are one wave{advice}",
        label.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::tests::observed_nodes;
    use crate::migration::{Budgets, Method};

    fn shown(observed: &Observed, label: &str) -> Vec<String> {
        let waves = waves(observed, label, observed.nodes.keys());
        let text = |wave: Wave| {
            let nodes: Vec<String> = wave.nodes.iter().map(ToString::to_string).collect();
            format!("{}: {}", wave.domain.unwrap_or_default(), nodes.join(" "))
        };
        waves.into_iter().map(text).collect()
    }

    #[test]
    fn waves_and_nodes_are_in_natural_order() {
        let observed = observed_nodes(&[
            ("n10", &[("rack", "rack-10")]),
            ("n2", &[("rack", "rack-10")]),
            ("a", &[]),
            ("n1", &[("rack", "rack-2")]),
        ]);
        let expected = ["rack-2: n1", "rack-10: n2 n10", ": a"];
        assert_eq!(shown(&observed, "rack"), expected);
    }

    #[test]
    fn hidden_budgets_are_told_only_where_pods_are_evicted() {
        let observed = observed_nodes(&[("a", &[("rack", "1")])]);
        let desired = Desired::default();
        let hidden = Workloads::new(Vec::new(), Budgets::Hidden("no permission".to_owned()));
        let told = |method: Method, workloads: &Workloads| {
            let one = NodeMove {
                uid: "u".to_owned(),
                method,
                pool: "rack-a".parse().unwrap(),
                from: Vec::new(),
                to: Vec::new(),
                reason: String::new(),
                risks: Vec::new(),
                pods: None,
                estimate: jiff::SignedDuration::ZERO,
            };
            let moves = [("a".parse().unwrap(), one)].into();
            remarks(&desired, &observed, workloads, &moves)
        };
        let all = told(Method::CiliumNode, &hidden);
        assert!(all[0].contains("does not show: no permission"), "{all:?}");
        assert!(told(Method::ToKubernetes, &hidden).is_empty());
        let known = Workloads::new(Vec::new(), Budgets::default());
        assert!(told(Method::CiliumNode, &known).is_empty());
    }

    #[test]
    fn a_label_that_no_node_has_is_told_with_a_similar_one() {
        let observed = observed_nodes(&[("a", &[("rack", "1")]), ("b", &[("zone", "1")])]);
        assert_eq!(no_domains("rack", &observed), None);
        let why = no_domains("rak", &observed).unwrap();
        assert!(why.contains("one wave; did you mean `rack`?"), "{why}");
        assert!(!no_domains("xyz", &observed).unwrap().contains("mean"));
    }
}
