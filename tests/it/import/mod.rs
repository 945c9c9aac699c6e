//! `import`: the files that it writes keep a running cluster as it is.

mod generated;
mod nodes;
mod objects;
mod on_a_server;
mod output;
mod sysdump;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::support::{Folder, Ran, cluster};

const IMPORT: [&str; 3] = ["import", "--cluster-file", "cluster.json"];

const CLUSTER_POOL: &str = r#""ipam":"cluster-pool","cluster-pool-ipv4-cidr":"10.0.0.0/8","cluster-pool-ipv4-mask-size":"24""#;

fn with(settings: &str, items: &[String]) -> Folder {
    Folder::new(&[("cluster.json", &cluster("1.19.3", settings, items))])
}

fn import(folder: &Folder, flags: &[&str]) -> Ran {
    folder.run(&[&IMPORT[..], flags].concat())
}

/// The plan of the directory.
#[track_caller]
pub fn plan(folder: &Folder) -> Value {
    let plan = folder.run(&[
        "plan",
        "--cluster-file",
        "cluster.json",
        "-o",
        "json",
        "--fail-on",
        "never",
    ]);
    plan.expect(0).json()
}

/// Fails unless the plan of the directory is empty and no block is misplaced. Returns it.
#[track_caller]
fn changes_nothing(folder: &Folder) -> Value {
    let plan = plan(folder);
    assert_eq!(plan["changes"], json!([]), "{plan:#}");
    assert_eq!(plan["misplaced"], json!([]), "{plan:#}");
    assert_eq!(plan["services"], json!([]), "{plan:#}");
    plan
}

/// As [`changes_nothing`], and nothing is blocked.
#[track_caller]
fn is_as_the_files_say(folder: &Folder) {
    let plan = changes_nothing(folder);
    assert_eq!(plan["blocked"], json!([]), "{plan:#}");
    assert_eq!(plan["summary"]["errors"], 0, "{plan:#}");
}

fn documents(folder: &Folder, file: &str) -> Vec<Value> {
    serde_yaml::from_multiple(&folder.read(&format!("pools/{file}"))).unwrap()
}

/// The specs of the pools, by name.
fn pools(folder: &Folder) -> BTreeMap<String, Value> {
    let documents = documents(folder, "ippools.yaml").into_iter();
    let named = |pool: Value| {
        let name = pool["metadata"]["name"].as_str().unwrap().to_owned();
        (name, pool["spec"].clone())
    };
    documents.map(named).collect()
}

fn cilium_node(name: &str, blocks: &[&str]) -> String {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": name, "uid": format!("cilium-{name}"), "resourceVersion": "7"},
        "spec": {"ipam": {"podCIDRs": blocks}}})
    .to_string()
}

fn operator(mode: &str) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cilium-operator", "namespace": "kube-system",
        "labels": {"io.cilium/app": "operator"}}, "spec": {"replicas": 1, "template": {"spec": {"containers":
        [{"name": "cilium-operator", "args": [format!("--ipam={mode}")]}]}}}, "status": {}})
    .to_string()
}
