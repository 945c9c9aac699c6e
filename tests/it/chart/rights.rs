//! The rights that the chart grants: all that are needed, and no more.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::{CiliumInstallation, Client};

use super::{Installed, KUBELET, RBAC, VIEWER};
use crate::operator::{GROUP, condition, in_rack, object, pool, until};
use crate::running::http_get;
use crate::server::{kubernetes, node};
use crate::support::{Folder, TextAssertions, repository};

#[test]
fn the_definitions_of_the_chart_are_those_of_the_types() {
    let folder = Folder::new(&[]);
    let printed = folder.expect("schema --crds", 0).stdout;
    let kept = std::fs::read_to_string(repository().join("ci/chart/crds.json")).unwrap();
    assert!(
        printed == kept,
        "run `cargo run -- schema --crds > ci/chart/crds.json`"
    );
}

#[test]
fn installed_and_upgraded_with_what_it_needs_and_no_more() {
    let installed = Installed::new(&kubernetes("1.19.3", None), "--set writePaths.service=true");
    let plane = &installed.server.plane;
    let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec});
    plane
        .create("/api/v1/namespaces/default/services", &service)
        .unwrap();
    let balancer = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "edge"},
        "spec": {"blocks": [{"cidr": "20.0.10.0/24"}]}});
    plane
        .create("/apis/cilium.io/v2/ciliumloadbalancerippools", &balancer)
        .unwrap();
    installed.one_of_each(json!({"autoApply": "destructive"}));
    let operator = installed.operator();
    operator.until("leads", json!({}));
    let second = installed.operator();
    second.until("stands-by", json!({}));
    installed.server.nodes([in_rack("n1", "a")]);
    assert_eq!(operator.written("n1"), json!(["10.20.0.0/24"]));
    let path = "/api/v1/namespaces/default/services/web";
    until("the Service asks for its address", || {
        plane.get(path).unwrap()["metadata"]["annotations"].is_object()
    });
    installed.all_is_told();
    the_server_refuses(&installed, &plane.client_for(KUBELET).unwrap());
    a_viewer_may_look(&installed);

    let before = plane.get(&format!("{GROUP}/ippools/a")).unwrap()["metadata"]["uid"].clone();
    let told = installed.make(
        "cilium-ipam-upgrade",
        "--set writePaths.service=true --set replicas=3",
    );
    told.assert_has("REVISION: 2");
    let deployment = plane
        .get("/apis/apps/v1/namespaces/kube-system/deployments/cilium-ipam")
        .unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(
        plane.get(&format!("{GROUP}/ippools/a")).unwrap()["metadata"]["uid"],
        before
    );
    installed.server.nodes([in_rack("n2", "a")]);
    assert_eq!(operator.written("n2"), json!(["10.20.1.0/24"]));
    assert_eq!(operator.end(), 0);
    second.until("leads", json!({}));
    installed.every_right_is_used_and_none_is_missing();
    installed.make("cilium-ipam-uninstall", "");
    plane.get(&format!("{GROUP}/ippools/a")).unwrap();
}

/// The role that is aggregated into the cluster role `view`.
fn a_viewer_may_look(installed: &Installed) {
    let plane = &installed.server.plane;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cilium-ipam-view"});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": VIEWER}, "roleRef": role, "subjects": [subject]});
    plane
        .create(&format!("{RBAC}/clusterrolebindings"), &binding)
        .unwrap();
    let viewer = plane.client_for(VIEWER).unwrap();
    let labels = |name: &str| {
        plane.get(&format!("{RBAC}/clusterroles/{name}")).unwrap()["metadata"]["labels"].clone()
    };
    let taken_in = |name: &str, role: &str| {
        labels(name)[format!("rbac.authorization.k8s.io/aggregate-to-{role}")] == "true"
    };
    assert!(
        ["view", "edit", "admin"]
            .iter()
            .all(|role| taken_in("cilium-ipam-view", role))
    );
    assert_eq!(
        ["view", "edit", "admin"].map(|role| taken_in("cilium-ipam-edit", role)),
        [false, false, true]
    );
    until("a viewer may look", || {
        viewer.list(&format!("{GROUP}/ippools")).is_ok()
    });
    let error = viewer
        .delete(&format!("{GROUP}/ippools/a"))
        .unwrap_err()
        .to_string();
    error.assert_has("forbidden");
}

/// The writes that its admission policies refuse.
fn the_server_refuses(installed: &Installed, kubelet: &Client) {
    let plane = &installed.server.plane;
    let annotation =
        json!({"metadata": {"annotations": {"network.cilium.io/ipv4-pod-cidr": "10.99.0.0/24"}}});
    let refused = |path: &str, change: &Value| {
        let error = kubelet
            .patch(&format!("{path}?dryRun=All"), change)
            .err()
            .map(|error| error.to_string());
        error.is_some_and(|error| error.contains("may not set or change the pod-CIDR annotations"))
    };
    until("a kubelet's annotation is refused", || {
        refused("/api/v1/nodes/n1", &annotation)
    });
    assert!(
        refused("/api/v1/nodes/n1/status", &annotation),
        "through the status, too"
    );
    let old =
        json!({"metadata": {"annotations": {"io.cilium.network.ipv6-pod-cidr": "fd00::/64"}}});
    assert!(refused("/api/v1/nodes/n1", &old));
    let heartbeat = json!({"metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    kubelet
        .patch("/api/v1/nodes/n1/status", &heartbeat)
        .unwrap();
    assert!(
        plane
            .patch("/api/v1/nodes/n1?dryRun=All", &annotation)
            .is_err(),
        "not even an administrator"
    );
    let own = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"podCIDR": "10.99.0.0/24", "podCIDRs": ["10.99.0.0/24"]}});
    plane.delete("/api/v1/nodes/n1").unwrap();
    let error = kubelet
        .create("/api/v1/nodes?dryRun=All", &own)
        .unwrap_err()
        .to_string();
    error.assert_has("a kubelet may not set the pod CIDRs of its own Node");

    let pools = format!("{GROUP}/ippools?dryRun=All");
    let refusal = |name: &str, spec: Value| {
        plane
            .create(&pools, &object("IPPool", name, spec))
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let overlaps = || {
        refusal(
            "b",
            json!({"cidrs": ["10.30.0.0/16", "10.20.128.0/17"], "blockSize": 24}),
        )
    };
    until("pools that overlap are refused", || {
        overlaps().contains("10.20.128.0/17 overlaps IPPool a")
    });
    let sizes = [
        json!("24"),
        json!(8),
        json!({"ipv6": 64}),
        json!({"ipv4": 24, "ipv5": 9}),
        json!(33),
        json!(true),
    ];
    for size in sizes {
        let error = refusal("b", json!({"cidrs": ["10.30.0.0/16"], "blockSize": size}));
        assert!(error.contains("cilium-ipam: blockSize"), "{size}: {error}");
    }
    for size in [json!(24), json!({"ipv4": 24, "ipv6": 64})] {
        assert_eq!(
            refusal("b", json!({"cidrs": ["10.30.0.0/16"], "blockSize": size})),
            ""
        );
    }
}

#[test]
fn a_revoked_token_ends_its_work_until_there_is_another_one() {
    let installed = Installed::new(&kubernetes("1.19.3", None), "");
    let plane = &installed.server.plane;
    installed.create("ippools", &pool("a", "10.20.0.0/16", "a"));
    let operator = installed.operator();
    let address = operator.address();
    operator.until("leads", json!({}));
    installed.server.nodes([in_rack("n1", "a")]);
    operator.written("n1");
    let path = "/api/v1/namespaces/kube-system/serviceaccounts";
    plane.delete(&format!("{path}/cilium-ipam")).unwrap();
    // The server remembers a token for ten seconds.
    let why = loop {
        let line = operator.until("trouble", json!({}));
        if line["why"].as_str().unwrap().contains("Unauthorized") {
            break line;
        }
    };
    // The text of the API server is only in the log.
    let answer = http_get(&address, "/readyz");
    assert_eq!(answer.0, 503);
    assert!(answer.1.ends_with("; see the log\n") && !answer.1.contains("Unauthorized"));
    installed.server.nodes([in_rack("n2", "a")]);
    assert!(installed.server.pod_cidrs()["n2"].is_empty(), "{why}");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cilium-ipam"}});
    plane.create(path, &account).unwrap();
    // In the place of the old one, as a kubelet does it.
    plane
        .kubeconfig_for_service_account("kube-system", "cilium-ipam")
        .unwrap();
    operator.until("recovered", json!({}));
    operator.until("leads", json!({}));
    assert_eq!(operator.written("n2"), json!(["10.20.1.0/24"]));
}

#[test]
fn in_cluster_pool_it_needs_what_the_chart_gives() {
    let config = [
        ("cluster-pool-ipv4-cidr", "10.99.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let config: BTreeMap<String, String> = config
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let cilium = CiliumInstallation {
        ipam: "cluster-pool".into(),
        config,
        ..CiliumInstallation::default()
    };
    let installed = Installed::new(
        &cilium,
        "--set writePaths.node=false --set writePaths.ciliumNode=true",
    );
    installed.one_of_each(json!({}));
    let operator = installed.operator();
    operator.until("leads", json!({}));
    for name in ["n1", "n2"] {
        let mut node = in_rack(name, "a");
        // Cilium's operator leaves it to us.
        node["metadata"]["annotations"] = json!({"ipam.cilium.io/ignore": "true"});
        installed.server.nodes([node]);
        operator.until("written", json!({"name": name}));
    }
    installed.all_is_told();
    assert_eq!(operator.end(), 0);
    installed.every_right_is_used_and_none_is_missing();
}

#[test]
fn to_move_nodes_it_needs_what_the_chart_gives() {
    let installed = Installed::new(
        &kubernetes("1.19.3", None),
        "--set writePaths.nodeConfig=true",
    );
    let limits = json!({"disruptive": {"percent": 100}});
    installed.one_of_each(
        json!({"writePath": "node-config", "autoApply": "disruptive", "limits": limits}),
    );
    let operator = installed.operator();
    operator.until("leads", json!({}));
    installed.server.nodes([node(
        "n1",
        json!({"rack": "a", "kubernetes.io/hostname": "n1"}),
    )]);
    operator.written("n1");
    installed.create(
        "nodeassignments",
        &object(
            "NodeAssignment",
            "n1",
            json!({"podCIDRs": ["10.20.7.0/24"]}),
        ),
    );
    assert_eq!(
        operator.until("written", json!({"name": "n1"}))["after"],
        json!(["10.20.7.0/24"])
    );
    installed.all_is_told();
    assert_eq!(operator.end(), 0);
    installed.every_right_is_used_and_none_is_missing();
}

#[test]
fn in_multi_pool_it_needs_what_the_chart_gives() {
    let cilium = CiliumInstallation {
        ipam: "multi-pool".into(),
        ..CiliumInstallation::default()
    };
    let installed = Installed::new(
        &cilium,
        "--set writePaths.node=false --set writePaths.podIPPool=true",
    );
    installed.one_of_each(
        json!({"autoApply": "destructive", "limits": {"disruptive": {"percent": 100}}}),
    );
    let operator = installed.operator();
    operator.until("written", json!({"kind": "CiliumPodIPPool", "name": "a"}));
    operator.until("written", json!({"kind": "CiliumNodeConfig"}));
    // Pinned, which this mode does not know.
    installed.server.nodes([in_rack("n9", "a")]);
    installed.all_is_told();
    let plane = &installed.server.plane;
    let path = format!("{GROUP}/ippools/a");
    let further = json!({"spec": {"cidrs": ["10.20.0.0/16", "10.21.0.0/16"], "nodeSelector": {"matchLabels": {"rack": "b"}}}});
    plane.patch(&path, &further).unwrap();
    operator.until("written", json!({"kind": "CiliumPodIPPool", "name": "a"}));
    operator.until("written", json!({"kind": "CiliumNodeConfig"}));
    installed.create("ippools", &pool("b", "10.40.0.0/16", "b"));
    plane.delete(&path).unwrap();
    condition(&installed.server, "ippools/a", "Ready", "InUse");
    // The pin lies in it.
    plane
        .delete(&format!("{GROUP}/nodeassignments/n9"))
        .unwrap();
    operator.until(
        "written",
        json!({"kind": "CiliumPodIPPool", "name": "a", "after": []}),
    );
    assert_eq!(operator.end(), 0);
    installed.every_right_is_used_and_none_is_missing();
}
