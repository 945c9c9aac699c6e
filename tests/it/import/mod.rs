//! `import`: the files that it writes keep a running cluster as it is.

mod generated;
mod nodes;
mod objects;
mod on_a_server;
mod output;
mod sysdump;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::support::{Folder, Ran, cilium_node, cluster, operator};

const IMPORT: [&str; 3] = ["import", "--cluster-file", "cluster.json"];

const CLUSTER_POOL: &str = r#""ipam":"cluster-pool","cluster-pool-ipv4-cidr":"10.0.0.0/8","cluster-pool-ipv4-mask-size":"24""#;

fn with(settings: &str, items: &[String]) -> Folder {
    Folder::new(&[("cluster.json", &cluster("1.19.3", settings, items))])
}

fn import(folder: &Folder, flags: &[&str]) -> Ran {
    folder.run(&[&IMPORT[..], flags].concat())
}

/// Fails unless the plan of the directory is empty and no block is misplaced. Returns it.
#[track_caller]
fn changes_nothing(folder: &Folder) -> Value {
    let plan = folder.plan();
    assert_eq!(plan["changes"], json!([]), "{plan:#}");
    assert_eq!(plan["misplaced"], json!([]), "{plan:#}");
    assert_eq!(plan["services"], json!([]), "{plan:#}");
    plan
}

/// As [`changes_nothing`], and nothing is blocked.
#[track_caller]
fn matches_the_files(folder: &Folder) {
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
