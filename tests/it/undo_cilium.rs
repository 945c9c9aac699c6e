//! Undo plans of CiliumNodes, CiliumNodeConfigs and CiliumPodIPPools, on a cluster in a file.

use serde_json::{Value, json};

use super::support::{Folder, TextAssertions, cluster, holds, node, pin, pool};

const CLUSTER_POOL: &str = r#""ipam":"cluster-pool","enable-ipv6":"false","cluster-pool-ipv4-cidr":"10.20.0.0/16","cluster-pool-ipv4-mask-size":"24""#;

pub(super) fn policy(path: &str) -> String {
    let limits = "{disruptive: {percent: 100}, release: {percent: 100}}";
    super::support::policy(&format!(
        "{{writePath: {path}, quarantine: 1h, limits: {limits}}}"
    ))
}

/// Cilium's operator as a Deployment, with the mode in which it runs.
fn operator(mode: &str) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cilium-operator", "namespace": "kube-system",
        "labels": {"io.cilium/app": "operator"}}, "spec": {"replicas": 1, "template": {"spec": {"containers":
        [{"name": "cilium-operator", "image": "quay.io/cilium/operator-generic:v1.19.3", "args": [format!("--ipam={mode}")]}]}}}, "status": {}})
    .to_string()
}

/// Applies the files, and leaves the undo plan in this file. Returns what was printed.
pub(super) fn apply(folder: &Folder, undo: &str) -> String {
    let words = ["apply", "--cluster", "cluster.json", "--auto-approve"];
    let ran = folder.run(&[&words[..], &["--undo-out", undo]].concat());
    ran.expect(0).stdout
}

/// Applies an undo plan, and leaves the plan that does the changes again in `redo`.
pub(super) fn undo(folder: &Folder, file: &str, redo: &str, code: i32) -> String {
    let words = ["apply", file, "--cluster", "cluster.json", "--auto-approve"];
    let ran = folder.run(&[&words[..], &["--undo-out", redo]].concat());
    let ran = ran.expect(code);
    ran.stdout + &ran.stderr
}

pub(super) fn saved(folder: &Folder, file: &str) -> Value {
    serde_json::from_str(&folder.read(file)).unwrap()
}

fn objects(folder: &Folder) -> Vec<Value> {
    let list = saved(folder, "cluster.json");
    list["items"].as_array().unwrap().clone()
}

pub(super) fn object(folder: &Folder, kind: &str, name: &str) -> Option<Value> {
    let is_it = |item: &&Value| item["kind"] == kind && item["metadata"]["name"] == name;
    objects(folder).iter().find(is_it).cloned()
}

pub(super) fn edit(folder: &Folder, kind: &str, name: &str, change: impl Fn(&mut Value)) {
    let mut list = saved(folder, "cluster.json");
    let items = list["items"].as_array_mut().unwrap();
    let is_it = |item: &&mut Value| item["kind"] == kind && item["metadata"]["name"] == name;
    let item = items.iter_mut().find(is_it).unwrap();
    change(item);
    item["metadata"]["resourceVersion"] = json!("900");
    folder.write("cluster.json", list.to_string());
}

pub(super) fn add(folder: &Folder, object: Value) {
    let mut list = saved(folder, "cluster.json");
    list["items"].as_array_mut().unwrap().push(object);
    folder.write("cluster.json", list.to_string());
}

/// Kind, name, labels and spec of every object but the claims.
fn meaning(folder: &Folder) -> Vec<Value> {
    let of = |item: &Value| {
        json!([
            item["kind"],
            item["metadata"]["name"],
            item["metadata"]["labels"],
            item["spec"]
        ])
    };
    let mut all: Vec<Value> = objects(folder)
        .iter()
        .filter(|item| item["metadata"]["name"] != "cilium-ipam-claims")
        .map(of)
        .collect();
    all.sort_by_key(Value::to_string);
    all
}

fn claims(folder: &Folder) -> Value {
    let stored = object(folder, "ConfigMap", "cilium-ipam-claims").unwrap();
    serde_json::from_str(stored["data"]["claims.json"].as_str().unwrap()).unwrap()
}

/// Whether the block is quarantined after the node.
pub(super) fn rests(folder: &Folder, block: &str, node: &str) -> bool {
    let quarantined = &claims(folder)["quarantined"];
    let is_it = |entry: &Value| entry["block"] == block && entry["node"] == node;
    quarantined.as_array().into_iter().flatten().any(is_it)
}

/// Undoes an apply, does it again, and undoes that.
fn there_and_back(folder: &Folder, before: &[Value]) {
    let after = meaning(folder);
    assert_ne!(after, before, "the apply changed nothing");
    undo(folder, "undo.json", "redo.json", 0);
    assert_eq!(meaning(folder), before);
    let said = undo(folder, "undo.json", "none.json", 0);
    said.assert_has("done already");
    undo(folder, "redo.json", "undo-again.json", 0);
    assert_eq!(meaning(folder), after);
    undo(folder, "undo-again.json", "redo-again.json", 0);
    assert_eq!(meaning(folder), before);
}

/// The undo plan is refused as a whole, with this reason, and nothing is written.
pub(super) fn is_refused(folder: &Folder, why: &str) {
    let before = folder.read("cluster.json");
    let said = undo(folder, "undo.json", "redo.json", 4);
    assert!(said.contains(why), "{why}: {said}");
    assert_eq!(folder.read("cluster.json"), before, "{why}");
}

// === CiliumNodeConfigs of single nodes ===

const CONFIG: &str = "cilium-ipam-n1";

pub(super) fn moved(pinned: &str) -> String {
    [
        policy("node-config"),
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        pin("n1", pinned),
    ]
    .join("---\n")
}

/// A node with a block in its spec that a pin moves.
pub(super) fn node_config() -> (Folder, Vec<Value>) {
    let n1 = node("n1", "a", &holds("10.20.1.0/24")).replace(
        r#""rack":"a""#,
        r#""rack":"a","kubernetes.io/hostname":"n1""#,
    );
    let folder = Folder::with_cluster(&[n1], &[("pools/a.yaml", &moved("10.20.0.0/24"))]);
    let before = meaning(&folder);
    apply(&folder, "undo.json");
    (folder, before)
}

#[test]
fn a_created_setting_is_deleted_and_its_block_rests() {
    let (folder, before) = node_config();
    let plan = saved(&folder, "undo.json");
    let change = &plan["changes"][0];
    assert_eq!(
        change["edit"],
        json!({"CiliumNodeConfig.spec.defaults": {"ipv4-range": null}})
    );
    assert_eq!(
        (&change["action"], &change["hazard"]),
        (&json!("update"), &json!("disruptive"))
    );
    let reason = change["reason"].as_str().unwrap();
    reason.assert_has("takes effect after the agent restarts");
    assert_eq!(plan["blocked"], json!([]));
    there_and_back(&folder, &before);
    assert!(rests(&folder, "10.20.0.0/24", "n1"), "{}", claims(&folder));
}

#[test]
fn a_changed_setting_gets_its_earlier_value_and_foreign_settings_stay() {
    let (folder, _) = node_config();
    folder.write("pools/a.yaml", moved("10.20.9.0/24"));
    apply(&folder, "second.json");
    edit(&folder, "CiliumNodeConfig", CONFIG, |config| {
        config["spec"]["defaults"]["debug"] = json!("true");
    });
    undo(&folder, "second.json", "redo.json", 0);
    let defaults =
        || object(&folder, "CiliumNodeConfig", CONFIG).unwrap()["spec"]["defaults"].clone();
    assert_eq!(
        defaults(),
        json!({"ipv4-range": "10.20.0.0/24", "debug": "true"})
    );
    assert!(rests(&folder, "10.20.9.0/24", "n1"));
    undo(&folder, "undo.json", "redo-first.json", 0);
    assert_eq!(defaults(), json!({"debug": "true"}));
}

#[test]
fn a_setting_that_another_writer_changed_stays() {
    type Edit = fn(&mut Value);
    let changes: [(Edit, &str); 3] = [
        (
            |config| config["spec"]["defaults"]["ipv4-range"] = json!("10.20.7.0/24"),
            "shows something else by now",
        ),
        (
            |config| config["metadata"]["labels"] = json!({}),
            "shows something else by now",
        ),
        (
            |config| config["spec"]["nodeSelector"] = json!({}),
            "is not ours or selects other nodes",
        ),
    ];
    for (change, why) in changes {
        let (folder, _) = node_config();
        edit(&folder, "CiliumNodeConfig", CONFIG, change);
        is_refused(&folder, why);
    }
}

#[test]
fn an_undo_that_was_killed_after_its_claims_is_finished() {
    let (folder, before) = node_config();
    let text = json!({"format_version": "1.0", "claims": [],
        "quarantined": [{"block": "10.20.0.0/24", "node": "n1", "free_at": "2999-01-01T00:00:00Z"}]});
    edit(&folder, "ConfigMap", "cilium-ipam-claims", |claims| {
        claims["data"]["claims.json"] = json!(text.to_string());
    });
    undo(&folder, "undo.json", "redo.json", 0);
    assert_eq!(meaning(&folder), before);
    assert!(rests(&folder, "10.20.0.0/24", "n1"));
}

// === CiliumNodes ===

pub(super) fn cluster_pool(mode: &str, items: &[Value]) -> (Folder, Vec<Value>) {
    let items: Vec<String> = items.iter().map(Value::to_string).collect();
    let items = [&[operator(mode), node("n1", "a", "")], &items[..]].concat();
    let files = [
        policy("cilium-node"),
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    ];
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", CLUSTER_POOL, &items)),
        ("pools/a.yaml", &files.join("---\n")),
    ]);
    let before = meaning(&folder);
    apply(&folder, "undo.json");
    (folder, before)
}

fn waiting(addresses: Value) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n1", "uid": "c", "resourceVersion": "1"},
        "spec": {"addresses": addresses, "ipam": {"podCIDRs": []}}})
}

#[test]
fn a_created_cilium_node_is_deleted_and_its_block_rests() {
    for (mode, edit) in [
        ("kubernetes", "CiliumNode.spec.ipam.podCIDRs"),
        (
            "cluster-pool",
            "CiliumNode.spec.ipam.podCIDRs, beside the operator",
        ),
    ] {
        let (folder, before) = cluster_pool(mode, &[]);
        let plan = saved(&folder, "undo.json");
        let change = &plan["changes"][0];
        assert_eq!(change["edit"], json!({"CiliumNode": null}));
        assert_eq!(change["undo"], json!({edit: ["10.20.0.0/24"]}));
        there_and_back(&folder, &before);
        assert!(rests(&folder, "10.20.0.0/24", "n1"), "{}", claims(&folder));
        add(&folder, serde_json::from_str(&node("n0", "a", "")).unwrap());
        apply(&folder, "later.json");
        let blocks = |name: &str| {
            object(&folder, "CiliumNode", name).unwrap()["spec"]["ipam"]["podCIDRs"].clone()
        };
        assert_eq!(
            (blocks("n0"), blocks("n1")),
            (json!(["10.20.1.0/24"]), json!(["10.20.0.0/24"])),
            "it rests for its node"
        );
    }
}

#[test]
fn a_cilium_node_with_a_running_agent_stays() {
    let (folder, _) = cluster_pool("cluster-pool", &[]);
    edit(&folder, "CiliumNode", "n1", |object| {
        object["spec"]["addresses"] = json!([{"ip": "192.0.2.1", "type": "InternalIP"}]);
    });
    is_refused(&folder, "its agent has started, and uses 10.20.0.0/24");
    is_refused(&folder, "fix: drain the node, delete its CiliumNode");
    edit(&folder, "CiliumNode", "n1", |object| {
        object["spec"]["ipam"]["podCIDRs"] = json!(["10.20.8.0/24"]);
    });
    is_refused(&folder, "shows something else by now");
}

#[test]
fn a_filled_cilium_node_is_emptied_unless_the_operator_knows_its_blocks() {
    let (folder, before) = cluster_pool("kubernetes", &[waiting(json!([]))]);
    there_and_back(&folder, &before);

    let (folder, _) = cluster_pool("kubernetes", &[waiting(json!([]))]);
    edit(&folder, "Deployment", "cilium-operator", |operator| {
        operator["spec"]["template"]["spec"]["containers"][0]["args"] =
            json!(["--ipam=cluster-pool"]);
    });
    is_refused(
        &folder,
        "knows its blocks (10.20.0.0/24), and would write them back",
    );

    // Its agent waits for the block, and uses it at once.
    let (folder, _) = cluster_pool(
        "kubernetes",
        &[waiting(json!([{"ip": "192.0.2.1", "type": "InternalIP"}]))],
    );
    assert!(!folder.join("undo.json").exists());
}

/// The apply created the CiliumNode, claimed the block, and was killed before it wrote it. The undo
/// plan was written beforehand.
#[test]
fn nothing_is_undone_of_an_apply_that_was_killed_before_its_write() {
    let (folder, before) = cluster_pool("kubernetes", &[]);
    edit(&folder, "CiliumNode", "n1", |object| {
        object["spec"] = json!({});
    });
    let uid = object(&folder, "CiliumNode", "n1").unwrap()["metadata"]["uid"].clone();
    let claim =
        json!({"block": "10.20.0.0/24", "node": "n1", "uid": uid, "resource_version": "900"});
    let text = json!({"format_version": "1.0", "claims": [claim], "quarantined": []}).to_string();
    let claims = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"claims.json": text},
        "metadata": {"name": "cilium-ipam-claims", "namespace": "kube-system", "uid": "k", "resourceVersion": "1"}});
    add(&folder, claims);
    let killed = meaning(&folder);
    assert_ne!(killed, before);
    let said = undo(&folder, "undo.json", "redo.json", 0);
    said.assert_has("done already: 1 change");
    assert_eq!(meaning(&folder), killed);
    apply(&folder, "second.json");
    let blocks = &object(&folder, "CiliumNode", "n1").unwrap()["spec"]["ipam"]["podCIDRs"];
    assert_eq!(blocks, &json!(["10.20.0.0/24"]));
}
