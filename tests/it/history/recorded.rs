//! Who had an address, from the snapshots that a repository has.

use serde_json::Value;

use super::POOL;
use super::repo::Repo;
use crate::support::{KUBERNETES, cluster, holds, node, pool};

/// The pool, and one snapshot for each list of nodes with their blocks.
fn recorded(states: &[&[(&str, &str)]]) -> Repo {
    let mut repo = Repo::new();
    repo.write("pools/a.yaml", pool("rack-a", POOL));
    repo.commit("Ada", "Begin");
    for (number, state) in states.iter().enumerate() {
        let nodes = state
            .iter()
            .map(|(name, block)| node(name, "a", &holds(block)));
        let nodes: Vec<String> = nodes.collect();
        repo.write("cluster.json", cluster("1.19.3", KUBERNETES, &nodes));
        repo.commit("CI", &format!("Snapshot {}", number + 1));
    }
    repo
}

const BLOCK: &str = "10.20.7.0/24";

/// Each as `object: not yet, first seen, last seen, gone`.
fn seen(history: &Value) -> Vec<String> {
    let subject = |commit: &Value| commit["subject"].as_str().unwrap_or("-").to_owned();
    let one = |recorded: &Value| {
        let states = ["not_yet", "first_seen", "last_seen", "gone"];
        let states = states.map(|state| subject(&recorded[state]).replace("Snapshot ", ""));
        format!(
            "{}: {}",
            recorded["object"].as_str().unwrap(),
            states.join(" ")
        )
    };
    history["recorded"]
        .as_array()
        .unwrap()
        .iter()
        .map(one)
        .collect()
}

#[test]
fn an_address_passes_from_node_to_node() {
    let repo = recorded(&[
        &[("worker-1", "10.20.1.0/24")],
        &[("worker-1", "10.20.1.0/24"), ("worker-7", BLOCK)],
        &[("worker-7", BLOCK)],
        &[("worker-9", BLOCK)],
    ]);
    let history = repo.history(&["10.20.7.3"]);
    assert_eq!(
        seen(&history),
        ["Node/worker-7: 1 2 3 4", "Node/worker-9: 3 4 4 -"]
    );
    assert_eq!(history["snapshots"], 4);
    let before = repo.history(&["10.20.7.3", "--until", "2026-03-04"]);
    assert_eq!(seen(&before), ["Node/worker-7: 1 2 3 4"]);
    let node = repo.history(&["worker-1"]);
    assert_eq!(seen(&node), ["Node/worker-1: - 1 2 3"]);
    insta::assert_snapshot!(repo.run(&["10.20.7.3"]).all());
}

#[test]
fn a_broken_or_removed_snapshot_proves_nothing() {
    let mut repo = recorded(&[&[("worker-7", BLOCK)]]);
    repo.write("cluster.json", "{");
    repo.commit("CI", "Snapshot 2");
    std::fs::remove_file(repo.folder.join("cluster.json")).unwrap();
    repo.commit("CI", "Snapshot 3");
    let history = repo.history(&["worker-7"]);
    assert_eq!(seen(&history), ["Node/worker-7: - 1 1 -"]);
    assert_eq!(history["unread"].as_array().unwrap().len(), 2);
    let nodes = [node("worker-8", "a", &holds(BLOCK))];
    repo.write("cluster.json", cluster("1.19.3", KUBERNETES, &nodes));
    repo.commit("CI", "Snapshot 4");
    assert_eq!(
        seen(&repo.history(&[BLOCK])),
        ["Node/worker-7: - 1 1 4", "Node/worker-8: 1 4 4 -"]
    );
}

#[test]
fn a_hostname_of_a_service_is_recorded() {
    let mut repo = recorded(&[]);
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop","uid":"u",
        "resourceVersion":"5"},"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{"ingress":[{"hostname":"a.example"}]}}}"#;
    for (number, items) in [&[service.to_owned()][..], &[]].iter().enumerate() {
        repo.write("cluster.json", cluster("1.19.3", KUBERNETES, items));
        repo.commit("CI", &format!("Snapshot {}", number + 1));
    }
    let history = repo.history(&["shop/web"]);
    assert_eq!(seen(&history), ["Service/shop/web: - 1 1 2"]);
    assert_eq!(history["recorded"][0]["value"], "a.example");
}

#[test]
fn another_snapshot_is_named_and_who_wrote_a_field_is_told() {
    let mut repo = recorded(&[]);
    let held = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker-7","uid":"u","resourceVersion":"7",
        "creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"kubectl-edit","operation":"Update",
        "time":"2026-02-03T04:05:06Z","fieldsV1":{"f:spec":{"f:podCIDR":{},"f:podCIDRs":{}}}}]},
        "spec":{"podCIDR":"10.20.7.0/24","podCIDRs":["10.20.7.0/24"]}}"#;
    repo.write(
        "states/a.json",
        cluster("1.19.3", KUBERNETES, &[held.to_owned()]),
    );
    repo.commit("CI", "Snapshot 1");
    assert_eq!(repo.history(&["worker-7"])["snapshot"], Value::Null);
    let history = repo.history(&["worker-7", "--snapshot", "states/a.json"]);
    assert_eq!(seen(&history), ["Node/worker-7: - 1 1 -"]);
    let by = &history["recorded"][0]["written_by"];
    assert_eq!(by, "kubectl-edit at 2026-02-03T04:05:06Z");
}
