//! The tutorial about a kind cluster, on a real kube-apiserver with Nodes as kind makes them.

use serde_json::json;
use testbed::{CiliumInstallation, Options, Program};

use super::blocks::blocks;
use super::{read, running};
use crate::server::Server;

#[test]
fn the_tutorial_about_kind_runs_on_a_real_server() {
    let document = "docs/src/tutorials/kind.md";
    let blocks = blocks(document, &read(document));
    let installation = CiliumInstallation {
        version: "1.19.3".to_owned(),
        ..CiliumInstallation::default()
    };
    let server = Server::start(&installation, Some("1.19.3"), Options::default(), &[]);
    let racks = [
        ("kind-control-plane", json!({})),
        ("kind-worker", json!({"rack": "a"})),
        ("kind-worker2", json!({"rack": "a"})),
        ("kind-worker3", json!({"rack": "b"})),
    ];
    server.nodes(racks.map(|(name, labels)| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    }));
    let config = blocks
        .iter()
        .find(|block| block.file.as_deref() == Some("cilium-config.yaml"))
        .unwrap();
    server.folder.write("cilium-config.yaml", &config.text);
    let kubectl = server.programs.path(Program::Kubectl).unwrap();
    let kubectl_folder = kubectl.parent().unwrap().display().to_string();
    let kubeconfig = server.plane.kubeconfig().display().to_string();
    let variables = [
        ("PATH", kubectl_folder.as_str()),
        ("KUBECONFIG", &kubeconfig),
    ];
    let apply = "kubectl apply --server-side --force-conflicts -f cilium-config.yaml";
    running::shell(&server.folder, apply, &variables).expect(0);
    assert_eq!(running::run_on(&server.folder, &blocks, &variables), 4);
}
