//! Parts of the cluster that an upgrade could not be judged for. None of them counts as unchanged.

use std::collections::BTreeSet;

use super::Hop;
use ipam_cilium::behaviours;
use ipam_cilium::observed::{ModeSeen, Observed, ObservedKind, setting_key};
use ipam_cilium::releases::why_unknown;
use ipam_core::model::{CiliumVersion, IpamMode};

/// A part that was not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjudged {
    /// The kind or setting.
    pub what: String,
    /// Why it could not be judged.
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
        | K::Migration => None,
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
            "agents or the operator of {} run beside {version}",
            super::change::listed(others)
        ),
        hides: "what the upgrade that is under way changes: finish it first",
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
