//! Blocks of deleted nodes on a real API server: no other node gets them during the quarantine, even
//! if the program starts anew.

use std::time::Duration;

use serde_json::{Value, json};

use super::operator::until;
use super::running::Running;
use super::server::{Server, node};
use super::support::{TextAssertions, policy, pool};

const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/cilium-ipam-quarantine-0";

/// A pool of two blocks, and a quarantine.
fn server(quarantine: &str) -> Server {
    let server = Server::usual();
    let spec = "{cidrs: [10.20.0.0/23], blockSize: 24}";
    server.folder.write("pools/a.yaml", pool("a", spec));
    quarantine_for(&server, quarantine);
    server
}

fn quarantine_for(server: &Server, quarantine: &str) {
    let policy = policy(&format!("{{quarantine: {quarantine}}}"));
    server.folder.write("pools/policy.yaml", policy);
}

fn watching(server: &Server) -> Running {
    Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"])
}

fn named(name: &str) -> Value {
    node(name, json!({}))
}

fn record(server: &Server) -> String {
    let record = server.plane.get(RECORD).unwrap_or_default();
    let text = record["data"]["blocks.txt"].as_str();
    text.unwrap_or_default().to_owned()
}

/// An event of each kind that shows blocks. Without one, a watch learns only once a minute that it misses
/// nothing, and a block that disappeared is not free before.
fn all_kinds_move_on(server: &Server) {
    let create = |path: &str, object: Value| server.plane.create(path, &object).unwrap();
    let cilium_node = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "none"}, "spec": {}});
    create("/apis/cilium.io/v2/ciliumnodes", cilium_node);
    let spec = json!({"nodeSelector": {"matchLabels": {"no": "node"}}, "defaults": {}});
    let metadata = json!({"name": "none", "namespace": "kube-system"});
    let config = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": metadata, "spec": spec});
    create(
        "/apis/cilium.io/v2/namespaces/kube-system/ciliumnodeconfigs",
        config,
    );
}

/// Waits until a node waits for a block, and returns why.
fn waits(watching: &Running, name: &str) -> String {
    loop {
        let seen = watching.until("seen", json!({}));
        if seen["blocked"][0]["name"] == name {
            return seen["blocked"].to_string();
        }
    }
}

#[test]
fn only_a_node_of_the_same_name_gets_the_block_even_after_a_restart() {
    let server = server("1h");
    let first = watching(&server);
    server.nodes([named("n1")]);
    assert_eq!(first.written("n1"), json!(["10.20.0.0/24"]));
    server.nodes([named("n2")]);
    assert_eq!(first.written("n2"), json!(["10.20.1.0/24"]));
    server.plane.delete("/api/v1/nodes/n1").unwrap();
    until("the block is recorded", || {
        record(&server).contains("10.20.0.0/24 n1 ")
    });
    server.nodes([named("n3")]);
    waits(&first, "n3").assert_has("quarantine");
    first.kill();

    let second = watching(&server);
    waits(&second, "n3").assert_has("quarantine");
    assert!(server.pod_cidrs()["n3"].is_empty());
    let explained = server.expect("explain 10.20.0.7", 0).stdout;
    explained.assert_has("deleted node n1, gone since 20");
    server.nodes([named("n1")]);
    assert_eq!(second.written("n1"), json!(["10.20.0.0/24"]));
    assert!(server.pod_cidrs()["n3"].is_empty());

    // The record of the second deletion replaces that of the first.
    let before = record(&server);
    std::thread::sleep(Duration::from_secs(1));
    server.plane.delete("/api/v1/nodes/n1").unwrap();
    until("the block is recorded again", || record(&server) != before);
    assert_eq!(record(&server).matches("10.20.0.0/24").count(), 1);
    quarantine_for(&server, "0s");
    all_kinds_move_on(&server);
    assert_eq!(second.written("n3"), json!(["10.20.0.0/24"]));
    assert_eq!(second.end(), 0);
}

#[test]
fn a_waiting_node_gets_the_block_when_the_quarantine_is_over() {
    let server = server("3s");
    server.nodes([named("n1"), named("n2")]);
    server.expect("apply --auto-approve", 0);
    let watching = watching(&server);
    watching.until("seen", json!({"nodes": 2}));
    let held = server.pod_cidrs();
    server.plane.delete("/api/v1/nodes/n1").unwrap();
    server.nodes([named("n3")]);
    all_kinds_move_on(&server);
    waits(&watching, "n3");
    let after = watching.written("n3");
    assert_eq!(after, json!(held["n1"]));
    assert_eq!(watching.end(), 0);
}

#[test]
fn a_record_that_is_broken_stops_nothing_and_is_left_alone() {
    let server = server("1h");
    server.nodes([named("n1"), named("n2")]);
    server.expect("apply --auto-approve", 0);
    let watching = watching(&server);
    watching.until("seen", json!({"nodes": 2}));
    let metadata = json!({"name": "cilium-ipam-quarantine-0", "namespace": "kube-system"});
    for part in 0..4 {
        let mut metadata = metadata.clone();
        metadata["name"] = json!(format!("cilium-ipam-quarantine-{part}"));
        let broken = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"blocks.txt": "?"}});
        let path = "/api/v1/namespaces/kube-system/configmaps";
        server.plane.create(path, &broken).unwrap();
    }
    let is_told = || {
        let plan = server.json("plan -o json");
        plan["findings"].to_string().contains("unreadable-kind")
    };
    until("plans have a finding", is_told);
    let held = server.pod_cidrs();
    server.plane.delete("/api/v1/nodes/n1").unwrap();
    server.nodes([named("n3")]);
    all_kinds_move_on(&server);
    assert_eq!(watching.written("n3"), json!(held["n1"]));
    assert_eq!(record(&server), "?");
    assert_eq!(watching.end(), 0);
}
