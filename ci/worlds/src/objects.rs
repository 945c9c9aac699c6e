//! Objects of a cluster file, as JSON. It knows no generated worlds.

use serde_json::json;

/// Cilium's setting that takes pod CIDRs from Nodes.
pub const KUBERNETES: &str = r#""ipam":"kubernetes""#;

/// A cluster file with Cilium of this version, with these settings, and these further items.
#[must_use]
pub fn cluster(version: &str, settings: &str, items: &[String]) -> String {
    let config = config(settings);
    let controller = controller_manager("cp", &["--allocate-node-cidrs=false"]);
    let services = r#"{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.96.0.0/16"]}}"#;
    let all: Vec<String> = [config, daemon_set(version), controller, services.to_owned()]
        .into_iter()
        .chain(items.iter().cloned())
        .collect();
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}\n]}}\n",
        all.join(",\n")
    )
}

/// Cilium's ConfigMap.
pub(crate) fn config(settings: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cilium-config","namespace":"kube-system"}},"data":{{{settings}}}}}"#
    )
}

/// The agent's DaemonSet.
#[must_use]
pub fn daemon_set(version: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{{"name":"cilium","namespace":"kube-system","labels":{{"k8s-app":"cilium"}}}},"spec":{{"template":{{"spec":{{"containers":[{{"name":"cilium-agent","image":"quay.io/cilium/cilium:v{version}"}}]}}}}}}}}"#
    )
}

/// The Pod of a kube-controller-manager on this machine.
#[must_use]
pub fn controller_manager(machine: &str, flags: &[&str]) -> String {
    let command: Vec<&str> = ["kube-controller-manager"]
        .iter()
        .chain(flags)
        .copied()
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("kube-controller-manager-{machine}"),
        "namespace": "kube-system", "labels": {"component": "kube-controller-manager"}},
        "spec": {"containers": [{"name": "c", "command": command}]}})
    .to_string()
}

/// The Deployment of Cilium's operator.
#[must_use]
pub fn operator(mode: &str) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cilium-operator", "namespace": "kube-system",
        "labels": {"io.cilium/app": "operator"}}, "spec": {"replicas": 1, "template": {"spec": {"containers":
        [{"name": "cilium-operator", "args": [format!("--ipam={mode}")]}]}}}, "status": {}})
    .to_string()
}

/// A Node with a label `rack` and these fields of its spec.
#[must_use]
pub fn node(name: &str, rack: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"rack":"{rack}"}}}},"spec":{{{spec}}}}}"#
    )
}

/// The spec of a Node that holds one block.
#[must_use]
pub fn holds(cidr: &str) -> String {
    format!(r#""podCIDR":"{cidr}","podCIDRs":["{cidr}"]"#)
}

/// A CiliumNode that shows these blocks.
#[must_use]
pub fn cilium_node(name: &str, blocks: &[&str]) -> String {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": name, "uid": format!("cilium-{name}"), "resourceVersion": "7"},
        "spec": {"ipam": {"podCIDRs": blocks}}})
    .to_string()
}
