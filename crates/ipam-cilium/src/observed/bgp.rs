//! Cilium's BGP and L2 objects: which nodes announce which blocks and Services.
//!
//! Sources: `pkg/bgpv1/agent/controller.go` and `pkg/bgpv1/manager/reconciler` @ 1.15,
//! `pkg/bgp/manager/reconciler` @ 1.19, `pkg/l2announcer/l2announcer.go` @ 1.19. An absent selector
//! of nodes means every node; an absent one of Services, pools or advertisements means none, but
//! for L2, where it means every Service.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::announced_services::SpeakerPeers;
use super::view::nullable;
use crate::lbipam::WrittenSelector;
use ipam_core::model::{Labels, Selector};

/// All observed BGP and L2 objects.
#[derive(Clone, Debug, Default)]
pub struct Announcing {
    /// `CiliumBGPPeeringPolicy`s.
    pub policies: Vec<PeeringPolicy>,
    /// `CiliumBGPClusterConfig`s.
    pub cluster_configs: Vec<ClusterConfig>,
    /// `CiliumBGPPeerConfig`s by name: selectors of the advertisements for their peers.
    pub peer_configs: BTreeMap<String, Vec<Selector>>,
    /// `CiliumBGPAdvertisement`s.
    pub advertisements: Vec<Advertisement>,
    /// `CiliumL2AnnouncementPolicy`s that announce LoadBalancer addresses.
    pub l2_policies: Vec<L2Policy>,
    /// Peers of the MetalLB speakers; `None` if their ConfigMap was not seen.
    pub speaker_peers: Option<SpeakerPeers>,
}

/// A `CiliumBGPPeeringPolicy`.
#[derive(Clone, Debug)]
pub struct PeeringPolicy {
    pub name: String,
    pub nodes: Selector,
    pub pod_cidrs: PodCidrs,
    pub services: Vec<Selector>,
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

/// A `CiliumBGPPeeringPolicy`.
pub(super) type PeeringPolicyView = Named<PeeringPolicySpec>;
/// A `CiliumBGPClusterConfig`.
pub(super) type ClusterConfigView = Named<ClusterConfigSpec>;
/// A `CiliumBGPPeerConfig`.
pub(super) type PeerConfigView = Named<PeerConfigSpec>;
/// A `CiliumBGPAdvertisement`.
pub(super) type AdvertisementView = Named<AdvertisementSpec>;
/// A `CiliumL2AnnouncementPolicy`.
pub(super) type L2PolicyView = Named<L2PolicySpec>;

#[derive(Deserialize)]
pub(super) struct Named<S> {
    metadata: NamedMetadata,
    #[serde(bound(deserialize = "S: Deserialize<'de>"))]
    spec: S,
}

#[derive(Deserialize)]
struct NamedMetadata {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    labels: Labels,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PeeringPolicySpec {
    node_selector: Option<WrittenSelector>,
    #[serde(default, deserialize_with = "nullable")]
    virtual_routers: Vec<VirtualRouter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VirtualRouter {
    #[serde(rename = "exportPodCIDR")]
    export_pod_cidr: Option<bool>,
    service_selector: Option<WrittenSelector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterConfigSpec {
    node_selector: Option<WrittenSelector>,
    #[serde(default, deserialize_with = "nullable")]
    bgp_instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    #[serde(default, deserialize_with = "nullable")]
    peers: Vec<Peer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Peer {
    peer_config_ref: Option<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
}

#[derive(Deserialize)]
pub(super) struct PeerConfigSpec {
    #[serde(default, deserialize_with = "nullable")]
    families: Vec<PeerFamily>,
}

#[derive(Deserialize)]
struct PeerFamily {
    advertisements: Option<WrittenSelector>,
}

#[derive(Deserialize)]
pub(super) struct AdvertisementSpec {
    #[serde(default, deserialize_with = "nullable")]
    advertisements: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    advertisement_type: String,
    selector: Option<WrittenSelector>,
    service: Option<EntryService>,
}

#[derive(Deserialize)]
struct EntryService {
    #[serde(default, deserialize_with = "nullable")]
    addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct L2PolicySpec {
    node_selector: Option<WrittenSelector>,
    service_selector: Option<WrittenSelector>,
    #[serde(default, rename = "loadBalancerIPs")]
    load_balancer_ips: Option<bool>,
}

/// An invalid selector selects nothing.
fn selector(written: &WrittenSelector) -> Selector {
    written.selector().unwrap_or_else(|_| Selector::nothing())
}

fn everything_if_absent(written: Option<&WrittenSelector>) -> Selector {
    written.map_or_else(Selector::default, selector)
}

impl Announcing {
    pub(super) fn read_policy(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<PeeringPolicyView>(json)?;
        let exports = spec
            .virtual_routers
            .iter()
            .any(|router| router.export_pod_cidr == Some(true));
        let services = spec
            .virtual_routers
            .iter()
            .filter_map(|router| router.service_selector.as_ref());
        self.policies.push(PeeringPolicy {
            name: metadata.name,
            nodes: everything_if_absent(spec.node_selector.as_ref()),
            pod_cidrs: if exports {
                PodCidrs::Announced
            } else {
                PodCidrs::Kept
            },
            services: services.map(selector).collect(),
        });
        Ok(())
    }

    pub(super) fn read_cluster_config(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<ClusterConfigView>(json)?;
        let peers = spec
            .bgp_instances
            .into_iter()
            .flat_map(|instance| instance.peers);
        self.cluster_configs.push(ClusterConfig {
            name: metadata.name,
            nodes: everything_if_absent(spec.node_selector.as_ref()),
            peer_configs: peers
                .filter_map(|peer| Some(peer.peer_config_ref?.name))
                .collect(),
        });
        Ok(())
    }

    pub(super) fn read_peer_config(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<PeerConfigView>(json)?;
        let chosen = spec
            .families
            .iter()
            .filter_map(|family| family.advertisements.as_ref())
            .map(selector)
            .collect();
        self.peer_configs.insert(metadata.name, chosen);
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
        let services = spec
            .advertisements
            .iter()
            .filter(balances)
            .filter_map(|entry| entry.selector.as_ref());
        self.advertisements.push(Advertisement {
            name: metadata.name,
            labels: metadata.labels,
            pod_cidrs: if announces {
                PodCidrs::Announced
            } else {
                PodCidrs::Kept
            },
            services: services.map(selector).collect(),
        });
        Ok(())
    }

    pub(super) fn read_l2_policy(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let Named { metadata, spec } = serde_json::from_str::<L2PolicyView>(json)?;
        if spec.load_balancer_ips == Some(true) {
            self.l2_policies.push(L2Policy {
                name: metadata.name,
                nodes: everything_if_absent(spec.node_selector.as_ref()),
                services: everything_if_absent(spec.service_selector.as_ref()),
            });
        }
        Ok(())
    }
}
