//! One pool, and one node that must get one known block, on old and new Ciliums. Cilium's own
//! ParseNode reads the result.

use serde_json::{Value, json};
use testbed::{AnnotateK8sNode, Options};

use super::server::{Server, kubernetes, node};
use super::support::{TextAssertions, pin, policy, pool};

const ANNOTATIONS: &str = "{writePath: node-annotation}";

/// A server with one node, `worker-7`, pinned to 10.20.30.0/24 in the only pool.
fn classic(version: &str, annotate: Option<AnnotateK8sNode>, policy: &str) -> Server {
    let crds = if version.starts_with("1.19") {
        Some("1.19.3")
    } else {
        None
    };
    let server = Server::start(
        &kubernetes(version, annotate),
        crds,
        Options::default(),
        &[],
    );
    server.nodes([node("worker-7", json!({}))]);
    let documents = [
        pool("rack-a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        pin("worker-7", "10.20.30.0/24"),
        policy.to_owned(),
    ];
    let documents: Vec<String> = documents
        .into_iter()
        .filter(|document| !document.is_empty())
        .collect();
    server
        .folder
        .write("pools/all.yaml", documents.join("---\n"));
    server
}

fn worker_7(server: &Server) -> Value {
    server.plane.get("/api/v1/nodes/worker-7").unwrap()
}

#[test]
fn cilium_1_11_by_annotation() {
    let server = classic("1.11.9", None, &policy(ANNOTATIONS));
    server.expect("apply --auto-approve", 0);
    let node = worker_7(&server);
    assert_eq!(
        node["metadata"]["annotations"],
        json!({"io.cilium.network.ipv4-pod-cidr": "10.20.30.0/24"})
    );
    assert_eq!(node["spec"]["podCIDRs"], Value::Null);
    assert_eq!(
        server.read_by_cilium(AnnotateK8sNode::On)["worker-7"],
        ["10.20.30.0/24"]
    );
    server.expect("plan --detailed-exitcode", 0);
}

#[test]
fn cilium_1_19_with_the_gate_open_gets_both_keys() {
    let server = classic("1.19.3", Some(AnnotateK8sNode::On), &policy(ANNOTATIONS));
    server.expect("apply --auto-approve", 0);
    let annotations = worker_7(&server)["metadata"]["annotations"].clone();
    let both = json!({"io.cilium.network.ipv4-pod-cidr": "10.20.30.0/24", "network.cilium.io/ipv4-pod-cidr": "10.20.30.0/24"});
    assert_eq!(annotations, both);
    assert_eq!(
        server.read_by_cilium(AnnotateK8sNode::On)["worker-7"],
        ["10.20.30.0/24"]
    );
    assert_eq!(
        server.read_by_cilium(AnnotateK8sNode::Off)["worker-7"],
        Vec::<String>::new()
    );
    server.expect("plan --detailed-exitcode", 0);
}

#[test]
fn cilium_1_19_with_the_gate_closed_blocks_the_annotation_and_auto_takes_the_spec() {
    let server = classic("1.19.3", None, &policy(ANNOTATIONS));
    let plan = server.json("plan -o json");
    assert_eq!(plan["changes"], json!([]));
    let reason = plan["blocked"][0]["reason"].as_str().unwrap();
    reason.assert_has("annotate-k8s-node is not \"true\"");
    server.expect("apply --auto-approve", 0);
    assert_eq!(worker_7(&server)["metadata"]["annotations"], Value::Null);

    let documents = [
        pool("rack-a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        pin("worker-7", "10.20.30.0/24"),
        policy("{writePath: auto}"),
    ];
    server
        .folder
        .write("pools/all.yaml", documents.join("---\n"));
    let plan = server.json("plan -o json");
    assert_eq!(plan["changes"][0]["write_path"], "node-spec");
    server.expect("apply --auto-approve", 0);
    assert_eq!(server.pod_cidrs()["worker-7"], ["10.20.30.0/24"]);
    assert_eq!(
        server.read_by_cilium(AnnotateK8sNode::Off)["worker-7"],
        ["10.20.30.0/24"]
    );
}
