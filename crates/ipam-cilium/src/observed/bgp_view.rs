//! Wire views of Cilium's BGP and L2 objects: exactly the fields that are read. `slim` keeps them.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::view::nullable;
use crate::lbipam::WrittenSelector;
use ipam_core::model::Labels;
use ipam_core::net::Family;

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
    pub(super) metadata: NamedMetadata,
    #[serde(bound(deserialize = "S: Deserialize<'de>"))]
    pub(super) spec: S,
}

#[derive(Deserialize)]
pub(super) struct NamedMetadata {
    pub(super) name: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) labels: Labels,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PeeringPolicySpec {
    pub(super) node_selector: Option<WrittenSelector>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) virtual_routers: Vec<VirtualRouter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualRouter {
    #[serde(rename = "exportPodCIDR")]
    pub(super) export_pod_cidr: Option<bool>,
    pub(super) service_selector: Option<WrittenSelector>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) neighbors: Vec<Neighbor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Neighbor {
    /// A prefix of one address.
    pub(super) peer_address: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) families: Vec<FamilyName>,
}

/// An address family in the words of BGP.
#[derive(Deserialize)]
pub(super) struct FamilyName {
    pub(super) afi: Option<String>,
    pub(super) safi: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterConfigSpec {
    pub(super) node_selector: Option<WrittenSelector>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) bgp_instances: Vec<Instance>,
}

#[derive(Deserialize)]
pub(super) struct Instance {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) peers: Vec<Peer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Peer {
    pub(super) peer_address: Option<String>,
    pub(super) peer_config_ref: Option<Reference>,
}

#[derive(Deserialize)]
pub(super) struct Reference {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct PeerConfigSpec {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) families: Vec<PeerFamilyView>,
}

#[derive(Deserialize)]
pub(super) struct PeerFamilyView {
    pub(super) afi: Option<String>,
    pub(super) safi: Option<String>,
    pub(super) advertisements: Option<WrittenSelector>,
}

#[derive(Deserialize)]
pub(super) struct AdvertisementSpec {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) advertisements: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    #[serde(default)]
    pub(super) advertisement_type: String,
    pub(super) selector: Option<WrittenSelector>,
    pub(super) service: Option<EntryService>,
}

#[derive(Deserialize)]
pub(super) struct EntryService {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct L2PolicySpec {
    pub(super) node_selector: Option<WrittenSelector>,
    pub(super) service_selector: Option<WrittenSelector>,
    #[serde(default, rename = "loadBalancerIPs")]
    pub(super) load_balancer_ips: Option<bool>,
}

/// The family of these unicast routes. Old snapshots lack the names: then both.
pub(super) fn families_of(afi: Option<&str>, safi: Option<&str>) -> &'static [Family] {
    match (afi, safi.unwrap_or("unicast")) {
        (None, "unicast") => &Family::BOTH,
        (Some("ipv4"), "unicast") => &[Family::Ipv4],
        (Some("ipv6"), "unicast") => &[Family::Ipv6],
        _ => &[],
    }
}

impl VirtualRouter {
    /// The families that the router announces to its neighbors.
    pub(super) fn families(&self) -> BTreeSet<Family> {
        let of_name = |name: &FamilyName| families_of(name.afi.as_deref(), name.safi.as_deref());
        let of_neighbor = |neighbor: &Neighbor| -> Vec<Family> {
            match neighbor.families.is_empty() {
                true => Family::BOTH.to_vec(),
                false => (neighbor.families.iter().flat_map(of_name).copied()).collect(),
            }
        };
        match self.neighbors.is_empty() {
            true => Family::BOTH.into(),
            false => self.neighbors.iter().flat_map(of_neighbor).collect(),
        }
    }
}
