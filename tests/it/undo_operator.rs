//! Undo plans beside the real cilium-operator on a real API server: the cluster is as before, and
//! the operator has forgotten nothing and remembers nothing.

use serde_json::json;
use testbed::{CiliumVersion, wait_until};

use super::cluster_pool;
use super::server::{Server, node};
use super::support::{TextAssertions, policy, pool};

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

fn apply(server: &Server, undo: &str) {
    server
        .run(&["apply", "--auto-approve", "--undo-out", undo])
        .expect(0);
}

/// Applies an undo plan. Returns what was printed.
fn undo(server: &Server, file: &str, redo: &str, code: i32) -> String {
    let ran = server.run(&["apply", file, "--auto-approve", "--undo-out", redo]);
    let ran = ran.expect(code);
    ran.stdout + &ran.stderr
}

fn cilium_nodes_beside_the_operator(version: CiliumVersion) {
    let server = cluster_pool::start(version);
    let operator = cluster_pool::operator_of_cluster_pool(&server, version);
    server.nodes((0..3).map(|index| node(&format!("n{index}"), json!({}))));
    let files = [
        policy(cluster_pool::POLICY),
        pool("a", "{cidrs: [10.20.128.0/20], blockSize: 24}"),
    ];
    server.folder.write("pools/a.yaml", files.join("---\n"));
    apply(&server, "undo.json");
    cluster_pool::next_of_operator(&server, "stranger-0");
    let written = cluster_pool::cilium_nodes(&server);
    assert_eq!(written.len(), 4);

    undo(&server, "undo.json", "redo.json", 0);
    let left: Vec<String> = cluster_pool::cilium_nodes(&server).into_keys().collect();
    assert_eq!(left, ["stranger-0"]);
    // The operator takes the same blocks again: it has released them.
    undo(&server, "redo.json", "undo-again.json", 0);
    cluster_pool::next_of_operator(&server, "stranger-1");
    let mut again = cluster_pool::cilium_nodes(&server);
    again.remove("stranger-1");
    assert_eq!(again, written);

    let started = json!({"spec": {"addresses": [{"ip": "192.0.2.1", "type": "InternalIP"}]}});
    server
        .plane
        .patch(&format!("{CILIUM_NODES}/n0"), &started)
        .unwrap();
    let said = undo(&server, "undo-again.json", "redo-again.json", 7);
    said.assert_has("Node/n0");
    said.assert_has("its agent has started");
    let after = cluster_pool::cilium_nodes(&server);
    let left: Vec<&String> = after.keys().collect();
    assert_eq!(left, ["n0", "stranger-0", "stranger-1"]);
    assert_eq!(after["n0"], written["n0"]);
    drop(operator);
}

#[test]
fn cilium_nodes_beside_the_operator_of_1_15() {
    cilium_nodes_beside_the_operator(CiliumVersion::V1_15);
}

#[test]
fn cilium_nodes_beside_the_operator_of_1_19() {
    cilium_nodes_beside_the_operator(CiliumVersion::V1_19);
}

/// A CiliumNode that existed is emptied while the operator is down. Once the operator knows its
/// block, the undo is blocked, because the operator writes the block back.
#[test]
fn a_filled_cilium_node_and_the_operator_that_writes_back() {
    let version = CiliumVersion::V1_19;
    let server = cluster_pool::start(version);
    cluster_pool::replicas(&server, 0);
    server.nodes([node("n0", json!({}))]);
    cluster_pool::agent_starts(&server, "n0");
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.128.0/20], blockSize: 24}"),
    );
    let blocks = || cluster_pool::cilium_nodes(&server)["n0"].0.clone();
    apply(&server, "undo.json");
    assert_eq!(blocks(), ["10.20.128.0/24"]);
    undo(&server, "undo.json", "redo.json", 0);
    assert_eq!(blocks(), [""; 0]);
    undo(&server, "redo.json", "undo-again.json", 0);
    assert_eq!(blocks(), ["10.20.128.0/24"]);

    let operator = cluster_pool::operator_of_cluster_pool(&server, version);
    cluster_pool::replicas(&server, 1);
    cluster_pool::next_of_operator(&server, "stranger");
    let said = undo(&server, "undo-again.json", "none.json", 4);
    said.assert_has("would write them back");
    let emptied = json!({"spec": {"ipam": {"podCIDRs": []}}});
    let path = format!("{CILIUM_NODES}/n0");
    server.plane.patch(&path, &emptied).unwrap();
    wait_until(
        "the operator to write the block back",
        testbed::PATIENCE,
        || Ok((blocks() == ["10.20.128.0/24"]).then_some(())),
    )
    .unwrap();
    drop(operator);
}
