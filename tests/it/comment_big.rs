//! A real plan of 5,000 nodes in 100 pools with 300 refusals, for comments.

use std::fmt::Write;

use super::support::{Folder, KUBERNETES, cluster, holds, node, pool};
use ipam_plan::plan::PlanDocument;

/// The first nodes hold a block, are protected, and are pinned to another one.
const PROTECTED: usize = 300;

/// Its directory `clusters/prod/pools` and its `cluster.json`.
pub(super) fn big_world() -> Folder {
    let head = "apiVersion: cilium-ipam.io/v1alpha1\nkind:";
    let mut pools = String::new();
    for rack in 0..100 {
        let selector = format!("{{matchLabels: {{rack: rack-{rack}}}}}");
        // Beside the Service CIDR.
        let cidr = format!("10.{}.0.0/18", 100 + rack);
        let spec = format!("{{cidrs: [{cidr}], blockSize: 24, nodeSelector: {selector}}}");
        let _ = writeln!(pools, "{}---", pool(&format!("rack-{rack}"), &spec));
    }
    let edge = "{cidrs: [172.20.0.0/24], blockSize: 24, nodeSelector: {matchLabels: {rack: edge}}}";
    pools += &pool("edge", edge);
    let policy =
        format!("{head} IPAMPolicy\nmetadata: {{name: p}}\nspec: {{writePath: node-config}}\n");
    let mut pins = Vec::new();
    let mut nodes: Vec<String> = (0..5_000)
        .map(|number| {
            let (rack, name) = (number % 100, format!("worker-{number:04}.rack.example"));
            let spec = match number < PROTECTED {
                true => holds(&format!("10.{}.{}.0/24", 100 + rack, 60 + number / 100)),
                false => String::new(),
            };
            if number < PROTECTED {
                let block = format!("10.{}.{}.0/24", 100 + rack, 50 + number / 100);
                pins.push(format!(
                    "{head} NodeAssignment\nmetadata: {{name: {name}}}\nspec: {{pool: rack-{rack}, podCIDRs: [{block}]}}\n"
                ));
            }
            let zone = format!("zone-{}", number % 10);
            let labels = format!(
                r#"{{"kubernetes.io/hostname":"{name}","topology.kubernetes.io/zone":"{zone}","rack""#
            );
            let node = node(&name, &format!("rack-{rack}"), &spec).replace(r#"{"rack""#, &labels);
            match number < PROTECTED {
                true => node.replace(
                    r#""labels""#,
                    r#""annotations":{"cilium-ipam.io/protected":"true"},"labels""#,
                ),
                false => node,
            }
        })
        .collect();
    nodes.extend((0..2).map(|number| node(&format!("edge-{number}"), "edge", "")));
    Folder::new(&[
        ("clusters/prod/pools/pools.yaml", &pools),
        ("clusters/prod/pools/pins.yaml", &pins.join("---\n")),
        ("clusters/prod/pools/policy.yaml", &policy),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
    ])
}

pub fn big_plan() -> PlanDocument {
    let folder = big_world();
    let file = ["--cluster-file", "cluster.json", "-o", "json"];
    let plan = ["plan", "clusters/prod/pools", "--fail-on", "never"];
    let planned = folder.run(&[&plan[..], &file].concat()).expect(0);
    serde_json::from_value(planned.json()).unwrap()
}
