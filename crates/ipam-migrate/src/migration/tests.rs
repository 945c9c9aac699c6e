//! The steps of one node against a naive cluster: every order of kills ends the same.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use ipam_cilium::observed::{Observed, ObservedKind, Reader};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::Desired;

const MIGRATION: &str = "m1";

pub(super) fn blocks(texts: &[&str]) -> Vec<Block> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

pub(super) fn record() -> NodeRecord {
    NodeRecord {
        migration: MIGRATION.to_owned(),
        node: "n".parse().unwrap(),
        uid: "u".to_owned(),
        method: Method::CiliumNode,
        pool: "rack-a".parse().unwrap(),
        from: blocks(&["10.0.0.0/24"]),
        to: blocks(&["10.1.0.0/24"]),
        direction: Direction::Forward,
        phase: Phase::Pending,
        since: Timestamp::UNIX_EPOCH,
        cordoned_before: CordonedBefore::No,
        agent: None,
        saved: None,
        attempts: 0,
        failure: None,
        note: None,
    }
}

pub(super) fn seen_node(uid: &str, pod_cidrs: &[&str]) -> SeenNode {
    let object = json!({
        "metadata": {"name": "n", "uid": uid, "resourceVersion": "1"},
        "spec": {"podCIDR": pod_cidrs.first(), "podCIDRs": pod_cidrs},
    });
    NodeSeen::read(Some(object), None, &[])
        .unwrap()
        .node
        .unwrap()
}

/// A cluster of nodes with labels.
pub(super) fn observed_nodes(nodes: &[(&str, &[(&str, &str)])]) -> Observed {
    let mut reader = Reader::default();
    for (name, labels) in nodes {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let metadata = json!({"name": name, "uid": name, "resourceVersion": "1", "labels": labels});
        let text = json!({"metadata": metadata}).to_string();
        reader.object(ObservedKind::Node, &text).unwrap();
    }
    reader.finish(Timestamp::UNIX_EPOCH)
}

/// The record of a migration that has begun, with these nodes in racks of 20.
pub(super) fn stored_record(nodes: usize) -> MigrationRecord {
    let name = |number: usize| -> NodeName {
        let name = format!("worker-{number:05}.eu-central-1.compute.example.com");
        name.parse().unwrap()
    };
    let one = |number: usize| NodeMove {
        node: name(number),
        uid: format!("00000000-0000-0000-0000-{number:012}"),
        method: Method::CiliumNode,
        pool: format!("rack-{}", number / 20).parse().unwrap(),
        from: blocks(&[&format!("10.{}.{}.0/24", 128 + number / 256, number % 256)]),
        to: blocks(&[&format!("10.{}.{}.0/24", 1 + number / 256, number % 256)]),
        reason: "in no pool".to_owned(),
        steps: Method::CiliumNode.phases().to_vec(),
        risks: vec!["data in an emptyDir is lost: shop/web-1, shop/web-2".to_owned()],
        pods: Some(30),
        estimate: SignedDuration::from_secs(120),
    };
    let domains: BTreeSet<usize> = (0..nodes).map(|number| number / 20).collect();
    let wave = |domain: usize| Wave {
        domain: Some(format!("rack-{domain}")),
        nodes: (0..nodes)
            .filter(|number| number / 20 == domain)
            .map(name)
            .collect(),
    };
    let (request, pods) = (MigrationRequest::default(), Workloads::default());
    let empty = schedule(
        &Desired::default(),
        &observed_nodes(&[]),
        &pods,
        &request,
        "pools",
    );
    let schedule = ScheduleDocument {
        moves: (0..nodes).map(one).collect(),
        waves: domains.into_iter().map(wave).collect(),
        ..empty
    };
    let files = ApprovedFiles::new(&Desired::default(), &schedule);
    MigrationRecord::new("20260101t000000z".to_owned(), schedule, files, RULES)
}

const RULES: Rules = Rules {
    drain: DrainRules {
        unmanaged: Handling::Refuse,
        empty_dir: Handling::Refuse,
    },
    kubelet: KubeletRestart::NotAwaited,
    drain_timeout: SignedDuration::from_secs(60),
    timeout: SignedDuration::from_secs(60),
};

/// One node with an agent, an application's Pod and their controllers, as the server shows them.
struct World {
    method: Method,
    node: Option<Value>,
    cilium_node: Option<Value>,
    pods: Vec<Value>,
    setting: Option<Vec<Block>>,
    next: u32,
}

impl World {
    fn new(method: Method) -> World {
        let spec = match method {
            Method::CiliumNode | Method::ToKubernetes => json!({}),
            _ => json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}),
        };
        let mut world = World {
            method,
            node: Some(json!({
                "metadata": {
                    "name": "n", "uid": "u", "resourceVersion": "1",
                    "labels": {"rack": "a"}, "annotations": {"team": "web"},
                },
                "spec": spec,
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            })),
            cilium_node: None,
            pods: Vec::new(),
            setting: None,
            next: 1,
        };
        world.cilium_node(&["10.0.0.0/24"]);
        world.start_agent();
        world.pods.push(json!({
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "web",
                "ownerReferences": [{"kind": "ReplicaSet", "controller": true}],
            },
            "spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.7"},
        }));
        world
    }

    fn number(&mut self) -> String {
        self.next += 1;
        self.next.to_string()
    }

    fn cilium_node(&mut self, shown: &[&str]) {
        let version = self.number();
        self.cilium_node = Some(json!({
            "metadata": {"name": "n", "uid": format!("c{version}"), "resourceVersion": version},
            "spec": {"addresses": [{"ip": "192.0.2.1"}], "ipam": {"podCIDRs": shown}},
        }));
    }

    /// The agent of a new Pod reads its block once and publishes it.
    fn start_agent(&mut self) {
        let uid = self.number();
        self.pods.push(json!({
            "metadata": {
                "namespace": "kube-system", "name": format!("cilium-{uid}"), "uid": format!("agent{uid}"),
                "labels": {"k8s-app": "cilium"}, "ownerReferences": [{"kind": "DaemonSet", "controller": true}],
            },
            "spec": {"nodeName": "n", "hostNetwork": true},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let Some(node) = &self.node else { return };
        let of_node = node.pointer("/spec/podCIDRs/0").and_then(Value::as_str);
        let read = match (self.method, &self.setting) {
            (Method::NodeConfig, Some(set)) => set.iter().map(ToString::to_string).collect(),
            (Method::NodeConfig | Method::NodeObject, _) => {
                of_node.into_iter().map(str::to_owned).collect::<Vec<_>>()
            }
            _ => return,
        };
        let read: Vec<&str> = read.iter().map(String::as_str).collect();
        self.cilium_node(&read);
    }

    fn seen(&self) -> NodeSeen {
        NodeSeen::read(self.node.clone(), self.cilium_node.as_ref(), &self.pods).unwrap()
    }

    fn node_patch(&mut self, pointer: &str, value: Value) {
        let version = self.number();
        let Some(node) = &mut self.node else { return };
        node["metadata"]["resourceVersion"] = json!(version);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match value {
            Value::Null => {
                if let Some(parent) = node.pointer_mut(parent).and_then(Value::as_object_mut) {
                    parent.remove(key);
                }
            }
            value => node.pointer_mut(parent).unwrap()[key] = value,
        }
    }

    fn act(&mut self, action: &Action, goal: &[Block]) -> Option<AssignOutcome> {
        match action {
            Action::Cordon(_) => {
                self.node_patch("/spec/unschedulable", json!(true));
                self.node_patch(
                    "/metadata/annotations/cilium-ipam.io~1migration",
                    Value::Null,
                );
                let Some(node) = &mut self.node else {
                    return None;
                };
                node["metadata"]["annotations"]["cilium-ipam.io/migration"] = json!(MIGRATION);
            }
            Action::Uncordon { before, .. } => {
                if *before == CordonedBefore::No {
                    self.node_patch("/spec/unschedulable", Value::Null);
                }
                let Some(node) = &mut self.node else {
                    return None;
                };
                let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.remove("cilium-ipam.io/migration");
            }
            Action::Evict(pods) => self.delete(pods),
            Action::DeletePods(pods) => {
                let agents = self.seen().pods.iter().filter(|pod| pod.is_agent()).count();
                self.delete(pods);
                if self.seen().pods.iter().filter(|pod| pod.is_agent()).count() < agents {
                    self.start_agent();
                }
            }
            Action::DeleteNode(_) => {
                self.node = None;
                self.cilium_node = None;
            }
            Action::CreateNode(manifest) => {
                let mut node = manifest.clone();
                let version = self.number();
                node["metadata"]["uid"] = json!(format!("u{version}"));
                node["metadata"]["resourceVersion"] = json!(version);
                node["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
                self.node = Some(node);
            }
            Action::DeleteCiliumNode(_) => self.cilium_node = None,
            Action::Assign => {
                let texts: Vec<String> = goal.iter().map(ToString::to_string).collect();
                match self.method {
                    Method::CiliumNode => {
                        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                        self.cilium_node(&texts);
                    }
                    Method::NodeConfig => self.setting = Some(goal.to_vec()),
                    _ => self.node_patch("/spec/podCIDRs", json!(texts)),
                }
                return Some(AssignOutcome::Shown);
            }
            Action::CompleteNode { .. } | Action::Check => {}
        }
        None
    }

    fn delete(&mut self, pods: &[PodReference]) {
        self.pods.retain(|pod| {
            let uid = pod["metadata"]["uid"].as_str().unwrap();
            !pods.iter().any(|gone| gone.uid == uid)
        });
    }
}

fn decide(record: &NodeRecord, seen: &NodeSeen) -> Decision {
    Situation {
        record,
        seen,
        rules: &RULES,
        check: &CheckState::None,
        refusals: &[],
        now: Timestamp::UNIX_EPOCH,
    }
    .decide()
}

/// Runs to the end. A kill loses what `lost` says: the record after an action, or its outcome.
fn run(world: &mut World, mut record: NodeRecord, kill_at: usize) -> NodeRecord {
    for step in 0..100 {
        let seen = world.seen();
        match decide(&record, &seen) {
            Decision::Record(next) => record = *next,
            Decision::Act(action) => {
                let outcome = world.act(&action, record.goal());
                if step == kill_at {
                    continue;
                }
                if let Some(outcome) = outcome {
                    let situation = Situation {
                        record: &record,
                        seen: &world.seen(),
                        rules: &RULES,
                        check: &CheckState::None,
                        refusals: &[],
                        now: Timestamp::UNIX_EPOCH,
                    };
                    if let Decision::Record(next) = situation.assigned(outcome) {
                        record = *next;
                    }
                }
            }
            Decision::Wait(waiting) => panic!("it waits for ever at {}: {waiting}", record.phase),
            Decision::Ask(_) => panic!("it asks"),
            Decision::Finished => return record,
        }
    }
    panic!("it never ends: {record:?}");
}

const MOVES: [Method; 3] = [Method::CiliumNode, Method::NodeConfig, Method::NodeObject];

#[test]
fn every_method_moves_the_node_and_back_whatever_step_is_killed() {
    for method in MOVES {
        for kill_at in 0..40 {
            let mut world = World::new(method);
            let start = NodeRecord { method, ..record() };
            let moved = run(&mut world, start, kill_at);
            assert_eq!(
                (moved.phase, &moved.failure),
                (Phase::Done, &None),
                "{method}"
            );
            assert_eq!(world.seen().agent_blocks(), moved.to);
            let node = world.node.clone().unwrap();
            assert_eq!(node["metadata"]["annotations"], json!({"team": "web"}));
            assert_eq!(node["metadata"]["labels"], json!({"rack": "a"}));
            assert!(node["spec"]["unschedulable"].is_null());
            let back = moved.turned_back(&world.seen(), Timestamp::UNIX_EPOCH);
            let back = run(&mut world, back, kill_at);
            assert_eq!(
                (back.phase, &back.failure),
                (Phase::Done, &None),
                "{method}"
            );
            assert_eq!(world.seen().agent_blocks(), back.from);
        }
    }
}

#[test]
fn a_node_that_turns_back_at_any_step_gets_its_old_block() {
    for method in MOVES {
        for turn_at in 0..40 {
            let mut world = World::new(method);
            let mut record = NodeRecord { method, ..record() };
            for _ in 0..turn_at {
                match decide(&record, &world.seen()) {
                    Decision::Record(next) => record = *next,
                    Decision::Act(action) => drop(world.act(&action, record.goal())),
                    _ => break,
                }
            }
            let back = record.turned_back(&world.seen(), Timestamp::UNIX_EPOCH);
            let back = run(&mut world, back, usize::MAX);
            assert_eq!(back.failure, None, "{method} after {turn_at}");
            assert_eq!(
                world.seen().agent_blocks(),
                back.from,
                "{method} after {turn_at}"
            );
            let node = world.node.clone().unwrap();
            assert!(
                node["spec"]["unschedulable"].is_null(),
                "{method} after {turn_at}"
            );
        }
    }
}

#[test]
fn a_replaced_node_is_left_alone() {
    for phase in [
        Phase::Pending,
        Phase::Cordon,
        Phase::Drain,
        Phase::Save,
        Phase::Assign,
    ] {
        let seen = NodeSeen {
            node: Some(seen_node("another", &[])),
            ..NodeSeen::default()
        };
        let record = NodeRecord { phase, ..record() };
        let Decision::Record(left) = decide(&record, &seen) else {
            panic!("{phase}");
        };
        assert_eq!((left.phase, &left.failure), (Phase::Done, &None), "{phase}");
        assert!(left.note.unwrap().contains("replaced"), "{phase}");
    }
}

#[test]
fn a_cordon_that_was_there_before_stays() {
    let mut world = World::new(Method::CiliumNode);
    world.node_patch("/spec/unschedulable", json!(true));
    let moved = run(&mut world, record(), usize::MAX);
    assert_eq!(moved.phase, Phase::Done);
    assert_eq!(world.node.unwrap()["spec"]["unschedulable"], true);
}

#[test]
fn pods_that_would_be_lost_stop_the_drain() {
    let mut world = World::new(Method::CiliumNode);
    world.pods.push(json!({
        "metadata": {"namespace": "shop", "name": "alone", "uid": "alone"},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
    }));
    let ended = run(&mut world, record(), usize::MAX);
    assert_eq!(ended.phase, Phase::Drain);
    assert!(
        ended
            .failure
            .unwrap()
            .contains("shop/alone has no controller")
    );
    let names = |world: &World| world.seen().pods.len();
    assert_eq!(names(&world), 3, "nothing was evicted");
}

#[test]
fn a_finalizer_stops_the_deletion_before_it() {
    let mut world = World::new(Method::NodeObject);
    world.node_patch("/metadata/finalizers", json!(["cloud.example/detach"]));
    let start = NodeRecord {
        method: Method::NodeObject,
        ..record()
    };
    let ended = run(&mut world, start, usize::MAX);
    assert!(ended.failure.unwrap().contains("cloud.example/detach"));
    assert!(world.node.is_some());
}

#[test]
fn a_drain_that_takes_too_long_names_what_refuses() {
    let world = World::new(Method::CiliumNode);
    let record = NodeRecord {
        phase: Phase::Drain,
        ..record()
    };
    let refusals = ["the PodDisruptionBudget shop/web needs 3 Pods".to_owned()];
    let situation = Situation {
        record: &record,
        seen: &world.seen(),
        rules: &RULES,
        check: &CheckState::None,
        refusals: &refusals,
        now: Timestamp::UNIX_EPOCH
            .saturating_add(SignedDuration::from_secs(61))
            .unwrap(),
    };
    let Decision::Record(failed) = situation.decide() else {
        panic!("it goes on");
    };
    assert!(failed.failure.unwrap().contains("shop/web needs 3 Pods"));
}

#[test]
fn the_old_agent_is_replaced_after_a_person_restarted_the_kubelet() {
    let world = World::new(Method::NodeObject);
    let waiting = NodeRecord {
        method: Method::NodeObject,
        phase: Phase::Kubelet,
        ..record()
    };
    let restarted = waiting.kubelet_restarted(&world.seen(), Timestamp::UNIX_EPOCH);
    let agent = world.seen().agent_uid().unwrap();
    assert_eq!(
        (restarted.phase, restarted.agent),
        (Phase::Restart, Some(agent))
    );
}

#[test]
fn a_cordon_between_the_record_and_ours_is_kept() {
    let mut world = World::new(Method::CiliumNode);
    let start = NodeRecord {
        phase: Phase::Cordon,
        ..record()
    };
    world.node_patch("/spec/unschedulable", json!(true));
    let moved = run(&mut world, start, usize::MAX);
    assert_eq!(moved.cordoned_before, CordonedBefore::Yes);
    assert_eq!(world.node.unwrap()["spec"]["unschedulable"], true);
}

#[test]
fn a_label_that_a_person_removed_from_the_new_node_stays_away() {
    let mut world = World::new(Method::NodeObject);
    let start = NodeRecord {
        method: Method::NodeObject,
        ..record()
    };
    let mut record = start;
    while record.phase != Phase::Create || world.node.is_none() {
        match decide(&record, &world.seen()) {
            Decision::Record(next) => record = *next,
            Decision::Act(action) => drop(world.act(&action, record.goal())),
            other => panic!("{other:?}"),
        }
    }
    world.node_patch("/metadata/labels/rack", Value::Null);
    run(&mut world, record, usize::MAX);
    assert_eq!(world.node.unwrap()["metadata"]["labels"], json!({}));
}

#[test]
fn pods_that_were_bound_late_leave_before_the_node_is_verified() {
    let mut world = World::new(Method::CiliumNode);
    let mut record = record();
    while record.phase != Phase::Verify {
        match decide(&record, &world.seen()) {
            Decision::Record(next) => record = *next,
            Decision::Act(action) => drop(world.act(&action, record.goal())),
            other => panic!("{other:?}"),
        }
    }
    world.pods.push(json!({
        "metadata": {
            "namespace": "shop", "name": "late", "uid": "late",
            "ownerReferences": [{"kind": "ReplicaSet", "controller": true}],
        },
        "spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.9"},
    }));
    let Decision::Act(Action::Evict(pods)) = decide(&record, &world.seen()) else {
        panic!("it stays");
    };
    assert_eq!(pods[0].name, "late");
}
