//! Statuses and metrics of real plans.

use serde_json::Value;

use super::*;
use crate::telemetry::Telemetry;
use crate::{ControllerEvent, Job, Planned, check_documents};
use ipam_cilium::observed::{ObservedKind, Reader};
use ipam_config::documents::Documents;

/// Nodes that hold a block of pool `a` although it is pinned to another node.
const PINNED: usize = 12;

/// Nodes that hold a block of pool `a` although it does not select them.
const NOT_SELECTED: usize = 3;

fn object(kind: CustomKind, name: &str, spec: Value) -> StoredObject {
    let metadata = json!({"name": name, "uid": name, "resourceVersion": "1", "generation": 1});
    StoredObject::read(kind, &json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn pool(rack: &str, cidr: &str) -> StoredObject {
    let selector = json!({"matchLabels": {"rack": rack}});
    let spec = json!({"cidrs": [cidr], "blockSize": {"ipv4": 24}, "nodeSelector": selector});
    object(CustomKind::IpPool, rack, spec)
}

fn node(name: &str, rack: &str, block: &str) -> String {
    let metadata = json!({"name": name, "uid": name, "resourceVersion": "1", "labels": {"rack": rack},
        "creationTimestamp": "2026-01-01T00:00:00Z"});
    let spec = json!({"podCIDR": block, "podCIDRs": [block]});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}).to_string()
}

fn condition<'s>(status: &'s Value, about: &str) -> &'s Value {
    let conditions = status["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|condition| condition["type"] == about)
        .unwrap()
}

#[test]
fn misplaced_blocks_are_in_conditions_counts_and_metrics() {
    let mut objects = vec![
        pool("a", "10.20.0.0/16"),
        pool("b", "10.30.0.0/16"),
        object(CustomKind::IpamPolicy, "default", json!({})),
    ];
    let mut reader = Reader::default();
    for index in 0..PINNED + NOT_SELECTED {
        let name = format!("n{index:02}");
        let is_pinned = index < PINNED;
        let held = format!("10.20.{index}.0/24");
        let rack = if is_pinned { "a" } else { "b" };
        reader
            .object(ObservedKind::Node, &node(&name, rack, &held))
            .unwrap();
        if is_pinned {
            // To a node of its own, so each block has its own reason.
            let (pinned, spec) = (format!("m{index:02}"), json!({"podCIDRs": [held]}));
            objects.push(object(CustomKind::NodeAssignment, &pinned, spec));
        }
    }
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let observed = reader.finish(now);
    let files = objects
        .iter()
        .filter_map(|object| object.document.clone())
        .collect();
    let loaded = check_documents(Documents { files }, Vec::new());
    assert!(!loaded.has_errors(), "{:?}", loaded.findings);
    let plan = Job::files(&loaded).plan(&observed);

    let telemetry = Telemetry::default();
    telemetry.on_event(&ControllerEvent::Planned(&Planned {
        plan: &plan,
        loaded: &loaded,
        observed: &observed,
    }));
    let overview = telemetry.overview().unwrap();
    let texts: Texts = loaded
        .documents
        .files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect();
    let input = StatusInput {
        read: &texts,
        faults: &Faults::default(),
        applied: &texts,
        overview: Some(&overview),
        waiting: 0,
        at: now,
    };

    let of_a = input.new_status(&objects[0]).unwrap();
    let misplaced = condition(&of_a, "Misplaced");
    assert_eq!(
        (&misplaced["status"], &misplaced["reason"]),
        (&json!("True"), &json!("BlocksElsewhere"))
    );
    let message = misplaced["message"].as_str().unwrap();
    assert!(
        message.starts_with("15 blocks misplaced: 3 blocks: "),
        "{message}"
    );
    assert!(
        message.ends_with("; 3 blocks for 3 other reasons"),
        "{message}"
    );
    let of_b = input.new_status(&objects[1]).unwrap();
    assert_eq!(condition(&of_b, "Misplaced")["status"], "False");

    let of_policy = input.new_status(&objects[2]).unwrap();
    assert_eq!(of_policy["misplaced"], 15, "{of_policy}");

    let metrics = telemetry.text();
    let value = |code: &str| {
        let start = format!("cilium_ipam_misplaced_nodes{{reason=\"{code}\"}} ");
        let line = metrics.lines().find(|line| line.starts_with(&start));
        line.and_then(|line| line[start.len()..].parse::<f64>().ok())
    };
    assert_eq!(value("not-selected"), Some(3.0), "{metrics}");
    assert_eq!(value("pinned-to-other"), Some(12.0), "{metrics}");
}
