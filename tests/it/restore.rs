//! etcd restored from a snapshot under `watch` and the operator: no other node gets a block that
//! was given since the snapshot.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testbed::{Ending, Options, Program, Prometheus, Revision, Snapshot, or_skip, wait_until};

use super::operator::{GROUP, condition, install_definitions, object, operator_of, until};
use super::running::{Running, http_get};
use super::server::{Server, kubernetes, node};
use super::support::{TextAssertions, pool, repository};

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

/// A cluster of which a snapshot is saved, after which nodes joined.
struct Restored {
    server: Server,
    snapshot: Snapshot,
    /// The block of each node.
    before: BTreeMap<String, String>,
}

fn server() -> Server {
    let more = [Program::Etcdctl, Program::Etcdutl];
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        Options::default(),
        &more,
    );
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    server
}

/// With the same pool as a custom resource.
fn server_of_objects() -> Server {
    let server = server();
    install_definitions(&server);
    let spec = json!({"cidrs": ["10.20.0.0/16"], "blockSize": 24});
    let pool = object("IPPool", "a", spec);
    let pools = format!("{GROUP}/ippools");
    server.plane.create(&pools, &pool).unwrap();
    server
}

fn join(server: &Server, names: &[&str]) {
    server.nodes(names.iter().map(|name| node(name, json!({}))));
}

/// The blocks of these nodes, once all of them have one.
#[track_caller]
fn blocks(server: &Server, names: &[&str]) -> BTreeMap<String, String> {
    let mut held = BTreeMap::new();
    wait_until(&format!("{names:?} have blocks"), testbed::PATIENCE, || {
        let all = server.pod_cidrs();
        let first = |name: &&str| Some(((*name).to_owned(), all.get(*name)?.first()?.clone()));
        held = names.iter().filter_map(first).collect();
        Ok((held.len() == names.len()).then_some(()))
    })
    .unwrap();
    held
}

/// What the agent of a node makes of the block that it runs with.
fn cilium_node(name: &str, block: &str) -> Value {
    let spec = json!({"ipam": {"podCIDRs": [block]}});
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name}, "spec": spec})
}

impl Restored {
    fn of(server: Server) -> Restored {
        join(&server, &["n1", "n2"]);
        let mut before = blocks(&server, &["n1", "n2"]);
        let snapshot = server.plane.save_snapshot(&server.programs).unwrap();
        join(&server, &["n3", "n4", "n5"]);
        before.extend(blocks(&server, &["n3", "n4", "n5"]));
        Restored {
            server,
            snapshot,
            before,
        }
    }

    fn restore(&mut self, revision: Revision, while_down: impl FnOnce()) {
        self.server
            .plane
            .restore(&self.server.programs, &self.snapshot, revision, while_down)
            .unwrap();
    }

    /// A new machine is faster than those that come back: one whose agent tells of its block, and
    /// those with a kubelet alone.
    #[track_caller]
    fn nobody_loses_a_block(&self) {
        let Restored { server, before, .. } = self;
        join(server, &["n9"]);
        let new = blocks(server, &["n9"]);
        server
            .plane
            .create(CILIUM_NODES, &cilium_node("n4", &before["n4"]))
            .unwrap();
        join(server, &["n8", "n3", "n4", "n5"]);
        let after = blocks(server, &["n1", "n2", "n3", "n4", "n5"]);
        assert_eq!(after, *before, "they run with these");
        let new: BTreeSet<String> = new
            .into_values()
            .chain(blocks(server, &["n8"]).into_values())
            .collect();
        assert_eq!(new.len(), 2);
        let held: BTreeSet<String> = before.values().cloned().collect();
        assert!(new.is_disjoint(&held), "{new:?} are in use: {before:?}");
    }
}

fn metrics(address: &str) -> String {
    http_get(address, "/metrics").1
}

fn a_restore_is_survived(revision: Revision) {
    let server = server();
    let watching = Running::start(
        server.folder.path(),
        server.plane.kubeconfig(),
        &["watch", "--listen", "127.0.0.1:0"],
    );
    let address = watching.address();
    let mut restored = Restored::of(server);
    until("it is ready", || http_get(&address, "/readyz").0 == 200);
    restored.restore(revision, || {
        until("it is not ready", || http_get(&address, "/readyz").0 == 503);
        assert!(metrics(&address).contains("cilium_ipam_trouble 1"));
        let why = http_get(&address, "/readyz").1;
        assert_eq!(why, "the API server does not answer; see the log\n");
    });
    let told = watching.until("rolled-back", json!({}));
    // By block, and several nodes may have joined at once.
    let quarantined: BTreeSet<&str> = told["quarantined"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["node"].as_str().unwrap())
        .collect();
    assert_eq!(quarantined, BTreeSet::from(["n3", "n4", "n5"]));
    restored.nobody_loses_a_block();
    until("it is ready again", || {
        http_get(&address, "/readyz").0 == 200
    });
    let metrics = metrics(&address);
    metrics.assert_has("cilium_ipam_rollbacks_total 1");
    metrics.assert_has("cilium_ipam_trouble 0");
    assert_eq!(watching.end(), 0);
}

#[test]
fn what_was_given_since_a_snapshot_is_given_to_nobody_else() {
    a_restore_is_survived(Revision::AsSaved);
}

#[test]
fn the_same_with_a_bumped_revision() {
    a_restore_is_survived(Revision::Bumped);
}

#[test]
fn an_etcd_that_is_restored_under_a_running_api_server() {
    let server = server();
    let watching = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    let mut restored = Restored::of(server);
    let Restored {
        server, snapshot, ..
    } = &mut restored;
    server
        .plane
        .restore_under_apiserver(&server.programs, snapshot, Revision::AsSaved)
        .unwrap();
    let is_told = |line: &Value| {
        line["why"]
            .as_str()
            .is_some_and(|why| why.contains("restart every kube-apiserver"))
    };
    while !is_told(&watching.until("trouble", json!({}))) {}
    join(server, &["n9"]);
    server.plane.restart_apiserver(Ending::Terminated).unwrap();
    watching.until("rolled-back", json!({}));
    server.plane.delete("/api/v1/nodes/n9").unwrap();
    restored.nobody_loses_a_block();
    assert_eq!(watching.end(), 0);
}

#[test]
fn a_pause_is_kept_and_ends_with_the_quarantine() {
    let server = server();
    let watching = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    let mut restored = Restored::of(server);
    let policy = |paused: bool| {
        format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {{name: default}}\nspec: {{paused: {paused}}}\n"
        )
    };
    restored
        .server
        .folder
        .write("pools/policy.yaml", policy(true));
    watching.until("in-force", json!({}));
    restored.restore(Revision::Bumped, || {});
    let waits = |why: &Value| {
        why.as_str()
            .is_some_and(|why| why.contains("no longer paused"))
    };
    while !waits(&watching.until("trouble", json!({}))["why"]) {}
    join(&restored.server, &["n9"]);
    restored
        .server
        .folder
        .write("pools/policy.yaml", policy(false));
    watching.until("rolled-back", json!({}));
    restored.server.plane.delete("/api/v1/nodes/n9").unwrap();
    restored.nobody_loses_a_block();
    assert_eq!(watching.end(), 0);
}

#[test]
fn the_operator_remembers_though_nobody_leads_meanwhile() {
    let server = server_of_objects();
    let (first, second) = (operator_of(&server), operator_of(&server));
    let addresses = [first.address(), second.address()];
    let mut restored = Restored::of(server);
    restored.restore(Revision::Bumped, || {
        let nobody_leads = |address: &String| metrics(address).contains("cilium_ipam_leader 0");
        until("nobody leads", || addresses.iter().all(nobody_leads));
    });
    restored.nobody_loses_a_block();
    condition(&restored.server, "ippools/a", "Ready", "Applied");
    let rolled_back = |address: &String| metrics(address).contains("cilium_ipam_rollbacks_total 1");
    assert_eq!(
        addresses
            .iter()
            .filter(|address| rolled_back(address))
            .count(),
        1
    );
    assert_eq!((first.end(), second.end()), (0, 0));
}

#[test]
fn what_the_operator_is_asked_for_is_read_anew() {
    let server = server_of_objects();
    let rack = |rack: &str, cidr: &str| {
        let selector = json!({"matchLabels": {"rack": rack}});
        object(
            "IPPool",
            rack,
            json!({"cidrs": [cidr], "blockSize": 24, "nodeSelector": selector}),
        )
    };
    let pools = format!("{GROUP}/ippools");
    let operator = operator_of(&server);
    let mut restored = Restored::of(server);
    restored
        .server
        .plane
        .create(&pools, &rack("b", "10.30.0.0/16"))
        .unwrap();
    condition(&restored.server, "ippools/b", "Ready", "Applied");
    // Its resourceVersions repeat, so a client that follows from a later one gets no events.
    restored.restore(Revision::AsSaved, || {});
    operator.until("rolled-back", json!({}));
    restored
        .server
        .plane
        .create(&pools, &rack("b", "10.40.0.0/16"))
        .unwrap();
    condition(&restored.server, "ippools/b", "Ready", "Applied");
    restored.server.nodes([node("n7", json!({"rack": "b"}))]);
    let given = blocks(&restored.server, &["n7"]);
    assert_eq!(
        given["n7"], "10.40.0.0/24",
        "the first pool of that name is no more"
    );
    assert_eq!(operator.end(), 0);
}

#[test]
fn one_that_stood_by_remembers_what_the_leader_gave() {
    let server = server_of_objects();
    let first = operator_of(&server);
    first.until("leads", json!({}));
    let second = operator_of(&server);
    second.until("stands-by", json!({}));
    let mut restored = Restored::of(server);
    // So that the second one has heard of the last blocks.
    condition(&restored.server, "ippools/a", "Ready", "Applied");
    first.kill();
    restored.restore(Revision::AsSaved, || {});
    second.until("rolled-back", json!({}));
    restored.nobody_loses_a_block();
}

#[test]
fn a_status_that_the_restore_undid_is_written_again() {
    let mut server = server_of_objects();
    let operator = operator_of(&server);
    let nodes = |server: &Server, count: u32| {
        until(&format!("its status counts {count} nodes"), || {
            let pool = server.plane.get(&format!("{GROUP}/ippools/a")).unwrap();
            pool["status"]["nodes"] == count && pool["status"]["blocks"][0]["used"] == count
        });
    };
    nodes(&server, 0);
    let snapshot = server.plane.save_snapshot(&server.programs).unwrap();
    // One write of the status, which the restore undoes.
    join(&server, &["n1"]);
    nodes(&server, 1);
    server
        .plane
        .restore(&server.programs, &snapshot, Revision::AsSaved, || {})
        .unwrap();
    operator.until("rolled-back", json!({}));
    join(&server, &["n1"]);
    nodes(&server, 1);
    assert_eq!(operator.end(), 0);
}

#[test]
fn the_alert_fires() {
    let server = server();
    let watching = Running::start(
        server.folder.path(),
        server.plane.kubeconfig(),
        &["watch", "--listen", "127.0.0.1:0"],
    );
    let address = watching.address();
    let rules = repository().join("ci/chart/files/alerts.yaml");
    let prometheus = or_skip!(Prometheus::start(&server.plane, &address, &rules));
    let scraped = || {
        prometheus
            .get("query?query=cilium_ipam_rollbacks_total")
            .unwrap()
    };
    let mut restored = Restored::of(server);
    until("it was scraped", || {
        scraped()["data"]["result"][0]["value"][1] == "0"
    });
    restored.restore(Revision::Bumped, || {});
    until("the alert fires", || {
        let alerts = prometheus.get("alerts").unwrap();
        let fires = |alert: &Value| {
            alert["labels"]["alertname"] == "CiliumIpamRolledBack" && alert["state"] == "firing"
        };
        alerts["data"]["alerts"]
            .as_array()
            .unwrap()
            .iter()
            .any(fires)
    });
    restored.nobody_loses_a_block();
}
