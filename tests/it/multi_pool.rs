//! Ipam `multi-pool`: pools of the files as `CiliumPodIPPool`s, and what the real operator and
//! Cilium's own settings make of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::{
    CiliumInstallation, CiliumVersion, Operator, Options, Program, agent_settings, wait_until,
};

use super::server::{Server, node};
use super::support::{Folder, cluster, pin, pool};

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
pub const PODS_POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumpodippools";

pub fn start(version: CiliumVersion) -> Server {
    let installation = CiliumInstallation {
        version: version.release().to_owned(),
        ipam: "multi-pool".into(),
        ..CiliumInstallation::default()
    };
    let programs = [
        Program::CiliumOperator(version),
        Program::NodeSettingsOracle,
    ];
    Server::start(
        &installation,
        Some(version.release()),
        Options::default(),
        &programs,
    )
}

/// A CiliumNode as an agent makes it that requests this many addresses of a pool.
pub fn wants(server: &Server, name: &str, pool: &str, addresses: u32) {
    let requested = json!([{"pool": pool, "needed": {"ipv4-addrs": addresses}}]);
    let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name},
        "spec": {"ipam": {"pools": {"requested": requested}}}});
    server.plane.create(CILIUM_NODES, &object).unwrap();
}

/// What the operator gave a node.
pub fn allocated(server: &Server, name: &str) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let given = || {
        let node = server.plane.get(&format!("{CILIUM_NODES}/{name}"))?;
        let allocated = node["spec"]["ipam"]["pools"]["allocated"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let of = |entry: &Value| {
            (
                text(&entry["pool"]),
                entry["cidrs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(text)
                    .collect(),
            )
        };
        let allocated: Vec<_> = allocated.iter().map(of).collect();
        Ok(Some(allocated).filter(|allocated| !allocated.is_empty()))
    };
    wait_until("the operator to give a block", testbed::PATIENCE, given).unwrap()
}

pub fn documents() -> String {
    [
        pool("rack-a", "{cidrs: [10.20.0.0/22], blockSize: 26, nodeSelector: {matchLabels: {rack: a}}, reserved: [10.20.0.0/25, 10.20.2.0/23]}"),
        pool("rack-b", "{cidrs: [10.21.0.0/16], blockSize: 24, nodeSelector: {matchExpressions: [{key: rack, operator: In, values: [b, c]}]}}"),
        pool("urgent", "{cidrs: [10.22.0.0/16], blockSize: 24, priority: 7, nodeSelector: {matchLabels: {urgent: \"yes\"}}}"),
        pool("everyone", "{cidrs: [10.23.0.0/16], blockSize: 24, priority: -3}"),
    ]
    .join("---\n")
}

pub fn nodes() -> [Value; 5] {
    [
        node("a1", json!({"rack": "a"})),
        node("a2", json!({"rack": "a", "urgent": "yes"})),
        node("b1", json!({"rack": "b"})),
        node("c1", json!({"rack": "c"})),
        node("other", json!({})),
    ]
}

/// The pool that each node's agent would start with, and the blocks that the operator gives it
/// there.
fn the_operator_gives_what_was_planned(version: CiliumVersion) {
    let server = start(version);
    let flags = ["--ipam=multi-pool", "--enable-ipv6=false"];
    let operator = Operator::start(&server.programs, &server.plane, version, &flags).unwrap();
    server.nodes(nodes());
    server.folder.write("pools/a.yaml", documents());
    let plan = server.run(&["plan", "-o", "json"]).expect(0).json();
    assert_eq!(
        plan["summary"]["pod_pools"],
        json!({"create": 8, "update": 0, "adopt": 0, "delete": 0, "unchanged": 0})
    );
    server.run(&["apply", "--auto-approve"]).expect(0);
    server.run(&["plan", "--detailed-exitcode"]).expect(0);

    let names = ["a1", "a2", "b1", "c1", "other"];
    let settings = agent_settings(&server.programs, &server.plane, &names).unwrap();
    let chosen: BTreeMap<&str, &str> = names
        .map(|name| (name, settings[name]["ipam-default-ip-pool"].as_str()))
        .into();
    assert_eq!(
        chosen,
        [
            ("a1", "rack-a"),
            ("a2", "urgent"),
            ("b1", "rack-b"),
            ("c1", "rack-b"),
            ("other", "everyone")
        ]
        .into()
    );
    // All that is free of rack-a: the reserved halves are not handed out.
    wants(&server, "a1", "rack-a", 200);
    wants(&server, "b1", "rack-b", 8);
    let mut of_a1 = allocated(&server, "a1");
    of_a1[0].1.sort();
    let free = [
        "10.20.0.128/26",
        "10.20.0.192/26",
        "10.20.1.0/26",
        "10.20.1.64/26",
    ];
    assert_eq!(of_a1[0].0, "rack-a");
    assert!(
        of_a1[0].1.iter().all(|block| block.ends_with("/26")),
        "{of_a1:?}"
    );
    assert_eq!(of_a1[0].1, free);
    let of_b1 = allocated(&server, "b1");
    let told = server.run(&["explain", "b1"]).expect(0).stdout;
    assert!(
        told.contains("its default pool is `rack-b` now") && told.contains("pools.allocated"),
        "{told}"
    );
    let shown = server.run(&["show", "nodes"]).expect(0).stdout;
    assert!(shown.contains("default pool everyone"), "{shown}");
    assert!(
        of_b1[0].0 == "rack-b"
            && of_b1[0].1[0].starts_with("10.21.")
            && of_b1[0].1[0].ends_with("/24"),
        "{of_b1:?}"
    );

    // A range that a node uses stays in the pool; an unused range may be removed.
    server.folder.write(
        "pools/a.yaml",
        documents()
            .replace("10.21.0.0/16", "10.99.0.0/16")
            .replace("10.22.0.0/16", "10.98.0.0/16"),
    );
    let plan = server.run(&["plan", "-o", "json"]).expect(0).json();
    let blocked = plan["blocked"][0]["reason"].as_str().unwrap();
    assert!(
        blocked.starts_with(&format!("node b1 has {} of it", of_b1[0].1[0])),
        "{plan:#}"
    );
    let reasons = plan["blocked"].to_string();
    match version {
        // It would forget what it gave.
        CiliumVersion::V1_15 => assert!(
            reasons.contains("would forget the blocks that it gave"),
            "{plan:#}"
        ),
        _ => {
            let change = &plan["changes"][0];
            assert_eq!(
                (&change["name"], &change["after"]),
                (&json!("urgent"), &json!(["10.98.0.0/16"]))
            );
            assert_eq!(change["hazard"], "disruptive");
        }
    }
    // A pool that is in no file goes, with what chooses it before it.
    server.folder.write(
        "pools/a.yaml",
        documents()
            .split("---\n")
            .take(2)
            .collect::<Vec<_>>()
            .join("---\n"),
    );
    let plan = server.run(&["plan", "-o", "json"]).expect(0).json();
    let order: Vec<_> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["action"].clone(), c["kind"].clone()))
        .collect();
    let gone = |kind: &str| (json!("delete"), json!(kind));
    assert_eq!(
        order,
        [
            gone("CiliumNodeConfig"),
            gone("CiliumNodeConfig"),
            gone("CiliumPodIPPool"),
            gone("CiliumPodIPPool")
        ]
    );
    server.run(&["apply", "--auto-approve"]).expect(0);
    assert_eq!(server.plane.list(PODS_POOLS).unwrap().len(), 2);
    server.run(&["plan", "--detailed-exitcode"]).expect(0);
    drop(operator);
}

#[test]
fn the_operator_of_1_15_gives_what_was_planned() {
    the_operator_gives_what_was_planned(CiliumVersion::V1_15);
}

#[test]
fn the_operator_of_1_19_gives_what_was_planned() {
    the_operator_gives_what_was_planned(CiliumVersion::V1_19);
}

#[test]
fn what_cilium_cannot_do_is_blocked() {
    let existing = |name: &str, labels: Value, cidr: &str, mask: u8| {
        json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool",
            "metadata": {"name": name, "uid": "u", "resourceVersion": "1", "labels": labels},
            "spec": {"ipv4": {"cidrs": [cidr], "maskSize": mask}}})
        .to_string()
    };
    let ours = || json!({"app.kubernetes.io/managed-by": "cilium-ipam"});
    let labelled =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"rack": "a"}}}).to_string();
    let holder =
        json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n"},
        "spec": {"ipam": {"pools": {"allocated": [{"pool": "gone", "cidrs": ["10.20.3.0/24"]}]}}}})
        .to_string();
    let usual = pool(
        "a",
        "{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}",
    );
    let twin = pool(
        "b",
        "{cidrs: [10.21.0.0/16], blockSize: 24, nodeSelector: {matchExpressions: [{key: rack, operator: Exists}]}}",
    );
    let cases = [
        (
            "1.19.3",
            usual.clone() + "---\n" + &pin("n", "10.20.3.0/24"),
            vec![],
            "a pin cannot be kept",
        ),
        (
            "1.14.19",
            usual.clone(),
            vec![],
            "ipam-default-ip-pool is read from Cilium 1.15 on",
        ),
        (
            "1.19.3",
            usual.clone(),
            vec![existing("other", json!({}), "10.20.64.0/20", 24)],
            "other has or gave 10.20.64.0/20 too",
        ),
        // Under another name, ours or not: the operator would give the same twice.
        (
            "1.19.3",
            usual.clone(),
            vec![existing("old", ours(), "10.20.0.0/16", 24)],
            "old has or gave 10.20.0.0/16 too",
        ),
        (
            "1.19.3",
            usual.clone(),
            vec![holder],
            "gone has or gave 10.20.3.0/24 too",
        ),
        (
            "1.19.3",
            usual.clone(),
            vec![existing("old", ours(), "10.20.0.0/16", 24)],
            "pool a is blocked",
        ),
        (
            "1.19.3",
            pool("a", "{cidrs: [\"fd00::/40\"], blockSize: {ipv6: 64}}"),
            vec![],
            "more than 2^16 blocks",
        ),
        (
            "1.19.3",
            usual.clone(),
            vec![existing("a", ours(), "10.20.0.0/16", 25)],
            "have the size /25, and maskSize",
        ),
        (
            "1.19.3",
            usual.clone(),
            vec![existing(
                "a",
                json!({"app.kubernetes.io/managed-by": "Helm"}),
                "10.20.0.0/16",
                24,
            )],
            "names another manager: `Helm`",
        ),
        (
            "1.19.3",
            usual.clone() + "---\n" + &twin,
            vec![labelled.clone()],
            "pool a is as good for node n",
        ),
        (
            "1.19.3",
            pool("a", "{cidrs: [10.96.0.0/24], blockSize: 24}"),
            vec![],
            "nothing is left of its ranges",
        ),
        (
            "1.19.3",
            pool(
                "a",
                "{cidrs: [10.20.0.0/24], blockSize: 24, disabled: true}",
            ),
            vec![],
            "cannot be disabled",
        ),
    ];
    for (version, files, items, why) in cases {
        let cluster = cluster(version, r#""ipam":"multi-pool""#, &items);
        let folder = Folder::new(&[("pools/a.yaml", &files), ("cluster.json", &cluster)]);
        let plan = folder
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
            .json();
        let mut reasons = plan["blocked"]
            .as_array()
            .unwrap()
            .iter()
            .map(|blocked| blocked["reason"].as_str().unwrap());
        assert!(
            reasons.any(|reason| reason.contains(why)),
            "{why}: {plan:#}"
        );
    }
}

#[test]
fn a_pool_without_an_owner_becomes_ours_and_a_saved_plan_holds() {
    let existing = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"},
        "spec": {"ipv4": {"cidrs": ["10.20.0.0/16"], "maskSize": 24}}});
    let files = pool("a", "{cidrs: [10.20.0.0/16, 10.30.0.0/16], blockSize: 24}");
    let cluster = cluster("1.19.3", r#""ipam":"multi-pool""#, &[existing.to_string()]);
    let folder = Folder::new(&[("pools/a.yaml", &files), ("cluster.json", &cluster)]);
    let at = ["--cluster", "cluster.json"];
    let plan = folder
        .run(&[&["plan", "--out", "plan.json"][..], &at].concat())
        .expect(0)
        .stdout;
    assert!(
        plan.contains("Pod pools: 1 to create, 1 to adopt."),
        "{plan}"
    );
    assert!(
        plan.contains("~ CiliumPodIPPool/a  10.20.0.0/16 -> 10.20.0.0/16 10.30.0.0/16"),
        "{plan}"
    );
    let page = folder
        .run(&[&["plan", "-o", "markdown"][..], &at].concat())
        .expect(0)
        .stdout;
    assert!(page.contains("CiliumPodIPPool/a"), "{page}");
    let applied = folder
        .run(&[&["apply", "plan.json", "--trust-plan-file"][..], &at].concat())
        .expect(0)
        .stdout;
    assert!(
        applied.contains("2 changes of pools, Services or address pairs follow the files"),
        "{applied}"
    );
    // What it shows already is done.
    let again = folder
        .run(&[&["apply", "plan.json", "--trust-plan-file"][..], &at].concat())
        .expect(0);
    assert!(
        again.stdout.contains("0 applied") || again.stderr.contains("already"),
        "{again:?}"
    );
}

#[test]
fn doctor_sees_pools_that_overlap_and_defaults_that_are_missing() {
    let object = |name: &str, cidr: &str| {
        json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool", "metadata": {"name": name},
            "spec": {"ipv4": {"cidrs": [cidr], "maskSize": 24}}})
        .to_string()
    };
    let named =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {}}})
            .to_string();
    let rules = |items: &[String]| {
        let folder = Folder::new(&[(
            "cluster.json",
            &cluster("1.19.3", r#""ipam":"multi-pool""#, items),
        )]);
        let report = folder.run(&[
            "doctor",
            "-o",
            "json",
            "--fail-on",
            "never",
            "--cluster",
            "cluster.json",
        ]);
        let report = report.expect(0).json();
        let rules = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| finding["rule"].as_str().unwrap().to_owned());
        rules
            .filter(|rule| rule.contains("pool"))
            .collect::<Vec<_>>()
    };
    let healthy = [
        named.clone(),
        object("default", "10.20.0.0/16"),
        object("other", "10.21.0.0/16"),
    ];
    assert_eq!(rules(&healthy), [""; 0]);
    assert_eq!(
        rules(&[
            named.clone(),
            healthy[1].clone(),
            object("other", "10.20.64.0/20")
        ]),
        ["pod-pools-overlap"]
    );
    assert_eq!(
        rules(&[named, healthy[2].clone()]),
        ["default-pool-missing"]
    );
}
