//! What Cilium this is: each conclusion with its evidence and how sure it is.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use ipam_cilium::observed::{
    Allocator, AllocatorProof, AllocatorStatus, AnnotationReads, BgpSpeaker, CidrSource,
    CiliumNode, ControllerProgram, Evidence, ModeSeen, Observed, ObservedKind, PodAddresses,
    setting_key,
};
use ipam_core::model::{IpamMode, NodeName, count};
use ipam_core::text::joined;
use ipam_desired::Policy;
use ipam_plan::allocators::OtherAllocator;

ipam_core::text_enum! {
    /// How sure a conclusion is. The text is printed and stands in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Confidence {
        /// An object says so.
        Certain = "certain",
        /// A default, or evidence that could have another cause.
        Likely = "likely",
        /// No evidence.
        Unknown = "unknown",
    }
}

ipam_core::serde_as_text! { Confidence: "certainty" }

/// A conclusion about the cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Conclusion {
    /// The subject, such as `version`.
    pub about: Cow<'static, str>,
    pub value: String,
    /// The source of the value.
    pub evidence: String,
    #[serde(rename = "certainty")]
    pub confidence: Confidence,
}

fn conclusion(
    about: impl Into<Cow<'static, str>>,
    value: impl Into<String>,
    evidence: impl Into<String>,
    confidence: Confidence,
) -> Conclusion {
    Conclusion {
        about: about.into(),
        value: value.into(),
        evidence: evidence.into(),
        confidence,
    }
}

/// All conclusions. Each builds on those before it.
pub fn conclusions(observed: &Observed) -> Vec<Conclusion> {
    let nodes = conclusion(
        "nodes",
        observed.nodes.len().to_string(),
        count(observed.cilium_nodes.len(), "CiliumNode"),
        Confidence::Certain,
    );
    let mut conclusions = vec![nodes, version(observed), mode(observed)];
    conclusions.extend(conversion(observed));
    conclusions.extend(chaining(observed));
    conclusions.extend([annotations(observed), bgp(observed)]);
    conclusions.extend(allocators(observed));
    conclusions
}

fn version(observed: &Observed) -> Conclusion {
    let Some((version, evidence)) = observed.cilium.version else {
        return conclusion(
            "version",
            "unknown",
            "no image tag, chart label or schema label shows it",
            Confidence::Unknown,
        );
    };
    let confidence = match evidence {
        Evidence::Flag | Evidence::ImageTag => Confidence::Certain,
        Evidence::ChartLabel | Evidence::SchemaLabel => Confidence::Likely,
    };
    conclusion(
        "version",
        version.to_string(),
        evidence.to_string(),
        confidence,
    )
}

fn mode(observed: &Observed) -> Conclusion {
    let about = "ipam";
    let source = match observed.common_setting(setting_key::IPAM) {
        _ if observed.cilium.mode_override.is_some() => "--ipam".to_owned(),
        Some(setting) => setting.source.to_string(),
        None if observed.cilium.is_host_scope() => {
            "cilium-config has no `ipam`: the default before 1.9".to_owned()
        }
        None => "cilium-config has no `ipam`: the default since 1.9".to_owned(),
    };
    let is_set =
        observed.cilium.mode_override.is_some() || observed.common_setting(about).is_some();
    let confidence = if is_set {
        Confidence::Certain
    } else {
        Confidence::Likely
    };
    match observed.cilium.mode() {
        ModeSeen::NoSettings => conclusion(
            about,
            "unknown",
            "no cilium-config was seen",
            Confidence::Unknown,
        ),
        ModeSeen::Unknown(mode) => {
            conclusion(about, mode.escape_debug().to_string(), source, confidence)
        }
        ModeSeen::Known(_) if observed.cilium.is_host_scope() => {
            conclusion(about, HOST_SCOPE, source, confidence)
        }
        ModeSeen::Known(mode) => {
            // As it is spelt: `cluster-pool-v2beta` is not `cluster-pool`.
            let setting = observed.common_setting(about);
            let spelt = setting.filter(|_| observed.cilium.mode_override.is_none());
            let name = spelt.map_or(mode.as_str(), |setting| setting.value);
            conclusion(about, name.escape_debug().to_string(), source, confidence)
        }
    }
}

/// The default mode before `cluster-pool`: the agent makes up its own block.
const HOST_SCOPE: &str = "hostscope";

/// How far Cilium's conversion from ipam `cluster-pool` to `multi-pool` came.
fn conversion(observed: &Observed) -> Option<Conclusion> {
    if !observed.converts_to_multi_pool() {
        return None;
    }
    let unconverted: Vec<&NodeName> = observed.unconverted().map(|node| &node.name).collect();
    let has_old_agent =
        |node: &&Arc<CiliumNode>| !node.allocated.is_empty() && node.requested.is_empty();
    let old_agents = observed.cilium_nodes.values().filter(has_old_agent);
    let old_agents: Vec<&NodeName> = old_agents.map(|node| &node.name).collect();
    let of = observed.cilium_nodes.len();
    let parts = [
        ("not yet converted", unconverted.as_slice()),
        (
            "the agent still uses cluster-pool: restart it on",
            &old_agents,
        ),
    ];
    let left = parts.iter().filter(|(_, nodes)| !nodes.is_empty());
    let left = left.map(|(what, nodes)| format!("{what}: {}", super::named(nodes)));
    let setting = [setting_key::CLUSTER_POOL_CONVERSION.to_owned()];
    Some(conclusion(
        "conversion to multi-pool",
        format!("{} of {of} CiliumNodes converted", of - unconverted.len()),
        joined(setting.into_iter().chain(left), "; "),
        Confidence::Certain,
    ))
}

/// What gives Pods their addresses, if it is not Cilium's IPAM.
fn chaining(observed: &Observed) -> Option<Conclusion> {
    let about = "addresses of Pods";
    match observed.pod_addresses() {
        PodAddresses::Cilium => None,
        PodAddresses::Chained(mode) => Some(conclusion(
            about,
            "another CNI plugin: blocks of nodes have only Cilium's own addresses",
            format!("cni-chaining-mode: {}", mode.escape_debug()),
            Confidence::Certain,
        )),
        PodAddresses::OwnConfiguration => Some(conclusion(
            about,
            "depend on CNI configuration files that are not read",
            "custom-cni-conf",
            Confidence::Unknown,
        )),
    }
}

fn annotations(observed: &Observed) -> Conclusion {
    let about = "pod-CIDR annotations";
    match (observed.cilium.mode(), observed.common_annotation_reads()) {
        (ModeSeen::NoSettings | ModeSeen::Unknown(_), _) => conclusion(
            about,
            "unknown",
            "the IPAM mode is unknown",
            Confidence::Unknown,
        ),
        (ModeSeen::Known(IpamMode::Kubernetes), AnnotationReads::Yes(_)) => conclusion(
            about,
            "read where spec.podCIDRs is empty",
            "version and annotate-k8s-node",
            Confidence::Certain,
        ),
        (ModeSeen::Known(IpamMode::Kubernetes), AnnotationReads::GateClosed) => {
            let by_node = observed
                .node_configs
                .iter()
                .any(|config| config.defaults.contains_key("annotate-k8s-node"));
            let value = if by_node {
                "depends on the node"
            } else {
                "not read"
            };
            conclusion(about, value, "annotate-k8s-node", Confidence::Certain)
        }
        (ModeSeen::Known(IpamMode::Kubernetes), AnnotationReads::VersionUnknown) => conclusion(
            about,
            "unknown",
            "the version is unknown",
            Confidence::Unknown,
        ),
        (ModeSeen::Known(_), _) => conclusion(
            about,
            "not read",
            "only ipam kubernetes reads them",
            Confidence::Certain,
        ),
    }
}

fn bgp(observed: &Observed) -> Conclusion {
    use ObservedKind::{BgpAdvertisement, BgpClusterConfig, BgpPeerConfig, BgpPeeringPolicy};
    let about = "pod CIDRs by BGP";
    let unknown = |why: &str| conclusion(about, "unknown", why, Confidence::Unknown);
    let kinds = [
        BgpPeeringPolicy,
        BgpClusterConfig,
        BgpPeerConfig,
        BgpAdvertisement,
    ];
    let Some(speaker) = observed.speaker() else {
        return match observed.cilium.settings {
            None => unknown("no cilium-config was seen"),
            Some(_)
                if observed.is_blind_to_any(&kinds)
                    && observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE) =>
            {
                unknown("its objects could not be read")
            }
            Some(_) => conclusion(
                about,
                "not announced",
                "cilium-config and BGP objects",
                Confidence::Certain,
            ),
        };
    };
    if speaker != BgpSpeaker::MetalLb && observed.is_blind_to_any(&kinds) {
        return unknown("not all of its objects could be read");
    }
    if observed.is_announced_by_unknown_rules() {
        return unknown("which field is announced depends on the version");
    }
    if !observed.is_host_scoped() {
        return unknown("not checked in this IPAM mode");
    }
    conclusion(
        about,
        speaker.to_string(),
        announced_nodes(observed),
        Confidence::Certain,
    )
}

/// How many nodes have a block that is announced, and the families that no node announces.
fn announced_nodes(observed: &Observed) -> String {
    let (mut nodes, mut announced, mut used) = (0, BTreeSet::new(), BTreeSet::new());
    for node in observed.nodes.values() {
        let lives = observed.pod_blocks_of(&node.name);
        used.extend(lives.iter().map(|block| block.family()));
        if let Some(what) = observed.announces(node) {
            nodes += usize::from(lives.is_empty() || !what.blocks.is_empty());
            announced.extend(what.families);
        }
    }
    // Without any announcement of pod CIDRs, no family is missed.
    used.retain(|_| !announced.is_empty());
    let missing = used
        .difference(&announced)
        .map(|family| format!("no {family}"));
    let of = observed.nodes.len();
    let all = [format!("announced for {nodes} of {of} nodes")];
    joined(all.into_iter().chain(missing), ", ")
}

/// The setting with the ranges of an allocator, after its name.
fn setting(allocator: &Allocator, ranges: &str) -> String {
    match allocator.cluster_cidrs.source {
        CidrSource::Flags => format!("--cluster-cidr {ranges}"),
        CidrSource::Kubeadm => allocator.setting_of(ranges),
    }
}

/// One conclusion for each program that may assign `spec.podCIDRs`.
fn allocators(observed: &Observed) -> Vec<Conclusion> {
    let of = |allocator: &Arc<Allocator>| {
        let value = match allocator.status {
            AllocatorStatus::Active => "fills spec.podCIDRs",
            AllocatorStatus::Inactive => "leaves Nodes alone",
            AllocatorStatus::Unknown => "unknown",
        };
        let confidence = match (allocator.status, allocator.proof) {
            (AllocatorStatus::Unknown, _) => Confidence::Unknown,
            (_, AllocatorProof::Flags) => Confidence::Certain,
            (_, AllocatorProof::Indirect) => Confidence::Likely,
        };
        let ranges = super::spaced(&allocator.cluster_cidrs.ranges);
        let evidence = match ranges.is_empty() {
            true => allocator.evidence.clone(),
            false => format!("{}, {}", allocator.evidence, setting(allocator, &ranges)),
        };
        conclusion(allocator.name.clone(), value, evidence, confidence)
    };
    let mut conclusions: Vec<Conclusion> = observed.allocators.iter().map(of).collect();
    if OtherAllocator::of(observed, &Policy::default()) == OtherAllocator::Unseen {
        conclusions.push(conclusion(
            ControllerProgram::KubeControllerManager.as_str(),
            "unknown",
            "none of its Pods is visible",
            Confidence::Unknown,
        ));
    }
    conclusions
}
