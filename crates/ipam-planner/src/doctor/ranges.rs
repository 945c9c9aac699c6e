//! Blocks and pools compared with the other ranges of the cluster.

use super::finding;
use ipam_cilium::observed::{Observed, OtherUser};
use ipam_core::model::{Finding, NodeName, ObjectRef, Severity};
use ipam_core::net::{Block, Family, Range, RangeIndex};
use ipam_desired::Desired;

/// Blocks of nodes over Service CIDRs, addresses of machines and LoadBalancer pools, and outside
/// the native-routing CIDR.
pub(super) fn of_cluster(observed: &Observed) -> Vec<Finding> {
    let others = RangeIndex::new(observed.used_by_others());
    let mut findings = Vec::new();
    for name in observed.nodes.keys() {
        for block in observed.pod_blocks_of(name) {
            if let Some((range, what)) = others.overlapping(&block.range()).next() {
                findings.push(over(name, block, range, *what));
            }
        }
    }
    findings.extend(outside_native_routing(observed));
    findings
}

fn over(name: &NodeName, block: Block, range: &Range, what: OtherUser<'_>) -> Finding {
    let message =
        format!("the Pods of node `{name}` live in {block}, which overlaps {range}, {what}");
    let finding = finding(Severity::Error, "block-over-other-addresses", message)
        .about(ObjectRef::node(name));
    let finding = finding.seen([
        format!("node `{name}`: {block}"),
        format!("{what}: {range}"),
    ]);
    finding
        .causes("packets to one of the two go to the other")
        .help("drain the node and give it another block, or move the other range")
}

/// The blocks of a node's Pods, as evidence.
fn homes(name: &NodeName, observed: &Observed) -> String {
    format!(
        "node `{name}`: {}",
        super::spaced(observed.pod_blocks_of(name))
    )
}

fn outside_native_routing(observed: &Observed) -> Vec<Finding> {
    let of_family = |family: Family| {
        let native = observed.native_routing_range(family)?;
        let is_outside = |block: &Block| block.family() == family && !native.contains(*block);
        let outside = |name: &&NodeName| observed.pod_blocks_of(name).iter().any(is_outside);
        let names: Vec<&NodeName> = observed.nodes.keys().filter(outside).collect();
        if names.is_empty() {
            return None;
        }
        let message = format!(
            "the Pods of {} live outside the native-routing CIDR {native}",
            super::named(&names)
        );
        let finding = finding(Severity::Warning, "outside-native-routing-cidr", message);
        let finding = super::about_nodes(finding, names.iter().copied())
            .seen([format!("cilium-config: {native}")])
            .seen(names.iter().map(|name| homes(name, observed)));
        let finding = finding.causes(
            "packets to these Pods are masqueraded: they appear to come from the sender's node",
        );
        Some(
            finding.help(
                "widen ipv4-native-routing-cidr (or its IPv6 twin) in cilium-config so that it covers every pool",
            ),
        )
    };
    Family::BOTH.into_iter().filter_map(of_family).collect()
}

/// Nodes whose Pods live in a block outside all pools.
pub(super) fn outside_pools(desired: &Desired, observed: &Observed) -> Option<Finding> {
    let has_family = |family: Family| {
        desired
            .pools
            .values()
            .any(|pool| pool.families().any(|of| of == family))
    };
    let is_outside = |block: &Block| {
        has_family(block.family()) && !desired.pools.values().any(|pool| pool.contains(*block))
    };
    let names: Vec<&NodeName> = observed
        .nodes
        .keys()
        .filter(|name| observed.pod_blocks_of(name).iter().any(is_outside))
        .collect();
    if names.is_empty() {
        return None;
    }
    let message = format!(
        "the Pods of {} live in blocks outside all pools",
        super::named(&names)
    );
    let finding = finding(Severity::Info, "block-outside-pools", message);
    let finding = super::about_nodes(finding, names.iter().copied())
        .seen(names.iter().map(|name| homes(name, observed)))
        .causes("no pool counts these blocks as used");
    Some(finding.help("add their range to a pool, so that it counts them"))
}
