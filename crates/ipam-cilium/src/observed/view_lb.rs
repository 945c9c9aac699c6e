//! Wire views of LB-IPAM's input: exactly the fields that are read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::view::nullable;
use crate::lbipam::AddressPoolSpec;
use ipam_core::model::Labels;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressPoolView {
    #[serde(default)]
    pub api_version: Option<String>,
    pub metadata: AddressPoolMetadata,
    #[serde(default, deserialize_with = "nullable")]
    pub spec: AddressPoolSpec,
    #[serde(default, deserialize_with = "nullable")]
    pub status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressPoolMetadata {
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    pub creation_timestamp: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub labels: Labels,
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "nullable")]
    pub managed_fields: Vec<SpecManager>,
}

/// An entry of `metadata.managedFields`.
#[derive(Deserialize)]
pub(super) struct SpecManager {
    #[serde(default)]
    pub manager: String,
    #[serde(default)]
    pub time: Option<String>,
    #[serde(default, rename = "fieldsV1")]
    pub fields: Option<OwnedSpecFields>,
}

#[derive(Deserialize)]
pub(super) struct OwnedSpecFields {
    #[serde(default, rename = "f:spec")]
    pub spec: Option<IgnoredAny>,
    #[serde(default, rename = "f:metadata")]
    pub metadata: Option<OwnedKeys>,
}

#[derive(Deserialize)]
pub(super) struct OwnedKeys {
    #[serde(default, rename = "f:labels")]
    pub labels: BTreeMap<String, IgnoredAny>,
    #[serde(default, rename = "f:annotations")]
    pub annotations: BTreeMap<String, IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(default, deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    #[serde(default, deserialize_with = "nullable")]
    pub load_balancer: LoadBalancerStatus,
}

#[derive(Deserialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
}

#[derive(Default, Deserialize)]
pub(super) struct LoadBalancerStatus {
    #[serde(default, deserialize_with = "nullable")]
    pub ingress: Vec<Ingress>,
}

#[derive(Deserialize)]
pub(super) struct Ingress {
    #[serde(default)]
    pub ip: Option<String>,
    #[serde(default)]
    pub hostname: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ServiceView {
    pub metadata: ServiceMetadata,
    #[serde(default, deserialize_with = "nullable")]
    pub spec: ServiceSpec,
    #[serde(default, deserialize_with = "nullable")]
    pub status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceMetadata {
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    pub namespace: Option<String>,
    #[serde(default)]
    pub labels: Option<Labels>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "nullable")]
    pub owner_references: Vec<OwnerReference>,
    #[serde(default, deserialize_with = "nullable")]
    pub managed_fields: Vec<RequestManager>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Deserialize)]
pub(super) struct OwnerReference {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub controller: Option<bool>,
}

/// An entry of `metadata.managedFields` of a Service.
#[derive(Deserialize)]
pub(super) struct RequestManager {
    #[serde(default)]
    pub manager: String,
    #[serde(default, rename = "fieldsV1")]
    pub fields: Option<OwnedRequestFields>,
}

#[derive(Deserialize)]
pub(super) struct OwnedRequestFields {
    #[serde(default, rename = "f:metadata")]
    pub metadata: Option<OwnedRequestMetadata>,
}

#[derive(Deserialize)]
pub(super) struct OwnedRequestMetadata {
    #[serde(default, rename = "f:annotations")]
    pub annotations: Option<OwnedRequests>,
}

/// The keys by which a Service requests addresses, the newer one first.
#[derive(Deserialize)]
pub(super) struct OwnedRequests {
    #[serde(default, rename = "f:lbipam.cilium.io/ips")]
    pub newer: Option<IgnoredAny>,
    #[serde(default, rename = "f:io.cilium/lb-ipam-ips")]
    pub older: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceSpec {
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub load_balancer_class: Option<String>,
    #[serde(default, rename = "loadBalancerIP")]
    pub load_balancer_ip: Option<String>,
    #[serde(default)]
    pub ip_family_policy: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub ip_families: Vec<String>,
    #[serde(default)]
    pub external_traffic_policy: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub ports: Vec<ServicePort>,
    #[serde(default)]
    pub selector: Option<Labels>,
}

#[derive(Deserialize)]
pub(super) struct ServicePort {
    #[serde(default)]
    pub port: u16,
    #[serde(default)]
    pub protocol: Option<String>,
}
