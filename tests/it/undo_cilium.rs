//! Undo plans of CiliumNodes, CiliumNodeConfigs and CiliumPodIPPools, on a cluster in a file.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, cluster, holds, node, pin, pool};
use super::undo::forge;

const CLUSTER_POOL: &str = r#""ipam":"cluster-pool","enable-ipv6":"false","cluster-pool-ipv4-cidr":"10.20.0.0/16","cluster-pool-ipv4-mask-size":"24""#;
const MULTI_POOL: &str = r#""ipam":"multi-pool","enable-ipv6":"false""#;

pub(super) fn policy(path: &str) -> String {
    format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{writePath: {path}, quarantine: 1h, limits: {{disruptive: {{percent: 100}}, release: {{percent: 100}}}}}}\n"
    )
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
    let resting = &claims(folder)["resting"];
    let is_it = |entry: &Value| entry["block"] == block && entry["node"] == node;
    resting.as_array().into_iter().flatten().any(is_it)
}

/// Undoes an apply, does it again, and undoes that.
fn there_and_back(folder: &Folder, before: &[Value]) {
    let after = meaning(folder);
    assert_ne!(after, before, "the apply changed nothing");
    undo(folder, "undo.json", "redo.json", 0);
    assert_eq!(meaning(folder), before);
    let said = undo(folder, "undo.json", "none.json", 0);
    assert!(said.contains("done already"), "{said}");
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
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &[n1])),
        ("pools/a.yaml", &moved("10.20.0.0/24")),
    ]);
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
    assert!(
        reason.contains("takes effect after the agent restarts"),
        "{reason}"
    );
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
        "resting": [{"block": "10.20.0.0/24", "node": "n1", "free_at": "2999-01-01T00:00:00Z"}]});
    edit(&folder, "ConfigMap", "cilium-ipam-claims", |claims| {
        claims["data"]["claims.json"] = json!(text.to_string());
    });
    undo(&folder, "undo.json", "redo.json", 0);
    assert_eq!(meaning(&folder), before);
    assert!(rests(&folder, "10.20.0.0/24", "n1"));
}

// === CiliumPodIPPools and the CiliumNodeConfigs that choose them ===

pub(super) fn racks(cidrs: &str) -> String {
    [
        policy("auto"),
        pool(
            "a",
            &format!(
                "{{cidrs: [{cidrs}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: a}}}}}}"
            ),
        ),
    ]
    .join("---\n")
}

pub(super) fn multi_pool(cidrs: &str, items: &[String]) -> Folder {
    let items = [&[operator("multi-pool"), node("n1", "a", "")], items].concat();
    Folder::new(&[
        ("cluster.json", &cluster("1.19.3", MULTI_POOL, &items)),
        ("pools/a.yaml", &racks(cidrs)),
    ])
}

fn pod_pool(labels: Value, cidrs: &[&str]) -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "labels": labels},
        "spec": {"ipv4": {"cidrs": cidrs, "maskSize": 24}}})
}

fn ours() -> Value {
    json!({"app.kubernetes.io/managed-by": "cilium-ipam"})
}

/// A CiliumNode of ipam `multi-pool`: what its agent requests, and what the operator gave it.
pub(super) fn agent(needed: u32, cidrs: &[&str]) -> Value {
    let requested = json!([{"pool": "a", "needed": {"ipv4-addrs": needed}}]);
    let allocated = match cidrs {
        [] => json!([]),
        _ => json!([{"pool": "a", "cidrs": cidrs}]),
    };
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n1", "uid": "c", "resourceVersion": "1"},
        "spec": {"addresses": [{"ip": "192.0.2.1", "type": "InternalIP"}], "ipam": {"pools": {"requested": requested, "allocated": allocated}}}})
}

#[test]
fn created_pools_and_choices_are_deleted() {
    let folder = multi_pool("10.20.0.0/16", &[]);
    let before = meaning(&folder);
    apply(&folder, "undo.json");
    let plan = saved(&folder, "undo.json");
    let changes = plan["changes"].as_array().unwrap().iter();
    let shown: Vec<(&Value, &Value, &Value)> = changes
        .map(|change| (&change["action"], &change["kind"], &change["hazard"]))
        .collect();
    let (delete, disruptive) = (json!("delete"), json!("disruptive"));
    assert_eq!(
        shown,
        [
            (&delete, &json!("CiliumNodeConfig"), &disruptive),
            (&delete, &json!("CiliumPodIPPool"), &disruptive)
        ]
    );
    there_and_back(&folder, &before);
}

#[test]
fn a_pool_in_use_is_not_deleted() {
    for (agent, why) in [
        (
            agent(8, &["10.20.3.0/24"]),
            "node n1 has 10.20.3.0/24 of it",
        ),
        (agent(8, &[]), "node n1 requests addresses of it"),
    ] {
        let folder = multi_pool("10.20.0.0/16", &[]);
        apply(&folder, "undo.json");
        add(&folder, agent);
        let said = undo(&folder, "undo.json", "redo.json", 7);
        assert!(said.contains(why), "{said}");
        assert!(object(&folder, "CiliumPodIPPool", "a").is_some(), "{said}");
        // Nothing is left but the pool in use.
        is_refused(&folder, why);
        is_refused(&folder, "way out: revert the change of the files and apply");
    }
    let folder = multi_pool("10.20.0.0/16", &[]);
    apply(&folder, "undo.json");
    // The definition of CiliumNodes allows any integer.
    add(&folder, agent(0, &[]));
    edit(&folder, "CiliumNode", "n1", |agent| {
        agent["spec"]["ipam"]["pools"]["requested"][0]["needed"]["ipv4-addrs"] = json!(-8);
    });
    let choice = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": {"name": "zz", "namespace": "kube-system"},
        "spec": {"nodeSelector": {}, "defaults": {"ipam-default-ip-pool": "a"}}});
    add(&folder, choice);
    let said = undo(&folder, "undo.json", "redo.json", 7);
    assert!(said.contains("zz"), "{said}");
    is_refused(&folder, "zz");
}

#[test]
fn a_widened_pool_is_cut_unless_its_new_range_is_in_use() {
    let widened = |agents: &[Value]| {
        let seen = [&[pod_pool(ours(), &["10.20.0.0/16"])], agents].concat();
        let seen: Vec<String> = seen.iter().map(Value::to_string).collect();
        let folder = multi_pool("10.20.0.0/16", &seen);
        apply(&folder, "first.json");
        let before = meaning(&folder);
        folder.write("pools/a.yaml", racks("10.20.0.0/16, 10.30.0.0/16"));
        apply(&folder, "undo.json");
        (folder, before)
    };
    let (folder, before) = widened(&[agent(8, &["10.20.3.0/24"])]);
    there_and_back(&folder, &before);
    let (folder, _) = widened(&[]);
    add(&folder, agent(8, &["10.30.3.0/24"]));
    is_refused(&folder, "node n1 has 10.30.3.0/24 of it");
    let (folder, _) = widened(&[]);
    add(&folder, agent(300, &["10.20.3.0/24"]));
    is_refused(&folder, "node n1 requests addresses of it");
}

#[test]
fn an_adopted_pool_is_no_longer_ours() {
    let folder = multi_pool(
        "10.20.0.0/16, 10.30.0.0/16",
        &[pod_pool(json!({"team": "net"}), &["10.20.0.0/16"]).to_string()],
    );
    let before = meaning(&folder);
    apply(&folder, "undo.json");
    assert_eq!(
        saved(&folder, "undo.json")["changes"][0]["action"],
        "disown"
    );
    there_and_back(&folder, &before);
    let (kept, revived) = ("CiliumPodIPPool", object(&folder, "CiliumPodIPPool", "a"));
    assert_eq!(
        revived.unwrap_or_else(|| panic!("{kept} is gone"))["metadata"]["labels"],
        json!({"team": "net"})
    );
}

#[test]
fn a_deleted_pool_comes_back_unless_it_would_lose_fields() {
    let files = || racks("10.40.0.0/16").replace("name: a}", "name: b}");
    let deleted = |seen: Value| {
        let mut other = pod_pool(ours(), &["10.40.0.0/16"]);
        other["metadata"]["name"] = json!("b");
        let folder = multi_pool("10.40.0.0/16", &[seen.to_string(), other.to_string()]);
        folder.write("pools/a.yaml", files());
        let before = meaning(&folder);
        apply(&folder, "undo.json");
        (folder, before)
    };
    let (folder, before) = deleted(pod_pool(ours(), &["10.20.0.0/16"]));
    there_and_back(&folder, &before);

    let (folder, _) = deleted(pod_pool(ours(), &["10.20.0.0/16"]));
    let excluding = files().replace("quarantine: 1h", "excluded: [10.20.9.0/24]");
    folder.write("pools/a.yaml", excluding);
    is_refused(&folder, "10.20.0.0/16 cannot be given back");

    let mut with_selector = pod_pool(ours(), &["10.20.0.0/16"]);
    with_selector["spec"]["podSelector"] = json!({"matchLabels": {"app": "web"}});
    let (folder, _) = deleted(with_selector);
    let blocked = &saved(&folder, "undo.json")["blocked"][0];
    assert_eq!(
        (&blocked["kind"], &blocked["code"]),
        (&json!("CiliumPodIPPool"), &json!("undo-loses-fields"))
    );
    assert!(
        blocked["reason"]
            .as_str()
            .unwrap()
            .contains("spec.podSelector"),
        "{blocked}"
    );
}

#[test]
fn a_forged_undo_plan_of_pools_writes_nothing() {
    let folder = multi_pool("10.20.0.0/16", &[]);
    apply(&folder, "first.json");
    undo(&folder, "first.json", "undo.json", 0);
    let redo = folder.read("undo.json");
    let ranges = |plan: &Value| {
        let changes = plan["changes"].as_array().unwrap().iter();
        let mut places = changes.enumerate();
        places
            .find(|(_, change)| change["kind"] == "CiliumPodIPPool")
            .unwrap()
            .0
    };
    for (cidr, why) in [
        ("10.96.0.0/16", "10.96.0.0/16 cannot be given back"),
        ("10.20.0.1/16", "it is gone"),
        ("fd00::/64", "it is gone"),
    ] {
        folder.write("undo.json", &redo);
        forge(&folder, "undo.json", |plan| {
            let place = ranges(plan);
            plan["changes"][place]["edit"] =
                json!({"spec": {"ipv4": {"cidrs": [cidr], "maskSize": 24}}});
        });
        is_refused(&folder, why);
    }
    folder.write("undo.json", &redo);
    forge(&folder, "undo.json", |plan| {
        let place = 1 - ranges(plan);
        plan["changes"][place]["name"] = json!("zz-of-another");
    });
    is_refused(&folder, "zz-of-another");
    // Two pools of one plan with the same addresses.
    folder.write("undo.json", &redo);
    forge(&folder, "undo.json", |plan| {
        let mut other = plan["changes"][ranges(plan)].clone();
        other["name"] = json!("zz");
        other["pool"] = json!("zz");
        plan["changes"].as_array_mut().unwrap().push(other);
    });
    is_refused(&folder, "has or gave 10.20.0.0/16 too");
}

#[test]
fn an_operator_that_forgets_what_a_range_gave_gets_no_other_ranges() {
    let seen = [
        pod_pool(ours(), &["10.20.0.0/16"]),
        agent(8, &["10.20.3.0/24"]),
    ];
    let seen: Vec<String> = seen.iter().map(Value::to_string).collect();
    let folder = multi_pool("10.20.0.0/16", &seen);
    apply(&folder, "first.json");
    folder.write("pools/a.yaml", racks("10.20.0.0/16, 10.30.0.0/16"));
    apply(&folder, "undo.json");
    // One range with all addresses of both: nothing is lost.
    forge(&folder, "undo.json", |plan| {
        let spec = json!({"spec": {"ipv4": {"cidrs": ["10.16.0.0/12"], "maskSize": 24}}});
        plan["changes"][0]["edit"] = spec;
    });
    edit(&folder, "Deployment", "cilium-operator", |operator| {
        let container = &mut operator["spec"]["template"]["spec"]["containers"][0];
        container["image"] = json!("quay.io/cilium/operator-generic:v1.17.6");
    });
    is_refused(&folder, "would forget the blocks that it gave");
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
    is_refused(&folder, "way out: drain the node, delete its CiliumNode");
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
    let text = json!({"format_version": "1.0", "claims": [claim], "resting": []}).to_string();
    let claims = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"claims.json": text},
        "metadata": {"name": "cilium-ipam-claims", "namespace": "kube-system", "uid": "k", "resourceVersion": "1"}});
    add(&folder, claims);
    let killed = meaning(&folder);
    assert_ne!(killed, before);
    let said = undo(&folder, "undo.json", "redo.json", 0);
    assert!(said.contains("done already: 1 change"), "{said}");
    assert_eq!(meaning(&folder), killed);
    apply(&folder, "second.json");
    let blocks = &object(&folder, "CiliumNode", "n1").unwrap()["spec"]["ipam"]["podCIDRs"];
    assert_eq!(blocks, &json!(["10.20.0.0/24"]));
}
