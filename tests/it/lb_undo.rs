//! Undo plans of LoadBalancer pools: the undo of a deletion restores exactly the deleted pool.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, cluster, holds, node};

const OWNER: &str = "app.kubernetes.io/managed-by";
const RANGE: &str = "10.7.0.0/24";

/// A pool of ours as a cluster file has it.
fn seen(api: &str, name: &str, spec: &Value) -> String {
    json!({"apiVersion": api, "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": name, "uid": format!("uid-{name}"),
        "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:01Z", "labels": {OWNER: "cilium-ipam"}}, "spec": spec})
    .to_string()
}

fn wanted(name: &str, cidr: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: {name}}}\nspec: {{blocks: [{{cidr: {cidr}}}]}}\n"
    )
}

/// An apply deleted pool `blue` and left `undo.json`; `items` are the other objects of the cluster.
fn deleted(version: &str, api: &str, spec: &Value, items: &[String]) -> Folder {
    let all = [&[seen(api, "blue", spec)], items].concat();
    let folder = Folder::new(&[
        ("cluster.json", &cluster(version, KUBERNETES, &all)),
        ("pools/green.yaml", &wanted("green", "10.8.0.0/24")),
    ]);
    let words = [
        "apply",
        "--cluster",
        "cluster.json",
        "--auto-approve",
        "--undo-out",
        "undo.json",
    ];
    folder
        .run(&[&words[..], &["--waive", "last-address-pools"]].concat())
        .expect(0);
    assert!(pool(&folder, "blue").is_none());
    folder
}

fn pool(folder: &Folder, name: &str) -> Option<Value> {
    let list: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let is_it = |item: &&Value| {
        item["kind"] == "CiliumLoadBalancerIPPool" && item["metadata"]["name"] == name
    };
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(is_it)
        .cloned()
}

/// What was printed.
fn undo(folder: &Folder, code: i32) -> String {
    let ran = folder
        .run(&[
            "apply",
            "undo.json",
            "--cluster",
            "cluster.json",
            "--auto-approve",
        ])
        .expect(code);
    ran.stdout + &ran.stderr
}

/// The cluster without the pools that an apply made, under another Cilium.
fn upgraded(folder: &Folder, version: &str, items: &[String]) {
    folder.write("cluster.json", cluster(version, KUBERNETES, items));
}

#[test]
fn a_pool_comes_back_after_an_upgrade_in_the_version_that_is_served_then() {
    let folder = deleted(
        "1.17.4",
        "cilium.io/v2alpha1",
        &json!({"blocks": [{"cidr": RANGE}]}),
        &[],
    );
    let saved: Value = serde_json::from_str(&folder.read("undo.json")).unwrap();
    assert_eq!(
        saved["changes"][1]["write_path"], "cilium.io/v2alpha1",
        "{saved:#}"
    );
    upgraded(
        &folder,
        "1.19.3",
        &[seen(
            "cilium.io/v2",
            "green",
            &json!({"blocks": [{"cidr": "10.8.0.0/24"}]}),
        )],
    );
    let said = undo(&folder, 0);
    assert!(!said.contains("left out"), "{said}");
    let blue = pool(&folder, "blue").unwrap_or_else(|| panic!("not brought back: {said}"));
    assert_eq!(
        (&blue["apiVersion"], &blue["spec"]),
        (
            &json!("cilium.io/v2"),
            &json!({"blocks": [{"cidr": RANGE}]})
        )
    );
    assert!(pool(&folder, "green").is_none());
    assert!(undo(&folder, 0).contains("done already: 2 changes"));
}

#[test]
fn a_pool_comes_back_where_it_was_the_last_of_an_older_version() {
    let folder = deleted(
        "1.19.3",
        "cilium.io/v2alpha1",
        &json!({"blocks": [{"cidr": RANGE}]}),
        &[],
    );
    upgraded(&folder, "1.19.3", &[]);
    let said = undo(&folder, 0);
    assert!(said.contains("done already: 1 change"), "{said}");
    let blue = pool(&folder, "blue").unwrap_or_else(|| panic!("not brought back: {said}"));
    assert_eq!(blue["apiVersion"], "cilium.io/v2");
}

#[test]
fn cidrs_come_back_as_blocks_where_the_server_would_drop_them() {
    let folder = deleted(
        "1.14.9",
        "cilium.io/v2alpha1",
        &json!({"cidrs": [{"cidr": RANGE}]}),
        &[],
    );
    upgraded(&folder, "1.19.3", &[]);
    undo(&folder, 0);
    assert_eq!(
        pool(&folder, "blue").unwrap()["spec"],
        json!({"blocks": [{"cidr": RANGE}]})
    );
    assert!(undo(&folder, 0).contains("done already: 2 changes"));
}

/// A client deleted it after the apply: only the files can bring it back, and the other changes
/// wait for a person.
#[test]
fn an_updated_pool_that_is_gone_makes_the_undo_plan_stale() {
    let items = [seen(
        "cilium.io/v2",
        "blue",
        &json!({"blocks": [{"cidr": RANGE}]}),
    )];
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &items)),
        (
            "pools/pools.yaml",
            &[
                wanted("blue", "10.9.0.0/24"),
                wanted("green", "10.8.0.0/24"),
            ]
            .join("---\n"),
        ),
    ]);
    folder
        .run(&[
            "apply",
            "--cluster",
            "cluster.json",
            "--auto-approve",
            "--undo-out",
            "undo.json",
        ])
        .expect(0);
    upgraded(
        &folder,
        "1.19.3",
        &[seen(
            "cilium.io/v2",
            "green",
            &json!({"blocks": [{"cidr": "10.8.0.0/24"}]}),
        )],
    );
    let before = folder.read("cluster.json");
    let said = undo(&folder, 4);
    assert!(
        said.contains("CiliumLoadBalancerIPPool/blue: saved to be restored, but it is gone"),
        "{said}"
    );
    assert!(
        !said.contains("left out") && folder.read("cluster.json") == before,
        "{said}"
    );
}

#[test]
fn a_range_that_this_cilium_cannot_be_given_makes_the_undo_plan_stale() {
    let spec = json!({"blocks": [{"start": "10.7.0.3", "stop": "10.7.0.9"}]});
    let folder = deleted("1.15.4", "cilium.io/v2alpha1", &spec, &[]);
    upgraded(&folder, "1.14.9", &[]);
    let said = undo(&folder, 4);
    assert!(
        said.contains("now blocked: this Cilium reads only CIDRs"),
        "{said}"
    );
    assert!(pool(&folder, "blue").is_none());
}

#[test]
fn a_range_that_a_node_has_by_now_makes_the_undo_plan_stale() {
    let folder = deleted(
        "1.19.3",
        "cilium.io/v2",
        &json!({"blocks": [{"cidr": RANGE}]}),
        &[],
    );
    upgraded(&folder, "1.19.3", &[node("n", "a", &holds(RANGE))]);
    let before = folder.read("cluster.json");
    let said = undo(&folder, 4);
    assert!(
        said.contains("CiliumLoadBalancerIPPool/blue: saved to be created, now blocked")
            && said.contains("node n"),
        "{said}"
    );
    assert!(said.contains("10.7.0.0/24"), "{said}");
    assert_eq!(folder.read("cluster.json"), before);
}
