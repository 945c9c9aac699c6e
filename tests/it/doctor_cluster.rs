//! Healthy clusters for the tests of `doctor`, and helpers for its reports.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::ControlPlane;

use super::support::{Folder, Ran, args, documents, pool, repository};

/// Rules of the findings, without those that are expected of every cluster of the kind.
pub fn rules(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect()
}

/// Messages and consequences of the findings of a rule.
pub fn told(report: &Value, rule: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["rule"] == rule);
    let of_entry = |finding: &Value| {
        let all = |first: &str, further: &str| -> Vec<String> {
            let further = finding[further].as_array().into_iter().flatten();
            std::iter::once(&finding[first])
                .chain(further)
                .map(text)
                .collect()
        };
        let consequences = all("consequence", "further_consequences");
        all("message", "further_messages")
            .into_iter()
            .zip(consequences)
            .collect::<Vec<_>>()
    };
    findings.flat_map(of_entry).collect()
}

/// The severity of each finding of a rule.
pub fn severities(report: &Value, rule: &str) -> Vec<String> {
    let findings = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["rule"] == rule);
    let of_entry = |finding: &Value| {
        let count = usize::try_from(finding["count"].as_u64().unwrap()).unwrap();
        vec![finding["severity"].as_str().unwrap().to_owned(); count]
    };
    findings.flat_map(of_entry).collect()
}

/// The healthy cluster that gets a fault: `doctor/bases.yaml` has each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    Kubernetes,
    #[serde(rename = "metallb")]
    MetalLb,
    ClusterPool,
    MultiPool,
}

/// What differs from another cluster.
#[derive(Default, Deserialize)]
pub struct Changes {
    /// Version of the agents and the operator.
    version: Option<String>,
    /// Spec of the pool `a`.
    pool: Option<Value>,
    /// By `Kind/name`: a JSON merge patch, a new object, or null for an object that is deleted.
    #[serde(flatten)]
    objects: BTreeMap<String, Value>,
}

/// Objects, and the spec of the pool `a` if there is one.
pub struct Cluster {
    pub objects: Vec<Value>,
    pool: Option<String>,
}

impl Cluster {
    /// The healthy cluster with these changes, in their order.
    pub fn new(base: Base, more: &[&Changes]) -> Cluster {
        let bases: BTreeMap<Base, Changes> = read("bases.yaml");
        let changes = || [&bases[&base]].into_iter().chain(more.iter().copied());
        let version = changes().rev().find_map(|one| one.version.as_deref());
        let pool = changes().rev().find_map(|one| one.pool.as_ref());
        let common = documents(&repository().join(FOLDER).join("healthy.yaml"));
        let common = Value::Array(common).to_string();
        let common = common.replace("VERSION", version.unwrap());
        let mut objects: Vec<Value> = serde_json::from_str(&common).unwrap();
        for (key, patch) in changes().flat_map(|one| &one.objects) {
            change(&mut objects, key, patch);
        }
        let pool = pool.map(Value::to_string);
        Cluster { objects, pool }
    }

    /// The report of `doctor`, and its folder.
    pub fn examined(&self) -> (Folder, Ran) {
        examined(&self.objects, self.pool.as_deref())
    }
}

const FOLDER: &str = "tests/it/doctor";

/// A file of one document.
pub fn read<T: DeserializeOwned>(file: &str) -> T {
    let mut documents = documents(&repository().join(FOLDER).join(file));
    serde_json::from_value(documents.remove(0)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn change(objects: &mut Vec<Value>, key: &str, patch: &Value) {
    let (kind, name) = key.split_once('/').expect("Kind/name");
    let is_it = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let place = objects.iter().position(is_it);
    match (place, patch) {
        (Some(place), Value::Null) => drop(objects.remove(place)),
        (Some(place), patch) => merge(&mut objects[place], patch),
        (None, patch) => {
            assert!(patch["apiVersion"].is_string(), "no object is {key}");
            let mut object = json!({"kind": kind, "metadata": {"name": name}});
            merge(&mut object, patch);
            objects.push(object);
        }
    }
}

/// RFC 7386.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let object = value.as_object_mut().unwrap();
    for (key, patch) in fields {
        match patch {
            Value::Null => drop(object.remove(key)),
            patch => merge(object.entry(key).or_insert(Value::Null), patch),
        }
    }
}

pub fn healthy(base: Base) -> Vec<Value> {
    Cluster::new(base, &[]).objects
}

pub fn object<'o>(objects: &'o mut [Value], kind: &str, name: &str) -> &'o mut Value {
    let is_it = |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects.iter_mut().find(is_it).unwrap()
}

/// The report on these objects and a pool `a` of this spec, if there is one.
fn examined(objects: &[Value], spec: Option<&str>) -> (Folder, Ran) {
    let folder = Folder::new(&[]);
    if let Some(spec) = spec {
        folder.write("pools/a.yaml", pool("a", spec));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": with_times(objects)});
    folder.write("cluster.json", list.to_string());
    let ran = folder.run(&args(
        "doctor -o json --fail-on never --cluster cluster.json",
    ));
    (folder, ran.expect(0))
}

/// As the server would note when the settings were written.
pub fn with_times(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    for object in &mut objects {
        if object["kind"] == "ConfigMap" && object["metadata"]["name"] == "cilium-config" {
            object["metadata"]["managedFields"] =
                json!([{"manager": "helm", "time": "2026-01-01T00:00:00Z"}]);
        }
    }
    objects
}

/// The report on a cluster file with this pool.
pub fn with_pool(objects: &[Value], spec: &str) -> Value {
    examined(objects, Some(spec)).1.json()
}

fn collection(object: &Value) -> String {
    let plural = match object["kind"].as_str().unwrap() {
        "CiliumLoadBalancerIPPool" => "ciliumloadbalancerippools".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let root = match object["apiVersion"].as_str().unwrap() {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}

pub fn create(plane: &ControlPlane, object: &Value) {
    if object["kind"] == "ServiceCIDR" {
        // The server has its own, of the same range.
        return;
    }
    plane.create(&collection(object), object).unwrap();
    if let Some(status) = object.get("status") {
        let path = format!(
            "{}/{}/status",
            collection(object),
            object["metadata"]["name"].as_str().unwrap()
        );
        plane.patch(&path, &json!({"status": status})).unwrap();
    }
}

pub fn delete(plane: &ControlPlane, object: &Value) {
    if object["kind"] != "ServiceCIDR" {
        let path = format!(
            "{}/{}?gracePeriodSeconds=0",
            collection(object),
            object["metadata"]["name"].as_str().unwrap()
        );
        plane.delete(&path).unwrap();
    }
}
