//! Messages of Kubernetes for another encoder than ours, and their JSON by the tags of the Go
//! types (k8s.io/api/core/v1 and apimachinery `pkg/apis/meta/v1` @ 1.36). They also have fields
//! that no view reads.

use std::collections::BTreeMap;

use jiff::Timestamp;
use prost::Message;
use serde_json::{Map, Value, json};

#[derive(Clone, PartialEq, Message)]
pub struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub types: Option<TypeMeta>,
    #[prost(bytes, optional, tag = "2")]
    pub raw: Option<Vec<u8>>,
    #[prost(string, tag = "3")]
    pub content_encoding: String,
    #[prost(string, tag = "4")]
    pub content_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchEvent {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(message, optional, tag = "2")]
    pub object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RawExtension {
    #[prost(bytes, tag = "1")]
    pub raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TypeMeta {
    #[prost(string, tag = "1")]
    pub api_version: String,
    #[prost(string, tag = "2")]
    pub kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListMeta {
    #[prost(string, tag = "2")]
    pub resource_version: String,
    #[prost(string, tag = "3")]
    pub next: String,
    #[prost(int64, optional, tag = "4")]
    pub remaining: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeList {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    pub items: Vec<Node>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Time {
    #[prost(int64, optional, tag = "1")]
    pub seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    pub nanos: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FieldsV1 {
    #[prost(string, tag = "1")]
    pub raw: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ManagedFieldsEntry {
    #[prost(string, optional, tag = "1")]
    pub manager: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub operation: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub time: Option<Time>,
    #[prost(message, optional, tag = "7")]
    pub fields: Option<FieldsV1>,
    #[prost(string, optional, tag = "8")]
    pub subresource: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OwnerReference {
    #[prost(string, optional, tag = "1")]
    pub kind: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub uid: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub api_version: Option<String>,
    #[prost(bool, optional, tag = "6")]
    pub controller: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ObjectMeta {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub generate_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub namespace: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub uid: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub resource_version: Option<String>,
    #[prost(int64, optional, tag = "7")]
    pub generation: Option<i64>,
    #[prost(message, optional, tag = "8")]
    pub created: Option<Time>,
    #[prost(message, optional, tag = "9")]
    pub deleted: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    pub owners: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    pub finalizers: Vec<String>,
    #[prost(message, repeated, tag = "17")]
    pub managers: Vec<ManagedFieldsEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<NodeSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<NodeStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeSpec {
    #[prost(string, optional, tag = "1")]
    pub pod_cidr: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub provider_id: Option<String>,
    #[prost(bool, optional, tag = "4")]
    pub unschedulable: Option<bool>,
    #[prost(string, repeated, tag = "7")]
    pub pod_cidrs: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeStatus {
    #[prost(string, optional, tag = "3")]
    pub phase: Option<String>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub allocatable: BTreeMap<String, Quantity>,
    #[prost(message, repeated, tag = "5")]
    pub addresses: Vec<NodeAddress>,
    #[prost(string, repeated, tag = "9")]
    pub volumes_in_use: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Quantity {
    #[prost(string, optional, tag = "1")]
    pub text: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeAddress {
    #[prost(string, optional, tag = "1")]
    pub kind: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub address: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Service {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<ServiceSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<ServiceStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServiceSpec {
    #[prost(message, repeated, tag = "1")]
    pub ports: Vec<ServicePort>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub selector: BTreeMap<String, String>,
    #[prost(string, optional, tag = "3")]
    pub cluster_ip: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub kind: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub load_balancer_ip: Option<String>,
    #[prost(string, optional, tag = "11")]
    pub external_traffic_policy: Option<String>,
    #[prost(string, optional, tag = "17")]
    pub ip_family_policy: Option<String>,
    #[prost(string, repeated, tag = "19")]
    pub ip_families: Vec<String>,
    #[prost(string, optional, tag = "21")]
    pub load_balancer_class: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServicePort {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub protocol: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub port: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub node_port: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServiceStatus {
    #[prost(message, optional, tag = "1")]
    pub load_balancer: Option<LoadBalancerStatus>,
    #[prost(message, repeated, tag = "2")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LoadBalancerStatus {
    #[prost(message, repeated, tag = "1")]
    pub ingress: Vec<Ingress>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Ingress {
    #[prost(string, optional, tag = "1")]
    pub ip: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub hostname: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub ip_mode: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Condition {
    #[prost(string, optional, tag = "1")]
    pub kind: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub status: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub changed: Option<Time>,
    #[prost(string, optional, tag = "5")]
    pub reason: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub message: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Pod {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<PodStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSpec {
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    #[prost(string, optional, tag = "10")]
    pub node_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Container {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub image: Option<String>,
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub args: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodStatus {
    #[prost(string, optional, tag = "1")]
    pub phase: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub started: Option<Time>,
}

/// An object of JSON in the making: Go leaves out what is empty.
#[derive(Default)]
struct Json(Map<String, Value>);

impl Json {
    fn always(mut self, key: &str, value: impl Into<Value>) -> Json {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// `omitempty` of a text, a list or a map.
    fn unless_empty(self, key: &str, value: impl Into<Value>) -> Json {
        let value = value.into();
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        };
        if is_empty {
            self
        } else {
            self.always(key, value)
        }
    }

    /// `omitempty` of a pointer.
    fn unless_nil(self, key: &str, value: Option<impl Into<Value>>) -> Json {
        match value {
            Some(value) => self.always(key, value),
            None => self,
        }
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

fn text(value: &Option<String>) -> Value {
    value.clone().unwrap_or_default().into()
}

impl Time {
    fn json(&self) -> Value {
        if (self.seconds, self.nanos) == (None, None) {
            return Value::Null;
        }
        let time = Timestamp::from_second(self.seconds.unwrap_or(0)).unwrap();
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
    }
}

impl ManagedFieldsEntry {
    fn json(&self) -> Value {
        let fields = |fields: &FieldsV1| -> Value {
            match fields.raw.as_str() {
                "" => Value::Null,
                raw => serde_json::from_str(raw).unwrap(),
            }
        };
        Json::default()
            .unless_empty("manager", text(&self.manager))
            .unless_empty("operation", text(&self.operation))
            .unless_nil("time", self.time.as_ref().map(Time::json))
            .unless_nil("fieldsV1", self.fields.as_ref().map(fields))
            .unless_empty("subresource", text(&self.subresource))
            .done()
    }
}

impl OwnerReference {
    fn json(&self) -> Value {
        Json::default()
            .always("apiVersion", text(&self.api_version))
            .always("kind", text(&self.kind))
            .always("name", text(&self.name))
            .always("uid", text(&self.uid))
            .unless_nil("controller", self.controller)
            .done()
    }
}

impl ObjectMeta {
    fn json(&self) -> Value {
        let created = self.created.as_ref().map(Time::json);
        let owners: Vec<Value> = self.owners.iter().map(OwnerReference::json).collect();
        let managers: Vec<Value> = self.managers.iter().map(ManagedFieldsEntry::json).collect();
        Json::default()
            .unless_empty("name", text(&self.name))
            .unless_empty("generateName", text(&self.generate_name))
            .unless_empty("namespace", text(&self.namespace))
            .unless_empty("uid", text(&self.uid))
            .unless_empty("resourceVersion", text(&self.resource_version))
            .unless_nil("generation", self.generation.filter(|of| *of != 0))
            .unless_nil("creationTimestamp", created.filter(|time| !time.is_null()))
            .unless_nil("deletionTimestamp", self.deleted.as_ref().map(Time::json))
            .unless_empty("labels", json!(self.labels))
            .unless_empty("annotations", json!(self.annotations))
            .unless_empty("ownerReferences", owners)
            .unless_empty("finalizers", self.finalizers.clone())
            .unless_empty("managedFields", managers)
            .done()
    }
}

fn object(metadata: &Option<ObjectMeta>, spec: Value, status: Value) -> Value {
    let metadata = metadata.clone().unwrap_or_default().json();
    json!({"metadata": metadata, "spec": spec, "status": status})
}

impl Node {
    /// As the server writes it.
    pub fn json(&self) -> Value {
        let spec = self.spec.clone().unwrap_or_default();
        let status = self.status.clone().unwrap_or_default();
        let address =
            |of: &NodeAddress| json!({"type": text(&of.kind), "address": text(&of.address)});
        let addresses: Vec<Value> = status.addresses.iter().map(address).collect();
        let allocatable = status.allocatable.iter();
        let allocatable: serde_json::Map<String, Value> = allocatable
            .map(|(key, value)| (key.clone(), text(&value.text)))
            .collect();
        object(
            &self.metadata,
            Json::default()
                .unless_empty("podCIDR", text(&spec.pod_cidr))
                .unless_empty("podCIDRs", spec.pod_cidrs)
                .unless_empty("providerID", text(&spec.provider_id))
                .unless_nil("unschedulable", spec.unschedulable.filter(|is| *is))
                .done(),
            Json::default()
                .unless_empty("phase", text(&status.phase))
                .unless_empty("allocatable", allocatable)
                .unless_empty("addresses", addresses)
                .unless_empty("volumesInUse", status.volumes_in_use)
                .done(),
        )
    }
}

impl Service {
    /// As the server writes it.
    pub fn json(&self) -> Value {
        let spec = self.spec.clone().unwrap_or_default();
        let status = self.status.clone().unwrap_or_default();
        let port = |of: &ServicePort| {
            Json::default()
                .unless_empty("name", text(&of.name))
                .unless_empty("protocol", text(&of.protocol))
                .always("port", of.port.unwrap_or(0))
                .unless_nil("nodePort", of.node_port.filter(|port| *port != 0))
                .done()
        };
        let ingress = |of: &Ingress| {
            Json::default()
                .unless_empty("ip", text(&of.ip))
                .unless_empty("hostname", text(&of.hostname))
                .unless_nil("ipMode", of.ip_mode.clone())
                .done()
        };
        let condition = |of: &Condition| {
            Json::default()
                .always("type", text(&of.kind))
                .always("status", text(&of.status))
                .always(
                    "lastTransitionTime",
                    of.changed.clone().unwrap_or_default().json(),
                )
                .always("reason", text(&of.reason))
                .always("message", text(&of.message))
                .done()
        };
        let balancer = status.load_balancer.unwrap_or_default();
        let ports: Vec<Value> = spec.ports.iter().map(port).collect();
        let ingress: Vec<Value> = balancer.ingress.iter().map(ingress).collect();
        let conditions: Vec<Value> = status.conditions.iter().map(condition).collect();
        object(
            &self.metadata,
            Json::default()
                .unless_empty("ports", ports)
                .unless_empty("selector", json!(spec.selector))
                .unless_empty("clusterIP", text(&spec.cluster_ip))
                .unless_empty("type", text(&spec.kind))
                .unless_empty("loadBalancerIP", text(&spec.load_balancer_ip))
                .unless_empty("externalTrafficPolicy", text(&spec.external_traffic_policy))
                .unless_nil("ipFamilyPolicy", spec.ip_family_policy)
                .unless_empty("ipFamilies", spec.ip_families)
                .unless_nil("loadBalancerClass", spec.load_balancer_class)
                .done(),
            Json::default()
                .always(
                    "loadBalancer",
                    Json::default().unless_empty("ingress", ingress).done(),
                )
                .unless_empty("conditions", conditions)
                .done(),
        )
    }
}

impl Pod {
    /// As the server writes it.
    pub fn json(&self) -> Value {
        let spec = self.spec.clone().unwrap_or_default();
        let status = self.status.clone().unwrap_or_default();
        let container = |of: &Container| {
            Json::default()
                .always("name", text(&of.name))
                .unless_empty("image", text(&of.image))
                .unless_empty("command", of.command.clone())
                .unless_empty("args", of.args.clone())
                .done()
        };
        let containers: Vec<Value> = spec.containers.iter().map(container).collect();
        object(
            &self.metadata,
            Json::default()
                .always("containers", containers)
                .unless_empty("nodeName", text(&spec.node_name))
                .done(),
            Json::default()
                .unless_empty("phase", text(&status.phase))
                .unless_nil("startTime", status.started.as_ref().map(Time::json))
                .done(),
        )
    }
}
