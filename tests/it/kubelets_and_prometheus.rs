//! With other programs of a real cluster: kubelets, simulated by kwok, and Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testbed::{Kubelets, Options, Program, Prometheus, or_skip};

use super::operator::until;
use super::running::Running;
use super::server::{Server, kubernetes, node};
use super::support::{pool, repository};

const NODES: usize = 60;

fn server(more: &[Program]) -> Server {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        Options::default(),
        more,
    );
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 26}"),
    );
    server
}

fn name(index: usize) -> String {
    format!("n{index}")
}

fn path(index: usize) -> String {
    format!("/api/v1/nodes/n{index}")
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
    })
}

/// Every Node has one block of its own.
fn blocks(server: &Server) -> BTreeMap<String, String> {
    let held = server.pod_cidrs();
    let one_each: BTreeMap<String, String> = held
        .iter()
        .filter(|(_, blocks)| blocks.len() == 1)
        .map(|(node, blocks)| (node.clone(), blocks[0].clone()))
        .collect();
    assert_eq!(one_each.len(), held.len(), "{held:?}");
    assert_eq!(
        one_each.values().collect::<BTreeSet<_>>().len(),
        held.len(),
        "{held:?}"
    );
    one_each
}

#[test]
fn nodes_with_kubelets_join_leave_and_come_back_under_the_same_name() {
    let server = server(&[Program::Kwok]);
    let _kubelets = Kubelets::start(&server.programs, &server.plane).unwrap();
    let watching = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    watching.until("seen", json!({"nodes": 0}));
    server.nodes((0..NODES).map(|index| node(&name(index), json!({}))));
    until("all have blocks", || {
        server.pod_cidrs().values().all(|blocks| !blocks.is_empty())
    });
    until("all are ready", || {
        server
            .plane
            .list("/api/v1/nodes")
            .unwrap()
            .iter()
            .all(is_ready)
    });
    let before = blocks(&server);

    // The kubelet that comes back registers a Node of the same name within the second.
    for index in 0..NODES / 3 {
        server.plane.delete(&path(index)).unwrap();
        server
            .plane
            .create("/api/v1/nodes", &node(&name(index), json!({})))
            .unwrap();
    }
    for index in NODES / 3..NODES / 2 {
        server.plane.delete(&path(index)).unwrap();
    }
    until("all have blocks again", || {
        server.pod_cidrs().values().all(|blocks| !blocks.is_empty())
    });
    let after = blocks(&server);
    assert_eq!(after.len(), NODES - (NODES / 2 - NODES / 3));
    for index in NODES / 2..NODES {
        assert_eq!(
            after[&name(index)],
            before[&name(index)],
            "nobody else was touched"
        );
    }

    // What a kubelet and its CNI make of the block: the address of a Pod.
    let spec = json!({"nodeName": name(0), "containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    server
        .plane
        .create("/api/v1/namespaces/default/pods", &pod)
        .unwrap();
    let mut address = String::new();
    until("the Pod has an address", || {
        let pod = server
            .plane
            .get("/api/v1/namespaces/default/pods/p")
            .unwrap();
        address = pod["status"]["podIP"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        !address.is_empty()
    });
    let block: ipnet::IpNet = after[&name(0)].parse().unwrap();
    assert!(
        block.contains(&address.parse::<std::net::IpAddr>().unwrap()),
        "{address} is not in {block}"
    );
    assert_eq!(watching.end(), 0);
}

#[test]
fn a_real_prometheus_scrapes_it_and_evaluates_the_rules() {
    let server = server(&[]);
    server.nodes([node("n1", json!({}))]);
    let watching = Running::start(
        server.folder.path(),
        server.plane.kubeconfig(),
        &["watch", "--listen", "127.0.0.1:0"],
    );
    let address = watching.address();
    watching.written("n1");
    let rules = repository().join("ci/chart/files/alerts.yaml");
    let prometheus = or_skip!(Prometheus::start(&server.plane, &address, &rules));
    let value = |query: &str| {
        let answer = prometheus.get(&format!("query?query={query}")).unwrap();
        answer["data"]["result"][0]["value"][1]
            .as_str()
            .map(str::to_owned)
    };
    until("it has been scraped", || {
        value("up").as_deref() == Some("1")
    });
    until("the node is counted", || {
        value("cilium_ipam_nodes").as_deref() == Some("1")
    });
    assert_eq!(value("cilium_ipam_leader").as_deref(), Some("1"));
    until("every rule was evaluated", || {
        let rules = prometheus.get("rules").unwrap();
        let groups = rules["data"]["groups"].as_array().unwrap();
        let rules: Vec<&Value> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap())
            .collect();
        assert!(
            rules.len() > 5 && rules.iter().all(|rule| rule["health"] != "err"),
            "{rules:?}"
        );
        rules.iter().all(|rule| rule["health"] == "ok")
    });
    let firing = prometheus.get("alerts").unwrap();
    let is_firing = |alert: &&Value| alert["state"] == "firing";
    assert_eq!(
        firing["data"]["alerts"]
            .as_array()
            .unwrap()
            .iter()
            .filter(is_firing)
            .count(),
        0,
        "{firing}"
    );
}
