//! `watch` on a real API server: nodes that join, files that change, servers that fail, and other
//! clients that write.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::Ending;

use super::running::Running;
use super::server::{Server, node};
use super::support::{TextAssertions, address_pool, policy, pool};

fn server() -> Server {
    let server = Server::usual();
    let selector = "nodeSelector: {matchLabels: {rack: a}}";
    server.folder.write(
        "pools/a.yaml",
        pool(
            "a",
            &format!("{{cidrs: [10.20.0.0/16], blockSize: 24, {selector}}}"),
        ),
    );
    server
}

fn watching(server: &Server, arguments: &[&str]) -> Running {
    Running::start(
        server.folder.path(),
        server.plane.kubeconfig(),
        &[&["watch"], arguments].concat(),
    )
}

fn in_rack(name: &str, rack: &str) -> Value {
    node(name, json!({"rack": rack}))
}

#[test]
fn nodes_that_join_get_blocks_and_files_take_effect_when_they_are_good() {
    let server = server();
    server.nodes([in_rack("n1", "a")]);
    let watching = watching(&server, &[]);
    assert_eq!(watching.written("n1"), json!(["10.20.0.0/24"]));
    server.nodes([in_rack("n2", "a")]);
    assert_eq!(watching.written("n2"), json!(["10.20.1.0/24"]));

    server.nodes([in_rack("n3", "b")]);
    let seen = watching.until("seen", json!({"nodes": 3}));
    assert_eq!(seen["blocked"][0]["name"], "n3", "{seen}");
    let selector = "nodeSelector: {matchLabels: {rack: b}}";
    let rack_b = pool(
        "b",
        &format!("{{cidrs: [10.30.0.0/16], blockSize: 24, {selector}}}"),
    );
    // As editors save.
    server.folder.write("b.yaml~", &rack_b);
    std::fs::rename(
        server.folder.join("b.yaml~"),
        server.folder.join("pools/b.yaml"),
    )
    .unwrap();
    assert_eq!(watching.written("n3"), json!(["10.30.0.0/24"]));

    server
        .folder
        .write("pools/b.yaml", &rack_b[..rack_b.len() / 2]);
    watching.until("invalid", json!({}));
    server.nodes([in_rack("n4", "b")]);
    assert_eq!(
        watching.written("n4"),
        json!(["10.30.1.0/24"]),
        "the last good files stay in force"
    );
    let kind = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}";
    server.folder.write(
        "pools/policy.yaml",
        format!("{kind}\nspec: {{paused: true}}\n"),
    );
    watching.until("seen", json!({"paused": true}));
    std::fs::remove_file(server.folder.join("pools/policy.yaml")).unwrap();
    server.folder.write(
        "pools/b.yaml",
        rack_b.replace("10.30.0.0/16", "10.30.0.0/16, 10.31.0.0/16"),
    );
    watching.until("in-force", json!({}));

    std::fs::rename(server.folder.join("pools"), server.folder.join("away")).unwrap();
    watching.until("invalid", json!({"rules": ["missing-directory"]}));
    server.nodes([in_rack("n5", "a")]);
    assert_eq!(watching.written("n5"), json!(["10.20.2.0/24"]));
    std::fs::rename(server.folder.join("away"), server.folder.join("pools")).unwrap();
    server.folder.write(
        "pools/c.yaml",
        pool("c", "{cidrs: [10.40.0.0/16], blockSize: 24}"),
    );
    watching.until("in-force", json!({"files": 3}));
    assert_eq!(watching.end(), 0);
}

#[test]
fn a_broken_rule_holds_back_what_it_judges_until_it_holds() {
    let server = server();
    let kind = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}";
    let policy = |expression: &str| {
        let rules = format!("spec:\n  rules:\n  - {{name: ready, expression: '{expression}'}}\n");
        server
            .folder
            .write("pools/policy.yaml", format!("{kind}\n{rules}"));
    };
    policy(r#"plan.changes.all(c, c.labels[?"ready"].orValue("") == "yes")"#);
    server.nodes([node("n1", json!({"rack": "a", "ready": "yes"}))]);
    let watching = watching(&server, &[]);
    assert_eq!(watching.written("n1"), json!(["10.20.0.0/24"]));
    server.nodes([in_rack("n2", "a")]);
    let seen = watching.until("seen", json!({"refusal_count": 1}));
    assert_eq!(seen["refusals"][0]["rule"], "policy-rule", "{seen}");
    assert_eq!(server.pod_cidrs()["n2"], Vec::<String>::new());
    let ready = json!({"metadata": {"labels": {"ready": "yes"}}});
    server.plane.patch("/api/v1/nodes/n2", &ready).unwrap();
    assert_eq!(watching.written("n2"), json!(["10.20.1.0/24"]));
    assert_eq!(watching.end(), 0);
}

#[test]
fn an_api_server_that_goes_away_and_comes_back() {
    let mut server = server();
    let watching = watching(&server, &[]);
    watching.until("seen", json!({"nodes": 0}));
    server.plane.restart_apiserver(Ending::Killed).unwrap();
    server.nodes([in_rack("n1", "a")]);
    assert_eq!(watching.written("n1"), json!(["10.20.0.0/24"]));
    server.plane.restart_etcd(Ending::Killed).unwrap();
    server.nodes([in_rack("n2", "a")]);
    assert_eq!(watching.written("n2"), json!(["10.20.1.0/24"]));
    assert_eq!(watching.end(), 0);
}

#[test]
fn two_of_them_and_an_apply_give_no_block_twice() {
    let server = server();
    let watching = [watching(&server, &[]), watching(&server, &[])];
    for one in &watching {
        one.until("seen", json!({"nodes": 0}));
    }
    for batch in 0..4 {
        server.nodes((0..25).map(|index| in_rack(&format!("n{batch}-{index}"), "a")));
        // It may lose every race; that is not the question.
        server.run(&["apply", "--auto-approve", "--no-lock"]);
    }
    let mut left: BTreeSet<String> = server.pod_cidrs().into_keys().collect();
    while !left.is_empty() {
        let held = server.pod_cidrs();
        left.retain(|name| held[name].is_empty());
        if let Some(name) = left.first() {
            let seen = watching
                .iter()
                .find_map(|one| one.lines.recv_timeout(testbed::PATIENCE).ok());
            assert!(seen.is_some(), "no process acts, and {name} has no block");
        }
    }
    let held = server.pod_cidrs();
    let blocks: BTreeSet<&String> = held.values().flatten().collect();
    assert_eq!((held.len(), blocks.len()), (100, 100));
}

#[test]
fn what_takes_something_away_waits_for_a_person_unless_the_policy_says_otherwise() {
    let server = server();
    let balancer =
        |name: &str, cidr: &str| address_pool(name, &format!("{{blocks: [{{cidr: {cidr}}}]}}"));
    server
        .folder
        .write("pools/core.yaml", balancer("core", "20.0.9.0/24"));
    server
        .folder
        .write("pools/edge.yaml", balancer("edge", "20.0.10.0/24"));
    let watching = watching(&server, &["--waive", "lost-addresses=1"]);
    watching.until(
        "written",
        json!({"kind": "CiliumLoadBalancerIPPool", "name": "edge"}),
    );
    let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec});
    server
        .plane
        .create("/api/v1/namespaces/default/services", &service)
        .unwrap();
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "20.0.10.1"}]}}});
    server
        .plane
        .patch("/api/v1/namespaces/default/services/web/status", &status)
        .unwrap();
    let path = "/apis/cilium.io/v2/ciliumloadbalancerippools/edge";
    // What happens to one kind is heard of beside what happens to another one.
    server.nodes([in_rack("n0", "a")]);
    watching.written("n0");
    std::fs::remove_file(server.folder.join("pools/edge.yaml")).unwrap();
    let seen = loop {
        let seen = watching.until("seen", json!({}));
        if seen["waiting"] != json!([]) {
            break seen;
        }
    };
    assert_eq!(seen["waiting"][0]["name"], "edge", "{seen}");
    server.nodes([in_rack("n1", "a")]);
    assert_eq!(
        watching.written("n1"),
        json!(["10.20.1.0/24"]),
        "a new node never waits"
    );
    server.plane.get(path).unwrap();
    let policy = policy("{autoApply: destructive}");
    server.folder.write("pools/policy.yaml", policy);
    watching.until(
        "written",
        json!({"kind": "CiliumLoadBalancerIPPool", "name": "edge", "after": []}),
    );
    server.plane.get(path).unwrap_err();
}

#[test]
fn a_cluster_in_a_file_is_refused_and_so_are_faulty_files_at_the_beginning() {
    let folder =
        super::support::Folder::new(&[("pools/a.yaml", "kind: IPPool"), ("cluster.json", "{}")]);
    folder.expect("watch --cluster cluster.json", 3);
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    folder.write("cluster.json", super::support::cluster("1.19.3", "", &[]));
    let refused = folder.expect("watch --cluster cluster.json", 1);
    refused.stderr.assert_has("watch an API server");
}

#[test]
fn claims_of_a_newer_version_are_not_overwritten() {
    let server = server();
    let watching = watching(&server, &[]);
    server.nodes([in_rack("n1", "a")]);
    watching.written("n1");
    let path = "/api/v1/namespaces/kube-system/configmaps/cilium-ipam-claims";
    let claims = |text: &str| {
        server
            .plane
            .patch(path, &json!({"data": {"claims.json": text}}))
            .unwrap()
    };
    let newer = r#"{"format_version":"2.0","leases":[]}"#;
    claims(newer);
    let trouble = watching.until("trouble", json!({}));
    assert!(
        trouble["why"]
            .as_str()
            .unwrap()
            .contains("format version 2.0"),
        "{trouble}"
    );
    server.nodes([in_rack("n2", "a")]);
    server.expect("apply --auto-approve", 8);
    assert_eq!(
        server.plane.get(path).unwrap()["data"]["claims.json"],
        newer
    );
    assert!(
        server.pod_cidrs()["n2"].is_empty(),
        "the claims are unknown"
    );
    claims(r#"{"format_version":"1.0"}"#);
    assert_eq!(watching.written("n2"), json!(["10.20.1.0/24"]));
    watching.until("recovered", json!({}));
}
