//! `watch` on a real API server keeps the pairs of ports at a real Neutron; `doctor` tells of them.

use std::collections::BTreeSet;

use serde_json::json;
use testbed::openstack::Options as StackOptions;
use testbed::{OpenStack, Options, or_skip, wait_until};

use super::pairs::clouds_file;
use super::support::stack;
use crate::running::Running;
use crate::server::{Server, kubernetes, node};
use crate::support::{policy, pool};

const FIRST: &str = "11111111-9d65-4b7e-8d1e-6f0c1d5a9b11";
const SECOND: &str = "22222222-9d65-4b7e-8d1e-6f0c1d5a9b11";

#[test]
fn watch_keeps_the_pairs_of_ports() {
    let stack = or_skip!(stack(&StackOptions::default()));
    let network = stack.create_network("vms").unwrap();
    stack
        .create_subnet(&network, "10.9.0.0/24", &json!({}))
        .unwrap();
    let foreign = json!([{"ip_address": "203.0.113.9"}, {"ip_address": "10.20.9.0/24"}]);
    let port = |vm: &str, pairs: serde_json::Value| {
        let port = json!({"device_id": vm, "device_owner": "compute:nova", "allowed_address_pairs": pairs});
        stack.create_port(&network, &port).unwrap()
    };
    let (first, second) = (port(FIRST, foreign), port(SECOND, json!([])));
    let server = Server::start(&kubernetes("1.19.3", None), None, Options::default(), &[]);
    server.nodes([vm("n1", FIRST)]);
    let files = [
        pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        policy("{neutron: {allowedAddressPairs: PodCIDRs}}"),
    ];
    server.folder.write("pools/a.yaml", files.join("---\n"));
    let clouds = clouds_file(&stack, server.folder.path());
    let clouds = clouds.to_str().unwrap();
    let watch = Running::start(
        server.folder.path(),
        server.plane.kubeconfig(),
        &["watch", "--interval", "1s", "--clouds-file", clouds],
    );
    watch.written("n1");
    allows(
        &stack,
        &first,
        &["10.20.0.0/24", "10.20.9.0/24", "203.0.113.9"],
    );
    // Stale pairs wait for approval; a node that joins gets its pair with its block.
    server.nodes([vm("n2", SECOND)]);
    allows(&stack, &second, &["10.20.1.0/24"]);
    set(&stack, &second, json!([{"ip_address": "198.51.100.7"}]));
    allows(&stack, &second, &["10.20.1.0/24", "198.51.100.7"]);
    stack.neutron().stop();
    stack.neutron().start().unwrap();
    set(&stack, &second, json!([]));
    allows(&stack, &second, &["10.20.1.0/24"]);
    assert_eq!(watch.end(), 0);
    set(&stack, &second, json!([]));
    let doctor = ["doctor", "--clouds-file", clouds, "-o", "json"];
    let found = server.run(&doctor).expect(2);
    let rules: BTreeSet<String> = found.json()["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect();
    for rule in ["address-pairs-missing", "address-pairs-stale"] {
        assert!(rules.contains(rule), "{rules:?}");
    }
    let apply = ["apply", "--auto-approve", "--clouds-file", clouds];
    let waived = ["--waive", "disruptive-percent"];
    server.run(&[&apply[..], &waived].concat()).expect(0);
    allows(&stack, &first, &["10.20.0.0/24", "203.0.113.9"]);
}

fn vm(name: &str, id: &str) -> serde_json::Value {
    let mut node = node(name, json!({}));
    node["spec"]["providerID"] = format!("openstack:///{id}").into();
    node
}

fn set(stack: &OpenStack, port: &str, pairs: serde_json::Value) {
    let body = json!({"port": {"allowed_address_pairs": pairs}});
    let path = format!("/v2.0/ports/{port}");
    stack.as_member().put(&path, &body).unwrap();
}

/// Waits until a port allows exactly these ranges.
#[track_caller]
fn allows(stack: &OpenStack, port: &str, expected: &[&str]) {
    let allowed = || {
        let path = format!("/v2.0/ports/{port}");
        let port = stack.as_member().get(&path).unwrap();
        let pairs = port["port"]["allowed_address_pairs"].as_array().unwrap();
        let texts = pairs
            .iter()
            .map(|pair| pair["ip_address"].as_str().unwrap());
        texts.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let expected: BTreeSet<String> = expected.iter().map(|range| (*range).to_owned()).collect();
    let so = wait_until("the pairs", testbed::PATIENCE, || {
        Ok((allowed() == expected).then_some(()))
    });
    assert!(so.is_ok(), "{:?}, not {expected:?}", allowed());
}
