//! What `migrate status` shows of a record.

use std::collections::BTreeMap;

use cilium_ipam::render::{Detail, MigrationStatus, migration_status};
use ipam_core::model::NodeName;
use ipam_migrate::migration::{
    ApprovedFiles, CheckDocument, MigrationRecord, NodeRecord, Phase, State,
};
use serde_json::json;

use super::migrate_cli::{POLICY, racks, record};
use super::support::{Folder, TextAssertions, policy, repository};

/// What `migrate status -o json` prints.
pub fn status_document() -> serde_json::Value {
    let (record, nodes) = record();
    json!({"format_version": "1.1", "migration": MigrationStatus::new(&record, &nodes, "")})
}

fn status(record: &MigrationRecord, nodes: &BTreeMap<NodeName, NodeRecord>) -> String {
    let status = MigrationStatus::new(record, nodes, " --context c");
    plain(&migration_status(&status, Detail::Short))
}

fn plain(text: &str) -> String {
    text.split("\u{1b}[")
        .map(|part| match part.split_once('m') {
            Some((code, rest)) if code.len() < 3 => rest,
            _ => part,
        })
        .collect()
}

#[test]
fn the_status_says_what_to_do_next() {
    let (mut record, mut nodes) = record();
    assert_eq!(nodes.len(), 6);
    let mut shown = status(&record, &nodes);
    let mut set = |node: &str, phase| {
        let node: NodeName = node.parse().unwrap();
        nodes.get_mut(&node).unwrap().phase = phase;
    };
    set("n3", Phase::Done);
    set("n6", Phase::Done);
    set("n1", Phase::Kubelet);
    set("n4", Phase::Kubelet);
    record.wave = 1;
    shown += &("\n--- kubelets\n".to_owned() + &status(&record, &nodes));
    for name in ["n1", "n4"] {
        let node: NodeName = name.parse().unwrap();
        nodes.get_mut(&node).unwrap().failure =
            Some("the agent's Pod is not ready (for 10m)".to_owned());
    }
    record.state = State::Stopped;
    record.note = Some("node n1, kubelet: the agent's Pod is not ready (for 10m)".to_owned());
    shown += &("\n--- stopped\n".to_owned() + &status(&record, &nodes));
    record.not_back = vec!["n4".parse().unwrap()];
    shown += &("\n--- not back\n".to_owned() + &status(&record, &nodes));
    record.not_back.clear();
    record.state = State::Undone;
    record.note = None;
    for node in nodes.values_mut() {
        node.failure = None;
        node.phase = Phase::Done;
        node.direction = ipam_migrate::migration::Direction::Back;
    }
    shown += &("\n--- undone\n".to_owned() + &status(&record, &nodes));
    insta::assert_snapshot!("migrate_status", shown);
}

#[test]
fn the_status_shows_windows_checks_and_what_nodes_wait_for() {
    let (record, mut nodes) = record();
    let files = |spec: &str| {
        let folder = racks(&[]);
        folder.write("pools/policy.yaml", policy(spec));
        let loaded = ipam_controller::load(&ipam_config::source::Location {
            directory: folder.path().join("pools"),
            revision: None,
        });
        ApprovedFiles::new(&loaded.desired, &record.schedule)
    };
    let windows = "maxUnavailable: 2, windows: [{schedule: '0 22 * * 6', duration: 4h, timeZone: Europe/Berlin}]";
    let check = CheckDocument::of_command("curl -H 'Authorization: s3cret' http://x");
    let record = record
        .clone()
        .with_files(files(&POLICY.replace("maxUnavailable: 2", windows)))
        .with_check(Some(check));
    let at = |now: &str, nodes: &BTreeMap<NodeName, NodeRecord>| {
        let status = MigrationStatus::new(&record, nodes, "").at(&record, now.parse().unwrap());
        let waits: NodeName = "n3".parse().unwrap();
        let status = status.waiting([(waits, "the agent's Pod is not ready".to_owned())].into());
        plain(&migration_status(&status, Detail::Short))
    };
    let mut shown = at("2026-11-25T12:00:00Z", &nodes);
    shown += &("\n--- open\n".to_owned() + &at("2026-11-28T21:30:00Z", &nodes));
    let mut set = |name: &str, phase, note: Option<&str>| {
        let name: NodeName = name.parse().unwrap();
        let node = nodes.get_mut(&name).unwrap();
        (node.phase, node.note) = (phase, note.map(str::to_owned));
    };
    set("n3", Phase::Restart, None);
    set("n6", Phase::Done, Some("the Node is gone"));
    shown += &("\n--- under way\n".to_owned() + &at("2026-11-25T12:00:00Z", &nodes));
    shown.assert_lacks("s3cret");
    insta::assert_snapshot!("migrate_status_windows", shown);
}

/// A plan tells a migration that is not over, and does not write what it is about to move.
#[test]
fn a_plan_leaves_the_nodes_of_an_unfinished_migration_alone() {
    let example = repository().join("examples/move");
    let folder = Folder::new(&[]);
    for file in ["cluster.yaml", "pools/racks.yaml"] {
        folder.write(file, std::fs::read_to_string(example.join(file)).unwrap());
    }
    let cluster = folder.read("cluster.yaml");
    let plan = ["plan", "-o", "json", "--cluster-file", "cluster.yaml"];
    let before = folder.run(&plan).expect(0).json();
    assert_eq!(before["changes"][0]["name"], "worker-2", "{before}");
    let record = |state: &str, wave: usize| {
        let waves = json!([{"domain": "b", "nodes": ["worker-2"]}, {"nodes": ["worker-1"]}]);
        let record =
            json!({"id": "m1", "state": state, "wave": wave, "schedule": {"waves": waves}});
        let data = json!({"record.json": record.to_string()});
        let metadata = json!({"name": "cilium-ipam-migration", "namespace": "kube-system"});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        folder.write("cluster.yaml", format!("{cluster}- {object}\n"));
    };
    record("stopped", 0);
    let planned = folder.run(&plan).expect(0).json();
    let texts = planned["findings"].to_string();
    let told =
        "migration m1 is unfinished: 0 of 2 nodes are moved (0 of 2 waves), its state is `stopped`";
    texts.assert_has(told);
    assert_eq!(planned["changes"], json!([]));
    assert_eq!(planned["blocked"][0]["name"], "worker-2");
    assert_eq!(planned["blocked"].as_array().unwrap().len(), 1, "{planned}");
    let doctor = folder.run(&["doctor", "--cluster-file", "cluster.yaml"]);
    doctor.stdout.assert_has("migration m1 is unfinished");
    let schedule = folder.expect("migrate plan --cluster-file cluster.yaml", 0);
    schedule.stdout.assert_has("migration m1 moves it already");
    // Its wave is moved, and then the migration is over.
    for (state, wave) in [("running", 1), ("done", 2)] {
        record(state, wave);
        let planned = folder.run(&plan).expect(0).json();
        assert_eq!(planned["changes"][0]["name"], "worker-2", "{state}");
    }
    let over = folder.run(&plan).expect(0).json()["findings"].to_string();
    over.assert_lacks("unfinished");
}
