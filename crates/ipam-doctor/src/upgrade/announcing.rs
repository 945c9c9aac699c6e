//! What nodes and Services announce before and after the hop.
//!
//! Parts of the cluster that an upgrade could not be checked for.

use std::collections::BTreeSet;

use serde::Serialize;

use super::change::{Cause, Changes, UpgradeCode, listed};
use super::{Hop, HopView, patches};
use ipam_cilium::behaviours;
use ipam_cilium::observed::{
    Announced, BgpSpeaker, ModeSeen, Node, Observed, ObservedKind, Protocol, ServiceAnnouncements,
    setting_key,
};
use ipam_cilium::releases::{FAULTS, Trigger, why_unknown};
use ipam_core::model::{CiliumVersion, IpamMode, ObjectRef};
use ipam_core::net::{Block, Family};

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    for node in hop.before.nodes.values() {
        if ends_with_policy(hop, node) {
            let effect = "its BGP sessions end".to_owned();
            let subject = ObjectRef::node(&node.name);
            changes.add(
                UpgradeCode::NodeAnnouncement,
                policies_end(),
                subject,
                effect,
            );
        } else {
            blocks(hop, node, changes);
        }
    }
    services(hop, changes);
}

/// Whether only a CiliumBGPPeeringPolicy configures BGP on the node, and the next release has none.
fn ends_with_policy(hop: &HopView<'_>, node: &Node) -> bool {
    let announcing = &hop.before.announcing;
    let is_on = hop
        .before
        .is_on_at(node, setting_key::ENABLE_BGP_CONTROL_PLANE);
    hop.crosses(19)
        && is_on
        && announcing
            .policies
            .iter()
            .any(|policy| policy.nodes.matches(&node.labels))
        && !announcing
            .cluster_configs
            .iter()
            .any(|config| config.nodes.matches(&node.labels))
}

fn policies_end() -> Cause {
    Cause {
        why: "Cilium 1.19 and later have no CiliumBGPPeeringPolicy".to_owned(),
        source: "Cilium 1.19.4, Documentation/operations/upgrade.rst",
        before: "at 1.16 to 1.18, create a CiliumBGPClusterConfig, a CiliumBGPPeerConfig and a CiliumBGPAdvertisement that announce the same, and delete the policy: on a node that both select, the policy wins".to_owned(),
    }
}

/// The blocks that a node announces.
fn blocks(hop: &HopView<'_>, node: &Node, changes: &mut Changes) {
    let (before, after) = (hop.before.announces(node), hop.after.announces(node));
    let shown = |announced: &Option<Announced>| -> BTreeSet<Block> {
        let blocks = announced.iter().flat_map(|announced| &announced.blocks);
        blocks.copied().collect()
    };
    let (old, new) = (shown(&before), shown(&after));
    if old == new {
        return;
    }
    let effect = match (old.is_empty(), new.is_empty()) {
        (false, true) => format!("no longer announces {}", listed(old)),
        (true, false) => format!("announces {}", listed(new)),
        _ => format!("announces {} instead of {}", listed(new), listed(old)),
    };
    let cause = cause(hop, before.as_ref(), after.as_ref());
    let subject = ObjectRef::node(&node.name);
    changes.add(UpgradeCode::NodeAnnouncement, cause, subject, effect);
}

fn cause(hop: &HopView<'_>, before: Option<&Announced>, after: Option<&Announced>) -> Cause {
    let speaker = |announced: Option<&Announced>| announced.map(|announced| announced.speaker);
    match (speaker(before), speaker(after)) {
        (Some(BgpSpeaker::MetalLb), _) if hop.crosses(17) => metal_lb_ends(),
        (Some(BgpSpeaker::PeeringPolicy), Some(BgpSpeaker::PeeringPolicy)) if hop.crosses(15) => Cause {
            why: "the BGP control plane of Cilium 1.15 and later announces CiliumNode.spec.ipam.podCIDRs; up to 1.14 it announces Node.spec.podCIDRs in ipam `kubernetes`".to_owned(),
            source: "pkg/bgpv1/agent/controller.go @ Cilium 1.14, 1.15",
            before: "adapt filters on the routers: from this hop on, the block of the node's Pods is announced".to_owned(),
        },
        (Some(BgpSpeaker::MetalLb), Some(BgpSpeaker::MetalLb)) if hop.crosses(12) => Cause {
            why: "the BGP speaker of MetalLB in Cilium 1.12 and later announces CiliumNode.spec.ipam.podCIDRs in ipam `cluster-pool`; 1.11 announces Node.spec.podCIDRs".to_owned(),
            source: "pkg/bgp/speaker/speaker.go @ Cilium 1.11, 1.12; cilium#18852",
            before: "adapt filters on the routers: from this hop on, the block of the node's Pods is announced".to_owned(),
        },
        (Some(BgpSpeaker::PeeringPolicy), _) if hop.crosses(19) => policies_end(),
        (_, Some(BgpSpeaker::ClusterConfig)) if hop.crosses(16) => cluster_configs_begin(),
        _ => Cause {
            why: format!("Cilium {} announces by other rules", hop.to),
            source: "pkg/bgp, pkg/bgpv1",
            before: "adapt the BGP objects, or filters on the routers".to_owned(),
        },
    }
}

fn metal_lb_ends() -> Cause {
    Cause {
        why: "Cilium 1.17 and later have no BGP speaker of MetalLB: `bgp-announce-lb-ip` and `bgp-announce-pod-cidr` are not read".to_owned(),
        source: "Cilium 1.17.6, Documentation/operations/upgrade.rst",
        before: "at 1.16, set `enable-bgp-control-plane: \"true\"` and create a CiliumBGPClusterConfig, a CiliumBGPPeerConfig and a CiliumBGPAdvertisement that announce the same".to_owned(),
    }
}

fn cluster_configs_begin() -> Cause {
    Cause {
        why: "Cilium 1.16 and later act on CiliumBGPClusterConfigs, which exist in the cluster"
            .to_owned(),
        source: "pkg/bgpv1 @ Cilium 1.16",
        before: "delete the objects if nothing shall be announced yet".to_owned(),
    }
}

fn services(hop: &HopView<'_>, changes: &mut Changes) {
    let before = ServiceAnnouncements::new(&hop.before);
    let after = ServiceAnnouncements::new(&hop.after);
    for service in hop.original.values() {
        let (old, new) = (before.of(service), after.of(service));
        if old == new {
            continue;
        }
        let ended: Vec<&(Protocol, Family)> = old.difference(&new).collect();
        let begun: Vec<&(Protocol, Family)> = new.difference(&old).collect();
        let texts = [(ended, "no longer announces"), (begun, "announces")]
            .into_iter()
            .flat_map(|(all, verb)| {
                all.into_iter().map(move |(protocol, family)| {
                    format!("{protocol} {verb} its {family} addresses")
                })
            });
        let effect = texts.collect::<Vec<_>>().join(", ");
        let ends = old.is_superset(&new);
        let fault = fault_of_l2(hop).filter(|_| ends && service.has_no_local_backend());
        let cause = fault.unwrap_or_else(|| cause_for_services(hop, ends));
        let subject = ObjectRef::service(&service.name);
        changes.add(UpgradeCode::ServiceAnnouncement, cause, subject, effect);
    }
}

/// The fault by which agents of the next release do not answer for Services without local backend.
fn fault_of_l2(hop: &HopView<'_>) -> Option<Cause> {
    let mut faults = FAULTS.iter();
    let fault = faults.find(|fault| fault.trigger == Trigger::LocalGateway && fault.is_in(hop.to));
    fault.map(patches::cause)
}

fn cause_for_services(hop: &HopView<'_>, ends: bool) -> Cause {
    let was_all = hop.before.is_on(setting_key::BGP_ANNOUNCE_LB_IP);
    match ends {
        true if hop.crosses(17) && was_all => metal_lb_ends(),
        true if hop.crosses(19) => policies_end(),
        false if hop.crosses(19) => Cause {
            why: "the agents of Cilium 1.19 and later announce IPv6 addresses by L2".to_owned(),
            source: "cilium#28985, cilium#43529",
            before: "narrow the CiliumL2AnnouncementPolicy if they shall not be announced"
                .to_owned(),
        },
        _ if hop.crosses(16) => cluster_configs_begin(),
        _ => Cause {
            why: format!("Cilium {} announces by other rules", hop.to),
            source: "pkg/bgp, pkg/bgpv1, pkg/l2announcer",
            before: "adapt the announcing objects".to_owned(),
        },
    }
}

/// A part that was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// The kind or setting.
    pub what: String,
    /// Why it could not be checked.
    pub why: String,
    /// What may change there without an entry.
    pub hides: &'static str,
}

pub(super) fn unjudged(observed: &Observed, to: CiliumVersion, hops: &[Hop]) -> Vec<Unjudged> {
    let mut all = kinds(observed);
    all.extend(releases(observed, to));
    all.extend(versions(observed));
    all.extend(mode(observed));
    all.extend(older_pools(observed, hops));
    all.extend(peers(observed, hops));
    all
}

/// What a hidden kind hides; `None` if no rule needs it.
fn hides(observed: &Observed, kind: ObservedKind) -> Option<&'static str> {
    use ObservedKind as K;
    let mode = observed.cilium.mode();
    let settings_are_hidden =
        observed.blind_spot(K::CiliumConfig).is_some() || mode == ModeSeen::NoSettings;
    let is_mode = |wanted| settings_are_hidden || mode == ModeSeen::Known(wanted);
    let is_on = |key| settings_are_hidden || observed.is_on_somewhere(key);
    match kind {
        K::Service => Some("which Services lose, get or announce an address"),
        K::LoadBalancerPool => Some("which Services lose or get an address"),
        K::Node | K::CiliumNode => Some("which nodes take or announce another block"),
        K::CiliumConfig => Some("every setting, and so the IPAM mode"),
        K::CiliumDaemonSet => Some("arguments of the agents, which override settings"),
        K::CiliumOperator => Some("the operator's version and arguments"),
        K::CiliumAgentPod => Some("agents of other versions"),
        K::CiliumNodeConfig => Some("settings of single nodes"),
        K::PodIpPool => is_mode(IpamMode::MultiPool).then_some("pools of Pods"),
        K::BgpPeeringPolicy | K::BgpClusterConfig | K::BgpPeerConfig | K::BgpAdvertisement => {
            is_on(setting_key::ENABLE_BGP_CONTROL_PLANE)
                .then_some("which nodes and Services BGP no longer announces")
        }
        K::MoreDefinitions => Some("which API versions the new release no longer has"),
        K::L2AnnouncementPolicy => {
            is_on(setting_key::ENABLE_L2_ANNOUNCEMENTS).then_some("which Services L2 announces")
        }
        K::Claims
        | K::Definition(_)
        | K::ControllerPod
        | K::ControllerDaemonSet
        | K::ServiceCidr
        | K::SpeakerConfig
        | K::KubeadmConfig
        | K::RouterDaemonSet
        | K::Migration
        | K::Departed(_) => None,
    }
}

fn kinds(observed: &Observed) -> Vec<Unjudged> {
    let one = |spot: &ipam_cilium::observed::BlindSpot| {
        Some(Unjudged {
            what: spot.kind.resource().to_owned(),
            why: format!("could not be read: {}", spot.why),
            hides: hides(observed, spot.kind)?,
        })
    };
    observed.blind_spots.iter().filter_map(one).collect()
}

/// Releases whose rules are unknown: the running one and the target.
fn releases(observed: &Observed, to: CiliumVersion) -> Vec<Unjudged> {
    let running = observed.cilium.version.map(|(version, _)| version);
    let unknown = |version: CiliumVersion| {
        Some(Unjudged {
            what: format!("Cilium {version}"),
            why: why_unknown(version)?,
            hides: "what this release changes: read its release notes, or use a newer cilium-ipam",
        })
    };
    let versions: BTreeSet<CiliumVersion> = running.into_iter().chain([to]).collect();
    versions.into_iter().filter_map(unknown).collect()
}

fn versions(observed: &Observed) -> Option<Unjudged> {
    let (version, _) = observed.cilium.version?;
    let agents = observed.cilium.agents.iter();
    let mut others: Vec<CiliumVersion> = agents.filter_map(|agent| agent.version).collect();
    others.extend(observed.cilium.operator_versions.iter().flatten());
    let is_other = |other: &CiliumVersion| {
        let same_minor = (other.major, other.minor) == (version.major, version.minor);
        !same_minor
            || version.patch.is_some() && other.patch.is_some() && other.patch != version.patch
    };
    others.retain(is_other);
    others.sort_unstable();
    others.dedup();
    if others.is_empty() {
        return None;
    }
    Some(Unjudged {
        what: "the start".to_owned(),
        why: format!(
            "agents or the operator of {} run in addition to {version}",
            super::change::listed(others)
        ),
        hides: "the effects of the unfinished upgrade: finish it first",
    })
}

fn mode(observed: &Observed) -> Option<Unjudged> {
    let is_told = observed.blind_spot(ObservedKind::CiliumConfig).is_some();
    let why = match observed.cilium.mode() {
        _ if observed.knows_pod_blocks() => return None,
        ModeSeen::NoSettings if is_told => return None,
        ModeSeen::NoSettings => "no cilium-config was seen".to_owned(),
        ModeSeen::Known(mode) => format!("another allocator decides in ipam `{mode}`"),
        ModeSeen::Unknown(mode) => format!("ipam `{}` is unknown", mode.escape_debug()),
    };
    Some(Unjudged {
        what: "nodes".to_owned(),
        why,
        hides: "which nodes take or announce another block",
    })
}

/// Peers are not read, so nothing shows that the newer objects have the same ones.
fn peers(observed: &Observed, hops: &[Hop]) -> Option<Unjudged> {
    let policies_end = hops
        .iter()
        .any(|hop| behaviours::PEERING_POLICIES.end_between(hop.from, hop.to));
    (policies_end && !observed.announcing.policies.is_empty()).then(|| Unjudged {
        what: "peers of ciliumbgppeeringpolicies.cilium.io".to_owned(),
        why: "this program does not compare peers, AS numbers and passwords".to_owned(),
        hides: "which BGP sessions end at 1.19: check that the CiliumBGPClusterConfigs have the same peers, delete the policies at 1.16 to 1.18, and look at the sessions before you go on",
    })
}

/// 1.12 has pools of another kind, which is not read.
fn older_pools(observed: &Observed, hops: &[Hop]) -> Option<Unjudged> {
    let ends_here = hops
        .first()
        .is_some_and(|hop| behaviours::BGP_LOAD_BALANCER_POOLS.end_between(hop.from, hop.to));
    let has_services = observed
        .services
        .values()
        .any(|service| !service.ingress.is_empty());
    (ends_here && has_services).then(|| Unjudged {
        what: "ciliumbgploadbalancerippools.cilium.io".to_owned(),
        why: "this program does not read the pools of Cilium 1.12, which 1.13 renames".to_owned(),
        hides: "which Services lose an address: create CiliumLoadBalancerIPPools with the same ranges",
    })
}
