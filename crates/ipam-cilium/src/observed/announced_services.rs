//! How the addresses of Services are announced: by BGP, by L2, or not.
//!
//! Sources: `pkg/bgp/speaker` @ 1.11 to 1.16, `pkg/bgpv1` @ 1.12 to 1.18, `pkg/bgp` @ 1.19,
//! `pkg/l2announcer` @ 1.14 to 1.19. L2 announces IPv6 from 1.19 on (cilium#28985, cilium#43529).
//!
//! Annotations of Services that look like those of LB-IPAM, and that no version of Cilium reads.
//!
//! ConfigMap `bgp-config`: the peers of the MetalLB speakers inside Cilium's agents, 1.10 to 1.16.
//! Source: `pkg/bgp/config` @ 1.12, and `internal/config/config.go` of MetalLB 0.12.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::announced::METAL_LB_FAMILIES;
use super::load_balancing::SERVICE_ANNOTATIONS;
use super::view::{ConfigMapView, nullable, yaml_of_key};
use super::{L2Policy, Node, Observed, PeeringPolicy, setting_key};
use crate::behaviours;
use crate::lbipam::{BGP_CLASS, LbService, WrittenRequirement, WrittenSelector};
use crate::releases::announces_without_backend;
use ipam_core::model::{Labels, Selector, ServiceName};
use ipam_core::net::Family;

ipam_core::text_enum! {
    /// The protocol that announces an address.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Protocol {
        Bgp = "BGP",
        L2 = "L2",
    }
}

/// The selectors of all announcements of Services.
pub struct ServiceAnnouncements<'o> {
    /// The speaker of MetalLB announces every Service.
    announces_all: bool,
    bgp: Vec<(Family, &'o Selector)>,
    l2: Vec<&'o L2Policy>,
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
        let mut bgp: Vec<(Family, &Selector)> = Vec::new();
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
            && observed.may_have(behaviours::L2_ANNOUNCEMENTS);
        ServiceAnnouncements {
            announces_all: observed.announces_services_by_metal_lb(),
            bgp,
            l2: policies.filter(|_| is_l2).collect(),
            l2_families: match observed.may_have(behaviours::L2_IPV6) {
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

    /// The selectors of Services in BGP objects that reach a peer.
    pub fn bgp_selectors(&self) -> BTreeSet<&'o Selector> {
        self.bgp.iter().map(|(_, selector)| *selector).collect()
    }

    /// Whether BGP announces the addresses of this family of a Service.
    pub fn by_bgp(&self, service: &LbService, family: Family) -> bool {
        let mut selectors = self.bgp.iter();
        let is_selected = service.has_no_class_but(BGP_CLASS)
            && selectors.any(|(of, selector)| *of == family && selector.matches(&service.labels));
        is_selected || self.by_metal_lb(service) && METAL_LB_FAMILIES.contains(&family)
    }

    /// Whether the speakers of MetalLB announce a Service, by a configuration that is not read.
    pub fn by_metal_lb(&self, service: &LbService) -> bool {
        self.announces_all && service.class.is_none()
    }

    /// The protocols that announce the addresses of a Service, by family.
    pub fn of(&self, service: &LbService) -> BTreeSet<(Protocol, Family)> {
        let mut l2 = self.l2.iter();
        let families: BTreeSet<Family> = service
            .ingress
            .iter()
            .map(|address| Family::of(*address))
            .collect();
        let by_l2 = l2.any(|policy| policy.selects(service)) && !self.lacks_local_backend(service);
        let of_family = |family: Family| {
            let bgp = self.by_bgp(service, family);
            let l2 = by_l2 && self.l2_families.contains(&family);
            let protocols = [(bgp, Protocol::Bgp), (l2, Protocol::L2)];
            protocols
                .into_iter()
                .filter(|(is_used, _)| *is_used)
                .map(move |(_, protocol)| (protocol, family))
        };
        families.into_iter().flat_map(of_family).collect()
    }
}

/// The selectors of Services that a node announces by the BGP control plane, each with the family of a
/// peer.
fn of_node<'o>(observed: &'o Observed, node: &'o Node) -> Vec<(Family, &'o Selector)> {
    let mut policies = observed.policies_for(node);
    let with_families = |policy: &'o PeeringPolicy| {
        let families = policy.families.iter();
        let selectors = families.flat_map(|of| policy.services.iter().map(|one| (*of, one)));
        selectors.collect()
    };
    match policies
        .next()
        .filter(|_| observed.may_have(behaviours::PEERING_POLICIES))
    {
        // Two policies that select one node are an error, and nothing is announced.
        Some(policy) if policies.next().is_none() => with_families(policy),
        Some(_) => Vec::new(),
        None if observed.may_have(behaviours::BGP_CLUSTER_CONFIGS) => observed
            .advertised(node)
            .flat_map(|(family, entry)| entry.services.iter().map(move |one| (family, one)))
            .collect(),
        None => Vec::new(),
    }
}

impl Observed {
    /// Whether a node announces the addresses of this family of a Service by the BGP control plane.
    pub fn announces_service(&self, node: &Node, service: &LbService, family: Family) -> bool {
        let mut selectors = of_node(self, node).into_iter();
        self.is_on_at(node, setting_key::ENABLE_BGP_CONTROL_PLANE)
            && selectors.any(|(of, selector)| of == family && selector.matches(&service.labels))
    }
}

/// Whether a key is meant for LB-IPAM, or for the IPAM of Pods, by its words.
pub(super) fn is_of_load_balancing(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let Some((domain, name)) = key.split_once('/') else {
        return false;
    };
    let is_ciliums = domain == "io.cilium" || domain == "cilium.io";
    let is_of_ipam = domain == "lbipam.cilium.io" || domain == "ipam.cilium.io";
    let is_similar = domain.ends_with(".cilium.io") && domain.contains("ipam");
    let names_it = ["lb-ipam", "lbipam"].iter().any(|word| name.contains(word));
    is_of_ipam || is_similar || (is_ciliums && names_it)
}

/// The annotations of LB-IPAM that some version of Cilium reads (`pkg/annotation/k8s.go` @ 1.20).
pub fn read_service_annotations() -> impl Iterator<Item = &'static str> {
    SERVICE_ANNOTATIONS.as_flattened().iter().copied()
}

impl Observed {
    pub(super) fn note_annotations(
        &mut self,
        name: &ServiceName,
        annotations: &BTreeMap<String, String>,
    ) {
        let is_read = |key: &str| read_service_annotations().any(|read| read == key);
        let unread: Vec<String> = annotations
            .keys()
            .filter(|key| is_of_load_balancing(key) && !is_read(key))
            .cloned()
            .collect();
        if !unread.is_empty() {
            self.unread_annotations.insert(name.clone(), unread);
        }
    }
}

/// Key of the configuration in the ConfigMap.
pub(super) const CONFIG_KEY: &str = "config.yaml";

/// The peers of all speakers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeakerPeers {
    /// For each peer the selectors of its nodes; none means every node.
    pub peers: Vec<Vec<Selector>>,
    /// `peer-address` of each peer that has a valid one.
    pub addresses: Vec<IpAddr>,
}

impl SpeakerPeers {
    /// Whether the speaker of a node has a peer.
    pub fn has_peer(&self, node: &Node) -> bool {
        self.peers.iter().any(|nodes| {
            nodes.is_empty() || nodes.iter().any(|selector| selector.matches(&node.labels))
        })
    }
}

#[derive(Default, Deserialize, Serialize)]
struct ConfigView {
    #[serde(default, deserialize_with = "nullable")]
    peers: Vec<PeerView>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PeerView {
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_address: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    node_selectors: Vec<SelectorView>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
struct SelectorView {
    #[serde(default, deserialize_with = "nullable")]
    match_labels: Labels,
    #[serde(default, deserialize_with = "nullable")]
    match_expressions: Vec<WrittenRequirement>,
}

impl SelectorView {
    /// An invalid selector selects nothing.
    fn selector(&self) -> Selector {
        let written = WrittenSelector {
            match_labels: self.match_labels.clone(),
            match_expressions: self.match_expressions.clone(),
        };
        written.selector().unwrap_or_else(|_| Selector::nothing())
    }
}

fn parse(text: &str) -> Result<ConfigView, serde_json::Error> {
    yaml_of_key(CONFIG_KEY, text)
}

impl SpeakerPeers {
    pub(super) fn read(view: &ConfigMapView) -> Result<SpeakerPeers, serde_json::Error> {
        let text = view.data.get(CONFIG_KEY).map_or("", String::as_str);
        let peers = parse(text)?.peers;
        let of_peer = |peer: &PeerView| {
            let selectors = peer.node_selectors.iter();
            selectors.map(SelectorView::selector).collect()
        };
        let addresses = peers.iter().filter_map(|peer| peer.peer_address.as_ref());
        Ok(SpeakerPeers {
            addresses: addresses.filter_map(|text| text.parse().ok()).collect(),
            peers: peers.iter().map(of_peer).collect(),
        })
    }
}

/// The configuration with nothing in it that is not read: it may have passwords. Text that cannot
/// be read stays unreadable.
pub(super) fn slim_config(text: &Value) -> Value {
    let parsed = text.as_str().and_then(|text| parse(text).ok());
    let slimmed = parsed.and_then(|config| serde_json::to_string(&config).ok());
    slimmed
        .unwrap_or_else(|| "peers: unreadable".to_owned())
        .into()
}

/// The keys of the ConfigMap that are read.
pub(super) fn slim_data(data: &Value) -> Value {
    let of_key = data.get(CONFIG_KEY).map(slim_config);
    let read: BTreeMap<&str, Value> = of_key.into_iter().map(|text| (CONFIG_KEY, text)).collect();
    serde_json::to_value(read).unwrap_or_default()
}

impl Observed {
    /// Whether the MetalLB speaker of a node has a peer. A file without the ConfigMap tells
    /// nothing.
    pub fn speaks_to_a_peer(&self, node: &Node) -> bool {
        let peers = self.announcing.speaker_peers.as_ref();
        peers.is_none_or(|peers| peers.has_peer(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_by_their_words() {
        for key in [
            "io.cilium/lb-ipam-pool",
            "lbipam.cilium.io/pool",
            "lb-ipam.cilium.io/ips",
            "cilium.io/lb-ipam-ips",
            "ipam.cilium.io/ip-pool",
        ] {
            assert!(is_of_load_balancing(key), "{key}");
        }
        for key in [
            "io.cilium/global-service",
            "service.cilium.io/global",
            "metallb.universe.tf/address-pool",
            "example.com/lb-ipam-pool",
            "kubernetes.io/ingress.class",
            "lb-ipam-pool",
        ] {
            assert!(!is_of_load_balancing(key), "{key}");
        }
        assert!(read_service_annotations().all(is_of_load_balancing));
    }
}

#[cfg(test)]
mod metal_lb_tests {
    use super::*;

    #[test]
    fn a_slim_configuration_reads_alike_and_has_no_password() {
        let text = "peers:\n- peer-address: 192.0.2.254\n  password: secret\n  node-selectors:\n  - match-labels: {rack: a}\n  - match-expressions: [{key: edge, operator: Exists}]\n- my-asn: 65001\naddress-pools: []\n";
        let slimmed = slim_config(&text.into());
        assert!(!slimmed.to_string().contains("secret"), "{slimmed}");
        assert_eq!(slim_config(&slimmed), slimmed);
        let nodes = |text: &str| {
            let peers = parse(text).unwrap().peers;
            let of_peer = |peer: &PeerView| {
                peer.node_selectors
                    .iter()
                    .map(SelectorView::selector)
                    .collect::<Vec<_>>()
            };
            peers.iter().map(of_peer).collect::<Vec<_>>()
        };
        let read = nodes(text);
        assert_eq!(read, nodes(slimmed.as_str().unwrap()));
        assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(nodes(""), Vec::<Vec<Selector>>::new());
        assert!(parse(slim_config(&"peers: 7".into()).as_str().unwrap()).is_err());
    }
}
