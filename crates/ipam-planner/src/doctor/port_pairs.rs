//! Allowed address pairs of VMs' ports that differ from the blocks of their nodes.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::{about_nodes, finding, named, spaced};
use crate::plan::{Plan, PortChange, blocks_in_use};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, NodeName, Severity, grouped_digits};
use ipam_core::neutron::Id;

/// Ranges by node and port.
type Ranges<'p> = BTreeMap<(&'p NodeName, &'p Id), BTreeSet<IpNet>>;

/// Findings of a plan about ports: what they lack, what they allow without need, and why that is
/// unknown.
pub(super) fn of_plan(plan: &Plan, observed: &Observed) -> Vec<Finding> {
    let ports = || plan.changes.iter().filter_map(|change| change.as_port());
    let held = |change: &PortChange| -> BTreeSet<IpNet> {
        let node = observed.nodes.get(&change.node).into_iter();
        let blocks = node.flat_map(|node| blocks_in_use(observed, node));
        blocks.map(IpNet::from).collect()
    };
    // No Pod has an address of a block that this plan would give.
    let missing = ports().map(|change| (change, &change.added & &held(change)));
    let stale = ports().map(|change| (change, change.removed.clone()));
    let unknown = plan
        .findings
        .iter()
        .filter(|finding| finding.rule.0.starts_with("address-pairs-"));
    lacking(&by_port(missing))
        .into_iter()
        .chain(excess(&by_port(stale)))
        .chain(unknown.cloned())
        .collect()
}

fn by_port<'p>(ranges: impl Iterator<Item = (&'p PortChange, BTreeSet<IpNet>)>) -> Ranges<'p> {
    let some = ranges.filter(|(_, ranges)| !ranges.is_empty());
    some.map(|(change, ranges)| ((&change.node, &change.port), ranges))
        .collect()
}

fn lacking(missing: &Ranges<'_>) -> Option<Finding> {
    let (nodes, evidence) = shown(missing, "lacks")?;
    let message = format!("{nodes}: the ports of their VMs do not allow pod CIDRs");
    let finding = finding(Severity::Error, "address-pairs-missing", message).seen(evidence);
    let finding = finding.causes("Neutron drops the packets that their Pods send");
    Some(about(missing, finding).help("`cilium-ipam apply` adds the pairs"))
}

fn excess(stale: &Ranges<'_>) -> Option<Finding> {
    let (nodes, evidence) = shown(stale, "allows")?;
    let message =
        format!("{nodes}: the ports of their VMs allow blocks that the nodes do not hold");
    let finding = finding(Severity::Warning, "address-pairs-stale", message).seen(evidence);
    let finding = finding.causes("such a VM can send from the addresses of another node's Pods");
    Some(about(stale, finding).help("`cilium-ipam apply` removes the pairs"))
}

/// The nodes, and one line for each port; `None` without ports.
fn shown(ranges: &Ranges<'_>, verb: &str) -> Option<(String, Vec<String>)> {
    let nodes = nodes(ranges);
    if nodes.is_empty() {
        return None;
    }
    let all = grouped_digits(nodes.len());
    let nodes = format!("{} ({all} in all)", named(&nodes));
    let line = |((node, port), ranges): (&(&NodeName, &Id), &BTreeSet<IpNet>)| {
        format!("`{node}`: port {port} {verb} {}", spaced(ranges))
    };
    Some((nodes, ranges.iter().map(line).collect()))
}

fn about(ranges: &Ranges<'_>, finding: Finding) -> Finding {
    about_nodes(finding, nodes(ranges))
}

fn nodes<'p>(ranges: &Ranges<'p>) -> Vec<&'p NodeName> {
    let nodes: BTreeSet<&NodeName> = ranges.keys().map(|(node, _)| *node).collect();
    nodes.into_iter().collect()
}
