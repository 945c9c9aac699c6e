//! Ipam `multi-pool` without routes of single Pods.
//!
//! Up to 1.17, an agent in this mode knows no block of its node, so the route of the local node
//! leads to the Node's block, or to one of 10.0.0.0/8 that the agent made up
//! (`Documentation/network/concepts/ipam/multi-pool.rst` and `pkg/node/address.go` @ 1.17). From
//! 1.18 on it has a route to each of its blocks.

use std::collections::BTreeSet;

use super::finding;
use ipam_cilium::behaviours;
use ipam_cilium::observed::{Node, Observed, ObservedKind, setting_key};
use ipam_core::model::{Finding, NodeName, Severity};

/// Whether an agent that starts on a node makes a route for each Pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndpointRoutes {
    On,
    Off,
    /// The settings are not complete, as in an old snapshot.
    Unknown,
}

/// Whether Pods of this mode need routes of their own in the running version.
fn are_required(observed: &Observed) -> bool {
    let version = observed.cilium.version.map(|(version, _)| version);
    let required = behaviours::MULTI_POOL_ENDPOINT_ROUTES;
    observed.is_multi_pool() && version.is_some_and(|version| required.include(version))
}

fn routes_of(observed: &Observed, node: &Node) -> EndpointRoutes {
    match observed.setting(&node.labels, setting_key::ENABLE_ENDPOINT_ROUTES) {
        Some(setting) if setting.is_on() => EndpointRoutes::On,
        Some(_) => EndpointRoutes::Off,
        // Helm writes the one only if it is on, and the other always.
        None => match observed.common_setting(setting_key::AUTO_DIRECT_NODE_ROUTES) {
            Some(_) => EndpointRoutes::Off,
            None => EndpointRoutes::Unknown,
        },
    }
}

fn nodes_with(observed: &Observed, routes: EndpointRoutes) -> Vec<&Node> {
    // A hidden setting of a node may turn them on.
    if !are_required(observed) || observed.is_blind_to_any(&[ObservedKind::CiliumNodeConfig]) {
        return Vec::new();
    }
    let nodes = observed.nodes.values().map(AsRef::as_ref);
    nodes
        .filter(|node| routes_of(observed, node) == routes)
        .collect()
}

/// Nodes whose local route may lead to another block than that of their Pods.
pub(super) fn nodes_without(observed: &Observed) -> BTreeSet<&NodeName> {
    let nodes = nodes_with(observed, EndpointRoutes::Off);
    nodes.into_iter().map(|node| &node.name).collect()
}

pub(super) fn missing(observed: &Observed) -> Vec<Finding> {
    let (off, unknown) = (EndpointRoutes::Off, EndpointRoutes::Unknown);
    let missing = of_nodes(observed, &nodes_with(observed, off), off);
    let unclear = of_nodes(observed, &nodes_with(observed, unknown), unknown);
    missing.into_iter().chain(unclear).collect()
}

fn of_nodes(observed: &Observed, nodes: &[&Node], routes: EndpointRoutes) -> Option<Finding> {
    let names: Vec<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    if names.is_empty() {
        return None;
    }
    let named = super::named(&names);
    let (severity, message) = match routes {
        EndpointRoutes::Off | EndpointRoutes::On => (
            Severity::Error,
            format!("the agents of {named} make no routes to their Pods"),
        ),
        EndpointRoutes::Unknown => (
            Severity::Warning,
            format!("it is unknown whether the agents of {named} make routes to their Pods"),
        ),
    };
    let line = |node: &&Node| {
        let lives = observed.pod_blocks_of(&node.name);
        let route = match node.spec.iter().next() {
            Some(_) => format!("the route leads to {}", super::spaced(node.spec.iter())),
            None => "the agent makes up the block of its route".to_owned(),
        };
        format!(
            "`{}`: {route}, its Pods live in {}",
            node.name,
            super::spaced(lives)
        )
    };
    let setting = observed.common_setting(setting_key::ENABLE_ENDPOINT_ROUTES);
    let value = setting.map_or("absent", |setting| setting.value);
    let finding = finding(severity, "endpoint-routes-missing", message);
    let finding = super::about_nodes(finding, names.iter().copied())
        .seen([format!(
            "cilium-config enable-endpoint-routes: {}",
            value.escape_debug()
        )])
        .seen(nodes.iter().map(line));
    let finding = finding.causes(
        "packets from other nodes and from the node itself do not reach these Pods; they loop until their TTL expires",
    );
    Some(finding.help(
        "set `enable-endpoint-routes: \"true\"` in cilium-config (Helm: endpointRoutes.enabled=true) and restart the agents, or upgrade to Cilium 1.18 or later",
    ))
}
