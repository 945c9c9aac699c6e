//! Ranges that pools retire, on the real operators of ipam `multi-pool`: held blocks stay, and the
//! operator gives nothing more of the range.

use testbed::{CiliumVersion, Operator};

use super::multi_pool::{PODS_POOLS, allocated, start, wants};
use super::server::Server;
use super::support::pool;

const OLD: &str = "10.20.0.0/24";
const NEW: &str = "10.21.0.0/24";

fn write_pool(server: &Server, spec: &str) {
    let spec = format!("{{blockSize: 26, {spec}}}");
    server.folder.write("pools/a.yaml", pool("default", &spec));
}

/// The CIDRs of the pool in the cluster.
fn cidrs(server: &Server) -> Vec<String> {
    let object = server.plane.get(&format!("{PODS_POOLS}/default")).unwrap();
    let cidrs = object["spec"]["ipv4"]["cidrs"].as_array().unwrap().iter();
    cidrs
        .map(|cidr| cidr.as_str().unwrap().to_owned())
        .collect()
}

/// The blocks of a node that asks for more addresses than one block has.
fn blocks_of(server: &Server, node: &str) -> Vec<String> {
    wants(server, node, "default", 100);
    let mut blocks = allocated(server, node).remove(0).1;
    blocks.sort();
    blocks
}

fn started(version: CiliumVersion) -> (Server, Operator) {
    let server = start(version);
    let flags = ["--ipam=multi-pool", "--enable-ipv6=false"];
    let operator = Operator::start(&server.programs, &server.plane, version, &flags).unwrap();
    write_pool(&server, &format!("cidrs: [{OLD}]"));
    server.expect("apply --auto-approve", 0);
    (server, operator)
}

fn a_retiring_range_gives_nothing_new(version: CiliumVersion) {
    let (server, operator) = started(version);
    assert_eq!(blocks_of(&server, "a"), ["10.20.0.0/26", "10.20.0.64/26"]);
    write_pool(
        &server,
        &format!("cidrs: [{OLD}, {NEW}], retiring: [{OLD}]"),
    );
    server.expect("apply --auto-approve", 0);
    assert_eq!(cidrs(&server), ["10.20.0.0/25", NEW]);
    let plan = server.json("plan -o json");
    let mut findings = plan["findings"].as_array().unwrap().iter();
    let finding = findings.find(|one| one["rule"] == "range-retiring");
    let message = finding.unwrap()["message"].as_str().unwrap();
    assert!(message.contains("2 of 4 blocks"), "{message}");
    assert_eq!(blocks_of(&server, "b"), ["10.21.0.0/26", "10.21.0.64/26"]);
    drop(operator);
    let flags = ["--ipam=multi-pool", "--enable-ipv6=false"];
    let _operator = Operator::start(&server.programs, &server.plane, version, &flags).unwrap();
    let nodes = "/apis/cilium.io/v2/ciliumnodes/a";
    server.plane.delete(nodes).unwrap();
    server.expect("apply --auto-approve", 0);
    assert_eq!(cidrs(&server), [NEW]);
    assert_eq!(
        blocks_of(&server, "c"),
        ["10.21.0.128/26", "10.21.0.192/26"]
    );
    write_pool(&server, &format!("cidrs: [{NEW}]"));
    server.expect("plan --detailed-exitcode", 0);
}

#[test]
fn a_retiring_range_gives_nothing_new_on_1_19() {
    a_retiring_range_gives_nothing_new(CiliumVersion::V1_19);
}

#[test]
fn a_retiring_range_gives_nothing_new_on_1_20() {
    a_retiring_range_gives_nothing_new(CiliumVersion::V1_20);
}

/// This operator would forget the blocks that it gave, so the range stays in the pool.
#[test]
fn a_range_of_1_15_is_not_cut() {
    let (server, _operator) = started(CiliumVersion::V1_15);
    blocks_of(&server, "a");
    write_pool(
        &server,
        &format!("cidrs: [{OLD}, {NEW}], retiring: [{OLD}]"),
    );
    let plan = server.json("plan -o json");
    assert_eq!(
        plan["blocked"][0]["code"], "pod-pool-cidr-change-unsupported",
        "{plan:#}"
    );
    assert_eq!(cidrs(&server), [OLD]);
}
