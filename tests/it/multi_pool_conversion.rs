//! Cilium's own conversion from ipam `cluster-pool` to `multi-pool`, by the real operator: what the
//! guide on `migrate` says about it.

use serde_json::{Value, json};
use testbed::{CiliumVersion, Operator};

use super::multi_pool::{PODS_POOLS, allocated, start, wants};
use super::server::Server;
use crate::support::TextAssertions;

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const MULTI_POOL: [&str; 2] = ["--ipam=multi-pool", "--enable-ipv6=false"];
const CONVERT: &str = "--enable-cluster-pool-to-multi-pool-migration=true";

/// A cluster with the pool `default` and the nodes `inside` and `outside` of it, each with a block
/// of `cluster-pool`.
fn converted(flags: &[&str]) -> (Server, Operator) {
    let version = CiliumVersion::V1_20;
    let server = start(version);
    let plane = &server.plane;
    // The first start creates the CustomResourceDefinitions.
    drop(Operator::start(&server.programs, plane, version, &MULTI_POOL).unwrap());
    let pool = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool",
        "metadata": {"name": "default"}, "spec": {"ipv4": {"cidrs": ["10.20.0.0/24"], "maskSize": 26}}});
    plane.create(PODS_POOLS, &pool).unwrap();
    for (name, block) in [("inside", "10.20.0.64/26"), ("outside", "10.30.0.0/26")] {
        let node = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
            "metadata": {"name": name}, "spec": {"ipam": {"podCIDRs": [block]}}});
        plane.create(CILIUM_NODES, &node).unwrap();
    }
    let flags = [&MULTI_POOL, flags].concat();
    let operator = Operator::start(&server.programs, plane, version, &flags).unwrap();
    (server, operator)
}

fn cilium_node(server: &Server, name: &str) -> Value {
    server.plane.get(&format!("{CILIUM_NODES}/{name}")).unwrap()
}

#[test]
fn cilium_moves_every_block_into_the_default_pool() {
    let (server, operator) = converted(&[CONVERT]);
    for (name, block) in [("inside", "10.20.0.64/26"), ("outside", "10.30.0.0/26")] {
        let expected = ("default".to_owned(), vec![block.to_owned()]);
        assert_eq!(allocated(&server, name), [expected]);
        assert_eq!(
            cilium_node(&server, name)["spec"]["ipam"].get("podCIDRs"),
            None
        );
    }
    let doctor = server.expect("doctor --fail-on never", 0);
    let found = doctor.stdout;
    found.assert_has("pod-pool-cut-in-use");
    found.assert_has("10.30.0.0/26");
    drop(operator);
}

#[test]
fn without_the_option_an_operator_gives_blocks_of_the_old_mode_to_other_nodes() {
    let (server, operator) = converted(&[]);
    wants(&server, "new", "default", 62 * 4);
    let given = allocated(&server, "new");
    assert!(
        given[0].1.contains(&"10.20.0.64/26".to_owned()),
        "{given:?}"
    );
    let ipam = &cilium_node(&server, "inside")["spec"]["ipam"];
    assert_eq!(ipam["podCIDRs"], json!(["10.20.0.64/26"]));
    drop(operator);
}
