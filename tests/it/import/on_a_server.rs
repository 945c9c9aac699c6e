//! Clusters on a real API server.

use serde_json::{Value, json};
use testbed::{CiliumInstallation, Options, User};

use super::pools;
use crate::server::{self, Server, grant, kubernetes};
use crate::support::TextAssertions;

/// Imports the cluster of a real API server, and fails unless a plan is empty.
fn imported(ipam: &str, config: &[(&str, &str)], objects: &[(&str, Value)]) -> Server {
    let config = config
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let installation = CiliumInstallation {
        ipam: ipam.to_owned(),
        config: config.collect(),
        ..kubernetes("1.19.3", None)
    };
    let server = Server::start(&installation, Some("1.19.3"), Options::default(), &[]);
    server.nodes((0..6).map(|number| {
        let mut node = server::node(&format!("n{number}"), json!({"rack": "a"}));
        if ipam == "kubernetes" {
            let blocks = [
                format!("10.20.{number}.0/24"),
                format!("fd00:20:0:{number}::/64"),
            ];
            node["spec"] = json!({"podCIDR": blocks[0], "podCIDRs": blocks});
        }
        node
    }));
    for (path, object) in objects {
        server.plane.create(path, object).unwrap();
    }
    let ran = server.expect("import", 0);
    ran.stdout
        .assert_has("No changes. 6 nodes match the files, 0 moved.");
    server.expect("plan --fail-on changes,blocked,misplaced,refused,error", 0);
    server.expect("import", 0);
    server
}

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

#[test]
fn every_mode_on_a_real_api_server() {
    let dual = [("enable-ipv6", "true")];
    let server = imported("kubernetes", &dual, &[]);
    assert_eq!(
        pools(&server.folder)["default"]["cidrs"],
        json!(["10.20.0.0/21", "fd00:20::/61"])
    );

    let holder = |number: usize, ipam: Value| {
        let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
            "metadata": {"name": format!("n{number}")}, "spec": {"ipam": ipam}});
        (CILIUM_NODES, object)
    };
    let block = |number: usize| format!("10.7.{number}.0/24");
    let held: Vec<_> = (0..6)
        .map(|number| holder(number, json!({"podCIDRs": [block(number)]})))
        .collect();
    let range = [
        ("cluster-pool-ipv4-cidr", "10.7.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let server = imported("cluster-pool", &range, &held);
    assert_eq!(
        pools(&server.folder)["default"]["cidrs"],
        json!(["10.7.0.0/16"])
    );

    let pool = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool", "metadata": {"name": "default"},
        "spec": {"ipv4": {"cidrs": ["10.7.0.0/16"], "maskSize": 24}}});
    let mut objects = vec![("/apis/cilium.io/v2alpha1/ciliumpodippools", pool)];
    objects.extend((0..6).map(|number| {
        holder(
            number,
            json!({"pools": {"allocated": [{"pool": "default", "cidrs": [block(number)]}]}}),
        )
    }));
    let server = imported("multi-pool", &[], &objects);
    assert_eq!(
        pools(&server.folder)["default"]["blockSize"],
        json!({"ipv4": 24})
    );
}

#[test]
fn on_a_real_api_server() {
    let users = ["half-blind", "reader"].map(User::named).into();
    let options = Options {
        users,
        ..Options::default()
    };
    let server = Server::start(&kubernetes("1.19.3", None), Some("1.19.3"), options, &[]);
    let racks = ["a", "b", "c"];
    server.nodes((0..30).map(|number| {
        let mut node = server::node(
            &format!("worker-{number:02}"),
            json!({"rack": racks[number % 3]}),
        );
        let block = format!("10.{}.{}.0/24", 20 + number % 3, number / 3);
        node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
        node
    }));
    let pool = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "blue"},
        "spec": {"blocks": [{"cidr": "20.0.10.0/24"}]}});
    server
        .plane
        .create("/apis/cilium.io/v2alpha1/ciliumloadbalancerippools", &pool)
        .unwrap();
    let held = server.pod_cidrs();
    let ran = server.expect("import", 0);
    ran.stdout
        .assert_has("No changes. 30 nodes match the files, 0 moved.");
    server.expect("plan --fail-on changes,blocked,misplaced,refused,error", 0);
    assert_eq!(
        pools(&server.folder).keys().collect::<Vec<_>>(),
        ["rack-a", "rack-b", "rack-c"]
    );
    server.expect("import", 0);
    assert_eq!(server.pod_cidrs(), held);

    // A user who cannot list a kind gets no half of a directory.
    let reads = [
        ("", "nodes"),
        ("", "configmaps"),
        ("", "pods"),
        ("apps", "daemonsets"),
        ("apps", "deployments"),
        ("cilium.io", "ciliumnodes"),
        ("cilium.io", "ciliumnodeconfigs"),
        ("cilium.io", "ciliumpodippools"),
        ("networking.k8s.io", "servicecidrs"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ];
    grant(
        &server,
        "half-blind",
        &[&reads[..], &[("", "services")]].concat(),
    );
    grant(
        &server,
        "reader",
        &[
            &reads[..],
            &[("", "services"), ("cilium.io", "ciliumloadbalancerippools")],
        ]
        .concat(),
    );
    let import_as = |user: &str| {
        let kubeconfig = server.plane.kubeconfig_for(user).unwrap();
        server.run_as(&kubeconfig, &["import", user])
    };
    let ran = import_as("half-blind").expect(8);
    ran.stderr
        .assert_has("ciliumloadbalancerippools.cilium.io cannot be read");
    assert!(!server.folder.join("half-blind").exists());
    import_as("reader").expect(0);
    for file in ["ippools.yaml", "load-balancer-pools.yaml", "policy.yaml"] {
        let (one, other) = (format!("pools/{file}"), format!("reader/{file}"));
        assert_eq!(server.folder.read(&one), server.folder.read(&other));
    }
}
