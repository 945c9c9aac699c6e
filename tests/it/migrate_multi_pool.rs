//! A cluster changes from ipam `cluster-pool` to `multi-pool` by rack, and back, beside the real
//! operators of either mode: what they do with CiliumNodes that have blocks for both.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::{CiliumVersion, FlatBlocks, Operator, PATIENCE, RackOptions, wait_until};

use super::migrate_cli::{POLICY, flat, racks};
use super::migrate_racks::{APPLY, Ground, IPV6_SIZE, PARALLEL, RACKS, cluster_pool, ipv6_range};
use super::multi_pool::{PODS_POOLS, allocated, start, wants};
use super::support::cluster;

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const MULTI_POOL: [&str; 2] = ["--ipam=multi-pool", "--enable-ipv6=false"];
const TO_POOLS: [&str; 2] = ["--to-ipam", "multi-pool"];

fn cilium_node(name: &str, ipam: &Value) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name}, "spec": {"ipam": ipam}})
}

fn pod_pool(name: &str, cidr: &str, size: u8) -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool", "metadata": {"name": name},
        "spec": {"ipv4": {"cidrs": [cidr], "maskSize": size}}})
}

/// An operator in ipam `multi-pool` keeps what pools gave, and never looks at `podCIDRs`: it hands
/// out their addresses again. So all blocks of a cluster must be in pools before it starts.
fn pod_cidrs_mean_nothing_to_an_operator_of_pools(version: CiliumVersion) {
    let server = start(version);
    let plane = &server.plane;
    let both = json!({"podCIDRs": ["10.10.1.0/24"], "pools": {
        "allocated": [{"pool": "rack", "cidrs": ["10.20.0.0/26"]}],
        "requested": [{"pool": "rack", "needed": {"ipv4-addrs": 8}}]}});
    let old = json!({"podCIDRs": ["10.20.0.64/26"]});
    let mut operator = Operator::start(&server.programs, plane, version, &MULTI_POOL).unwrap();
    drop(operator);
    plane
        .create(PODS_POOLS, &pod_pool("rack", "10.20.0.0/24", 26))
        .unwrap();
    plane
        .create(CILIUM_NODES, &cilium_node("both", &both))
        .unwrap();
    plane
        .create(CILIUM_NODES, &cilium_node("old", &old))
        .unwrap();
    operator = Operator::start(&server.programs, plane, version, &MULTI_POOL).unwrap();
    wants(&server, "new", "rack", 62 * 3);
    let mut given = allocated(&server, "new");
    given[0].1.sort();
    assert_eq!(
        given[0].1,
        ["10.20.0.128/26", "10.20.0.192/26", "10.20.0.64/26"]
    );
    let ipam =
        |name: &str| plane.get(&format!("{CILIUM_NODES}/{name}")).unwrap()["spec"]["ipam"].clone();
    assert_eq!(ipam("both"), both);
    assert_eq!(ipam("old")["podCIDRs"], old["podCIDRs"]);
    assert_eq!(ipam("old")["pools"].get("allocated"), None);
    drop(operator);
}

#[test]
#[ignore = "slow: builds an operator; cargo xtask test --agent runs it"]
fn an_operator_1_18_of_pools_does_not_read_pod_cidrs() {
    pod_cidrs_mean_nothing_to_an_operator_of_pools(CiliumVersion::V1_18);
}

#[test]
fn an_operator_1_19_of_pools_does_not_read_pod_cidrs() {
    pod_cidrs_mean_nothing_to_an_operator_of_pools(CiliumVersion::V1_19);
}

#[test]
fn an_operator_1_20_of_pools_does_not_read_pod_cidrs() {
    pod_cidrs_mean_nothing_to_an_operator_of_pools(CiliumVersion::V1_20);
}

/// Racks whose pools lie outside of the operator's range.
fn options(nodes: usize) -> RackOptions {
    RackOptions {
        nodes,
        flat: FlatBlocks {
            range: "10.10.0.0/18".to_owned(),
            size: 24,
        },
        ..cluster_pool(CiliumVersion::V1_20)
    }
}

/// `spec.ipam` of each CiliumNode.
fn ipam(ground: &Ground) -> BTreeMap<String, Value> {
    let objects = ground.cluster.plane.list(CILIUM_NODES).unwrap();
    let of = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        (name, object["spec"]["ipam"].clone())
    };
    objects.iter().map(of).collect()
}

/// Every block of every pool, with its node.
fn blocks_of_pools(ground: &Ground) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (node, ipam) in ipam(ground) {
        for pool in ipam["pools"]["allocated"].as_array().into_iter().flatten() {
            for cidr in pool["cidrs"].as_array().unwrap() {
                all.push((cidr.as_str().unwrap().to_owned(), node.clone()));
            }
        }
    }
    all.sort();
    all
}

/// Each node has its old block, and one of its rack's pool.
fn expect_both(ground: &Ground, before: &BTreeMap<String, String>) {
    for (node, ipam) in ipam(ground) {
        assert_eq!(ipam["podCIDRs"], json!([before[&node]]), "{node}");
        let index: usize = node.trim_start_matches("worker-").parse().unwrap();
        let allocated = &ipam["pools"]["allocated"];
        assert_eq!(
            allocated.as_array().unwrap().len(),
            1,
            "{node}: {allocated}"
        );
        assert_eq!(allocated[0]["pool"], RACKS[index % 3].0, "{node}");
    }
    let blocks = blocks_of_pools(ground);
    assert!(
        blocks.windows(2).all(|two| two[0].0 != two[1].0),
        "{blocks:?}"
    );
}

#[test]
fn twelve_nodes_change_to_pools_by_rack_and_their_operator_follows() {
    let mut ground = Ground::start(&options(12), PARALLEL);
    let before = ground.blocks();
    let watching = ground.watching();
    let plan = ["migrate", "plan", "-o", "json"];
    let planned = ground
        .run(&[&plan[..], &TO_POOLS].concat())
        .expect(0)
        .json();
    assert_eq!(planned["moves"].as_array().unwrap().len(), 12);
    assert_eq!(planned["after"].as_array().unwrap().len(), 5, "{planned}");
    let applied = ground.run(&[&APPLY[..], &TO_POOLS].concat()).expect(0);
    eprintln!("{}", applied.all());
    ground.cluster.wait_ready().unwrap();
    ground.expect_rack_blocks();
    ground.expect_clean();
    expect_both(&ground, &before);
    // A person does the rest.
    let left = ground
        .run(&[&plan[..], &TO_POOLS].concat())
        .expect(0)
        .json();
    assert_eq!(
        (&left["moves"], &left["left_out"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(left["after"], planned["after"]);
    let moves = ground.run(&plan).expect(0).json()["moves"].clone();
    assert_eq!(
        moves,
        json!([]),
        "no node goes back to a block of the old mode"
    );

    let held = blocks_of_pools(&ground);
    follow(&mut ground, &MULTI_POOL);
    ground.run(&["apply", "--auto-approve"]).expect(0);
    ground.run(&["plan", "--detailed-exitcode"]).expect(0);
    // A node that grows gets a block of its pool that no other node has.
    let wanted = json!([{"pool": "r0", "needed": {"ipv4-addrs": 300}}]);
    let path = format!("{CILIUM_NODES}/worker-0");
    let change = json!({"spec": {"ipam": {"pools": {"requested": wanted}}}});
    ground.cluster.plane.patch(&path, &change).unwrap();
    wait_until("the operator to give a second block", PATIENCE, || {
        let blocks = blocks_of_pools(&ground);
        Ok((blocks.len() > held.len()).then_some(()))
    })
    .unwrap();
    let grown = blocks_of_pools(&ground);
    assert!(
        held.iter().all(|one| grown.contains(one)),
        "{held:?}: {grown:?}"
    );
    assert!(
        grown.windows(2).all(|two| two[0].0 != two[1].0),
        "{grown:?}"
    );
    let undo = ground.run(&["migrate", "undo", "--auto-approve"]);
    let told = "cilium-config sets ipam `multi-pool`";
    assert!(
        undo.code != 0 && undo.all().contains(told),
        "{}",
        undo.all()
    );
    ground.expect_clean();
    assert_eq!(watching.faults(), Vec::<String>::new());
}

/// What Helm does after the last wave.
fn follow(ground: &mut Ground, flags: &[&str]) {
    let cluster = &mut ground.cluster;
    cluster.operator = None;
    let config = "/api/v1/namespaces/kube-system/configmaps/cilium-config";
    let change = json!({"data": {"ipam": "multi-pool"}});
    cluster.plane.patch(config, &change).unwrap();
    let (programs, plane) = (&cluster.programs, &cluster.plane);
    let operator = Operator::start(programs, plane, CiliumVersion::V1_20, flags).unwrap();
    cluster.operator = Some(operator);
}

#[test]
fn nodes_that_changed_to_pools_go_back() {
    let ground = Ground::start(&options(6), "");
    let before = ground.blocks();
    let watching = ground.watching();
    ground.run(&[&APPLY[..], &TO_POOLS].concat()).expect(0);
    ground.cluster.wait_ready().unwrap();
    ground.expect_rack_blocks();
    ground.run(&["migrate", "undo", "--auto-approve"]).expect(0);
    ground.cluster.wait_ready().unwrap();
    assert_eq!(ground.blocks(), before);
    ground.expect_clean();
    for (node, ipam) in ipam(&ground) {
        assert_eq!(ipam["podCIDRs"], json!([before[&node]]));
        assert!(
            ipam.get("pools").is_none_or(|pools| *pools == json!({})),
            "{node}: {ipam}"
        );
    }
    let configs = "/apis/cilium.io/v2/namespaces/kube-system/ciliumnodeconfigs";
    assert_eq!(
        ground.cluster.plane.list(configs).unwrap(),
        Vec::<Value>::new()
    );
    assert_eq!(watching.faults(), Vec::<String>::new());
}

/// Each node has a block of each family of its rack's pool.
fn expect_both_families(ground: &Ground) {
    for (node, ipam) in ipam(ground) {
        let index: usize = node.trim_start_matches("worker-").parse().unwrap();
        let rack = RACKS[index % 3].0;
        let allocated = &ipam["pools"]["allocated"];
        assert_eq!(allocated[0]["pool"], rack, "{node}: {allocated}");
        let cidrs = allocated[0]["cidrs"].as_array().unwrap();
        assert_eq!(cidrs.len(), 2, "{node}: {allocated}");
        let range = ipv6_range(rack);
        let (ipv6, _) = range.split_once("::").unwrap();
        let is_in_rack = |cidr: &Value| cidr.as_str().unwrap().starts_with(ipv6);
        assert!(cidrs.iter().any(is_in_rack), "{node}: {allocated}");
    }
}

/// Three nodes with a block of each family, all of the operator's ranges.
fn dual_stack() -> Ground {
    let flat_ipv6 = FlatBlocks {
        range: "fd00:10::/104".to_owned(),
        size: IPV6_SIZE,
    };
    let options = RackOptions {
        flat_ipv6: Some(flat_ipv6),
        ..options(3)
    };
    let ground = Ground::start(&options, "");
    for (node, ipam) in ipam(&ground) {
        let blocks = ipam["podCIDRs"].as_array().unwrap();
        assert_eq!(blocks.len(), 2, "{node}: {ipam}");
    }
    ground
}

#[test]
fn nodes_of_both_families_change_to_pools_and_back() {
    let ground = dual_stack();
    let before = ipam(&ground);
    let watching = ground.watching();
    ground.run(&[&APPLY[..], &TO_POOLS].concat()).expect(0);
    ground.cluster.wait_ready().unwrap();
    ground.expect_rack_blocks();
    expect_both_families(&ground);
    ground.run(&["migrate", "undo", "--auto-approve"]).expect(0);
    ground.cluster.wait_ready().unwrap();
    ground.expect_clean();
    for (node, ipam) in ipam(&ground) {
        assert_eq!(ipam["podCIDRs"], before[&node]["podCIDRs"], "{node}");
    }
    assert_eq!(watching.faults(), Vec::<String>::new());
}

#[test]
fn an_operator_follows_nodes_of_both_families() {
    let mut ground = dual_stack();
    ground.run(&[&APPLY[..], &TO_POOLS].concat()).expect(0);
    ground.cluster.wait_ready().unwrap();
    expect_both_families(&ground);
    let held = blocks_of_pools(&ground);
    follow(&mut ground, &["--ipam=multi-pool", "--enable-ipv6=true"]);
    ground.run(&["apply", "--auto-approve"]).expect(0);
    ground.run(&["plan", "--detailed-exitcode"]).expect(0);
    let wanted = json!([{"pool": "r0", "needed": {"ipv4-addrs": 300, "ipv6-addrs": 300}}]);
    let change = json!({"spec": {"ipam": {"pools": {"requested": wanted}}}});
    let path = format!("{CILIUM_NODES}/worker-0");
    ground.cluster.plane.patch(&path, &change).unwrap();
    wait_until("a second block of each family", PATIENCE, || {
        let blocks = blocks_of_pools(&ground);
        Ok((blocks.len() >= held.len() + 2).then_some(()))
    })
    .unwrap();
    let grown = blocks_of_pools(&ground);
    assert!(
        held.iter().all(|one| grown.contains(one)),
        "{held:?}: {grown:?}"
    );
    assert!(
        grown.windows(2).all(|two| two[0].0 != two[1].0),
        "{grown:?}"
    );
}

#[test]
fn a_kill_after_any_step_of_a_change_to_pools_changes_nothing_at_the_end() {
    let ground = Ground::start(&options(6), "");
    let before = ground.blocks();
    let watching = ground.watching();
    ground.migrate_with_kills(2, &TO_POOLS);
    ground.cluster.wait_ready().unwrap();
    ground.expect_rack_blocks();
    ground.expect_clean();
    expect_both(&ground, &before);
    assert_eq!(watching.faults(), Vec::<String>::new());
}

#[test]
fn a_rival_that_takes_a_block_of_the_pool_stops_its_node() {
    let ground = Ground::start(&options(3), "");
    let before = ground.blocks();
    let plan = ["migrate", "plan", "--out", "moves.json"];
    ground.run(&[&plan[..], &TO_POOLS].concat()).expect(0);
    let saved: Value = serde_json::from_str(&ground.folder().read("moves.json")).unwrap();
    let wanted = saved["moves"][1]["to"][0].as_str().unwrap().to_owned();
    let rival = json!({"podCIDRs": [wanted]});
    let rival = cilium_node("rival", &rival);
    ground.cluster.plane.create(CILIUM_NODES, &rival).unwrap();
    let apply = [
        "migrate",
        "apply",
        "moves.json",
        "--trust-plan-file",
        "--auto-approve",
    ];
    let text = ground.run(&apply).expect(4).all();
    assert!(text.contains("worker-1"), "{text}");
    assert_eq!(ground.blocks(), before);
    assert_eq!(ground.cluster.agents.faults(), []);
}

const SETTINGS: &str = r#""ipam":"cluster-pool","enable-ipv4":"true","cluster-pool-ipv4-cidr":"10.100.0.0/14","cluster-pool-ipv4-mask-size":"24""#;

/// What a schedule says of the nodes that stay.
fn stays(version: &str, settings: &str, items: &[String]) -> String {
    let folder = racks(items);
    folder.write("cluster.json", cluster(version, settings, items));
    folder.write("pools/policy.yaml", POLICY);
    let plan = [
        "migrate",
        "plan",
        "--cluster-file",
        "cluster.json",
        "-o",
        "json",
    ];
    let document = folder
        .run(&[&plan[..], &TO_POOLS].concat())
        .expect(0)
        .json();
    assert_eq!(document["moves"], json!([]), "{document}");
    let left = &document["left_out"][0];
    format!(
        "{}; {}",
        left["why"].as_str().unwrap(),
        left["help"].as_str().unwrap()
    )
}

#[test]
fn what_cilium_does_not_allow_is_refused_with_the_reason() {
    let items = flat(3);
    let said = |version, settings: &str| stays(version, settings, &items);
    let old = said("1.19.3", SETTINGS);
    assert!(
        old.contains("Cilium 1.19.3 does not support the change, and 1.20 is the first"),
        "{old}"
    );
    assert!(old.contains("upgrade --to 1.20"), "{old}");
    let kubernetes = said(
        "1.20.2",
        &SETTINGS.replace("cluster-pool\",\"enable", "kubernetes\",\"enable"),
    );
    assert!(
        kubernetes.contains("cilium-config does not set ipam `cluster-pool`"),
        "{kubernetes}"
    );
}
