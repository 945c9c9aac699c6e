//! The real kube-controller-manager beside `plan`, on a real API server: seen by a Pod without labels
//! that has its command line, and by what it writes to Nodes.

use std::time::Duration;

use serde_json::json;
use testbed::{ControllerManager, Options, Program, wait_until};

use super::running::Running;
use super::server::{Server, kubernetes, node};
use super::support::{TextAssertions, policy, pool};

const FLAGS: [&str; 4] = [
    "--controllers=node-ipam-controller",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.20.0.0/16",
    "--node-cidr-mask-size=24",
];
const POOLS: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn blocked(server: &Server) -> serde_json::Value {
    let arguments = ["plan", "pools", "-o", "json", "--fail-on", "never"];
    server.run(&arguments).expect(0).json()["blocked"].clone()
}

#[test]
fn the_real_controller_manager_is_seen_by_its_command_and_by_its_writes() {
    let programs = [Program::KubeControllerManager];
    let installation = kubernetes("1.19.3", None);
    let server = Server::start(&installation, Some("1.19.3"), Options::default(), &programs);
    server.folder.write("pools/a.yaml", pool("a", POOLS));
    // The API server keeps no writers of a Node that was created without any field.
    server.nodes([node("waits", json!({"rack": "a"}))]);
    assert_eq!(blocked(&server), json!([]));

    // Its Pod has no labels. The container's name, image and Pod name tell nothing either.
    let command = [&["/usr/local/bin/kube-controller-manager"], &FLAGS[..]].concat();
    let pod = json!({"metadata": {"name": "manager"},
        "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i", "command": command}]}});
    let pods = "/api/v1/namespaces/kube-system/pods";
    server.plane.create(pods, &pod).unwrap();
    let by_flags = blocked(&server).to_string();
    by_flags.assert_has("runs with --allocate-node-cidrs=true");
    server.plane.delete(&format!("{pods}/manager")).unwrap();
    assert_eq!(blocked(&server), json!([]));

    // It writes, and nothing shows its flags. Then it is stopped, and another Node joins.
    let manager = ControllerManager::start(&server.programs, &server.plane, &FLAGS).unwrap();
    wait_until("a pod CIDR", Duration::from_secs(60), || {
        Ok((!server.pod_cidrs()["waits"].is_empty()).then_some(()))
    })
    .unwrap();
    drop(manager);
    server.nodes([node("joins", json!({"rack": "a"}))]);
    let by_writes = blocked(&server).to_string();
    by_writes.assert_has("kube-controller-manager wrote spec.podCIDRs of Node `waits`");
    let policy = policy("{acknowledgedAllocators: [kube-controller-manager]}");
    server.folder.write("pools/p.yaml", policy);
    assert_eq!(blocked(&server), json!([]));

    server.plane.create(pods, &pod).unwrap();
    let watch = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    let seen = watch.until("seen", json!({}));
    let contradicted = "acknowledged-allocator-active";
    assert_eq!(seen["warnings"][0]["rule"], contradicted, "{seen}");
    watch.end();
}
