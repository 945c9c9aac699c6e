//! What Cilium this is: each conclusion with its evidence and its certainty.

use crate::model::IpamMode;
use crate::observed::{AnnotationReads, Evidence, ModeSeen, NodeCidrAllocation, Observed, ObservedKind};

/// How sure a conclusion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// An object says so.
    Certain,
    /// It follows from something that could be otherwise.
    Likely,
    /// Nothing tells.
    Unknown,
}

impl Certainty {
    /// As printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Certainty::Certain => "certain",
            Certainty::Likely => "likely",
            Certainty::Unknown => "unknown",
        }
    }
}

/// Something that was concluded of the cluster.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// What about.
    pub about: &'static str,
    /// What.
    pub value: String,
    /// From what.
    pub evidence: String,
    /// How sure.
    pub certainty: Certainty,
}

fn conclusion(
    about: &'static str,
    value: impl Into<String>,
    evidence: impl Into<String>,
    certainty: Certainty,
) -> Conclusion {
    Conclusion { about, value: value.into(), evidence: evidence.into(), certainty }
}

/// All of them, in the order in which they build on one another.
pub fn conclusions(observed: &Observed) -> Vec<Conclusion> {
    let nodes = conclusion(
        "nodes",
        observed.nodes.len().to_string(),
        format!("{} CiliumNodes", observed.cilium_nodes.len()),
        Certainty::Certain,
    );
    vec![nodes, version(observed), mode(observed), annotations(observed), bgp(observed), controller_manager(observed)]
}

fn version(observed: &Observed) -> Conclusion {
    let Some((version, evidence)) = observed.cilium.version else {
        return conclusion("version", "unknown", "no tag, chart or schema label that tells it", Certainty::Unknown);
    };
    let certainty = match evidence {
        Evidence::Flag | Evidence::ImageTag => Certainty::Certain,
        Evidence::ChartLabel | Evidence::SchemaLabel => Certainty::Likely,
    };
    conclusion("version", version.to_string(), evidence.to_string(), certainty)
}

fn mode(observed: &Observed) -> Conclusion {
    let is_written = observed.cilium.settings.as_ref().is_some_and(|settings| settings.contains_key("ipam"));
    match observed.cilium.mode() {
        ModeSeen::NoSettings => conclusion("ipam", "unknown", "no cilium-config was seen", Certainty::Unknown),
        ModeSeen::Unknown(mode) => {
            conclusion("ipam", mode.escape_debug().to_string(), "cilium-config", Certainty::Certain)
        }
        ModeSeen::Known(mode) if is_written => conclusion("ipam", mode.as_str(), "cilium-config", Certainty::Certain),
        ModeSeen::Known(mode) => {
            conclusion("ipam", mode.as_str(), "cilium-config has no `ipam`: the default since 1.9", Certainty::Likely)
        }
    }
}

fn annotations(observed: &Observed) -> Conclusion {
    let about = "pod-CIDR annotations";
    if observed.cilium.mode() != ModeSeen::Known(IpamMode::Kubernetes) {
        return conclusion(about, "not read", "only ipam kubernetes reads them", Certainty::Certain);
    }
    match observed.cilium.annotation_reads() {
        AnnotationReads::Yes(_) => {
            conclusion(about, "read where spec.podCIDRs is empty", "version and annotate-k8s-node", Certainty::Certain)
        }
        AnnotationReads::GateClosed => {
            conclusion(about, "not read", "annotate-k8s-node is not \"true\"", Certainty::Certain)
        }
        AnnotationReads::VersionUnknown => conclusion(about, "unknown", "the version is not known", Certainty::Unknown),
    }
}

fn bgp(observed: &Observed) -> Conclusion {
    let kinds = [ObservedKind::BgpPeeringPolicy, ObservedKind::BgpClusterConfig, ObservedKind::BgpAdvertisement];
    match observed.speaker() {
        Some(speaker) => {
            let announcing = observed.nodes.values().filter(|node| observed.announces(node).is_some()).count();
            conclusion(
                "pod CIDRs by BGP",
                speaker.to_string(),
                format!("announced for {announcing} nodes"),
                Certainty::Certain,
            )
        }
        None if kinds.iter().any(|kind| observed.blind_spot(*kind).is_some()) => {
            conclusion("pod CIDRs by BGP", "unknown", "its objects could not be read", Certainty::Unknown)
        }
        None => conclusion("pod CIDRs by BGP", "not announced", "cilium-config and BGP objects", Certainty::Certain),
    }
}

fn controller_manager(observed: &Observed) -> Conclusion {
    let about = "kube-controller-manager";
    let ranges = super::spaced(&observed.cluster_cidrs);
    match observed.controller_manager {
        NodeCidrAllocation::On => {
            conclusion(about, "fills spec.podCIDRs", format!("--allocate-node-cidrs=true {ranges}"), Certainty::Certain)
        }
        NodeCidrAllocation::Off => conclusion(about, "leaves Nodes alone", "its Pod's arguments", Certainty::Certain),
        NodeCidrAllocation::Unseen => conclusion(about, "unknown", "no Pod of it is visible", Certainty::Unknown),
    }
}
