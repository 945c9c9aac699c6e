//! Partly blocked undo plans, and the result of an undo for each change.

use serde_json::{Value, json};

use super::support::{Folder, TextAssertions, address_pool, holds, node, pin, pool};
use super::undo::{applied, forge};
use super::undo_cilium::{
    add, apply, cluster_pool, edit, is_refused, moved, node_config, object, policy, saved, undo,
};

const CONFIG: &str = "cilium-ipam-n1";

fn apply_json(folder: &Folder, file: &str, code: i32) -> Value {
    let words = ["apply", file, "--cluster", "cluster.json", "--auto-approve"];
    let ran = folder.run(&[&words[..], &["-o", "json"]].concat());
    ran.expect(code).json()
}

fn two_nodes() -> Folder {
    let other: Value = serde_json::from_str(&node("n2", "a", "")).unwrap();
    cluster_pool("cluster-pool", &[other]).0
}

fn starts(folder: &Folder, name: &str) {
    edit(folder, "CiliumNode", name, |object| {
        object["spec"]["addresses"] = json!([{"ip": "192.0.2.1", "type": "InternalIP"}]);
    });
}

// === The block to which a node returns ===

#[test]
fn the_undo_of_a_move_names_the_block_of_the_node() {
    let (folder, _) = node_config();
    let plan = saved(&folder, "undo.json");
    let change = &plan["changes"][0];
    assert_eq!(
        (&change["before"], &change["after"]),
        (&json!(["10.20.0.0/24"]), &json!(["10.20.1.0/24"]))
    );
    let reason = change["reason"].as_str().unwrap();
    reason.assert_has("drain the node and restart its agent");
    let said = undo(&folder, "undo.json", "redo.json", 0);
    said.assert_has("10.20.0.0/24 -> 10.20.1.0/24");
    let redo = saved(&folder, "redo.json");
    assert_eq!(redo["changes"][0]["before"], json!(["10.20.1.0/24"]));
    let said = undo(&folder, "redo.json", "undo-again.json", 0);
    said.assert_has("10.20.1.0/24 -> 10.20.0.0/24");
}

#[test]
fn the_undo_of_a_second_move_names_the_block_of_the_first() {
    let (folder, _) = node_config();
    folder.write("pools/a.yaml", moved("10.20.9.0/24"));
    apply(&folder, "second.json");
    let said = undo(&folder, "second.json", "redo.json", 0);
    said.assert_has("10.20.9.0/24 -> 10.20.0.0/24");
}

#[test]
fn a_node_does_not_return_to_a_block_that_another_node_has_by_now() {
    let (folder, _) = node_config();
    let other = node("n2", "a", &holds("10.20.1.0/24"));
    add(&folder, serde_json::from_str(&other).unwrap());
    is_refused(&folder, "10.20.1.0/24 cannot be given back");
    assert!(object(&folder, "CiliumNodeConfig", CONFIG).is_some());
}

#[test]
fn what_is_taken_away_is_named() {
    let (folder, _) = cluster_pool("cluster-pool", &[]);
    let said = undo(&folder, "undo.json", "redo.json", 0);
    said.assert_has("taken away Node/n1  10.20.0.0/24\n");
}

// === What we created ===

#[test]
fn a_cilium_node_without_our_label_is_not_deleted() {
    let (folder, _) = cluster_pool("cluster-pool", &[]);
    let labels = object(&folder, "CiliumNode", "n1").unwrap()["metadata"]["labels"].clone();
    assert_eq!(
        labels,
        json!({"app.kubernetes.io/managed-by": "cilium-ipam"})
    );
    // An agent replaces all labels by those of the Node.
    edit(&folder, "CiliumNode", "n1", |object| {
        object["metadata"]["labels"] = json!({"rack": "a"});
    });
    is_refused(
        &folder,
        "its CiliumNode with 10.20.0.0/24 has no label app.kubernetes.io/managed-by=cilium-ipam",
    );
    is_refused(&folder, "fix: drain the node, delete its CiliumNode");
}

// === The rest of an undo is applied ===

#[test]
fn a_blocked_node_does_not_hold_up_another() {
    let folder = two_nodes();
    starts(&folder, "n1");
    let report = apply_json(&folder, "undo.json", 7);
    assert_eq!(report["applied"][0]["name"], "n2", "{report:#}");
    let left = &report["not_applied"][0];
    let why = left["why"].as_str().unwrap();
    assert!(
        why.starts_with("blocked: its agent has started") && why.contains("fix: drain"),
        "{report:#}"
    );
    assert_eq!(
        (&left["name"], &report["blocked"]),
        (&json!("n1"), &json!(1))
    );
    assert!(object(&folder, "CiliumNode", "n1").is_some());
    assert!(object(&folder, "CiliumNode", "n2").is_none());
    // The remaining changes can be undone once they are unblocked.
    is_refused(&folder, "its agent has started, and uses 10.20.0.0/24");
    edit(&folder, "CiliumNode", "n1", |object| {
        object["spec"]["addresses"] = json!([]);
    });
    let said = undo(&folder, "undo.json", "rest.json", 0);
    said.assert_has("done already: 1 change");
    assert!(object(&folder, "CiliumNode", "n1").is_none());
}

#[test]
fn the_summary_counts_what_is_blocked() {
    let folder = two_nodes();
    starts(&folder, "n1");
    let said = undo(&folder, "undo.json", "redo.json", 7);
    said.assert_has("Applied 1 change; 1 not applied, 0 unknown, 1 blocked.\n");
    said.assert_has("1 of 2 changes not applied");
}

#[test]
fn another_writer_still_makes_all_of_it_stale() {
    let folder = two_nodes();
    edit(&folder, "CiliumNode", "n1", |object| {
        object["spec"]["ipam"]["podCIDRs"] = json!(["10.20.8.0/24"]);
    });
    is_refused(&folder, "shows something else by now");
    assert!(object(&folder, "CiliumNode", "n2").is_some());
}

// === An apply of files ===

fn pools(cidr: &str) -> String {
    [
        policy("auto"),
        pool("a", &format!("{{cidrs: [{cidr}], blockSize: 24}}")),
        pin("n9", "10.20.0.0/24"),
    ]
    .join("---\n")
}

#[test]
fn an_apply_counts_what_is_blocked() {
    let nodes = [node("n1", "a", ""), node("n2", "a", "")];
    let folder = Folder::with_cluster(&nodes, &[("pools/a.yaml", &pools("10.20.0.0/23"))]);
    let words = ["plan", "--cluster", "cluster.json", "-o", "json"];
    let plan = folder.run(&words).expect(2).json();
    assert_eq!(plan["summary"]["blocked"], 1, "{plan:#}");
    let words = ["apply", "--cluster", "cluster.json", "--auto-approve"];
    let said = folder.run(&words).expect(0).stdout;
    said.assert_has("Applied 1 change; 0 not applied, 0 unknown, 1 blocked.\n");
    let report = folder.run(&[&words[..], &["-o", "json"]].concat());
    let report = report.expect(0).json();
    assert_eq!(
        (&report["applied"], &report["blocked"]),
        (&json!([]), &json!(1))
    );
}

// === What follows the files ===

/// Pools of the files are in no undo plan, and one that names them is refused.
#[test]
fn only_blocks_of_nodes_are_taken_back() {
    let folder = applied();
    let blue = address_pool("blue", "{blocks: [{cidr: 10.7.0.0/24}]}");
    folder.write("pools/blue.yaml", &blue);
    let words = ["apply", "--cluster", "cluster.json", "--auto-approve"];
    let report = folder.run(&[&words[..], &["-o", "json"]].concat());
    let report = report.expect(0).json();
    assert_eq!(
        report["undo"],
        json!({"changes": 0, "irreversible": 0, "of_files": 1, "instead": []})
    );
    folder.write("pools/blue.yaml", blue.replace("10.7.", "10.8."));
    let said = folder.run(&words).expect(0).stdout;
    let told = "1 change of pools, Services or address pairs follows the files: revert the files and apply.\n";
    said.assert_has(told);
    said.assert_lacks("ndo plan");
    forge(&folder, "undo.json", |plan| {
        let change = &mut plan["changes"][0];
        change["kind"] = json!("CiliumLoadBalancerIPPool");
        change["name"] = json!("blue");
        (change["edit"], change["undo"]) = (
            json!({"CiliumLoadBalancerIPPool": null}),
            json!({"CiliumLoadBalancerIPPool": {"spec": {"blocks": [{"cidr": "10.8.0.0/24"}]}}}),
        );
    });
    let refused = undo(&folder, "undo.json", "redo.json", 1);
    let why = "it takes back `CiliumLoadBalancerIPPool/blue`, and an undo plan has only nodes";
    refused.assert_has(why);
}
