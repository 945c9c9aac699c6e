//! What Cilium this is: each conclusion with its evidence and its certainty.

use ipam_cilium::observed::{
    AnnotationReads, Evidence, ModeSeen, NodeCidrAllocation, Observed, ObservedKind, Speaker,
};
use ipam_core::model::{IpamMode, count};

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
    Conclusion {
        about,
        value: value.into(),
        evidence: evidence.into(),
        certainty,
    }
}

/// All of them, in the order in which they build on one another.
pub fn conclusions(observed: &Observed) -> Vec<Conclusion> {
    let nodes = conclusion(
        "nodes",
        observed.nodes.len().to_string(),
        count(observed.cilium_nodes.len(), "CiliumNode"),
        Certainty::Certain,
    );
    vec![
        nodes,
        version(observed),
        mode(observed),
        annotations(observed),
        bgp(observed),
        controller_manager(observed),
    ]
}

fn version(observed: &Observed) -> Conclusion {
    let Some((version, evidence)) = observed.cilium.version else {
        return conclusion(
            "version",
            "unknown",
            "no tag, chart or schema label that tells it",
            Certainty::Unknown,
        );
    };
    let certainty = match evidence {
        Evidence::Flag | Evidence::ImageTag => Certainty::Certain,
        Evidence::ChartLabel | Evidence::SchemaLabel => Certainty::Likely,
    };
    conclusion(
        "version",
        version.to_string(),
        evidence.to_string(),
        certainty,
    )
}

fn mode(observed: &Observed) -> Conclusion {
    let about = "ipam";
    let source = match observed.common_setting("ipam") {
        _ if observed.cilium.mode_said.is_some() => "--ipam".to_owned(),
        Some(setting) => setting.source.to_string(),
        None => "cilium-config has no `ipam`: the default since 1.9".to_owned(),
    };
    let is_said = observed.cilium.mode_said.is_some() || observed.common_setting(about).is_some();
    let certainty = if is_said {
        Certainty::Certain
    } else {
        Certainty::Likely
    };
    match observed.cilium.mode() {
        ModeSeen::NoSettings => conclusion(
            about,
            "unknown",
            "no cilium-config was seen",
            Certainty::Unknown,
        ),
        ModeSeen::Unknown(mode) => {
            conclusion(about, mode.escape_debug().to_string(), source, certainty)
        }
        ModeSeen::Known(mode) => conclusion(about, mode.as_str(), source, certainty),
    }
}

fn annotations(observed: &Observed) -> Conclusion {
    let about = "pod-CIDR annotations";
    match (observed.cilium.mode(), observed.common_annotation_reads()) {
        (ModeSeen::NoSettings | ModeSeen::Unknown(_), _) => conclusion(
            about,
            "unknown",
            "the IPAM mode is not known",
            Certainty::Unknown,
        ),
        (ModeSeen::Known(IpamMode::Kubernetes), AnnotationReads::Yes(_)) => conclusion(
            about,
            "read where spec.podCIDRs is empty",
            "version and annotate-k8s-node",
            Certainty::Certain,
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
            conclusion(about, value, "annotate-k8s-node", Certainty::Certain)
        }
        (ModeSeen::Known(IpamMode::Kubernetes), AnnotationReads::VersionUnknown) => conclusion(
            about,
            "unknown",
            "the version is not known",
            Certainty::Unknown,
        ),
        (ModeSeen::Known(_), _) => conclusion(
            about,
            "not read",
            "only ipam kubernetes reads them",
            Certainty::Certain,
        ),
    }
}

fn bgp(observed: &Observed) -> Conclusion {
    use ObservedKind::{BgpAdvertisement, BgpClusterConfig, BgpPeerConfig, BgpPeeringPolicy};
    let about = "pod CIDRs by BGP";
    let unknown = |why: &str| conclusion(about, "unknown", why, Certainty::Unknown);
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
                    && observed.is_on("enable-bgp-control-plane") =>
            {
                unknown("its objects could not be read")
            }
            Some(_) => conclusion(
                about,
                "not announced",
                "cilium-config and BGP objects",
                Certainty::Certain,
            ),
        };
    };
    if speaker != Speaker::MetalLb && observed.is_blind_to_any(&kinds) {
        return unknown("not all of its objects could be read");
    }
    if observed.is_announced_by_unknown_rules() {
        return unknown("which field is announced depends on the version");
    }
    if !observed.is_host_scoped() {
        return unknown("not judged in this IPAM mode");
    }
    let announcing = observed
        .nodes
        .values()
        .filter(|node| observed.announces(node).is_some())
        .count();
    let of = observed.nodes.len();
    conclusion(
        about,
        speaker.to_string(),
        format!("announced for {announcing} of {of} nodes"),
        Certainty::Certain,
    )
}

fn controller_manager(observed: &Observed) -> Conclusion {
    let about = "kube-controller-manager";
    let ranges = super::spaced(&observed.cluster_cidrs);
    match observed.controller_manager {
        NodeCidrAllocation::On => conclusion(
            about,
            "fills spec.podCIDRs",
            format!("--allocate-node-cidrs=true {ranges}"),
            Certainty::Certain,
        ),
        NodeCidrAllocation::Off => conclusion(
            about,
            "leaves Nodes alone",
            "its Pod's arguments",
            Certainty::Certain,
        ),
        NodeCidrAllocation::Unseen => conclusion(
            about,
            "unknown",
            "no Pod of it is visible",
            Certainty::Unknown,
        ),
    }
}
