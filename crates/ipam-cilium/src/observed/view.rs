//! Wire views: exactly the fields that are read of each kind. `slim` keeps these fields.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::{ANNOTATION_IPV4, ANNOTATION_IPV6, OLD_ANNOTATION_IPV4, OLD_ANNOTATION_IPV6};
use crate::parser_words::place;
use ipam_core::model::Labels;
use ipam_core::net::Family;

/// Go reads and writes `null` for an empty value.
pub(super) fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The YAML in a key of a ConfigMap. It may hold secrets, so the error has no text of it.
pub(super) fn yaml_of_key<T: Default + DeserializeOwned>(
    key: &str,
    text: &str,
) -> Result<T, serde_json::Error> {
    // An empty document is null.
    let parsed = serde_yaml::from_str::<Option<T>>(text);
    let parsed = parsed.map_err(|error| {
        let place = place(&error)
            .map(|at| format!(" (line {}, column {})", at.line(), at.column()))
            .unwrap_or_default();
        serde_json::Error::custom(format!("its `{key}` cannot be read{place}"))
    });
    Ok(parsed?.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeView<'a> {
    #[serde(borrow)]
    pub metadata: NodeMetadata<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    pub spec: NodeSpec<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    pub status: NodeStatus<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeMetadata<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    pub creation_timestamp: Option<String>,
    #[serde(default)]
    pub labels: Option<Labels>,
    #[serde(borrow, default)]
    pub annotations: Option<PodCidrAnnotations<'a>>,
    #[serde(default, deserialize_with = "nullable")]
    pub managed_fields: Vec<ManagedFields>,
}

#[derive(Default, Deserialize)]
pub(super) struct PodCidrAnnotations<'a> {
    #[serde(borrow, rename = "network.cilium.io/ipv4-pod-cidr")]
    pub ipv4: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "network.cilium.io/ipv6-pod-cidr")]
    pub ipv6: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "io.cilium.network.ipv4-pod-cidr")]
    pub old_ipv4: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "io.cilium.network.ipv6-pod-cidr")]
    pub old_ipv6: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "cilium-ipam.io/protected")]
    pub protected: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "cilium-ipam.io/migration")]
    pub migration: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "ipam.cilium.io/ignore")]
    pub ignore: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "k3s.io/node-args")]
    pub k3s_arguments: Option<Cow<'a, str>>,
}

impl PodCidrAnnotations<'_> {
    pub(super) fn newer(&self) -> [(&'static str, Option<&str>, Family); 2] {
        [
            (ANNOTATION_IPV4, self.ipv4.as_deref(), Family::Ipv4),
            (ANNOTATION_IPV6, self.ipv6.as_deref(), Family::Ipv6),
        ]
    }

    pub(super) fn older(&self) -> [(&'static str, Option<&str>, Family); 2] {
        let older = (OLD_ANNOTATION_IPV4, self.old_ipv4.as_deref(), Family::Ipv4);
        [
            older,
            (OLD_ANNOTATION_IPV6, self.old_ipv6.as_deref(), Family::Ipv6),
        ]
    }
}

#[derive(Deserialize)]
pub(super) struct ManagedFields {
    #[serde(default)]
    pub manager: String,
    #[serde(default)]
    pub time: Option<String>,
    #[serde(default, rename = "fieldsV1")]
    pub fields: Option<OwnedFields>,
}

#[derive(Default, Deserialize)]
pub(super) struct OwnedFields {
    #[serde(default, rename = "f:spec")]
    pub spec: Option<OwnedSpec>,
    #[serde(default, rename = "f:metadata")]
    pub metadata: Option<OwnedMetadata>,
}

#[derive(Deserialize)]
pub(super) struct OwnedSpec {
    #[serde(rename = "f:podCIDR")]
    pub pod_cidr: Option<IgnoredAny>,
    #[serde(rename = "f:podCIDRs")]
    pub pod_cidrs: Option<IgnoredAny>,
    #[serde(default, rename = "f:ipam", deserialize_with = "nullable")]
    pub ipam: OwnedIpam,
}

/// Fields of `spec.ipam` of a CiliumNode that a manager owns.
#[derive(Default, Deserialize)]
pub(super) struct OwnedIpam {
    #[serde(rename = "f:podCIDRs")]
    pub pod_cidrs: Option<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct OwnedMetadata {
    #[serde(default, rename = "f:annotations")]
    pub annotations: Option<OwnedAnnotations>,
}

#[derive(Deserialize)]
pub(super) struct OwnedAnnotations {
    #[serde(rename = "f:network.cilium.io/ipv4-pod-cidr")]
    pub ipv4: Option<IgnoredAny>,
    #[serde(rename = "f:network.cilium.io/ipv6-pod-cidr")]
    pub ipv6: Option<IgnoredAny>,
    #[serde(rename = "f:io.cilium.network.ipv4-pod-cidr")]
    pub old_ipv4: Option<IgnoredAny>,
    #[serde(rename = "f:io.cilium.network.ipv6-pod-cidr")]
    pub old_ipv6: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
pub(super) struct NodeSpec<'a> {
    #[serde(borrow, default, rename = "podCIDR")]
    pub pod_cidr: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "nullable", rename = "podCIDRs")]
    pub pod_cidrs: Vec<Cow<'a, str>>,
    #[serde(borrow, default, rename = "providerID")]
    pub provider_id: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
pub(super) struct NodeStatus<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    pub addresses: Vec<NodeAddress<'a>>,
    #[serde(borrow, default, deserialize_with = "nullable", rename = "nodeInfo")]
    pub info: NodeInfo<'a>,
    #[serde(default, deserialize_with = "nullable")]
    pub allocatable: Allocatable,
}

#[derive(Default, Deserialize)]
pub(super) struct Allocatable {
    /// The number of Pods as text. A file that a person wrote may have a JSON number.
    #[serde(default)]
    pub pods: serde_json::Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeInfo<'a> {
    #[serde(borrow, default)]
    pub kubelet_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub os_image: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(super) struct NodeAddress<'a> {
    #[serde(borrow, default)]
    pub address: Cow<'a, str>,
    #[serde(borrow, default, rename = "type")]
    pub kind: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(super) struct CiliumNodeView<'a> {
    #[serde(borrow)]
    pub metadata: CiliumNodeMetadata<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    pub spec: CiliumNodeSpec<'a>,
    #[serde(default, deserialize_with = "nullable")]
    pub status: CiliumNodeStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CiliumNodeMetadata<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
    #[serde(default, deserialize_with = "nullable")]
    pub owner_references: Vec<OwnerReference>,
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: CiliumNodeAnnotations,
    #[serde(default, deserialize_with = "nullable")]
    pub labels: CiliumNodeLabels,
    #[serde(default, deserialize_with = "nullable")]
    pub managed_fields: Vec<ManagedFields>,
}

#[derive(Deserialize)]
pub(super) struct OwnerReference {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub uid: String,
}

#[derive(Default, Deserialize)]
pub(super) struct CiliumNodeAnnotations {
    #[serde(default, rename = "cilium.io/do-not-gc")]
    pub do_not_gc: Option<String>,
    #[serde(default, rename = "ipam.cilium.io/ignore")]
    pub ignore: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct CiliumNodeLabels {
    #[serde(default, rename = "app.kubernetes.io/managed-by")]
    pub managed_by: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct CiliumNodeStatus {
    #[serde(default, deserialize_with = "nullable")]
    pub ipam: CiliumNodeIpamStatus,
}

#[derive(Default, Deserialize)]
pub(super) struct CiliumNodeIpamStatus {
    #[serde(default, deserialize_with = "nullable", rename = "operator-status")]
    pub operator_status: OperatorStatus,
}

#[derive(Default, Deserialize)]
pub(super) struct OperatorStatus {
    #[serde(default)]
    pub error: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct NamedMetadata<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(default)]
    pub generation: Option<u64>,
    #[serde(borrow, default, rename = "creationTimestamp")]
    pub created: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub namespace: Option<Cow<'a, str>>,
    #[serde(default)]
    pub labels: Option<Labels>,
}

#[derive(Default, Deserialize)]
pub(super) struct CiliumNodeSpec<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    pub ipam: CiliumNodeIpam<'a>,
    #[serde(default, deserialize_with = "nullable")]
    pub addresses: Vec<IgnoredAny>,
}

#[derive(Default, Deserialize)]
pub(super) struct CiliumNodeIpam<'a> {
    #[serde(borrow, default, deserialize_with = "nullable", rename = "podCIDRs")]
    pub pod_cidrs: Vec<Cow<'a, str>>,
    #[serde(default, deserialize_with = "nullable")]
    pub pools: IpamPools,
}

#[derive(Default, Deserialize)]
pub(super) struct IpamPools {
    #[serde(default, deserialize_with = "nullable")]
    pub allocated: Vec<AllocatedPool>,
    #[serde(default, deserialize_with = "nullable")]
    pub requested: Vec<RequestedPool>,
}

#[derive(Deserialize)]
pub(super) struct RequestedPool {
    #[serde(default)]
    pub pool: String,
    #[serde(default, deserialize_with = "nullable")]
    pub needed: NeededAddresses,
}

#[derive(Default, Deserialize)]
pub(super) struct NeededAddresses {
    #[serde(default, rename = "ipv4-addrs")]
    pub ipv4: serde_json::Value,
    #[serde(default, rename = "ipv6-addrs")]
    pub ipv6: serde_json::Value,
}

#[derive(Deserialize)]
pub(super) struct AllocatedPool {
    #[serde(default)]
    pub pool: String,
    #[serde(default, deserialize_with = "nullable")]
    pub cidrs: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct ServiceCidrView<'a> {
    #[serde(borrow)]
    pub metadata: NamedMetadata<'a>,
    #[serde(default, deserialize_with = "nullable")]
    pub spec: ServiceCidrSpec,
}

#[derive(Default, Deserialize)]
pub(super) struct ServiceCidrSpec {
    #[serde(default, deserialize_with = "nullable")]
    pub cidrs: Vec<String>,
}

/// Owned, because the relevant one is known only when all have been read.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigMapView {
    pub metadata: ConfigMapMetadata,
    #[serde(default, deserialize_with = "nullable")]
    pub data: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WrittenAt {
    #[serde(default)]
    pub time: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigMapMetadata {
    pub namespace: Option<String>,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
    #[serde(default, deserialize_with = "nullable")]
    pub managed_fields: Vec<WrittenAt>,
}

impl ConfigMapView {
    /// Time of the last write.
    pub(super) fn written(&self) -> Option<String> {
        self.metadata
            .managed_fields
            .iter()
            .filter_map(|entry| entry.time.clone())
            .max()
    }

    pub(super) fn namespace(&self) -> String {
        self.metadata.namespace.clone().unwrap_or_default()
    }
}

/// UID of the owning Node.
pub(super) fn owning_node(owners: &[OwnerReference]) -> Option<String> {
    owners
        .iter()
        .find(|owner| owner.kind == "Node")
        .map(|owner| owner.uid.clone())
}
