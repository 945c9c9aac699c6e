//! The running Cilium: its version and the faults of it, its mode, and other allocators of blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::finding;
use crate::upgrade::{UpgradeChange, UpgradeCode, faults_of_running};
use ipam_cilium::observed::{
    Agent, Allocator, AllocatorStatus, ModeSeen, Node, Observed, ObservedKind, setting_key,
};
use ipam_core::model::{Finding, IpamMode, NodeName, ObjectRef, Severity, count};
use ipam_core::net::Block;
use ipam_core::text::joined;
use ipam_plan::allocators::described;
use ipam_plan::plan::{BlockedReason, WritePathObstacle};

pub(super) fn no_cilium(observed: &Observed) -> Vec<Finding> {
    let is_hidden = observed.blind_spot(ObservedKind::CiliumConfig).is_some();
    // Two of them have their own finding.
    let is_reported = observed
        .findings
        .iter()
        .any(|finding| finding.rule.0 == "multiple-cilium-installations");
    if observed.cilium.mode() != ModeSeen::NoSettings || is_hidden || is_reported {
        return Vec::new();
    }
    let finding = finding(
        Severity::Warning,
        "no-cilium",
        "no cilium-config was seen".to_owned(),
    );
    let finding = finding.causes("it is unknown which field counts, so most rules do not apply");
    vec![finding.help(
        "check that this is the right cluster; --cilium-version and --ipam override what was seen",
    )]
}

pub(super) fn modes_of_other_allocators(observed: &Observed) -> Vec<Finding> {
    let (message, severity, consequence, help) = match observed.cilium.mode() {
        _ if observed.knows_pod_blocks() => return Vec::new(),
        ModeSeen::NoSettings => return Vec::new(),
        ModeSeen::Known(mode) => (
            format!("Cilium runs with ipam `{mode}`, in which another allocator decides"),
            Severity::Info,
            "this mode stores the blocks of Pods in other fields, so nodes are not examined",
            "none needed: cilium-ipam does not allocate blocks in this mode".to_owned(),
        ),
        ModeSeen::Unknown(mode) => {
            let reason = BlockedReason::from(WritePathObstacle::ModeUnknown(mode));
            (
                reason.to_string(),
                Severity::Warning,
                "it is unknown where this mode stores the blocks of Pods, so nodes are not examined",
                reason.unblock(),
            )
        }
    };
    let seen = observed.common_setting(setting_key::IPAM);
    let seen = seen.map(|setting| {
        let value = setting.value.escape_debug();
        format!("{} ipam: {value}", setting.source)
    });
    let finding = finding(severity, "mode-not-judged", message).seen(seen);
    vec![finding.causes(consequence).help(help)]
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
    let versions = joined(by_version.keys(), ", ");
    let message = format!("agents of several versions run: {versions}");
    let counts = by_version
        .iter()
        .map(|(version, nodes)| format!("{version} on {}", count(nodes.len(), "node")));
    // Nodes of the rarest version first: the upgrade probably missed them.
    let mut rarest: Vec<(&String, &Vec<&str>)> = by_version.iter().collect();
    rarest.sort_by_key(|(_, nodes)| nodes.len());
    let by_node = rarest.iter().flat_map(|(version, nodes)| {
        nodes
            .iter()
            .map(move |node| format!("node `{}`: {version}", node.escape_debug()))
    });
    let finding = finding(Severity::Warning, "agents-of-two-versions", message);
    let finding = about_agents(finding, rarest.iter().flat_map(|(_, nodes)| nodes.iter()))
        .seen(counts)
        .seen(by_node);
    let finding = finding.causes(
        "the fields that agents read and announce may differ between nodes; the rules use the DaemonSet's version",
    );
    vec![finding.help("finish the upgrade and run `doctor` again")]
}

/// The finding with the nodes of these agents as its subjects.
fn about_agents<N: ToString>(finding: Finding, nodes: impl Iterator<Item = N>) -> Finding {
    finding.about_all(nodes.map(|name| ObjectRef {
        kind: "Node",
        name: name.to_string(),
    }))
}

/// Agents read their settings when they start.
pub(super) fn settings_newer_than_agents(observed: &Observed) -> Vec<Finding> {
    let Some(written) = &observed.cilium.settings_written else {
        return Vec::new();
    };
    let is_older = |agent: &&Agent| {
        !agent.node.is_empty() && !agent.started.is_empty() && agent.started < *written
    };
    let older: Vec<&Agent> = observed.cilium.agents.iter().filter(is_older).collect();
    if older.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "cilium-config was changed after {} of {} agents had started",
        older.len(),
        observed.cilium.agents.len()
    );
    let line = |agent: &&Agent| {
        let (node, started) = (agent.node.escape_debug(), agent.started.escape_debug());
        format!("the agent on node `{node}` started {started}")
    };
    let finding = finding(Severity::Warning, "settings-newer-than-agents", message);
    let finding = about_agents(finding, older.iter().map(|agent| &agent.node))
        .seen([format!("cilium-config written {written}")])
        .seen(older.iter().map(line));
    let finding = finding.causes("these agents may run with older settings than the rules use");
    vec![
        finding.help(
            "if the change is intended: kubectl -n NAMESPACE rollout restart daemonset/cilium",
        ),
    ]
}

/// A controller that assigns blocks outside its range, and an operator with another
/// mode than the agents.
pub(super) fn rival_allocators(observed: &Observed) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let (Some(arguments), ModeSeen::Known(mode)) =
        (&observed.cilium.operator_arguments, observed.cilium.mode())
        && let Some(other) = arguments
            .get("ipam")
            .filter(|other| **other != mode.as_str() && !setting_key::is_reference(other))
    {
        let message = format!(
            "the agents run with ipam `{mode}`, the operator with `{}`",
            other.escape_debug()
        );
        let evidence = [
            format!("cilium-config ipam: {mode}"),
            format!("Deployment cilium-operator --ipam={}", other.escape_debug()),
        ];
        // This is the usual way to keep the operator from allocating blocks.
        let is_usual = mode == IpamMode::ClusterPool && other == IpamMode::Kubernetes.as_str();
        let severity = if is_usual {
            Severity::Info
        } else {
            Severity::Warning
        };
        let finding = finding(severity, "operator-of-another-mode", message).seen(evidence);
        let finding = finding
            .causes("the operator allocates no blocks for the agents' mode: another program must fill the CiliumNodes");
        findings.push(
            finding.help("if this is not intended, remove --ipam from the operator's arguments"),
        );
    }
    let allocators = observed.allocators.iter();
    findings.extend(allocators.filter_map(|one| outside_cluster_cidr(observed, one)));
    findings
}

/// A node-ipam controller refuses to start with a Node outside `--cluster-cidr`
/// (`pkg/controller/nodeipam/ipam/range_allocator.go` @ 1.36).
fn outside_cluster_cidr(observed: &Observed, allocator: &Allocator) -> Option<Finding> {
    let ranges = &allocator.cluster_cidrs.ranges;
    if allocator.status != AllocatorStatus::Active || ranges.is_empty() {
        return None;
    }
    let is_inside = |block: &Block| ranges.iter().any(|range| range.contains(&block.range()));
    let nodes = observed.nodes.values();
    let nodes: Vec<&Arc<Node>> = nodes
        .filter(|node| !node.spec.iter().all(is_inside))
        .collect();
    let names: Vec<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    if names.is_empty() {
        return None;
    }
    let program = &allocator.name;
    let message = format!(
        "spec.podCIDRs of {} lies outside --cluster-cidr of {program}",
        super::named(&names)
    );
    let evidence = [format!(
        "{} --cluster-cidr={}",
        described(allocator),
        super::spaced(ranges)
    )];
    let of_nodes = nodes
        .iter()
        .map(|node| format!("Node `{}`: {}", node.name, super::spaced(node.spec.iter())));
    let finding = finding(Severity::Error, "outside-cluster-cidr", message);
    let finding = super::about_nodes(finding, names).seen(evidence.into_iter().chain(of_nodes));
    let finding = finding.causes(format!(
        "{program} fails at its next start and at every later one"
    ));
    Some(finding.help(
        "before it restarts, run it with --allocate-node-cidrs=false or with a --cluster-cidr that covers them",
    ))
}

/// Faults of the running release that objects of the cluster meet.
pub(super) fn faults_of_release(observed: &Observed) -> Vec<Finding> {
    let finding = |fault: UpgradeChange| {
        let message = format!("{}: {}", fault.message(), fault.cause.why);
        let finding = finding(Severity::Warning, "faulty-release", message);
        let finding = finding.about_all(fault.effects.keys().cloned());
        let effects = fault.effects.iter();
        let effects = effects.map(|(subject, effect)| {
            format!(
                "{} `{}` {effect}",
                subject.kind,
                subject.name.escape_debug()
            )
        });
        let finding = finding
            .seen(effects)
            .seen([format!("source: {}", fault.cause.source)]);
        let consequence = match fault.code {
            UpgradeCode::StoredVersion => {
                "Cilium's operator cannot update the definition: fields of this release are missing"
            }
            _ => "a restart of Cilium's operator or agents can take addresses away from Services",
        };
        finding.causes(consequence).help(fault.cause.before)
    };
    faults_of_running(observed)
        .into_iter()
        .map(finding)
        .collect()
}
