//! Which of the addresses that a node shows are kept from other nodes.

use serde_json::{Value, json};

use super::{cilium_node, fates, folder, plan};
use crate::support::{cluster, node, pin, pool};

fn with_addresses(name: &str, addresses: impl Iterator<Item = String>) -> String {
    let addresses: Vec<Value> = addresses
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    let mut node: Value = serde_json::from_str(&node(name, "b", "")).unwrap();
    node["status"] = json!({"addresses": addresses});
    node.to_string()
}

fn finding<'p>(plan: &'p Value, rule: &str) -> Option<&'p Value> {
    plan["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["rule"] == rule)
}

#[test]
fn one_machine_with_an_address_in_every_block_does_not_fill_the_pool() {
    let hostile = with_addresses("m", (0..256).map(|third| format!("10.20.{third}.1")));
    let folder = folder(&[hostile, node("n", "a", "")]);
    let plan = plan(&folder);
    assert_eq!(
        plan["changes"][0]["after"],
        json!(["10.20.8.0/24"]),
        "{plan:#}"
    );
    let found = finding(&plan, "one-node-fills-pool").unwrap();
    assert_eq!(
        (found["severity"].as_str(), found["subject"].as_str()),
        (Some("error"), Some("Node/m"))
    );
    let message = "Node/m claims 256 blocks of pool `a` by the addresses of its machine (Node/m status.addresses: 10.20.0.1, 10.20.1.1, \
        10.20.2.1 and 253 more); 8 of them are kept free";
    assert_eq!(found["message"], message);
    folder.run(&["plan", "--cluster", "cluster.json"]).expect(2);
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
}

#[test]
fn the_few_addresses_of_an_honest_machine_stay_free() {
    let honest = with_addresses(
        "m",
        [
            "10.20.0.5".to_owned(),
            "10.20.2.5".to_owned(),
            "192.168.7.1".to_owned(),
        ]
        .into_iter(),
    );
    let plan = plan(&folder(&[honest, node("n1", "a", ""), node("n2", "a", "")]));
    let given = |index: usize| plan["changes"][index]["after"][0].clone();
    assert_eq!(
        (given(0), given(1)),
        (json!("10.20.1.0/24"), json!("10.20.3.0/24"))
    );
    assert!(finding(&plan, "one-node-fills-pool").is_none(), "{plan:#}");
}

#[test]
fn a_wide_block_that_no_agent_reads_does_not_fill_the_pool() {
    // The Node has a block of its own, so its agent reads that one.
    let holder = node(
        "m",
        "a",
        r#""podCIDR":"10.20.200.0/24","podCIDRs":["10.20.200.0/24"]"#,
    );
    let mut shown = cilium_node("m", "10.20.0.0/16");
    shown["metadata"]["managedFields"] = json!([{"manager": "evil-agent", "operation": "Update", "time": "2026-02-01T10:00:00Z",
        "fieldsV1": {"f:spec": {"f:ipam": {"f:podCIDRs": {}}}}}]);
    let folder = folder(&[holder, shown.to_string(), node("n", "a", "")]);
    let plan = plan(&folder);
    assert_eq!(
        plan["changes"][0]["after"],
        json!(["10.20.32.0/24"]),
        "an eighth of the pool is kept: {plan:#}"
    );
    let source = "CiliumNode/m spec.ipam.podCIDRs: 10.20.0.0/16, written by evil-agent at 2026-02-01T10:00:00Z";
    let message = finding(&plan, "one-node-fills-pool").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains(&format!(
            "by fields that no agent reads ({source}); 32 of them"
        )),
        "{message}"
    );
    let words = [
        "doctor",
        "--cluster",
        "cluster.json",
        "-o",
        "json",
        "--fail-on",
        "never",
    ];
    let examined = folder.run(&words).expect(0).json();
    let found = finding(&examined, "one-node-fills-pool").unwrap();
    assert_eq!(found["evidence"], json!([source]), "{found:#}");
}

#[test]
fn a_wide_block_that_is_in_use_is_never_cut() {
    let holder = node(
        "m",
        "a",
        r#""podCIDR":"10.20.0.0/17","podCIDRs":["10.20.0.0/17"]"#,
    );
    let plan = plan(&folder(&[holder, node("n", "a", "")]));
    assert_eq!(
        plan["changes"][0]["after"],
        json!(["10.20.128.0/24"]),
        "{plan:#}"
    );
    assert_eq!(
        finding(&plan, "one-node-fills-pool").unwrap()["severity"],
        "warning"
    );
}

#[test]
fn one_object_never_fills_a_small_pool() {
    let small = "{cidrs: [10.20.0.0/21], blockSize: 24}";
    let hostile = with_addresses("m", (0..8).map(|third| format!("10.20.{third}.1")));
    let unread = [
        node(
            "m",
            "b",
            r#""podCIDR":"10.99.0.0/24","podCIDRs":["10.99.0.0/24"]"#,
        ),
        cilium_node("m", "10.20.0.0/21").to_string(),
    ];
    for items in [vec![hostile], unread.to_vec()] {
        let folder = folder(&[items, vec![node("n", "a", "")]].concat());
        folder.write("pools/a.yaml", pool("a", small));
        let plan = plan(&folder);
        assert!(
            fates(&plan).contains(&"n + 10.20.4.0/24".to_owned()),
            "{plan:#}"
        );
        let found = finding(&plan, "one-node-fills-pool").unwrap();
        assert_eq!(found["subject"], "Node/m", "{plan:#}");
    }
    let held = node(
        "m",
        "a",
        r#""podCIDR":"10.20.0.0/22","podCIDRs":["10.20.0.0/22"]"#,
    );
    let folder = folder(&[held]);
    folder.write("pools/a.yaml", pool("a", small));
    let found = plan(&folder);
    let found = finding(&found, "one-node-fills-pool").unwrap();
    assert_eq!(found["severity"], "warning");
}

fn dual(name: &str, rack: &str, cidrs: &[&str]) -> String {
    let first = cidrs
        .first()
        .map(|cidr| format!(r#""podCIDR":"{cidr}","podCIDRs":{}"#, json!(cidrs)));
    node(name, rack, &first.unwrap_or_default())
}

#[test]
fn what_a_field_shows_is_held_against_all_that_others_show() {
    let narrow = "{cidrs: [10.20.0.0/24, 10.20.2.0/24], blockSize: 24}";
    let wide = "{cidrs: [10.20.0.0/16], blockSize: 24}";
    let shows = |name: &str, cidr: &str| cilium_node(name, cidr).to_string();
    let cases: [(&str, &str, Vec<String>, &[&str]); 5] = [
        (
            "a block in use that reaches beyond the pool",
            "{cidrs: [10.20.0.0/16], blockSize: 24}",
            vec![
                dual("n1", "a", &["10.16.0.0/12"]),
                node("n2", "a", ""),
                shows("n2", "10.17.0.0/24"),
            ],
            &["n2 ? duplicate-block"],
        ),
        (
            "one that lies between two ranges of the pool",
            narrow,
            vec![
                dual("n1", "a", &["10.20.0.0/22"]),
                node("n2", "a", ""),
                shows("n2", "10.20.1.0/24"),
            ],
            &["n2 ? duplicate-block"],
        ),
        (
            "one that no agent reads, beyond what it keeps",
            wide,
            vec![
                node("n1", "a", ""),
                shows("n1", "10.20.0.0/17"),
                node("n2", "a", ""),
                shows("n2", "10.20.64.0/24"),
            ],
            &["n1 ? duplicate-block", "n2 ? duplicate-block"],
        ),
        (
            "a wide one, and a block that the same plan gives in it",
            wide,
            vec![
                node("n1", "a", ""),
                shows("n1", "10.20.0.0/16"),
                node("n2", "a", ""),
            ],
            &["n1 ? block-split-conflict", "n2 + 10.20.32.0/24"],
        ),
        (
            "a wide one alone",
            wide,
            vec![node("n1", "a", ""), shows("n1", "10.20.0.0/19")],
            &["n1 + 10.20.0.0/19 if approved"],
        ),
    ];
    for (what, spec, items, expected) in cases {
        let folder = folder(&items);
        folder.write("pools/a.yaml", pool("a", spec));
        let plan = plan(&folder);
        assert_eq!(fates(&plan), expected, "{what}: {plan:#}");
    }
}

#[test]
fn in_cluster_pool_a_cilium_node_without_a_node_keeps_its_block() {
    let settings = r#""ipam":"cluster-pool","cluster-pool-ipv4-cidr":"10.20.0.0/16","cluster-pool-ipv4-mask-size":"24""#;
    let operator = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cilium-operator", "namespace": "kube-system",
        "labels": {"io.cilium/app": "operator"}}, "spec": {"replicas": 1, "template": {"spec": {"containers":
        [{"name": "cilium-operator", "args": ["--ipam=kubernetes"]}]}}}, "status": {}});
    let items = [
        operator.to_string(),
        cilium_node("old", "10.20.0.0/17").to_string(),
        node("n1", "a", ""),
    ];
    let folder = folder(&[]);
    folder.write("cluster.json", cluster("1.19.3", settings, &items));
    assert_eq!(fates(&plan(&folder)), ["n1 + 10.20.128.0/24"]);
}

#[test]
fn a_pin_is_not_put_into_what_another_node_shows() {
    let folder = folder(&[
        node("n1", "a", ""),
        cilium_node("n1", "10.20.0.0/16").to_string(),
        node("n2", "a", ""),
    ]);
    folder.write("pools/pin.yaml", pin("n2", "10.20.200.0/24"));
    let plan = plan(&folder);
    assert!(
        fates(&plan).contains(&"n2 ? pin-held-by".to_owned()),
        "{plan:#}"
    );
}

#[test]
fn no_node_gets_a_block_with_an_address_of_its_own_machine() {
    let hostile = with_addresses("m", (0..256).map(|third| format!("10.20.{third}.1")));
    let folder = folder(&[hostile.replace(r#""rack":"b""#, r#""rack":"a""#)]);
    assert_eq!(fates(&plan(&folder)), ["m ? node-pools-exhausted"]);
}
