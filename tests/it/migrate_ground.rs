//! The test clusters of migrations behave as real clusters do: budgets refuse evictions, a Node
//! that is created again keeps and loses the same fields as with a real kubelet, and racks start.

use serde_json::{Value, json};
use testbed::{
    AgentPlayers, AnnotateK8sNode, CiliumVersion, ControlPlane, Ending, KubeletKind, PlayedIpam,
    RackCluster, RackOptions,
};

use super::operator::until;
use crate::support::TextAssertions;

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn cordon(plane: &ControlPlane, name: &str, unschedulable: Option<bool>) {
    let change = json!({"spec": {"unschedulable": unschedulable}});
    plane.patch(&node_path(name), &change).unwrap();
}

/// Evicts a Pod; gives the status and what the server says.
fn evict(plane: &ControlPlane, pod: &str) -> (u16, Value) {
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    let path = format!("{PODS}/{pod}/eviction");
    plane.client().try_create(&path, &eviction).unwrap()
}

#[test]
fn a_budget_refuses_an_eviction_and_allows_it_later() {
    let options = RackOptions {
        nodes: 2,
        racks: 1,
        pods_per_node: 2,
        disruptions: 1,
        ..RackOptions::default()
    };
    let cluster = RackCluster::start(&options).unwrap();
    let plane = &cluster.plane;
    // No Pod takes the place of one that is evicted.
    for name in ["worker-0", "worker-1"] {
        cordon(plane, name, Some(true));
    }
    let pods = plane.list(PODS).unwrap();
    let names: Vec<&str> = pods.iter().map(|pod| text(pod, "/metadata/name")).collect();
    assert_eq!(evict(plane, names[0]).0, 201);
    until("the budget knows of the Pod that is missing", || {
        let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/app-r0";
        plane.get(path).unwrap()["status"]["currentHealthy"] == 3
    });
    let refused = evict(plane, names[1]);
    assert_eq!(refused.0, 429, "{refused:?}");
    let cause = &refused.1["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    let message = "The disruption budget app-r0 needs 3 healthy pods and has 3 currently";
    assert_eq!(cause["message"], message);

    cordon(plane, "worker-0", None);
    cluster.wait_ready().unwrap();
    assert_eq!(evict(plane, names[1]).0, 201);
    assert_eq!(cluster.agents.faults(), []);
}

/// An object in the form in which the server creates it again.
fn fresh(mut node: Value, block: &str) -> Value {
    let metadata = node["metadata"].as_object_mut().unwrap();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ] {
        metadata.remove(key);
    }
    node["spec"]["podCIDR"] = json!(block);
    node["spec"]["podCIDRs"] = json!([block]);
    node
}

fn agent_pod(plane: &ControlPlane, node: &str) -> Option<Value> {
    let path = format!(
        "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dcilium&fieldSelector=spec.nodeName%3D{node}"
    );
    plane.list(&path).unwrap().into_iter().next()
}

fn block_of(agents: &AgentPlayers, node: &str) -> Option<String> {
    agents.blocks().get(node).map(ToString::to_string)
}

fn owner(object: &Value) -> &str {
    text(object, "/metadata/ownerReferences/0/uid")
}

#[test]
fn a_node_created_again_keeps_its_agent_and_loses_what_it_owned() {
    let options = RackOptions {
        nodes: 2,
        racks: 1,
        pods_per_node: 1,
        disruptions: 1,
        kubelets: KubeletKind::Hollow,
        ..RackOptions::default()
    };
    let mut cluster = RackCluster::start(&options).unwrap();
    let plane = &cluster.plane;
    let name = "worker-0";
    let path = node_path(name);
    let foreign =
        json!({"metadata": {"labels": {"foreign": "kept"}}, "spec": {"unschedulable": true}});
    plane.patch(&path, &foreign).unwrap();
    let before = plane.get(&path).unwrap();
    let old_uid = text(&before, "/metadata/uid").to_owned();
    let agent = agent_pod(plane, name).unwrap();
    let csi_node = format!("/apis/storage.k8s.io/v1/csinodes/{name}");
    let cilium_node = format!("{CILIUM_NODES}/{name}");
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
    for owned in [&csi_node, &cilium_node, &lease] {
        until("the Node owns what goes with it", || {
            plane
                .get(owned)
                .is_ok_and(|object| owner(&object) == old_uid)
        });
    }

    plane.delete(&path).unwrap();
    let again = plane
        .create("/api/v1/nodes", &fresh(before, "10.20.7.0/24"))
        .unwrap();
    let new_uid = text(&again, "/metadata/uid").to_owned();
    let is_gone = |path: &str| {
        plane
            .get(path)
            .is_err_and(|error| error.status() == Some(404))
    };
    until(
        "the garbage collector takes what the old Node owned",
        || is_gone(&csi_node) && is_gone(&cilium_node),
    );
    until("the kubelet makes a Lease of the new Node", || {
        plane
            .get(&lease)
            .is_ok_and(|lease| owner(&lease) == new_uid)
    });
    let kept = plane.get(&path).unwrap();
    assert_eq!(kept["metadata"]["labels"]["foreign"], "kept");
    assert_eq!(kept["spec"]["unschedulable"], true);
    assert_eq!(text(&kept, "/spec/podCIDRs/0"), "10.20.7.0/24");
    let still = agent_pod(plane, name).unwrap();
    assert_eq!(still["metadata"]["uid"], agent["metadata"]["uid"]);
    assert_eq!(
        block_of(&cluster.agents, name).as_deref(),
        Some("10.10.0.0/24")
    );
    assert!(
        is_gone(&csi_node) && is_gone(&cilium_node),
        "only a start makes them"
    );

    // Its Pod has an address of the old block, so that must go before the agent starts again.
    for pod in plane.list(PODS).unwrap() {
        if pod["spec"]["nodeName"] == name {
            // The budget may not have counted the Pods yet.
            until("the Pod is evicted", || {
                evict(plane, text(&pod, "/metadata/name")).0 == 201
            });
        }
    }
    until("the Pod has left the node", || {
        let pods = plane.list(PODS).unwrap();
        pods.iter().all(|pod| pod["spec"]["nodeName"] != name)
    });
    let pod = text(&agent, "/metadata/name");
    plane
        .delete(&format!("/api/v1/namespaces/kube-system/pods/{pod}"))
        .unwrap();
    until("another agent uses the new block", || {
        block_of(&cluster.agents, name).as_deref() == Some("10.20.7.0/24")
    });
    let published = plane.get(&cilium_node).unwrap();
    assert_eq!(owner(&published), new_uid);
    assert_eq!(text(&published, "/spec/ipam/podCIDRs/0"), "10.20.7.0/24");

    cluster
        .hollow()
        .unwrap()
        .restart(name, Ending::Terminated)
        .unwrap();
    let plane = &cluster.plane;
    until("the kubelet that starts makes a CSINode", || {
        plane
            .get(&csi_node)
            .is_ok_and(|csi_node| owner(&csi_node) == new_uid)
    });
    cordon(plane, name, None);
    cluster.wait_ready().unwrap();
    assert_eq!(cluster.agents.faults(), []);
}

/// Three racks of four nodes whose agents have the blocks that the real operator gave them.
fn racks_come_up(kubelets: KubeletKind, version: CiliumVersion) {
    let options = RackOptions {
        kubelets,
        version,
        ipam: PlayedIpam::ClusterPool,
        ..RackOptions::default()
    };
    let cluster = RackCluster::start(&options).unwrap();
    let plane = &cluster.plane;
    let blocks = cluster.agents.blocks();
    assert_eq!(blocks.len(), 12);
    for cilium_node in plane.list(CILIUM_NODES).unwrap() {
        let name = text(&cilium_node, "/metadata/name");
        let published = text(&cilium_node, "/spec/ipam/podCIDRs/0");
        assert_eq!(blocks[name].to_string(), published);
    }
    let pods = plane.list(PODS).unwrap();
    assert_eq!(pods.len(), 36);
    for pod in pods {
        let address = text(&pod, "/status/podIP").parse().unwrap();
        let node = text(&pod, "/spec/nodeName");
        assert!(blocks[node].contains(address), "{address} on {node}");
    }
    assert_eq!(cluster.agents.faults(), []);
}

#[test]
fn racks_of_hollow_kubelets_come_up() {
    racks_come_up(KubeletKind::Hollow, CiliumVersion::V1_19);
}

#[test]
fn racks_of_kwok_come_up_beside_the_older_operator() {
    racks_come_up(KubeletKind::Kwok, CiliumVersion::V1_15);
}

#[test]
fn a_fault_is_seen() {
    let options = RackOptions {
        nodes: 2,
        racks: 1,
        pods_per_node: 1,
        disruptions: 1,
        ipam: PlayedIpam::Kubernetes(AnnotateK8sNode::Off),
        ..RackOptions::default()
    };
    let cluster = RackCluster::start(&options).unwrap();
    let plane = &cluster.plane;
    // One Node takes the other's block while Pods run, and its agent starts again.
    let path = node_path("worker-0");
    let before = plane.get(&path).unwrap();
    plane.delete(&path).unwrap();
    plane
        .create("/api/v1/nodes", &fresh(before, "10.10.1.0/24"))
        .unwrap();
    let agent = agent_pod(plane, "worker-0").unwrap();
    let pod = text(&agent, "/metadata/name");
    plane
        .delete(&format!("/api/v1/namespaces/kube-system/pods/{pod}"))
        .unwrap();
    until(
        "the faults of its Pod and of the other agent are recorded",
        || cluster.agents.faults().len() == 2,
    );
    let told = format!("{:?}", cluster.agents.faults());
    told.assert_has("Stray");
    told.assert_has("Overlap");
}
