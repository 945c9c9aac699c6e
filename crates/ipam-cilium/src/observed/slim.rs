//! The part of an object that is ever read, for files that people share: no secrets, no status
//! noise.
//!
//! The views' types decide which fields stay. Only what a type cannot express has a rule here:
//! arguments of containers, owned fields, annotations of Services, and keys of ConfigMaps.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::announced_services::{is_of_load_balancing, slim_data};
use super::balancers::{Balancer, MARKS};
use super::bgp_view::{
    AdvertisementView, ClusterConfigView, L2PolicyView, PeerConfigView, PeeringPolicyView,
};
use super::cluster_cidrs::{K3S_ARGUMENTS, KUBEADM_KEY, slim_k3s_arguments, slim_kubeadm};
use super::controller_process::ControllerProcess;
use super::load_balancing::SERVICE_ANNOTATIONS;
use super::pod_pools::PodPoolView;
use super::project::project;
use super::served::DefinitionView;
use super::settings::{AgentView, NodeConfigView};
use super::spec_readers::{slim_routing, spec_router};
use super::view::{CiliumNodeView, ConfigMapView, ManagedFields, NodeView, ServiceCidrView};
use super::view_lb::{
    AddressPoolView, Container, RequestManager, ServiceView, SpecManager, WorkloadView,
};
use super::{CLAIMS_KEY, DEPARTED_KEY, MIGRATION_KEY, OWN_NAMESPACE, ObservedKind, setting_key};

/// The object with nothing in it that [`super::Reader`] does not read.
///
/// An object that cannot be read stays unreadable: its copy ends with the first fault.
pub fn slim(kind: ObservedKind, object: &Value) -> Value {
    let mut slimmed = as_read(kind, object);
    if !slimmed.is_object() {
        slimmed = Value::Object(Map::new());
    }
    if let Value::Object(fields) = &mut slimmed
        && fields
            .get("metadata")
            .is_some_and(|value| !value.is_object())
    {
        fields.remove("metadata");
    }
    let (api_version, name) = kind.api_version_and_kind();
    let text =
        |key: &str, default: &str| object.get(key).cloned().unwrap_or_else(|| default.into());
    slimmed["apiVersion"] = text("apiVersion", api_version);
    slimmed["kind"] = text("kind", name);
    let labels: &[&str] = match kind {
        // They tell which kind of Pod it is (`identify.rs`).
        ObservedKind::CiliumAgentPod => &["labels"],
        _ => &[],
    };
    for key in IDENTITY.iter().chain(labels) {
        if let Some(value) = object
            .get("metadata")
            .and_then(|metadata| metadata.get(key))
        {
            slimmed["metadata"][*key] = value.clone();
        }
    }
    slimmed
}

/// Kept of each object, whether its view reads it or not.
const IDENTITY: [&str; 5] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
];

/// The fields that the view of the kind reads.
fn as_read(kind: ObservedKind, object: &Value) -> Value {
    match kind {
        ObservedKind::Node => project::<NodeView<'_>>(object, narrow_node),
        ObservedKind::CiliumNode => project::<CiliumNodeView<'_>>(object, narrow_node),
        ObservedKind::Claims => project::<ConfigMapView>(object, narrow_claims),
        ObservedKind::Migration => project::<ConfigMapView>(object, narrow_migration),
        ObservedKind::Departed(_) => project::<ConfigMapView>(object, narrow_departed),
        ObservedKind::CiliumConfig => project::<ConfigMapView>(object, narrow_config),
        ObservedKind::SpeakerConfig => project::<ConfigMapView>(object, narrow_speaker_config),
        ObservedKind::ServiceCidr => project::<ServiceCidrView<'_>>(object, whole),
        ObservedKind::LoadBalancerPool => project::<AddressPoolView>(object, narrow_address_pool),
        ObservedKind::PodIpPool => project::<PodPoolView>(object, whole),
        ObservedKind::Service => project::<ServiceView>(object, narrow_service),
        ObservedKind::CiliumDaemonSet | ObservedKind::CiliumOperator => {
            project::<WorkloadView<'_>>(object, narrow_containers)
        }
        ObservedKind::KubeadmConfig => project::<ConfigMapView>(object, narrow_kubeadm_config),
        ObservedKind::RouterDaemonSet => project::<WorkloadView<'_>>(object, narrow_controllers),
        ObservedKind::ControllerPod | ObservedKind::ControllerDaemonSet => controllers(object),
        ObservedKind::CiliumAgentPod => project::<AgentView>(object, narrow_containers),
        ObservedKind::Definition(_) => project::<DefinitionView<'_>>(object, whole),
        ObservedKind::MoreDefinitions => project::<DefinitionView<'_>>(object, narrow_versions),
        ObservedKind::CiliumNodeConfig => project::<NodeConfigView>(object, whole),
        ObservedKind::BgpPeeringPolicy => project::<PeeringPolicyView>(object, whole),
        ObservedKind::BgpClusterConfig => project::<ClusterConfigView>(object, whole),
        ObservedKind::BgpPeerConfig => project::<PeerConfigView>(object, whole),
        ObservedKind::BgpAdvertisement => project::<AdvertisementView>(object, whole),
        ObservedKind::L2AnnouncementPolicy => project::<L2PolicyView>(object, whole),
    }
}

/// No rule beside the type.
fn whole(_: &[&str], _: &Value) -> Option<Value> {
    None
}

fn narrow_node(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(managers::<ManagedFields>(value)),
        ["metadata", "annotations", K3S_ARGUMENTS] => {
            Some(slim_k3s_arguments(value.as_str().unwrap_or_default()).into())
        }
        _ => None,
    }
}

/// No object of these kinds is written, so their schemas are not read.
fn narrow_versions(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["spec", "versions"] => {
            let is_read = |key: &str| key != "schema";
            Some(
                items(value)
                    .iter()
                    .map(|version| only(version, is_read))
                    .collect(),
            )
        }
        _ => None,
    }
}

fn narrow_address_pool(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(managers::<SpecManager>(value)),
        _ => None,
    }
}

/// Other annotations of a Service may hold secrets.
fn narrow_service(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "annotations"] => Some(only(value, |key| {
            SERVICE_ANNOTATIONS.as_flattened().contains(&key)
                || is_of_load_balancing(key)
                || MARKS.iter().any(|(mark, _)| *mark == key)
        })),
        ["metadata", "managedFields"] => Some(managers::<RequestManager>(value)),
        _ => None,
    }
}

fn narrow_claims(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(json!([])),
        ["data"] => Some(only(value, |key| key == CLAIMS_KEY)),
        _ => None,
    }
}

fn narrow_speaker_config(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(json!([])),
        ["data"] => Some(slim_data(value)),
        _ => None,
    }
}

fn narrow_kubeadm_config(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(json!([])),
        ["data"] => {
            let mut data = only(value, |key| key == KUBEADM_KEY);
            if let Some(text) = data[KUBEADM_KEY].as_str().map(slim_kubeadm) {
                data[KUBEADM_KEY] = text.into();
            }
            Some(data)
        }
        _ => None,
    }
}

fn narrow_departed(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(json!([])),
        ["data"] => Some(only(value, |key| key == DEPARTED_KEY)),
        _ => None,
    }
}

fn narrow_migration(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(json!([])),
        ["data"] => Some(only(value, |key| key == MIGRATION_KEY)),
        _ => None,
    }
}

fn narrow_config(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["metadata", "managedFields"] => Some(times(value)),
        ["data"] => Some(only(value, |key| setting_key::ALL.contains(&key))),
        _ => None,
    }
}

fn narrow_containers(path: &[&str], value: &Value) -> Option<Value> {
    match path {
        ["spec", .., "containers" | "initContainers"] => {
            Some(items(value).iter().map(slim_container).collect())
        }
        // The number changes with every node. Only zero or not zero matters.
        ["status", "currentNumberScheduled"] => {
            Some(value.as_u64().map(|number| number.min(1)).into())
        }
        _ => None,
    }
}

/// Keeps the name and image of each container, and the flags that [`Reader`](super::Reader) reads.
/// The rest of a command line may contain secrets, for example in a script. A container that cannot
/// be parsed becomes a value that cannot be parsed either.
fn controllers(object: &Value) -> Value {
    let mut slimmed = project::<WorkloadView<'_>>(object, narrow_controllers);
    let Ok(view) = WorkloadView::deserialize(object) else {
        return slimmed;
    };
    for (place, process) in ControllerProcess::of(&view) {
        let paths = ["/spec/containers", "/spec/template/spec/containers"];
        let mut lists = paths.iter().filter(|path| object.pointer(path).is_some());
        let list = lists.next().and_then(|path| slimmed.pointer_mut(path));
        if let Some(container) = list.and_then(|list| list.get_mut(place)) {
            container["command"] = process.words().into();
        }
    }
    slimmed
}

fn narrow_controllers(path: &[&str], value: &Value) -> Option<Value> {
    let identity = |container: &Value| match Container::deserialize(container) {
        Ok(read) => {
            let mut kept = only(container, |key| matches!(key, "name" | "image"));
            if let Value::Object(kept) = &mut kept {
                kept.extend(slim_routing(&read));
            }
            kept
        }
        Err(_) => Value::Bool(true),
    };
    match path {
        ["spec", .., "containers"] => Some(items(value).iter().map(identity).collect()),
        ["spec", .., "initContainers"] => Some(json!([])),
        _ => None,
    }
}

/// Whether an object means anything to [`Reader`](super::Reader): most Pods and DaemonSets in
/// `kube-system` do not.
pub fn is_read(kind: ObservedKind, object: &Value) -> bool {
    match kind {
        ObservedKind::ControllerPod | ObservedKind::ControllerDaemonSet => {
            let view = WorkloadView::deserialize(object);
            view.map_or(true, |view| {
                !ControllerProcess::of(&view).is_empty()
                    || view.is_operator_pod()
                    || Balancer::of_workload(&view).is_some()
                    || spec_router(&view).is_some()
            })
        }
        // Those of `kube-system` are read as another kind.
        ObservedKind::RouterDaemonSet => {
            let view = WorkloadView::deserialize(object);
            view.map_or(true, |view| {
                view.metadata.namespace.as_deref() != Some(OWN_NAMESPACE)
                    && spec_router(&view).is_some()
            })
        }
        _ => true,
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// These keys of an object.
fn only(value: &Value, is_read: impl Fn(&str) -> bool) -> Value {
    let Value::Object(object) = value else {
        return value.clone();
    };
    let read = object.iter().filter(|(key, _)| is_read(key));
    Value::Object(
        read.map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// Whether a word is an argument that is read, with or without its value.
fn is_argument(word: &str) -> bool {
    let Some(flag) = word.strip_prefix("--") else {
        return false;
    };
    let key = flag.split('=').next().unwrap_or(flag);
    setting_key::ALL.contains(&key) || setting_key::ARGUMENTS_ONLY.contains(&key)
}

/// Name, image, and the arguments and variables that are read: others may hold secrets.
fn slim_container(container: &Value) -> Value {
    let mut slimmed = only(container, |key| matches!(key, "name" | "image"));
    if !slimmed.is_object() {
        return Value::Object(Map::new());
    }
    let variables = slim_variables(container.get("env").map_or(&[][..], items));
    if !variables.is_empty() {
        slimmed["env"] = variables.into();
    }
    // A value may be the first word of `args`.
    let mut keeps_value = false;
    for key in ["command", "args"] {
        let mut words: Vec<Value> = Vec::new();
        for word in container.get(key).map_or(&[][..], items) {
            let text = word.as_str().unwrap_or_default();
            if is_argument(text) || (keeps_value && !text.starts_with('-')) {
                words.push(word.clone());
            }
            // `--key value`.
            keeps_value = is_argument(text) && !text.contains('=');
        }
        if !words.is_empty() {
            slimmed[key] = words.into();
        }
    }
    slimmed
}

fn slim_variables(variables: &[Value]) -> Vec<Value> {
    let is_setting = |variable: &&Value| {
        let name = variable["name"].as_str().unwrap_or_default();
        setting_key::of_variable(name).is_some()
    };
    let settings = variables.iter().filter(is_setting);
    let name_and_value = |key: &str| matches!(key, "name" | "value");
    let slimmed = settings.map(|one| {
        let mut slimmed = only(one, name_and_value);
        if !one["valueFrom"].is_null() {
            slimmed["valueFrom"] = json!({});
        }
        slimmed
    });
    slimmed.collect()
}

/// The managers that wrote a field which `M` reads, with those fields. Entries that no API server
/// writes are left out.
fn managers<'v, M: Deserialize<'v>>(entries: &'v Value) -> Value {
    let manager = |entry: &'v Value| {
        let mut read = project::<M>(entry, whole);
        let fields = owned_fields(read.get_mut("fieldsV1")?.take())?;
        read["fieldsV1"] = fields;
        Some(read)
    };
    let objects = items(entries).iter().filter(|entry| entry.is_object());
    objects.filter_map(manager).collect()
}

/// Owned fields as an API server writes them, without empty parents; `None` where none are left.
fn owned_fields(read: Value) -> Option<Value> {
    match read {
        // The projection of a field whose presence is read.
        Value::Bool(true) => Some(Value::Object(Map::new())),
        Value::Object(fields) => {
            let kept = fields.into_iter();
            let kept: Map<String, Value> = kept
                .filter_map(|(key, field)| Some((key, owned_fields(field)?)))
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Bool(false)
        | Value::Null
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => None,
    }
}

/// When each manager wrote.
fn times(entries: &Value) -> Value {
    let time = |entry: &Value| Some(json!({"time": entry.get("time")?}));
    items(entries).iter().filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::observed::{AllocatorStatus, CiliumKind, Observed, OperatorRun, Reader};

    #[test]
    fn managers_that_no_server_writes_are_left_out() {
        let pod_cidr =
            json!({"manager": "m", "fieldsV1": {"f:spec": {"f:podCIDR": {}, "f:taints": {}}}});
        for (managers, kept) in [
            (
                json!([pod_cidr, [], null, "text", {"manager": "m"}, {"fieldsV1": []}]),
                1,
            ),
            (json!({"fieldsV1": {}}), 0),
            (json!("text"), 0),
        ] {
            let node = json!({"metadata": {"name": "n", "managedFields": managers}});
            let slimmed = slim(ObservedKind::Node, &node);
            let left = slimmed["metadata"]["managedFields"].as_array().unwrap();
            assert_eq!(left.len(), kept, "{slimmed}");
            assert!(
                left.iter()
                    .all(|entry| entry["fieldsV1"] == json!({"f:spec": {"f:podCIDR": {}}}))
            );
        }
    }

    /// One object of each kind, in which every field that a view reads has a value.
    fn full_objects() -> Vec<(ObservedKind, Value)> {
        let entries: Vec<BTreeMap<String, Value>> =
            serde_yaml::from_str(include_str!("full_objects.yaml")).unwrap();
        let entries = entries.into_iter().flatten();
        let mut objects: Vec<_> = entries
            .map(|(kind, object)| (kind_called(&kind), object))
            .collect();
        for (kind, object) in &mut objects {
            let (keys, place, value) = match kind {
                ObservedKind::CiliumConfig => (setting_key::ALL, &mut object["data"], "true"),
                ObservedKind::Service => (
                    SERVICE_ANNOTATIONS.as_flattened(),
                    &mut object["metadata"]["annotations"],
                    "20.0.0.9",
                ),
                _ => continue,
            };
            let place = place.as_object_mut().unwrap();
            for key in keys {
                place
                    .entry((*key).to_owned())
                    .or_insert_with(|| value.into());
            }
        }
        objects.extend(CiliumKind::ALL.map(definition));
        objects.into_iter().map(named).collect()
    }

    fn kind_called(name: &str) -> ObservedKind {
        *every_kind()
            .find(|kind| format!("{kind:?}") == name)
            .unwrap_or_else(|| panic!("no kind is called {name}"))
    }

    fn every_kind() -> impl Iterator<Item = &'static ObservedKind> {
        let of_plans = ObservedKind::OF_PLANS.iter();
        of_plans.chain(&ObservedKind::OF_EXAMINATIONS)
    }

    fn definition(kind: CiliumKind) -> (ObservedKind, Value) {
        let schema = json!({"description": "secret", "properties": {
            "spec": {"properties": {"a": {"items": {}}}, "additionalProperties": {"properties": {}},
                "x-kubernetes-preserve-unknown-fields": true}}});
        let object = json!({"metadata": {"name": format!("{kind}.cilium.io"),
            "labels": {"io.cilium.k8s.crd.schema.version": "1.32.1"}},
            "spec": {"versions": [{"name": "v2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]},
            "status": {"storedVersions": ["v2"]}});
        (ObservedKind::Definition(kind), object)
    }

    fn named((kind, mut object): (ObservedKind, Value)) -> (ObservedKind, Value) {
        let (api_version, name) = kind.api_version_and_kind();
        object["apiVersion"] = api_version.into();
        object["kind"] = name.into();
        for (key, value) in [
            ("name", "n"),
            ("namespace", "kube-system"),
            ("uid", "u"),
            ("resourceVersion", "7"),
            ("creationTimestamp", "2026-01-01T00:00:00Z"),
        ] {
            if object["metadata"].get(key).is_none() {
                object["metadata"][key] = value.into();
            }
        }
        (kind, object)
    }

    fn read(objects: &[(ObservedKind, Value)]) -> Observed {
        let mut reader = Reader::default();
        for (kind, object) in objects {
            reader.object(*kind, &object.to_string()).unwrap();
        }
        reader.finish(Timestamp::UNIX_EPOCH)
    }

    /// Command lines of kube-controller-manager that are scripts, hide the flag or leave it out.
    fn controller_managers() -> Vec<(Value, Option<AllocatorStatus>)> {
        let script = "export TOKEN=secret; exec kube-controller-manager --allocate-node-cidrs=";
        let shell = |script: String| json!(["/bin/sh", "-c", script]);
        let (on, off) = (
            Some(AllocatorStatus::Active),
            Some(AllocatorStatus::Inactive),
        );
        let commands = [
            (shell(format!("{script}true --secret")), on),
            (shell(format!("{script}false --secret")), off),
            (shell(format!("{script}0; {script}1; secret")), on),
            (
                shell(format!("{script}$SECRET_secret")),
                Some(AllocatorStatus::Unknown),
            ),
            (json!(["/secret/kube-controller-manager", "--v=2"]), off),
            (
                json!([
                    "kube-controller-manager",
                    "--configure-cloud-routes=true",
                    "--cluster-cidr",
                    "10.1.0.7/16, secret,fd00::/48",
                    "--token=secret"
                ]),
                off,
            ),
            (json!(["etcd", "--secret"]), None),
        ];
        let container = |command: Value| {
            json!({"metadata": {"name": "n"},
                "spec": {"containers": [{"name": "c", "image": "i", "command": command}]}})
        };
        let pods = commands.into_iter();
        pods.map(|(command, status)| (container(command), status))
            .collect()
    }

    #[test]
    fn a_slim_controller_manager_reads_as_the_whole_one() {
        let kind = ObservedKind::ControllerPod;
        for (whole, status) in controller_managers() {
            let slimmed = slim(kind, &whole);
            assert_eq!(is_read(kind, &whole), status.is_some(), "{slimmed}");
            let of_whole = read(&[(kind, whole)]);
            let of_slim = read(&[(kind, slimmed.clone())]);
            let found = of_whole
                .allocators
                .first()
                .map(|allocator| allocator.status);
            assert_eq!(found, status, "{slimmed}");
            assert_eq!(format!("{of_whole:?}"), format!("{of_slim:?}"), "{slimmed}");
            assert!(!slimmed.to_string().contains("secret"), "{slimmed}");
            assert_eq!(slim(kind, &slimmed), slimmed, "slim is not idempotent");
        }
    }

    #[test]
    fn slim_routers_read_as_the_whole_ones() {
        let kind = ObservedKind::RouterDaemonSet;
        let on = json!([{"name": "USE_POD_CIDR", "value": "true"}, {"name": "TOKEN", "value": "secret"}]);
        let other = json!([{"name": "TOKEN", "value": "secret"}]);
        for (container, is_router) in [
            (json!({"image": "quay.io/calico/node:v3", "env": on}), true),
            (
                json!({"image": "r:5000/mirrored-calico-node@sha256:a", "env": on}),
                true,
            ),
            (
                json!({"image": "quay.io/calico/node:v3", "env": other}),
                false,
            ),
            (json!({"image": "quay.io/calico/node:v3"}), false),
            (json!({"image": "quay.io/calico/cni:v3", "env": on}), false),
            (json!({"image": "calico.example/node:v3", "env": on}), false),
            (
                json!({"image": "r/kube-router:v2", "args": ["--secret"]}),
                true,
            ),
            (
                json!({"image": "r/kube-router:v2", "args": ["--run-router=false"]}),
                false,
            ),
        ] {
            let whole = json!({"metadata": {"name": "d", "namespace": "routers"}, "spec": {"template":
                {"spec": {"hostNetwork": true, "containers": [container]}}}});
            let slimmed = slim(kind, &whole);
            for object in [&whole, &slimmed] {
                let observed = read(&[(kind, object.clone())]);
                assert_eq!(!observed.spec_routers.is_empty(), is_router, "{object}");
            }
            assert!(!slimmed.to_string().contains("secret"), "{slimmed}");
            assert_eq!(slim(kind, &slimmed), slimmed, "slim is not idempotent");
        }
    }

    #[test]
    fn a_slim_argument_keeps_a_value_that_is_the_first_of_args() {
        let kind = ObservedKind::CiliumDaemonSet;
        let whole = json!({"metadata": {"name": "cilium"}, "spec": {"template": {"spec": {
            "containers": [{"name": "cilium-agent", "command": ["cilium-agent", "--ipam"],
                "args": ["kubernetes"]}]}}}});
        let of_slim = read(&[(kind, slim(kind, &whole))]);
        assert_eq!(of_slim.cilium.agent_argument("ipam").unwrap(), "kubernetes");
    }

    #[test]
    fn a_variable_of_the_operator_counts_less_than_an_argument() {
        let operator = |args: Value| {
            let container = json!({"name": "cilium-operator", "args": args, "env": [
                {"name": "CILIUM_DEFAULT_LB_SERVICE_IPAM", "value": "none"},
                {"name": "CILIUM_ENABLE_LB_IPAM", "value": ""},
                {"name": "CILIUM_IPAM", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]});
            let whole = json!({"metadata": {"name": "o", "namespace": "kube-system"},
                "spec": {"template": {"spec": {"containers": [container]}}}});
            let kind = ObservedKind::CiliumOperator;
            let config = json!({"metadata": {"name": "cilium-config", "namespace": "kube-system"},
                "data": {"default-lb-service-ipam": "lbipam", "ipam": "kubernetes"}});
            read(&[
                (ObservedKind::CiliumConfig, config),
                (kind, slim(kind, &whole)),
            ])
            .cilium
        };
        let key = setting_key::DEFAULT_LB_SERVICE_IPAM;
        let by_variable = operator(json!([]));
        assert_eq!(by_variable.operator_setting(key), Some("none"));
        assert_eq!(by_variable.operator_setting("ipam"), None);
        assert!(by_variable.written("ipam").is_unknown());
        assert_eq!(by_variable.operator_setting("enable-lb-ipam"), None);
        let by_argument = operator(json!(["--default-lb-service-ipam=nodeipam"]));
        assert_eq!(by_argument.operator_setting(key), Some("nodeipam"));
    }

    #[test]
    fn an_operator_is_stopped_when_its_pods_have_ended() {
        let containers = json!([{"name": "cilium-operator"}]);
        let run = |status: Value, phase: Option<&str>| {
            let metadata = json!({"name": "cilium-operator", "namespace": "kube-system"});
            let deployment = json!({"metadata": metadata, "status": status, "spec": {"replicas": 0,
                "template": {"spec": {"containers": containers}}}});
            let mut objects = vec![(ObservedKind::CiliumOperator, deployment)];
            let pod = phase.map(|phase| {
                json!({"metadata": metadata, "status": {"phase": phase},
                    "spec": {"containers": containers}})
            });
            objects.extend(pod.map(|pod| (ObservedKind::ControllerPod, pod)));
            let objects = objects
                .into_iter()
                .filter(|(kind, object)| is_read(*kind, object));
            let slimmed = objects.map(|(kind, object)| (kind, slim(kind, &object)));
            read(&slimmed.collect::<Vec<_>>()).operator_run()
        };
        for (status, phase, expected) in [
            (json!({}), None, OperatorRun::Stopped),
            (
                json!({"terminatingReplicas": 0}),
                None,
                OperatorRun::Stopped,
            ),
            (
                json!({"terminatingReplicas": 1}),
                None,
                OperatorRun::Assumed,
            ),
            (json!({}), Some("Running"), OperatorRun::Assumed),
            (json!({}), Some("Failed"), OperatorRun::Stopped),
        ] {
            assert_eq!(run(status.clone(), phase), expected, "{status} {phase:?}");
        }
    }

    #[test]
    fn a_slim_object_reads_as_the_whole_one() {
        let mut whole = full_objects();
        let scripts = controller_managers().into_iter();
        let scripts = scripts.map(|(pod, _)| named((ObservedKind::ControllerPod, pod)));
        whole.extend(scripts);
        for kind in every_kind() {
            assert!(
                whole.iter().any(|(of, _)| of == kind),
                "{kind:?} is missing"
            );
        }
        let slimmed: Vec<(ObservedKind, Value)> = whole
            .iter()
            .map(|(kind, object)| (*kind, slim(*kind, object)))
            .collect();
        let mut observed = read(&whole);
        assert!(observed.blind_spots.is_empty());
        for map in [
            observed.cilium.settings.as_mut().unwrap(),
            observed.cilium.agent_arguments.as_mut().unwrap(),
        ] {
            assert!(map.remove("secret").is_some());
        }
        let (of_whole, of_slim) = (format!("{observed:#?}"), format!("{:#?}", read(&slimmed)));
        let mut lines = of_whole.lines().zip(of_slim.lines());
        assert_eq!(lines.find(|(whole, slim)| whole != slim), None);
        assert_eq!(of_whole.lines().count(), of_slim.lines().count());
        let text = serde_json::to_string(&slimmed.iter().map(|(_, o)| o).collect::<Vec<_>>());
        assert!(!text.unwrap().contains("secret"));
        for (kind, object) in slimmed {
            assert_eq!(slim(kind, &object), object, "slim is not idempotent");
        }
    }

    #[test]
    fn what_cannot_be_read_stays_unreadable() {
        for (kind, object) in [
            (
                ObservedKind::Node,
                json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": [7]}}),
            ),
            (
                ObservedKind::CiliumNode,
                json!({"metadata": {"name": "n"}, "spec": "text"}),
            ),
            (
                ObservedKind::Service,
                json!({"metadata": {"name": "n"}, "spec": {"ports": {}}}),
            ),
            (
                ObservedKind::ControllerPod,
                json!({"metadata": {"name": "n"}, "spec": {"containers": [{"command": [7]}]}}),
            ),
            (ObservedKind::ServiceCidr, json!({"metadata": 7})),
            (ObservedKind::Node, json!({"metadata": {}})),
            (ObservedKind::Node, json!("text")),
        ] {
            let slimmed = slim(kind, &object);
            assert!(
                Reader::default()
                    .object(kind, &slimmed.to_string())
                    .is_err(),
                "{slimmed}"
            );
        }
    }
}
