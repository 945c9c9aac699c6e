//! Wire views of LB-IPAM's input: exactly the fields that are read.
//!
//! Wire views of DaemonSets, Deployments and Pods.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::view::{NamedMetadata, nullable};
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
    #[serde(default)]
    pub time: Option<String>,
    #[serde(default, rename = "fieldsV1")]
    pub fields: Option<OwnedRequestFields>,
}

#[derive(Deserialize)]
pub(super) struct OwnedRequestFields {
    #[serde(default, rename = "f:metadata")]
    pub metadata: Option<OwnedRequestMetadata>,
    #[serde(default, rename = "f:status")]
    pub status: Option<OwnedServiceStatus>,
}

#[derive(Deserialize)]
pub(super) struct OwnedServiceStatus {
    #[serde(default, rename = "f:loadBalancer")]
    pub load_balancer: Option<IgnoredAny>,
    #[serde(default, rename = "f:conditions")]
    pub conditions: Option<OwnedConditions>,
}

impl OwnedServiceStatus {
    /// Whether a manager wrote addresses or Cilium's condition about them.
    pub fn is_of_addresses(&self) -> bool {
        let is_of_cilium = |one: &OwnedConditions| one.newer.is_some() || one.older.is_some();
        self.load_balancer.is_some() || self.conditions.as_ref().is_some_and(is_of_cilium)
    }
}

/// The condition that LB-IPAM writes, the newer name first.
#[derive(Deserialize)]
pub(super) struct OwnedConditions {
    #[serde(default, rename = "k:{\"type\":\"cilium.io/IPAMRequestSatisfied\"}")]
    newer: Option<IgnoredAny>,
    #[serde(
        default,
        rename = "k:{\"type\":\"io.cilium/lb-ipam-request-satisfied\"}"
    )]
    older: Option<IgnoredAny>,
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

/// Name of the container of Cilium's operator.
pub(super) const OPERATOR_CONTAINER: &str = "cilium-operator";

#[derive(Deserialize)]
pub(super) struct WorkloadView<'a> {
    #[serde(borrow)]
    pub metadata: NamedMetadata<'a>,
    #[serde(default, deserialize_with = "nullable")]
    pub spec: WorkloadSpec,
    #[serde(default, deserialize_with = "nullable")]
    pub status: WorkloadStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadStatus {
    #[serde(default)]
    pub observed_generation: Option<u64>,
    #[serde(default)]
    pub replicas: Option<u32>,
    #[serde(default)]
    pub updated_replicas: Option<u32>,
    /// Pods that are being deleted, which `replicas` does not count. Kubernetes 1.35 and later by
    /// default.
    #[serde(default)]
    pub terminating_replicas: Option<u32>,
    /// Of DaemonSets.
    #[serde(default)]
    pub current_number_scheduled: Option<u32>,
    /// Of Pods.
    #[serde(default)]
    pub phase: Option<String>,
}

impl WorkloadView<'_> {
    /// The containers of a Pod, or of the Pods of a workload.
    pub(super) fn containers(&self) -> impl Iterator<Item = &Container> + Clone {
        let of_template = self.spec.template.iter();
        let of_template = of_template.flat_map(|template| &template.spec.containers);
        self.spec.containers.iter().chain(of_template)
    }

    /// Whether no Pod of it runs: it has ended, or it is scaled to zero.
    pub(super) fn is_over(&self) -> bool {
        let phase = self.status.phase.as_deref();
        matches!(phase, Some("Failed" | "Succeeded")) || self.spec.replicas == Some(0)
    }

    /// Whether it is a Pod of Cilium's operator that may still run.
    pub(super) fn is_operator_pod(&self) -> bool {
        let mut containers = self.spec.containers.iter();
        containers.any(|container| container.name == OPERATOR_CONTAINER) && !self.is_over()
    }

    /// Whether exactly the desired Pods run. Without a status, no Pod has run yet.
    pub(super) fn is_settled(&self) -> bool {
        let WorkloadStatus {
            observed_generation,
            replicas,
            updated_replicas,
            terminating_replicas,
            current_number_scheduled: _,
            phase: _,
        } = self.status;
        let (running, updated) = (replicas.unwrap_or(0), updated_replicas.unwrap_or(0));
        let is_seen = observed_generation.is_none_or(|seen| Some(seen) == self.metadata.generation);
        let is_ending =
            self.spec.replicas == Some(0) && terminating_replicas.is_some_and(|ending| ending > 0);
        is_seen
            && !is_ending
            && running == updated
            && (replicas.is_none() || self.spec.replicas.is_none_or(|wanted| wanted >= running))
    }
}

#[derive(Default, Deserialize)]
pub(super) struct WorkloadSpec {
    #[serde(default)]
    pub replicas: Option<u32>,
    #[serde(default)]
    pub template: Option<PodTemplate>,
    #[serde(default, deserialize_with = "nullable")]
    pub containers: Vec<Container>,
}

#[derive(Deserialize)]
pub(super) struct PodTemplate {
    #[serde(default, deserialize_with = "nullable")]
    pub spec: PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    #[serde(default)]
    pub host_network: Option<bool>,
    #[serde(default, deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    #[serde(default, deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
}

#[derive(Deserialize)]
pub(super) struct Container {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub image: String,
    #[serde(default, deserialize_with = "nullable")]
    pub command: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub args: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub env: Vec<Variable>,
}

impl Container {
    /// `cilium` of `quay.io/cilium/cilium:v1.19.3`.
    pub(super) fn image_name(&self) -> &str {
        let last = self.image.rsplit('/').next().unwrap_or_default();
        last.split([':', '@']).next().unwrap_or_default()
    }
}

/// An environment variable.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Variable {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub value: Option<String>,
    /// It comes from another object, which is not read.
    pub value_from: Option<IgnoredAny>,
}
