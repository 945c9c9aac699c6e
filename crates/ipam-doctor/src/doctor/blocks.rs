//! The blocks of nodes: the same addresses on two nodes, and nodes that move when their agent
//! restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{endpoint_routes, finding};
use ipam_cilium::observed::{
    ControllerProgram, HoldingField, ModeSeen, Node, Observed, ObservedKind, OperatorBlocks,
    range_setting,
};
use ipam_core::model::{Finding, IpamMode, NodeName, ObjectRef, Severity};
use ipam_core::net::{Block, Family, RangeIndex};
use ipam_core::text::joined;
use ipam_plan::allocators::{Holder, overlapping_holders};

/// Two nodes whose Pods live in the same addresses.
pub(super) fn held_twice(observed: &Observed) -> Vec<Finding> {
    let mut homes: Vec<Holder<'_>> = observed.pod_blocks().collect();
    if !observed.knows_pod_blocks() {
        // The field that counts is unknown, so each field may hold the block.
        homes.extend(observed.shown_blocks());
    }
    let pairs = overlapping_holders(homes);
    let operator_blocks = OperatorBlocks::new(observed);
    let finding = |((first, one), (second, other)): (Holder<'_>, Holder<'_>)| {
        let message = format!(
            "the Pods of nodes `{first}` and `{second}` live in the same addresses: {one} and {other}"
        );
        let says = |name, block| {
            let refusal = operator_blocks.cluster_pool_refusal(block, name);
            refusal.map_or_else(String::new, |refusal| {
                format!("; Cilium's operator says: {refusal}")
            })
        };
        let evidence = [
            (first, one, String::new()),
            (second, other, says(second, other)),
        ];
        let evidence = evidence.map(|(name, block, says)| format!("node `{name}`: {block}{says}"));
        let finding =
            finding(Severity::Error, "duplicate-block", message).about(ObjectRef::node(second));
        let finding = finding.about_all([ObjectRef::node(first)]).seen(evidence);
        finding
            .causes(
                "packets to these Pods reach only one of the two nodes, and each sender may pick another",
            )
            .help("drain one of them and give it another block")
    };
    pairs.into_iter().map(finding).collect()
}

/// The block that an agent takes at its next start, and its source.
fn at_next_start(observed: &Observed, node: &Node, family: Family) -> Option<(Block, String)> {
    let read = observed.holds(node).get(family).copied()?;
    let block = observed
        .read_from_node(node)
        .into_iter()
        .find(|block| block.family() == family)?;
    let key = range_setting(family);
    match observed
        .setting(&node.labels, key)
        .filter(|_| read.field == HoldingField::Setting)
    {
        Some(setting) => Some((block, format!("{key} of {}", setting.source))),
        None => Some((block, read.field.to_string())),
    }
}

/// In ipam `kubernetes`: nodes whose agent takes another block when it restarts, and nodes with an
/// override.
pub(super) fn changes_at_restart(observed: &Observed) -> Vec<Finding> {
    if observed.cilium.mode() != ModeSeen::Known(IpamMode::Kubernetes) {
        return Vec::new();
    }
    let homes = observed.cilium_nodes.keys().flat_map(|name| {
        observed
            .pod_blocks_of(name)
            .into_iter()
            .map(move |block| (block.range(), name))
    });
    let nexts = observed.nodes.values().flat_map(|node| {
        Family::BOTH.into_iter().filter_map(|family| {
            Some((at_next_start(observed, node, family)?.0.range(), &node.name))
        })
    });
    // The blocks of Pods now, and after the next start of each agent.
    let homes = RangeIndex::new(homes.chain(nexts));
    let mut findings = Vec::new();
    for node in observed.nodes.values() {
        for family in Family::BOTH {
            let lived = observed
                .cilium_node_shows(&node.name, family)
                .map(|(block, _)| block);
            let (Some(lived), Some((next, source))) =
                (lived, at_next_start(observed, node, family))
            else {
                continue;
            };
            if lived != next {
                findings.push(moves(observed, node, lived, next, &source, &homes));
            } else if let Some(spec) = node.spec.get(family).filter(|spec| **spec != lived) {
                findings.push(overridden(node, *spec, lived, &source));
            }
        }
    }
    findings
}

fn moves(
    observed: &Observed,
    node: &Node,
    lived: Block,
    next: Block,
    source: &str,
    homes: &RangeIndex<&NodeName>,
) -> Finding {
    let name = &node.name;
    let others: BTreeSet<&NodeName> = homes
        .overlapping(&next.range())
        .map(|(_, other)| *other)
        .filter(|other| *other != name)
        .collect();
    let others: Vec<&NodeName> = others.into_iter().collect();
    let evidence = [
        format!("CiliumNode `{name}` spec.ipam.podCIDRs: {lived}"),
        format!("Node `{name}` {source}: {next}"),
    ];
    let message = format!(
        "the Pods of node `{name}` live in {lived}, but its agent takes {next} when it restarts"
    );
    let lost = format!("after a restart of the agent every Pod of `{name}` must be re-created");
    let help = "re-create the Node object with the block that its Pods live in, or drain the node and restart its agent";
    let are_there = others.iter().any(|other| {
        observed
            .pod_blocks_of(other)
            .iter()
            .any(|block| block.overlaps(next))
    });
    let twice = match are_there {
        true => format!("the Pods of {} live there", super::named(&others)),
        false => format!("{} takes it too", super::named(&others)),
    };
    // Settings of this node may override this, and cannot be read.
    let hidden = [
        ObservedKind::CiliumNodeConfig,
        ObservedKind::CiliumDaemonSet,
    ]
    .into_iter()
    .find(|kind| observed.blind_spot(*kind).is_some());
    let (severity, consequence) = match (others.is_empty(), hidden) {
        (true, None) => (Severity::Warning, lost),
        (false, None) => (
            Severity::Error,
            format!("{lost}, and {next} is then held twice: {twice}"),
        ),
        (_, Some(kind)) => (
            Severity::Warning,
            format!(
                "unless {}, which could not be read, sets an address range for it: {lost}",
                kind.resource()
            ),
        ),
    };
    finding(severity, "block-changes-at-restart", message)
        .about(ObjectRef::node(name))
        .seen(evidence)
        .causes(consequence)
        .help(help)
}

/// Node and CiliumNode differ permanently, because of a setting such as `ipv4-range`.
fn overridden(node: &Node, spec: Block, lived: Block, source: &str) -> Finding {
    let name = &node.name;
    let message = format!(
        "node `{name}` shows {spec} in spec.podCIDRs, but its Pods live in {lived}, because of {source}"
    );
    let evidence = [
        format!("Node `{name}` spec.podCIDRs: {spec}"),
        format!("CiliumNode `{name}` spec.ipam.podCIDRs: {lived}"),
    ];
    let finding = finding(Severity::Info, "block-overridden", message)
        .about(ObjectRef::node(name))
        .seen(evidence);
    finding
        .causes(
            "Cilium uses the CiliumNode; other readers of Node.spec, such as a cloud's route controller, get the wrong block",
        )
        .help("this stays until the Node object is re-created with that block")
}

/// Nodes whose `spec.podCIDRs` differs from the block of their Pods, in IPAM modes that do not read
/// that field.
pub(super) fn unused_specs(observed: &Observed) -> Vec<Finding> {
    if !matches!(
        observed.cilium.mode(),
        ModeSeen::Known(IpamMode::ClusterPool | IpamMode::MultiPool)
    ) {
        return Vec::new();
    }
    // A block that is announced anyway has its own finding, and so has one that packets take.
    let misrouted = endpoint_routes::nodes_without(observed);
    let differs = |node: &&Arc<Node>| {
        let lives = observed.pod_blocks_of(&node.name);
        let is_announced = observed
            .announces(node)
            .is_some_and(|what| what.blocks.iter().any(|block| !lives.contains(block)));
        let is_told = is_announced || misrouted.contains(&node.name);
        !lives.is_empty() && !is_told && node.spec.iter().any(|block| !lives.contains(block))
    };
    let nodes: Vec<&Arc<Node>> = observed.nodes.values().filter(differs).collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    let names: Vec<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    let message = format!(
        "spec.podCIDRs of {} is not the block that the Pods live in",
        super::named(&names)
    );
    let line = |node: &&Arc<Node>| {
        let lives = observed.pod_blocks_of(&node.name);
        format!(
            "`{}`: Node {}, CiliumNode {}",
            node.name,
            super::spaced(node.spec.iter()),
            super::spaced(lives)
        )
    };
    let finding = |severity, rule| {
        let finding = finding(severity, rule, message);
        super::about_nodes(finding, names.iter().copied()).seen(nodes.iter().map(line))
    };
    if observed.is_announced_by_unknown_rules() {
        let finding = finding(Severity::Error, "announced-block-not-known");
        let finding = finding.causes("Cilium up to 1.11 announces the Node's block, so Pods become unreachable when another node fails; from 1.12 on it is harmless");
        return vec![finding.help("the version is unknown: pass --cilium-version")];
    }
    if let Some(routers) = spec_routers(observed) {
        let finding = finding(Severity::Warning, "node-spec-not-used");
        let finding = finding.causes(format!(
            "{routers}, and routes or announces spec.podCIDRs, in which these Pods do not live"
        ));
        return vec![finding.help("remove this program or switch its routes off (kube-router: --run-router=false); or use ipam kubernetes, so that both use spec.podCIDRs")];
    }
    let finding = finding(Severity::Info, "node-spec-not-used");
    vec![
        finding
            .causes("harmless to this Cilium, which does not read it; a cloud's route controller or kube-router would")
            .help(format!("{}, so that new Nodes get no spec.podCIDRs", without_specs(observed))),
    ]
}

/// How to keep new Nodes without `spec.podCIDRs`. Providers of hosted control planes cannot be asked
/// to change what is harmless.
fn without_specs(observed: &Observed) -> &str {
    let kube = ControllerProgram::KubeControllerManager.as_str();
    let mut allocators = observed.allocators.iter();
    let embedded = allocators.find(|one| one.is_manager() && one.name != kube);
    embedded.map_or(
        "run kube-controller-manager with --allocate-node-cidrs=false",
        |allocator| &allocator.switch_off,
    )
}

/// The programs beside Cilium that route or announce `spec.podCIDRs`; `None` if none is seen.
pub(super) fn spec_routers(observed: &Observed) -> Option<String> {
    let routers = observed.spec_routers.iter();
    let routers = routers.map(|seen| {
        let (namespace, name) = (seen.namespace.escape_debug(), seen.name.escape_debug());
        format!("{} runs (DaemonSet {namespace}/{name})", seen.program)
    });
    let all: Vec<String> = routers.collect();
    (!all.is_empty()).then(|| joined(all, ", "))
}
