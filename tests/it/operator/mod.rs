//! The operator on a real API server: custom resources that the server checks, blocks for nodes,
//! statuses, Events, metrics, several replicas.

mod idle;
mod leader;
mod objects;
mod rules;

use serde_json::{Value, json};
use testbed::wait_until;

use crate::running::Running;
use crate::server::{Server, node};

pub const GROUP: &str = "/apis/cilium-ipam.io/v1alpha1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn server() -> Server {
    let server = Server::usual();
    install_definitions(&server);
    server
}

pub fn install_definitions(server: &Server) {
    let definitions = server.folder.json("schema --crds");
    for definition in definitions["items"].as_array().unwrap() {
        server.plane.create(DEFINITIONS, definition).unwrap();
    }
    until("our kinds are served", || {
        ["ippools", "ipampolicies"]
            .iter()
            .all(|kind| server.plane.list(&format!("{GROUP}/{kind}")).is_ok())
    });
}

pub fn operator_of(server: &Server) -> Running {
    Running::start(
        server.folder.path(),
        server.plane.kubeconfig(),
        &["operator", "--listen", "127.0.0.1:0"],
    )
}

pub fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cilium-ipam.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

pub fn pool(name: &str, cidr: &str, rack: &str) -> Value {
    let selector = json!({"matchLabels": {"rack": rack}});
    object(
        "IPPool",
        name,
        json!({"cidrs": [cidr], "blockSize": 24, "nodeSelector": selector}),
    )
}

pub fn in_rack(name: &str, rack: &str) -> Value {
    node(name, json!({"rack": rack}))
}

#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_until(what, testbed::PATIENCE, || Ok(is_so().then_some(()))).unwrap();
}

/// Waits until one of our objects has this condition; returns its status.
#[track_caller]
pub fn condition(server: &Server, path: &str, about: &str, reason: &str) -> Value {
    let mut last = Value::Null;
    let has_it = || {
        last = server.plane.get(&format!("{GROUP}/{path}"))?["status"].clone();
        let conditions = last["conditions"].as_array().cloned().unwrap_or_default();
        Ok(conditions
            .iter()
            .any(|one| one["type"] == about && one["reason"] == reason)
            .then_some(()))
    };
    if let Err(error) = wait_until(
        &format!("{path} is {about} {reason}"),
        testbed::PATIENCE,
        has_it,
    ) {
        panic!("{error}: {last:#}");
    }
    last
}
