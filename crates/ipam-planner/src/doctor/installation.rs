//! Which Cilium runs, whether all of it is the same, and who else hands out blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::finding;
use ipam_cilium::observed::{ModeSeen, Node, NodeCidrAllocation, Observed, ObservedKind};
use ipam_core::model::{Finding, IpamMode, NodeName, ObjectRef, Severity, count};

pub(super) fn no_cilium(observed: &Observed) -> Vec<Finding> {
    let is_hidden = observed.blind_spot(ObservedKind::CiliumConfig).is_some();
    // Two of them have a finding of their own.
    let is_told = observed
        .findings
        .iter()
        .any(|finding| finding.rule.0 == "two-ciliums");
    if observed.cilium.mode() != ModeSeen::NoSettings || is_hidden || is_told {
        return Vec::new();
    }
    let finding = finding(
        Severity::Warning,
        "no-cilium",
        "no cilium-config was seen".to_owned(),
    );
    let finding =
        finding.causes("which field counts is not known, so most rules have nothing to say");
    vec![finding.help("check that it is the cluster that you mean; --cilium-version and --ipam say what runs there")]
}

pub(super) fn modes_of_other_allocators(observed: &Observed) -> Vec<Finding> {
    let mode = match observed.cilium.mode() {
        _ if observed.knows_homes() => return Vec::new(),
        ModeSeen::NoSettings => return Vec::new(),
        ModeSeen::Known(mode) => mode.to_string(),
        ModeSeen::Unknown(mode) => mode.escape_debug().to_string(),
    };
    let message = format!("Cilium runs with ipam `{mode}`, in which another allocator decides");
    let finding = finding(Severity::Warning, "mode-not-judged", message)
        .seen([format!("cilium-config ipam: {mode}")]);
    let finding = finding
        .causes("where Pods live is not written where this program looks, so nodes are not judged");
    vec![finding.help("nothing here: blocks of this mode are not ours to give")]
}

pub(super) fn agents_of_two_versions(observed: &Observed) -> Vec<Finding> {
    let mut by_version: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for agent in &observed.cilium.agents {
        if let Some(version) = agent.version {
            by_version
                .entry(version.to_string())
                .or_default()
                .push(&agent.node);
        }
    }
    if by_version.len() < 2 {
        return Vec::new();
    }
    let versions: Vec<&str> = by_version.keys().map(String::as_str).collect();
    let message = format!("agents of several versions run: {}", versions.join(", "));
    let line = |(version, nodes): (&String, &Vec<&str>)| {
        let named: Vec<&str> = nodes.iter().take(super::NAMED).copied().collect();
        format!(
            "{version} on {}: {}",
            count(nodes.len(), "node"),
            named.join(" ").escape_debug()
        )
    };
    let finding = finding(Severity::Warning, "agents-of-two-versions", message)
        .seen(by_version.iter().map(line));
    let finding = finding.causes(
        "what is read and what is announced may differ from node to node; the DaemonSet's version is judged by",
    );
    vec![finding.help("finish the upgrade, and examine again")]
}

/// Agents read their settings when they start.
pub(super) fn settings_newer_than_agents(observed: &Observed) -> Vec<Finding> {
    let Some(written) = &observed.cilium.settings_written else {
        return Vec::new();
    };
    let is_older = |node: &&str| !node.is_empty();
    let agents = observed
        .cilium
        .agents
        .iter()
        .filter(|agent| !agent.started.is_empty() && agent.started < *written);
    let older: Vec<&str> = agents
        .map(|agent| agent.node.as_str())
        .filter(is_older)
        .collect();
    if older.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "cilium-config was changed after {} of {} agents had started",
        older.len(),
        observed.cilium.agents.len()
    );
    let named: Vec<&str> = older.iter().take(super::NAMED).copied().collect();
    let evidence = [
        format!("cilium-config written {written}"),
        format!(
            "agents that are older, on: {}",
            named.join(" ").escape_debug()
        ),
    ];
    let finding = finding(Severity::Warning, "settings-newer-than-agents", message).seen(evidence);
    let finding = finding
        .causes("these agents may run with other settings than those that are judged by here");
    vec![
        finding
            .help("kubectl -n NAMESPACE rollout restart daemonset/cilium, if the change is meant"),
    ]
}

/// kube-controller-manager where nobody reads what it writes, and an operator of another mode than
/// the agents.
pub(super) fn rival_allocators(observed: &Observed) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let (Some(arguments), ModeSeen::Known(mode)) =
        (&observed.cilium.operator_arguments, observed.cilium.mode())
        && let Some(other) = arguments
            .get("ipam")
            .filter(|other| **other != mode.as_str())
    {
        let message = format!(
            "the agents run with ipam `{mode}`, the operator with `{}`",
            other.escape_debug()
        );
        let evidence = [
            format!("cilium-config ipam: {mode}"),
            format!("Deployment cilium-operator --ipam={}", other.escape_debug()),
        ];
        // That is how one tells an operator to leave the blocks to others.
        let is_usual = mode == IpamMode::ClusterPool && other == IpamMode::Kubernetes.as_str();
        let severity = if is_usual {
            Severity::Info
        } else {
            Severity::Warning
        };
        let finding = finding(severity, "operator-of-another-mode", message).seen(evidence);
        let finding = finding
            .causes("the operator gives no blocks for the agents' mode: somebody else has to fill the CiliumNodes");
        findings
            .push(finding.help("if that is not meant, take --ipam from the operator's arguments"));
    }
    findings.extend(controller_manager(observed));
    findings
}

/// It refuses to start with a Node outside `--cluster-cidr`
/// (`pkg/controller/nodeipam/ipam/range_allocator.go` @ 1.36).
fn controller_manager(observed: &Observed) -> Vec<Finding> {
    if observed.controller_manager != NodeCidrAllocation::On || observed.cluster_cidrs.is_empty() {
        return Vec::new();
    }
    let is_inside = |block: &ipam_core::net::Block| {
        observed
            .cluster_cidrs
            .iter()
            .any(|range| range.contains(&block.range()))
    };
    let nodes: Vec<&Arc<Node>> = observed
        .nodes
        .values()
        .filter(|node| !node.spec.iter().all(is_inside))
        .collect();
    let names: Vec<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    let [first, ..] = &names[..] else {
        return Vec::new();
    };
    let message = format!(
        "spec.podCIDRs of {} lies outside --cluster-cidr of kube-controller-manager",
        super::named(&names)
    );
    let evidence = [format!(
        "--allocate-node-cidrs=true --cluster-cidr={}",
        super::spaced(&observed.cluster_cidrs)
    )];
    let of_nodes = nodes
        .iter()
        .take(super::NAMED)
        .map(|node| format!("Node `{}`: {}", node.name, super::spaced(node.spec.iter())));
    let finding =
        finding(Severity::Error, "outside-cluster-cidr", message).about(ObjectRef::node(first));
    let finding = finding.seen(evidence.into_iter().chain(of_nodes));
    let finding = finding.causes(
        "kube-controller-manager ends with an error at its next start, and at every one after",
    );
    vec![
        finding.help(
            "run it with --allocate-node-cidrs=false, or with a --cluster-cidr that covers them, before it restarts",
        ),
    ]
}
