//! Ipam `multi-pool`: pools of the files as `CiliumPodIPPool`s, and what the real operator and
//! Cilium's own settings make of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::{
    CiliumInstallation, CiliumVersion, Operator, Options, Program, agent_settings, wait_until,
};

use super::server::{Server, node};
use super::support::{TextAssertions, pool};

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
    let plan = server.json("plan -o json");
    assert_eq!(
        plan["summary"]["pod_pools"],
        json!({"create": 8, "update": 0, "adopt": 0, "delete": 0, "unchanged": 0})
    );
    server.expect("apply --auto-approve", 0);
    server.expect("plan --detailed-exitcode", 0);

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
    let told = server.expect("explain b1", 0).stdout;
    told.assert_has("its default pool is `rack-b` now");
    told.assert_has("pools.allocated");
    let shown = server.expect("show nodes", 0).stdout;
    shown.assert_has("default pool everyone");
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
    let plan = server.json("plan -o json");
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
    let plan = server.json("plan -o json");
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
    server.expect("apply --auto-approve", 0);
    assert_eq!(server.plane.list(PODS_POOLS).unwrap().len(), 2);
    server.expect("plan --detailed-exitcode", 0);
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
