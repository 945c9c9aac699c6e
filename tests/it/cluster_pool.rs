//! Ipam `cluster-pool`: blocks written into CiliumNodes, and the real operator's reaction.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::{CiliumInstallation, CiliumVersion, Operator, Options, Program, wait_until};

use super::server::{Server, node};
use super::support::{pin, policy, pool};

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kube-system/deployments/cilium-operator";
pub const POLICY: &str = "{writePath: cilium-node}";

pub fn start(version: CiliumVersion) -> Server {
    let config = [
        ("cluster-pool-ipv4-cidr", "10.20.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let installation = CiliumInstallation {
        version: version.release().to_owned(),
        ipam: "cluster-pool".into(),
        config: config
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..CiliumInstallation::default()
    };
    let programs = [Program::CiliumOperator(version)];
    Server::start(
        &installation,
        Some(version.release()),
        Options::default(),
        &programs,
    )
}

fn operator(server: &Server, version: CiliumVersion, flags: &[&str]) -> Operator {
    let flags = [&["--enable-ipv6=false"], flags].concat();
    Operator::start(&server.programs, &server.plane, version, &flags).unwrap()
}

pub fn operator_of_cluster_pool(server: &Server, version: CiliumVersion) -> Operator {
    let flags = [
        "--ipam=cluster-pool",
        "--cluster-pool-ipv4-cidr=10.20.0.0/16",
        "--cluster-pool-ipv4-mask-size=24",
    ];
    operator(server, version, &flags)
}

pub fn replicas(server: &Server, replicas: u32) {
    server
        .plane
        .patch(DEPLOYMENT, &json!({"spec": {"replicas": replicas}}))
        .unwrap();
}

/// Blocks and the operator's errors of all CiliumNodes.
pub fn cilium_nodes(server: &Server) -> BTreeMap<String, (Vec<String>, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |object: &Value| {
        let blocks = object["spec"]["ipam"]["podCIDRs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        let error = text(&object["status"]["ipam"]["operator-status"]["error"]);
        (text(&object["metadata"]["name"]), (blocks, error))
    };
    server
        .plane
        .list(CILIUM_NODES)
        .unwrap()
        .iter()
        .map(read)
        .collect()
}

/// A CiliumNode as an agent makes it when it starts.
pub fn agent_starts(server: &Server, name: &str) {
    let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name}, "spec": {}});
    server.plane.create(CILIUM_NODES, &object).unwrap();
}

/// The block that the operator gives to another node: by then it has seen all earlier ones.
pub fn next_of_operator(server: &Server, name: &str) -> String {
    agent_starts(server, name);
    wait_until("the operator to give a block", testbed::PATIENCE, || {
        Ok(cilium_nodes(server)[name].0.first().cloned())
    })
    .unwrap()
}

fn planned(plan: &Value) -> BTreeMap<String, (Vec<String>, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let after = |change: &Value| {
        change["after"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect()
    };
    let changes = plan["changes"].as_array().unwrap().iter();
    changes
        .map(|change| (text(&change["name"]), (after(change), String::new())))
        .collect()
}

fn blocked(plan: &Value, name: &str) -> String {
    let blocked = plan["blocked"]
        .as_array()
        .unwrap()
        .iter()
        .find(|blocked| blocked["name"] == name);
    blocked.unwrap_or_else(|| panic!("{plan}"))["reason"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The operator keeps planned blocks, whether they were planned while it was down or before the
/// agents start. Refusals use its own message.
fn the_operator_keeps_what_was_planned(version: CiliumVersion) {
    let server = start(version);
    server.nodes((0..4).map(|index| node(&format!("n{index}"), json!({}))));
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.128.0/20], blockSize: 24}")
            + "---\n"
            + &pin("n2", "10.20.140.0/24"),
    );
    let plan = server.json("plan -o json --fail-on never");
    assert!(
        blocked(&plan, "n0").contains("assigns pod CIDRs itself"),
        "{plan}"
    );

    replicas(&server, 0);
    let plan = server.json("plan -o json --fail-on never");
    let wanted = planned(&plan);
    assert_eq!(plan["changes"][0]["write_path"], "cilium-node");
    assert_eq!(wanted["n2"].0, ["10.20.140.0/24"]);
    server.expect("apply --auto-approve", 0);
    let operator = operator_of_cluster_pool(&server, version);
    replicas(&server, 1);
    let given = next_of_operator(&server, "stranger");
    let mut seen = cilium_nodes(&server);
    seen.remove("stranger");
    assert_eq!(seen, wanted);
    assert!(
        !seen.values().any(|(blocks, _)| blocks.contains(&given)),
        "{given} {seen:?}"
    );
    server.expect("plan --detailed-exitcode", 0);

    // While it runs, on request.
    server.folder.write("pools/policy.yaml", policy(POLICY));
    server.nodes((4..8).map(|index| node(&format!("n{index}"), json!({}))));
    let wanted: BTreeMap<_, _> = wanted
        .into_iter()
        .chain(planned(&server.json("plan -o json --fail-on never")))
        .collect();
    server.expect("apply --auto-approve", 0);
    next_of_operator(&server, "second-stranger");
    let mut seen = cilium_nodes(&server);
    seen.retain(|name, _| name.starts_with('n'));
    assert_eq!((seen.len(), &seen), (8, &wanted));
    let owner =
        &server.plane.get(&format!("{CILIUM_NODES}/n5")).unwrap()["metadata"]["ownerReferences"][0];
    let uid = &server.plane.get("/api/v1/nodes/n5").unwrap()["metadata"]["uid"];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Node"), uid));
    drop(operator);
}

#[test]
fn the_operator_of_1_15_keeps_what_was_planned() {
    the_operator_keeps_what_was_planned(CiliumVersion::V1_15);
}

#[test]
fn the_operator_of_1_19_keeps_what_was_planned() {
    the_operator_keeps_what_was_planned(CiliumVersion::V1_19);
}

/// A blocked change has the message that the operator gives for the same write.
fn refusals_are_foretold(version: CiliumVersion) {
    let server = start(version);
    let operator = operator_of_cluster_pool(&server, version);
    server.nodes(["outside", "taken", "holder", "large"].map(|name| node(name, json!({}))));
    let holder = next_of_operator(&server, "holder");
    let documents = [
        policy(POLICY),
        pool("inside", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        pool("outside", "{cidrs: [10.99.0.0/16], blockSize: 24}"),
        pool("large", "{cidrs: [10.20.0.0/16], blockSize: 23}"),
        pin("outside", "10.99.7.0/24"),
        pin("taken", &holder),
    ];
    server.folder.write(
        "pools/a.yaml",
        [&documents[..3], &documents[4..]].concat().join("---\n"),
    );
    let plan = server.json("plan -o json --fail-on never");
    for (name, block) in [("outside", "10.99.7.0/24"), ("taken", holder.as_str())] {
        let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name},
            "spec": {"ipam": {"podCIDRs": [block]}}});
        server.plane.create(CILIUM_NODES, &object).unwrap();
        let error =
            || Ok(Some(cilium_nodes(&server)[name].1.clone()).filter(|error| !error.is_empty()));
        let said = wait_until("the operator to say why", testbed::PATIENCE, error).unwrap();
        assert!(
            blocked(&plan, name).contains(&format!("would refuse it: {said}")),
            "{said}\n{plan:#}"
        );
    }
    assert!(
        blocked(&plan, "taken").ends_with("(by node holder)"),
        "{plan:#}"
    );
    server.folder.write(
        "pools/a.yaml",
        [&documents[..1], &documents[3..4]].concat().join("---\n"),
    );
    let plan = server.json("plan -o json --fail-on never");
    assert!(
        blocked(&plan, "large")
            .contains("does not have the block size of Cilium's operator, which is /24"),
        "{plan:#}"
    );
    drop(operator);
}

#[test]
fn refusals_of_1_15_are_foretold() {
    refusals_are_foretold(CiliumVersion::V1_15);
}

#[test]
fn refusals_of_1_19_are_foretold() {
    refusals_are_foretold(CiliumVersion::V1_19);
}

#[test]
fn an_operator_that_gives_nothing_leaves_all_to_us() {
    let server = start(CiliumVersion::V1_19);
    let container = json!({"name": "cilium-operator", "image": "quay.io/cilium/operator-generic:v1.19.3",
        "args": ["--config-dir=/tmp/cilium/config-map", "--ipam=kubernetes"]});
    server
        .plane
        .patch(
            DEPLOYMENT,
            &json!({"spec": {"template": {"spec": {"containers": [container]}}}}),
        )
        .unwrap();
    let _operator = operator(&server, CiliumVersion::V1_19, &["--ipam=kubernetes"]);
    server.nodes([node("new", json!({}))]);
    server.nodes([node("waiting", json!({}))]);
    agent_starts(&server, "waiting");
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [192.168.0.0/16], blockSize: 26}"),
    );
    let plan = server.json("plan --out plan.json -o json");
    // An agent that starts in between does not make the plan stale.
    agent_starts(&server, "new");
    server.expect("apply plan.json --trust-plan-file", 0);
    assert_eq!(cilium_nodes(&server), planned(&plan));
    assert_eq!(cilium_nodes(&server)["new"].0, ["192.168.0.0/26"]);
    server.expect("plan --detailed-exitcode", 0);
}

#[test]
fn a_node_that_the_operator_skips() {
    let server = start(CiliumVersion::V1_19);
    let _operator = operator_of_cluster_pool(&server, CiliumVersion::V1_19);
    let mut skipped = node("skipped", json!({}));
    skipped["metadata"]["annotations"] = json!({"ipam.cilium.io/ignore": "true"});
    server.nodes([node("other", json!({}))]);
    server.nodes([skipped]);
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    let plan = server.json("plan -o json --fail-on never");
    assert!(
        blocked(&plan, "skipped").contains("lies in the ranges of Cilium's operator"),
        "{plan:#}"
    );
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.99.0.0/16], blockSize: 25}"),
    );
    let plan = server.json("plan -o json --fail-on never");
    assert!(
        blocked(&plan, "other").contains("assigns pod CIDRs itself"),
        "{plan:#}"
    );
    server.expect("apply --auto-approve", 0);
    next_of_operator(&server, "other");
    assert_eq!(
        cilium_nodes(&server)["skipped"],
        (vec!["10.99.0.128/25".to_owned()], String::new())
    );
    server.expect("plan --detailed-exitcode", 0);
}
