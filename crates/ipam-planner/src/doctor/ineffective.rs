//! BGP objects that the running Cilium does not read.

use std::collections::BTreeSet;

use super::finding;
use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{Advertisement, Observed, PeeringPolicy, PodCidrs, setting_key};
use ipam_core::model::{Finding, ObjectRef, Severity, count};

/// `CiliumBGPPeeringPolicy`s of a cluster whose agents do not know them: from 1.19 on.
pub(super) fn unread_policies(observed: &Observed) -> impl Iterator<Item = &PeeringPolicy> {
    let is_unread = !observed.reads_peering_policies();
    observed
        .announcing
        .policies
        .iter()
        .filter(move |_| is_unread)
}

fn policy_subject(policy: &PeeringPolicy) -> ObjectRef {
    ObjectRef {
        kind: "CiliumBGPPeeringPolicy",
        name: policy.name.clone(),
    }
}

/// It is an error if nothing else announces by BGP.
pub(super) fn peering_policies(observed: &Observed) -> Vec<Finding> {
    let replaced = observed
        .nodes
        .values()
        .any(|node| observed.advertisements_of(node).next().is_some());
    let severity = match replaced {
        true => Severity::Warning,
        false => Severity::Error,
    };
    let finding = |policy: &PeeringPolicy| {
        let message = format!(
            "CiliumBGPPeeringPolicy `{}` has no effect: Cilium 1.19 and later do not read it",
            policy.name.escape_debug()
        );
        let nodes = observed.nodes.values();
        let nodes = nodes.filter(|node| policy.nodes.matches(&node.labels));
        let is_selected = |service: &&LbService| {
            let mut selectors = policy.services.iter();
            !service.ingress.is_empty()
                && selectors.any(|selector| selector.matches(&service.labels))
        };
        let services = observed.services.values().filter(is_selected).count();
        let pod_cidrs = match policy.pod_cidrs {
            PodCidrs::Announced => "exports pod CIDRs",
            PodCidrs::Kept => "exports no pod CIDRs",
        };
        let finding = finding(severity, "peering-policy-not-read", message)
            .about(policy_subject(policy))
            .seen([format!(
                "it selects {} and {} with an address, and {pod_cidrs}",
                count(nodes.count(), "node"),
                count(services, "Service")
            )]);
        finding
            .causes("routers get no route by it")
            .help("write the same as CiliumBGPClusterConfig, CiliumBGPPeerConfig and CiliumBGPAdvertisement, then delete the policy")
    };
    unread_policies(observed).map(finding).collect()
}

/// In ipam `multi-pool` a node has no pod CIDR, so an advertisement of it announces nothing
/// (`pkg/bgp/manager/reconciler/pod_cidr.go` @ 1.20).
pub(super) fn pod_cidrs_in_multi_pool(observed: &Observed) -> Vec<Finding> {
    if !observed.is_multi_pool() || !observed.is_on(setting_key::ENABLE_BGP_CONTROL_PLANE) {
        return Vec::new();
    }
    let sent: BTreeSet<&str> = observed
        .nodes
        .values()
        .flat_map(|node| observed.advertisements_of(node))
        .map(|entry| entry.name.as_str())
        .collect();
    let announces = |entry: &&Advertisement| {
        entry.pod_cidrs == PodCidrs::Announced && sent.contains(entry.name.as_str())
    };
    let advertisements = observed.announcing.advertisements.iter().filter(announces);
    let of_advertisement = |entry: &Advertisement| ObjectRef {
        kind: "CiliumBGPAdvertisement",
        name: entry.name.clone(),
    };
    let exports = |policy: &&PeeringPolicy| {
        let mut nodes = observed.nodes.values();
        policy.pod_cidrs == PodCidrs::Announced
            && observed.reads_peering_policies()
            && nodes.any(|node| policy.nodes.matches(&node.labels))
    };
    let policies = observed.announcing.policies.iter().filter(exports);
    let subjects = advertisements
        .map(of_advertisement)
        .chain(policies.map(policy_subject));
    let finding = |subject: ObjectRef| {
        let (field, name) = (
            match subject.kind {
                "CiliumBGPAdvertisement" => "advertisementType: PodCIDR",
                _ => "exportPodCIDR: true",
            },
            subject.name.escape_debug().to_string(),
        );
        let message = format!(
            "{} `{name}` announces no Pods: ipam `multi-pool` has no pod CIDRs",
            subject.kind
        );
        let finding = finding(
            Severity::Warning,
            "pod-cidr-advertisement-without-effect",
            message,
        );
        finding
            .about(subject)
            .seen([field.to_owned(), "cilium-config ipam: multi-pool".to_owned()])
            .causes("routers get no route to Pods by it")
            .help("announce pools: `advertisementType: CiliumPodIPPool` with a selector (in a CiliumBGPPeeringPolicy: `podIPPoolSelector`)")
    };
    subjects.map(finding).collect()
}
