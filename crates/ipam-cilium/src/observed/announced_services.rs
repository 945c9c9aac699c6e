//! How the addresses of Services are announced: by BGP, by L2, or not.
//!
//! Sources: `pkg/bgp/speaker` @ 1.11 to 1.16, `pkg/bgpv1` @ 1.12 to 1.18, `pkg/bgp` @ 1.19,
//! `pkg/l2announcer` @ 1.14 to 1.19. L2 announces IPv6 from 1.19 on (cilium#28985, cilium#43529).

use std::collections::BTreeSet;

use super::{Node, Observed, setting_key};
use crate::behaviours::{self, Releases};
use crate::lbipam::LbService;
use crate::releases::announces_without_backend;
use ipam_core::model::Selector;
use ipam_core::net::Family;

ipam_core::text_enum! {
    /// The protocol that announces an address.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Protocol {
        Bgp = "BGP",
        L2 = "L2",
    }
}

const BGP_CLASS: &str = "io.cilium/bgp-control-plane";
const L2_CLASS: &str = "io.cilium/l2-announcer";

/// The selectors of all announcements of Services.
pub struct ServiceAnnouncements<'o> {
    /// The speaker of MetalLB announces every Service.
    announces_all: bool,
    bgp: Vec<&'o Selector>,
    l2: Vec<&'o Selector>,
    l2_families: &'static [Family],
    backends: LocalBackends,
}

/// Whether L2 announces a Service that no node has a local backend for, although its traffic policy
/// wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LocalBackends {
    Needed,
    Ignored,
}

impl<'o> ServiceAnnouncements<'o> {
    pub fn new(observed: &'o Observed) -> ServiceAnnouncements<'o> {
        let version = observed.cilium.version.map(|(version, _)| version);
        let has = |behaviour: Releases| version.is_none_or(|version| behaviour.include(version));
        let mut bgp: Vec<&Selector> = Vec::new();
        if observed.is_on_somewhere(setting_key::ENABLE_BGP_CONTROL_PLANE) {
            let nodes = observed.nodes.values();
            let speaking =
                nodes.filter(|node| observed.is_on_at(node, setting_key::ENABLE_BGP_CONTROL_PLANE));
            bgp.extend(speaking.flat_map(|node| of_node(observed, node)));
            bgp.sort();
            bgp.dedup();
        }
        let policies = observed.announcing.l2_policies.iter();
        let is_l2 = observed.is_on_somewhere(setting_key::ENABLE_L2_ANNOUNCEMENTS)
            && has(behaviours::L2_ANNOUNCEMENTS);
        ServiceAnnouncements {
            announces_all: observed.is_on(setting_key::BGP_ANNOUNCE_LB_IP)
                && has(behaviours::METAL_LB_SPEAKERS),
            bgp,
            l2: policies
                .filter(|_| is_l2)
                .map(|policy| &policy.services)
                .collect(),
            l2_families: match has(behaviours::L2_IPV6) {
                true => &Family::BOTH,
                false => &[Family::Ipv4],
            },
            backends: match version.is_none_or(announces_without_backend) {
                true => LocalBackends::Ignored,
                false => LocalBackends::Needed,
            },
        }
    }

    /// What releases without a fault announce.
    pub fn of_every_release(observed: &'o Observed) -> ServiceAnnouncements<'o> {
        ServiceAnnouncements {
            backends: LocalBackends::Ignored,
            ..ServiceAnnouncements::new(observed)
        }
    }

    /// Whether L2 leaves out the Service, because no node has a local backend for it.
    pub fn lacks_local_backend(&self, service: &LbService) -> bool {
        self.backends == LocalBackends::Needed && service.has_no_local_backend()
    }

    /// The protocols that announce the addresses of a Service, by family.
    pub fn of(&self, service: &LbService) -> BTreeSet<(Protocol, Family)> {
        let is_of_class = |wanted: &str| {
            let class = service.class.as_deref();
            class.is_none_or(|class| class == wanted)
        };
        let selected = |selectors: &[&Selector]| {
            let mut selectors = selectors.iter();
            selectors.any(|selector| selector.matches(&service.labels))
        };
        let families: BTreeSet<Family> = service
            .ingress
            .iter()
            .map(|address| Family::of(*address))
            .collect();
        let by_bgp = is_of_class(BGP_CLASS) && selected(&self.bgp)
            || self.announces_all && service.class.is_none();
        let by_l2 =
            is_of_class(L2_CLASS) && selected(&self.l2) && !self.lacks_local_backend(service);
        let of_family = |family: Family| {
            let l2 = by_l2 && self.l2_families.contains(&family);
            let protocols = [(by_bgp, Protocol::Bgp), (l2, Protocol::L2)];
            protocols
                .into_iter()
                .filter(|(is_used, _)| *is_used)
                .map(move |(_, protocol)| (protocol, family))
        };
        families.into_iter().flat_map(of_family).collect()
    }
}

/// The selectors of Services that a node announces by the BGP control plane.
fn of_node<'o>(observed: &'o Observed, node: &'o Node) -> Vec<&'o Selector> {
    let version = observed.cilium.version.map(|(version, _)| version);
    let has = |behaviour: Releases| version.is_none_or(|version| behaviour.include(version));
    let mut policies = observed
        .announcing
        .policies
        .iter()
        .filter(|policy| policy.nodes.matches(&node.labels));
    match policies
        .next()
        .filter(|_| has(behaviours::PEERING_POLICIES))
    {
        // Two policies that select one node are an error, and nothing is announced.
        Some(policy) if policies.next().is_none() => policy.services.iter().collect(),
        Some(_) => Vec::new(),
        None if has(behaviours::BGP_CLUSTER_CONFIGS) => observed
            .advertisements_of(node)
            .flat_map(|entry| &entry.services)
            .collect(),
        None => Vec::new(),
    }
}
