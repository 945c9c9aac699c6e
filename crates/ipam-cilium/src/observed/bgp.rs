//! Cilium's BGP and L2 objects: which nodes announce which blocks and Services.
//!
//! Sources: `pkg/bgpv1/agent/controller.go` and `pkg/bgpv1/manager/reconciler` @ 1.15,
//! `pkg/bgp/manager/reconciler` @ 1.19, `pkg/l2announcer/l2announcer.go` @ 1.19. An absent selector
//! of nodes means every node; an absent one of Services, pools or advertisements means none, but
//! for L2, where it means every Service.
//!
//! A peer gets the routes of its families only: those of its `CiliumBGPPeerConfig`, or of a neighbor
//! in a `CiliumBGPPeeringPolicy`, where none means both (`SetDefaults` of `bgp_types.go` @ 1.15).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Observed;
use super::announced_services::SpeakerPeers;
use super::bgp_view::{
    AdvertisementView, ClusterConfigView, Entry, L2PolicyView, Named, Peer, PeerConfigView,
    PeerFamilyView, PeeringPolicyView, VirtualRouter, families_of,
};
use super::kind::SPEAKER_CONFIG_NAME;
use crate::lbipam::{L2_CLASS, LbService, WrittenSelector};
use ipam_core::model::{Labels, ObjectRef, Selector};
use ipam_core::net::Family;

/// All observed BGP and L2 objects.
#[derive(Clone, Debug, Default)]
pub struct Announcing {
    /// `CiliumBGPPeeringPolicy`s.
    pub policies: Vec<PeeringPolicy>,
    /// `CiliumBGPClusterConfig`s.
    pub cluster_configs: Vec<ClusterConfig>,
    /// `CiliumBGPPeerConfig`s by name: the families of their peers.
    pub peer_configs: BTreeMap<String, Vec<PeerFamily>>,
    /// `CiliumBGPAdvertisement`s.
    pub advertisements: Vec<Advertisement>,
    /// `CiliumL2AnnouncementPolicy`s that announce LoadBalancer addresses.
    pub l2_policies: Vec<L2Policy>,
    /// Peers of the MetalLB speakers; `None` if their ConfigMap was not seen.
    pub speaker_peers: Option<SpeakerPeers>,
    /// Addresses of BGP peers, each with an object that names it.
    pub peers: BTreeMap<IpAddr, ObjectRef>,
    /// Selectors that select nothing by mistake.
    pub selector_faults: Vec<SelectorFault>,
}

/// A selector that selects nothing by mistake.
#[derive(Clone, Debug)]
pub struct SelectorFault {
    pub object: ObjectRef,
    pub field: &'static str,
    pub problem: SelectorProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorProblem {
    /// It is absent in an advertisement of Services (`pkg/bgp/manager/reconciler/service.go` @ 1.19).
    Missing,
    /// Kubernetes rejects it, for this reason.
    Invalid(String),
}

/// A `CiliumBGPPeeringPolicy`.
#[derive(Clone, Debug)]
pub struct PeeringPolicy {
    pub name: String,
    pub nodes: Selector,
    /// Families whose pod CIDRs it exports. Empty if it exports none.
    pub pod_cidrs: BTreeSet<Family>,
    /// Families of its neighbors.
    pub families: BTreeSet<Family>,
    pub services: Vec<Selector>,
}

/// A family of a `CiliumBGPPeerConfig`.
#[derive(Clone, Debug)]
pub struct PeerFamily {
    pub family: Family,
    /// The advertisements for its peers.
    pub advertisements: Selector,
}

/// Whether pod CIDRs are announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCidrs {
    Announced,
    Kept,
}

/// A `CiliumBGPClusterConfig`.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    pub name: String,
    pub nodes: Selector,
    /// Names of its peers' `CiliumBGPPeerConfig`s.
    pub peer_configs: Vec<String>,
}

/// A `CiliumBGPAdvertisement`.
#[derive(Clone, Debug)]
pub struct Advertisement {
    pub name: String,
    /// Peers select it by these labels.
    pub labels: Labels,
    /// Whether it has an entry of type `PodCIDR`.
    pub pod_cidrs: PodCidrs,
    /// Services whose LoadBalancer addresses it announces.
    pub services: Vec<Selector>,
}

/// A `CiliumL2AnnouncementPolicy`.
#[derive(Clone, Debug)]
pub struct L2Policy {
    pub name: String,
    pub services: Selector,
    /// Nodes that may answer.
    pub nodes: Selector,
}

impl L2Policy {
    /// Whether it selects this Service, by class and labels.
    pub fn selects(&self, service: &LbService) -> bool {
        service.has_no_class_but(L2_CLASS) && self.services.matches(&service.labels)
    }
}

/// An invalid selector selects nothing.
struct Selectors<'a> {
    object: ObjectRef,
    faults: &'a mut Vec<SelectorFault>,
}

impl Selectors<'_> {
    fn fault(&mut self, field: &'static str, problem: SelectorProblem) {
        self.faults.push(SelectorFault {
            object: self.object.clone(),
            field,
            problem,
        });
    }

    fn read(&mut self, field: &'static str, written: &WrittenSelector) -> Selector {
        written.selector().unwrap_or_else(|why| {
            self.fault(field, SelectorProblem::Invalid(why));
            Selector::nothing()
        })
    }

    /// An absent one selects everything.
    fn read_or_all(&mut self, field: &'static str, written: Option<&WrittenSelector>) -> Selector {
        written.map_or_else(Selector::default, |written| self.read(field, written))
    }
}

impl Observed {
    /// The addresses of BGP peers, each with kind and name of the object that names it. The peers of
    /// MetalLB's speakers count while speakers run: nothing else reads their ConfigMap.
    pub fn bgp_peers(&self) -> impl Iterator<Item = (IpAddr, &'static str, &str)> {
        let Announcing {
            peers,
            speaker_peers,
            ..
        } = &self.announcing;
        let speakers = speaker_peers.iter();
        let speakers = speakers.filter(|_| self.runs_metal_lb_speakers());
        let of_speakers = speakers.flat_map(|speakers| &speakers.addresses);
        // An address that an object of Cilium names, too, keeps that object.
        let of_speakers = of_speakers.filter(|address| !peers.contains_key(*address));
        let of_speakers = of_speakers.map(|address| (*address, "ConfigMap", SPEAKER_CONFIG_NAME));
        let of_cilium = peers.iter();
        of_cilium
            .map(|(address, object)| (*address, object.kind, object.name.as_str()))
            .chain(of_speakers)
    }
}

const NODES: &str = "spec.nodeSelector";

impl Announcing {
    /// The peers of an object, as addresses or as prefixes of one address.
    fn read_peers<'t>(&mut self, object: &ObjectRef, texts: impl Iterator<Item = &'t String>) {
        let address = |text: &String| text.split('/').next()?.parse().ok();
        let peers = texts.filter_map(address);
        self.peers
            .extend(peers.map(|address| (address, object.clone())));
    }

    fn selectors(&mut self, kind: &'static str, name: &str) -> Selectors<'_> {
        Selectors {
            object: ObjectRef {
                kind,
                name: name.to_owned(),
            },
            faults: &mut self.selector_faults,
        }
    }

    pub(super) fn read_policy(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<PeeringPolicyView>(json)?;
        let routers = spec.virtual_routers.iter();
        let exporting = (routers.clone()).filter(|router| router.export_pod_cidr == Some(true));
        let services = routers.clone();
        let services = services.filter_map(|router| router.service_selector.as_ref());
        let neighbors = routers.clone().flat_map(|router| &router.neighbors);
        let addresses = neighbors.filter_map(|neighbor| neighbor.peer_address.as_ref());
        let object = ObjectRef {
            kind: "CiliumBGPPeeringPolicy",
            name: metadata.name.clone(),
        };
        self.read_peers(&object, addresses);
        let mut selectors = self.selectors(object.kind, &metadata.name);
        let nodes = selectors.read_or_all(NODES, spec.node_selector.as_ref());
        let services = services
            .map(|one| selectors.read("spec.virtualRouters[].serviceSelector", one))
            .collect();
        self.policies.push(PeeringPolicy {
            name: metadata.name,
            nodes,
            pod_cidrs: exporting.flat_map(VirtualRouter::families).collect(),
            families: routers.flat_map(VirtualRouter::families).collect(),
            services,
        });
        Ok(())
    }

    pub(super) fn read_cluster_config(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<ClusterConfigView>(json)?;
        let peers = spec
            .bgp_instances
            .into_iter()
            .flat_map(|instance| instance.peers);
        let peers: Vec<Peer> = peers.collect();
        let object = ObjectRef {
            kind: "CiliumBGPClusterConfig",
            name: metadata.name.clone(),
        };
        let addresses = peers.iter().filter_map(|peer| peer.peer_address.as_ref());
        self.read_peers(&object, addresses);
        let mut selectors = self.selectors(object.kind, &metadata.name);
        let nodes = selectors.read_or_all(NODES, spec.node_selector.as_ref());
        self.cluster_configs.push(ClusterConfig {
            name: metadata.name,
            nodes,
            peer_configs: peers
                .into_iter()
                .filter_map(|peer| Some(peer.peer_config_ref?.name))
                .collect(),
        });
        Ok(())
    }

    pub(super) fn read_peer_config(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<PeerConfigView>(json)?;
        let mut selectors = self.selectors("CiliumBGPPeerConfig", &metadata.name);
        let of_view = |view: &PeerFamilyView| {
            let written = view.advertisements.as_ref();
            let advertisements =
                written.map(|one| selectors.read("spec.families[].advertisements", one));
            let families = families_of(view.afi.as_deref(), view.safi.as_deref());
            let of_family = |family: &Family| {
                Some(PeerFamily {
                    family: *family,
                    advertisements: advertisements.clone()?,
                })
            };
            families.iter().filter_map(of_family).collect::<Vec<_>>()
        };
        let families = spec.families.iter().flat_map(of_view).collect();
        self.peer_configs.insert(metadata.name, families);
        Ok(())
    }

    pub(super) fn read_advertisement(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<AdvertisementView>(json)?;
        let announces = spec
            .advertisements
            .iter()
            .any(|entry| entry.advertisement_type == "PodCIDR");
        let balances = |entry: &&Entry| {
            let addresses = entry.service.as_ref().map(|service| &service.addresses);
            addresses.is_some_and(|addresses| {
                addresses.iter().any(|address| address == "LoadBalancerIP")
            })
        };
        let mut selectors = self.selectors("CiliumBGPAdvertisement", &metadata.name);
        let mut services = Vec::new();
        for entry in spec.advertisements.iter().filter(balances) {
            let field = "spec.advertisements[].selector";
            match &entry.selector {
                Some(written) => services.push(selectors.read(field, written)),
                None => selectors.fault(field, SelectorProblem::Missing),
            }
        }
        self.advertisements.push(Advertisement {
            name: metadata.name,
            labels: metadata.labels,
            pod_cidrs: if announces {
                PodCidrs::Announced
            } else {
                PodCidrs::Kept
            },
            services,
        });
        Ok(())
    }

    pub(super) fn read_l2_policy(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<L2PolicyView>(json)?;
        if spec.load_balancer_ips == Some(true) {
            let mut selectors = self.selectors("CiliumL2AnnouncementPolicy", &metadata.name);
            let nodes = selectors.read_or_all(NODES, spec.node_selector.as_ref());
            let services =
                selectors.read_or_all("spec.serviceSelector", spec.service_selector.as_ref());
            self.l2_policies.push(L2Policy {
                name: metadata.name,
                nodes,
                services,
            });
        }
        Ok(())
    }
}
