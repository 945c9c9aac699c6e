//! The chart's admission policies: what the API server refuses to an agent.

use serde_json::json;
use testbed::{CiliumInstallation, Client, ControlPlane};

use super::{FOREIGN, cilium_node, in_rack_a};
use crate::chart::Installed;
use crate::operator;
use crate::server::kubernetes;
use crate::support::TextAssertions;

/// A client with the token of the agent's Pod on this node.
fn agent(plane: &ControlPlane, node: &str) -> Client {
    let (core, rbac) = (
        "/api/v1/namespaces/kube-system",
        "/apis/rbac.authorization.k8s.io/v1",
    );
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cilium"}});
    plane
        .create(&format!("{core}/serviceaccounts"), &account)
        .unwrap();
    let rules = json!([{"apiGroups": ["cilium.io"], "resources": ["ciliumnodes"], "verbs": ["create", "get", "update", "patch"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "agent"}, "rules": rules});
    plane
        .create(&format!("{rbac}/clusterroles"), &role)
        .unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "agent"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agent"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": "cilium"}]});
    plane
        .create(&format!("{rbac}/clusterrolebindings"), &binding)
        .unwrap();
    let container = json!({"name": "agent", "image": "agent"});
    let spec = json!({"nodeName": node, "serviceAccountName": "cilium", "containers": [container]});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cilium-1"}, "spec": spec});
    plane.create(&format!("{core}/pods"), &pod).unwrap();
    plane
        .client_for_pod("kube-system", "cilium", "cilium-1")
        .unwrap()
}

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

/// The server's reason to refuse this CiliumNode; empty if it accepts it.
fn refusal(client: &Client, name: &str, cidr: &str) -> String {
    let created = client.create(
        &format!("{CILIUM_NODES}?dryRun=All"),
        &cilium_node(name, cidr),
    );
    created
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn the_server_refuses_an_agent_that_writes_what_its_node_did_not_get() {
    let installed = Installed::new(&kubernetes("1.19.3", None), "");
    let plane = &installed.server.plane;
    installed.server.nodes(["n1", "n2"].map(in_rack_a));
    plane
        .patch(
            "/api/v1/nodes/n1",
            &json!({"spec": {"podCIDR": "10.20.0.0/24", "podCIDRs": ["10.20.0.0/24"]}}),
        )
        .unwrap();
    let agent = agent(plane, "n1");
    // Without pod CIDRs, so that only one policy has something against it.
    let bare = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n2"}, "spec": {}});
    let others = || {
        let created = agent.create(&format!("{CILIUM_NODES}?dryRun=All"), &bare);
        created
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    operator::until("another node's is refused", || {
        others().contains("may not write the CiliumNode of another node")
    });
    operator::until("another block is refused", || {
        refusal(&agent, "n1", "10.30.4.0/24").contains("pod CIDRs that Node n1 does not show")
    });
    for (cidr, _) in FOREIGN {
        assert!(
            refusal(&agent, "n1", cidr).contains("pod CIDRs that Node n1 does not show"),
            "{cidr}"
        );
    }
    assert_eq!(refusal(&agent, "n1", "10.20.0.0/24"), "");
    // Others than agents are for the cluster's own rules.
    assert_eq!(refusal(plane.client(), "n2", "10.30.4.0/24"), "");
    agent
        .create(CILIUM_NODES, &cilium_node("n1", "10.20.0.0/24"))
        .unwrap();
    let own = format!("{CILIUM_NODES}/n1");
    agent
        .patch(&own, &json!({"metadata": {"labels": {"rack": "a"}}}))
        .unwrap();
    let moved = agent
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.20.0.0/16"]}}}),
        )
        .unwrap_err()
        .to_string();
    moved.assert_has("pod CIDRs that Node n1 does not show");
    // What it has stays writable, though its Node shows another block by now.
    plane
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.20.7.0/24"]}}}),
        )
        .unwrap();
    agent
        .patch(&own, &json!({"metadata": {"labels": {"rack": "b"}}}))
        .unwrap();
}

#[test]
fn in_cluster_pool_the_server_lets_no_agent_set_pod_cidrs() {
    let config = [
        ("cluster-pool-ipv4-cidr", "10.99.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let config = config
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
    let plane = &installed.server.plane;
    installed.server.nodes(["n1"].map(in_rack_a));
    let agent = agent(plane, "n1");
    operator::until("a block is refused", || {
        refusal(&agent, "n1", "10.99.0.0/24").contains("may not set or change spec.ipam.podCIDRs")
    });
    let bare = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n1"}, "spec": {}});
    agent.create(CILIUM_NODES, &bare).unwrap();
    let own = format!("{CILIUM_NODES}/n1");
    plane
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.99.0.0/24"]}}}),
        )
        .unwrap();
    agent
        .patch(&own, &json!({"metadata": {"labels": {"rack": "a"}}}))
        .unwrap();
    let moved = agent
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.99.0.0/16"]}}}),
        )
        .unwrap_err()
        .to_string();
    moved.assert_has("may not set or change spec.ipam.podCIDRs");
}
