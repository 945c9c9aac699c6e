//! The real operators of Cilium until their ranges are full, against what `simulate` and `capacity`
//! say before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testbed::{CiliumInstallation, CiliumVersion, Operator, Options, Program, wait_until};

use super::multi_pool::PODS_POOLS;
use super::server::{Server, node};
use ipam_core::net::Block;

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

/// More than the ranges have blocks for.
const NEW: usize = 8;

fn server(version: CiliumVersion, config: &[(&str, &str)], ipam: &str) -> Server {
    let installation = CiliumInstallation {
        version: version.release().to_owned(),
        ipam: ipam.to_owned(),
        config: config
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..CiliumInstallation::default()
    };
    Server::start(
        &installation,
        Some(version.release()),
        Options::default(),
        &[Program::CiliumOperator(version)],
    )
}

/// A node joins with a CiliumNode as its agent makes it. Returns its blocks when the operator has
/// decided.
fn join(server: &Server, name: &str, ipam: &Value) -> Vec<String> {
    server.nodes([node(name, json!({}))]);
    let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name},
        "spec": {"ipam": ipam}});
    server.plane.create(CILIUM_NODES, &object).unwrap();
    let decided = || {
        let node = server.plane.get(&format!("{CILIUM_NODES}/{name}"))?;
        let blocks = blocks(&node["spec"]["ipam"]);
        let error = node["status"]["ipam"]["operator-status"]["error"].as_str();
        let has_failed = error.is_some_and(|error| !error.is_empty());
        Ok((has_failed || !blocks.is_empty()).then_some(blocks))
    };
    wait_until("the operator to decide", testbed::PATIENCE, decided).unwrap()
}

fn blocks(ipam: &Value) -> Vec<String> {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let pools = ipam["pools"]["allocated"].as_array().into_iter().flatten();
    let of_pools = pools.flat_map(|pool| texts(&pool["cidrs"]));
    texts(&ipam["podCIDRs"])
        .into_iter()
        .chain(of_pools)
        .collect()
}

/// The blocks of each node.
type Given = BTreeMap<String, Vec<String>>;

#[track_caller]
fn assert_none_twice(given: &Given) {
    let all: Vec<&String> = given.values().flatten().collect();
    let once: BTreeSet<&&String> = all.iter().collect();
    assert_eq!(all.len(), once.len(), "a block twice: {given:?}");
}

/// Joins nodes one after the other. `enough` is the number of blocks that a node needs.
fn until_full(server: &Server, ipam: &Value, enough: usize) -> Given {
    let line = format!("simulate --no-pools --add {NEW} -o json");
    let predicted = server.expect(&line, 2).json();
    let names = (1..=NEW).map(|index| format!("new-{index}"));
    let given: Given = names
        .map(|name| (name.clone(), join(server, &name, ipam)))
        .collect();
    let has_enough = |index: &usize| given[&format!("new-{index}")].len() >= enough;
    let first_without = (1..=NEW).find(|index| !has_enough(index)).unwrap();
    assert_eq!(
        predicted["first_without"]["number"], first_without,
        "{given:?}"
    );
    let with = (1..=NEW).filter(has_enough).count();
    let without = predicted["groups"][0]["without"].as_array().unwrap();
    let without = without.iter().map(|one| one["nodes"].as_u64().unwrap());
    assert_eq!(without.sum::<u64>(), (NEW - with) as u64, "{given:?}");
    assert_none_twice(&given);
    let capacity = server.json("capacity --no-pools -o json");
    let row = &capacity["rows"][0];
    assert_eq!(row["free"], predicted["left"][0]["free"], "{row}");
    assert_eq!(row["used"], row["total"], "{row}");
    assert_eq!(
        capacity["waiting"].as_array().unwrap().len(),
        given.values().filter(|blocks| blocks.is_empty()).count()
    );
    given
}

/// What all nodes have when each has enough blocks.
fn when_all_have(server: &Server, enough: usize) -> Given {
    let all = || {
        let nodes = server.plane.list(CILIUM_NODES)?;
        let given: Given = nodes
            .iter()
            .map(|node| {
                let name = node["metadata"]["name"].as_str().unwrap();
                (name.to_owned(), blocks(&node["spec"]["ipam"]))
            })
            .collect();
        let is_enough = given.values().all(|blocks| blocks.len() >= enough);
        Ok(is_enough.then_some(given))
    };
    wait_until("all nodes to have blocks", testbed::PATIENCE, all).unwrap()
}

/// Held blocks stay, and no block has two nodes.
#[track_caller]
fn assert_grown(before: &Given, after: &Given) {
    for (name, blocks) in before {
        let stay = blocks.iter().all(|block| after[name].contains(block));
        assert!(stay, "{name}: {blocks:?} became {:?}", after[name]);
    }
    assert_none_twice(after);
}

fn operator_of_cluster_pool(server: &Server, version: CiliumVersion, ranges: &str) -> Operator {
    operator_with_mask(server, version, ranges, 25)
}

fn operator_with_mask(server: &Server, version: CiliumVersion, ranges: &str, mask: u8) -> Operator {
    let ranges = format!("--cluster-pool-ipv4-cidr={ranges}");
    let mask = format!("--cluster-pool-ipv4-mask-size={mask}");
    let flags = ["--ipam=cluster-pool", "--enable-ipv6=false", &ranges, &mask];
    Operator::start(&server.programs, &server.plane, version, &flags).unwrap()
}

/// Until the pool is full; then a CIDR is appended, and the operator restarts.
fn of_cluster_pool(version: CiliumVersion) {
    let config = [
        ("cluster-pool-ipv4-cidr", "10.20.0.0/23 10.20.4.0/25"),
        ("cluster-pool-ipv4-mask-size", "25"),
    ];
    let server = server(version, &config, "cluster-pool");
    let operator = operator_of_cluster_pool(&server, version, "10.20.0.0/23,10.20.4.0/25");
    let before = until_full(&server, &json!({}), 1);
    drop(operator);
    let ranges = "10.20.0.0/23,10.20.4.0/25,10.20.8.0/23";
    let _operator = operator_of_cluster_pool(&server, version, ranges);
    assert_grown(&before, &when_all_have(&server, 1));
}

/// Until the pool is full; then a CIDR is appended while the operator runs. An agent keeps 8 addresses
/// ready and has 2 of its own, so it asks for 16: two /28 with 14 each.
fn of_multi_pool(version: CiliumVersion) {
    let server = server(version, &[], "multi-pool");
    let flags = ["--ipam=multi-pool", "--enable-ipv6=false"];
    let _operator = Operator::start(&server.programs, &server.plane, version, &flags).unwrap();
    let mut cidrs = vec!["10.20.0.0/26", "10.20.1.0/27", "10.20.2.0/28"];
    let object = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool", "metadata": {"name": "default"},
        "spec": {"ipv4": {"cidrs": cidrs, "maskSize": 28}}});
    server.plane.create(PODS_POOLS, &object).unwrap();
    let requested = json!([{"pool": "default", "needed": {"ipv4-addrs": 16}}]);
    let before = until_full(&server, &json!({"pools": {"requested": requested}}), 2);
    cidrs.push("10.20.4.0/24");
    let change = json!({"spec": {"ipv4": {"cidrs": cidrs}}});
    let path = format!("{PODS_POOLS}/default");
    server.plane.patch(&path, &change).unwrap();
    assert_grown(&before, &when_all_have(&server, 2));
}

#[test]
fn full_and_extended_pools_of_1_15_are_predicted() {
    of_cluster_pool(CiliumVersion::V1_15);
    of_multi_pool(CiliumVersion::V1_15);
}

#[test]
fn full_and_extended_pools_of_1_19_are_predicted() {
    of_cluster_pool(CiliumVersion::V1_19);
    of_multi_pool(CiliumVersion::V1_19);
}

#[test]
fn full_and_extended_pools_of_1_20_are_predicted() {
    of_cluster_pool(CiliumVersion::V1_20);
    of_multi_pool(CiliumVersion::V1_20);
}

/// Edits of `cluster-pool-ipv4-cidr: 10.20.0.0/23` and its mask 25 while three nodes hold its first
/// blocks: the new ranges and mask, how many of three new nodes get a block, and what the operator
/// says of each holder.
const EDITS: [(&str, &str, u8, usize, [Holder; 3]); 6] = [
    (
        "appended",
        "10.20.0.0/23,10.30.0.0/23",
        25,
        3,
        [Holder::Keeps; 3],
    ),
    (
        "prepended",
        "10.30.0.0/23,10.20.0.0/23",
        25,
        3,
        [Holder::Keeps; 3],
    ),
    ("widened", "10.20.0.0/22", 25, 3, [Holder::Keeps; 3]),
    (
        "removed",
        "10.30.0.0/23",
        25,
        3,
        [Holder::KeepsWithError; 3],
    ),
    ("smaller blocks", "10.20.0.0/23", 26, 2, [Holder::Keeps; 3]),
    (
        "larger blocks",
        "10.20.0.0/22",
        24,
        2,
        [Holder::Keeps, Holder::Keeps, Holder::Loses],
    ),
];

/// What becomes of a block that a node held before an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Keeps,
    KeepsWithError,
    Loses,
}

fn edits_of_a_cluster_pool(version: CiliumVersion) {
    for (edit, ranges, mask, served, expected) in EDITS {
        let config = [
            ("cluster-pool-ipv4-cidr", "10.20.0.0/23"),
            ("cluster-pool-ipv4-mask-size", "25"),
        ];
        let server = server(version, &config, "cluster-pool");
        let operator = operator_of_cluster_pool(&server, version, "10.20.0.0/23");
        let held: Given = ["a0", "a1", "a2"]
            .map(|name| (name.to_owned(), join(&server, name, &json!({}))))
            .into();
        drop(operator);
        let _operator = operator_with_mask(&server, version, ranges, mask);
        let new = ["b0", "b1", "b2"].map(|name| join(&server, name, &json!({})));
        let got = new.iter().filter(|blocks| !blocks.is_empty());
        assert_eq!(got.count(), served, "{edit}: {new:?}");
        let (after, errors) = (when_all_have(&server, 0), errors(&server));
        let holder = |name: &str| match (after[name] == held[name], errors.contains(name)) {
            (true, false) => Holder::Keeps,
            (true, true) => Holder::KeepsWithError,
            (false, _) => Holder::Loses,
        };
        // 1.15 only complains where later operators take the block away.
        let mut expected = expected.map(|holder| match (holder, version) {
            (Holder::Loses, CiliumVersion::V1_15) => Holder::KeepsWithError,
            _ => holder,
        });
        let mut seen = ["a0", "a1", "a2"].map(holder);
        // A starting operator visits the nodes in any order.
        expected.sort();
        seen.sort();
        assert_eq!(seen, expected, "{edit}: {after:?}");
        let blocks: Vec<Block> = after
            .values()
            .flatten()
            .map(|one| one.parse().unwrap())
            .collect();
        for (index, block) in blocks.iter().enumerate() {
            let mut others = blocks[index + 1..].iter();
            assert!(
                !others.any(|other| other.overlaps(*block)),
                "{edit}: {after:?}"
            );
        }
    }
}

/// The nodes of which the operator reports an error.
fn errors(server: &Server) -> BTreeSet<String> {
    let nodes = server.plane.list(CILIUM_NODES).unwrap().into_iter();
    let failing = nodes.filter(|node| {
        let error = node["status"]["ipam"]["operator-status"]["error"].as_str();
        error.is_some_and(|error| !error.is_empty())
    });
    failing
        .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn edits_of_a_cluster_pool_give_no_block_twice_on_1_15() {
    edits_of_a_cluster_pool(CiliumVersion::V1_15);
}

#[test]
fn edits_of_a_cluster_pool_give_no_block_twice_on_1_19() {
    edits_of_a_cluster_pool(CiliumVersion::V1_19);
}

#[test]
fn edits_of_a_cluster_pool_give_no_block_twice_on_1_20() {
    edits_of_a_cluster_pool(CiliumVersion::V1_20);
}
