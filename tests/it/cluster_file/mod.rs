//! A cluster in a file: which fields are read and written, and what blocks a change.

mod allocators;
mod blocked;
mod reading;
mod taken;
mod writing;

use serde_json::Value;

use crate::support::{Folder, cluster};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn folder(version: &str, settings: &str, items: &[String], pools: &[String]) -> Folder {
    Folder::new(&[
        ("cluster.json", &cluster(version, settings, items)),
        ("pools/a.yaml", &pools.join("---\n")),
    ])
}

fn plan(folder: &Folder) -> Value {
    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "-o",
            "json",
            "--fail-on",
            "never",
        ])
        .expect(0)
        .json()
}

/// The first blocked reason.
fn blocked(folder: &Folder) -> String {
    plan(folder)["blocked"][0]["reason"]
        .as_str()
        .unwrap_or("nothing is blocked")
        .to_owned()
}

fn cilium_node(name: &str, cidrs: &str) -> String {
    format!(
        r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"{name}"}},"spec":{{"ipam":{{"podCIDRs":[{cidrs}]}}}}}}"#
    )
}
