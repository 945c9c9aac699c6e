//! Networks of NetworkAttachmentDefinitions, in a cluster that the chart was installed into.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{or_skip, wait_until};

use crate::chart::Installed;
use crate::neutron::daemon::DaemonSet;
use crate::neutron::support::{Plugin, ports, stack};
use crate::server::kubernetes;

const GROUP: &str = "/apis/k8s.cni.cncf.io/v1";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// As the network-attachment-definition-client has it, with less text.
fn crd() -> Value {
    let kind = "NetworkAttachmentDefinition";
    let names = json!({"plural": "network-attachment-definitions", "singular": "network-attachment-definition",
        "kind": kind, "shortNames": ["net-attach-def"]});
    let spec = json!({"type": "object", "properties": {"config": {"type": "string"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
        "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

/// A definition names no node, and the machine of the tests may have no id.
fn name_the_node(state: &Path) {
    if !Path::new("/etc/machine-id").exists() {
        fs::DirBuilder::new().mode(0o700).create(state).unwrap();
        fs::write(state.join("node.json"), json!("n1").to_string()).unwrap();
    }
}

#[test]
fn a_network_of_a_definition_has_a_pool_before_its_first_pod() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let installed = Installed::new(
        &kubernetes("1.19.3", None),
        "--set neutronNode.enabled=true --set neutronNode.attachmentDefinitions[0]=default",
    );
    let plane = &installed.server.plane;
    let folder = tempfile::tempdir().unwrap();
    let account = folder.path().join("account");
    plane
        .write_service_account("kube-system", "cilium-ipam-neutron-node", &account)
        .unwrap();
    let server = plane.server_url().trim_start_matches("https://");
    let (host, port) = server.rsplit_once(':').unwrap();
    let set = DaemonSet::new(&[])
        .with("KUBERNETES_SERVICE_HOST", host)
        .with("KUBERNETES_SERVICE_PORT", port);
    let account_argument = format!("--service-account={}", account.display());
    let arguments = [
        "--attachment-definitions=default",
        &account_argument,
        "--grace=1",
    ];
    let once = || set.ends_with(&[&arguments[..], &["--once"]].concat());
    // A cluster without the kind has no definitions.
    assert_eq!(once(), 0, "{}", set.log());
    plane.create(CRDS, &crd()).unwrap();
    let listed = || {
        Ok(plane
            .list(&format!("{GROUP}/network-attachment-definitions"))
            .ok())
    };
    wait_until("the kind to be served", testbed::PATIENCE, listed).unwrap();
    let plugin = Plugin::new(&stack, &network, "")
        .with("node", Value::Null)
        .with("stateDirectory", json!(set.state()))
        .with("warmPool", json!({"free": 2}));
    name_the_node(&set.state());
    let config = plugin.configuration.to_string();
    let definition = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "pods", "namespace": "default"}, "spec": {"config": config}});
    let path = format!("{GROUP}/namespaces/default/network-attachment-definitions");
    plane.create(&path, &definition).unwrap();
    let daemon = set.start_with(&arguments);
    daemon.wait_until("the pool to be filled", || {
        ports(&stack, &network).len() == 2
    });
    // Without an answer of Kubernetes, nothing is emptied.
    let token = fs::read(account.join("token")).unwrap();
    fs::write(account.join("token"), "of another cluster").unwrap();
    daemon.wait_until("the refusal", || {
        set.log().contains("Kubernetes answers 401")
    });
    once();
    assert!(!set.log().contains("of another cluster"), "{}", set.log());
    assert!(!set.log().contains("no configuration"), "{}", set.log());
    assert_eq!(ports(&stack, &network).len(), 2);
    fs::write(account.join("token"), token).unwrap();
    daemon.wait_until("the recovery", || set.log().contains("recovered"));
    let empty = plugin.with("warmPool", json!({"free": 0}));
    let config = json!({"spec": {"config": empty.configuration.to_string()}});
    plane.patch(&format!("{path}/pods"), &config).unwrap();
    daemon.wait_until("the pool to be emptied", || {
        ports(&stack, &network).is_empty()
    });
}
