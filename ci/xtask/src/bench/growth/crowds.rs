//! Plans and examinations of clusters in which many objects meet many others: nodes and full pools,
//! pins and pools. It knows nothing of how the costs are judged.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::plans::{
    CILIUM, KUBERNETES, MOST_POOLS, MULTI_POOL, ONE_POOL, Shape, address, cluster, cluster_of,
    free_nodes, holding, loaded, node, of_rack, planned, pool, rendered, runtime, shape,
};
use super::{Taken, Unit, measured};
use ipam_cluster::{Extent, observe_files};
use ipam_doctor::doctor::examine;

/// Nodes of the largest cluster with several objects for each.
const MOST_NODES: usize = 40_000;
/// Nodes of the cluster that a growing number of pools or label keys is planned for.
const NODES: usize = 2_000;
/// Nodes for each pool that is too small for them.
const NODES_OF_FULL_POOL: usize = 50;
/// Pins for each pool.
const PINS_OF_POOL: usize = 25;

/// Cilium's operator 1.19 with no replica.
const NO_OPERATOR: &str = r#",
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"cilium-operator","namespace":"kube-system","labels":{"io.cilium/app":"operator"}},"spec":{"replicas":0,"template":{"spec":{"containers":[{"name":"cilium-operator","image":"quay.io/cilium/operator-generic:v1.19.3","command":["cilium-operator-generic"],"args":["--ipam=cluster-pool","--cluster-pool-ipv4-cidr=10.0.0.0/8","--cluster-pool-ipv4-mask-size=26"]}]}}},"status":{}}"#;

pub fn shapes() -> Vec<Shape> {
    use Unit::{Nodes, Pools};
    vec![
        shape(
            "pools of Pods, many nodes",
            Pools,
            MOST_POOLS,
            shared_pod_pools,
        ),
        shape("full pools", Nodes, MOST_NODES, full_pools),
        shape("label keys", Pools, MOST_POOLS, label_keys),
        shape("pins without a pool", Nodes, MOST_NODES, pins_without_pool),
        shape(
            "nodes beside all pools",
            Nodes,
            MOST_NODES,
            beside_all_pools,
        ),
        shape("operator at zero", Nodes, MOST_NODES, operator_at_zero),
        shape("nodes that move", Nodes, MOST_NODES, moving_nodes),
        shape("doctor", Nodes, MOST_NODES, examined),
        shape(
            "doctor, blocks held twice",
            Nodes,
            MOST_NODES,
            examined_twins,
        ),
    ]
}

/// The first plan of pools for ipam `multi-pool`, which share the nodes.
fn shared_pod_pools(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let text = (0..pools).map(|n| pool(n, &of_rack(n, &format!("r{n}"))));
    let loaded = loaded(text.collect())?;
    let nodes = cluster(MULTI_POOL, NODES, |n| {
        let rack = format!("r{}", n % pools);
        format!(
            "{},\n{}",
            node(n, &rack, ""),
            cilium_node(
                n,
                &format!(
                    "{{\"pools\":{{\"allocated\":[{{\"pool\":\"default\",\"cidrs\":[\"172.{}/28\"]}}]}}}}",
                    &address(n * 16)[3..]
                )
            )
        )
    });
    let (mut taken, plan) = planned(file, &nodes, &loaded)?;
    ensure!(plan.changes.len() == 2 * pools, "not every pool is made");
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// Pools that select every node and are too small for all of them.
fn full_pools(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let text = (0..nodes / NODES_OF_FULL_POOL).map(|n| {
        let (high, low) = (n >> 8 & 255, n & 255);
        pool(
            n,
            &format!("cidrs: [10.{high}.{low}.0/24], blockSize: 29, priority: {n}"),
        )
    });
    let loaded = loaded(text.collect())?;
    let objects = free_nodes(nodes);
    let (mut taken, plan) = planned(file, &objects, &loaded)?;
    ensure!(!plan.blocked.is_empty(), "the pools are not full");
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// Pools that look at a label key each. Each node has one of these labels.
fn label_keys(file: &Path, keys: usize) -> Result<Vec<Taken>> {
    let text = (0..keys).map(|n| {
        let (high, low) = (n >> 8 & 255, n & 255);
        let key = format!("matchExpressions: [{{key: key-{n}, operator: Exists}}]");
        pool(
            n,
            &format!("cidrs: [10.{high}.{low}.0/24], blockSize: 31, nodeSelector: {{{key}}}"),
        )
    });
    let loaded = loaded(text.collect())?;
    let objects = cluster(KUBERNETES, NODES, |n| {
        let key = n % keys;
        node(n, "a", "").replace("\"rack\":\"a\"", &format!("\"key-{key}\":\"v{n}\""))
    });
    let (taken, plan) = planned(file, &objects, &loaded)?;
    ensure!(plan.changes.len() == NODES, "not every node gets a block");
    Ok(taken)
}

/// Pins that do not name their pools.
fn pins_without_pool(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let pins =
        (0..nodes).map(|n| xtask::pools::pin(&format!("n{n}"), &format!("{}/26", address(n * 64))));
    let pools = (0..nodes.div_ceil(PINS_OF_POOL)).map(|n| {
        let ranges: Vec<String> = (0..PINS_OF_POOL)
            .map(|block| format!("{}/26", address((n * PINS_OF_POOL + block) * 64)))
            .collect();
        pool(n, &format!("cidrs: [{}], blockSize: 26", ranges.join(", ")))
    });
    let text: String = pools.chain(pins).collect();
    let (read, loaded) = measured("read", || loaded(text));
    let loaded = loaded?;
    let objects = free_nodes(nodes);
    let (taken, plan) = planned(file, &objects, &loaded)?;
    ensure!(plan.changes.len() == nodes, "not every pin is fulfilled");
    Ok(std::iter::once(read).chain(taken).collect())
}

/// Nodes that none of as many pools selects, which look at labels of each.
fn beside_all_pools(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let text = (0..nodes).map(|n| {
        let labels = format!("rack: r{n}, kubernetes.io/hostname: n{n}");
        pool(
            n,
            &format!(
                "cidrs: [{}/26], blockSize: 26, nodeSelector: {{matchLabels: {{{labels}}}}}",
                address(n * 64)
            ),
        )
    });
    let loaded = loaded(text.collect())?;
    let (taken, plan) = planned(file, &free_nodes(nodes), &loaded)?;
    ensure!(plan.blocked.len() == nodes, "not every node is blocked");
    Ok(taken)
}

/// Ipam `cluster-pool` without an operator: blocks for CiliumNodes that wait for one.
fn operator_at_zero(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let loaded = loaded(
        xtask::pools::document("IPAMPolicy", "policy", "writePath: cilium-node")
            + &pool(0, ONE_POOL),
    )?;
    let settings = "cluster-pool\",\"cluster-pool-ipv4-cidr\":\"10.0.0.0/8\",\"cluster-pool-ipv4-mask-size\":\"26\",\"enable-ipv4\":\"true\",\"enable-ipv6\":\"false";
    let base = CILIUM.replace("IPAM", settings) + NO_OPERATOR;
    let objects = cluster_of(&base, nodes, |n| {
        format!("{},\n{}", node(n, "a", ""), cilium_node(n, "{}"))
    });
    let (taken, plan) = planned(file, &objects, &loaded)?;
    ensure!(
        plan.changes.len() == nodes,
        "not every node gets a block: {:?}",
        plan.blocked.first()
    );
    Ok(taken)
}

/// Nodes with blocks that settings of their own are to move to their pins.
fn moving_nodes(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let pin = |n: usize| {
        let spec = format!("pool: p0, podCIDRs: [11.{}/26]", &address(n * 64)[3..]);
        xtask::pools::document("NodeAssignment", &format!("n{n}"), &spec)
    };
    let policy = xtask::pools::document("IPAMPolicy", "policy", "writePath: node-config");
    let loaded = loaded(policy + &pool(0, ONE_POOL) + &(0..nodes).map(pin).collect::<String>())?;
    // The API of the settings is known from one of them.
    let config = "{\"apiVersion\":\"cilium.io/v2\",\"kind\":\"CiliumNodeConfig\",\"metadata\":{\"name\":\"other\",\"namespace\":\"kube-system\",\"uid\":\"o\",\"resourceVersion\":\"1\"},\"spec\":{\"nodeSelector\":{\"matchLabels\":{\"a\":\"b\"}},\"defaults\":{\"debug\":\"true\"}}}";
    let objects = cluster(KUBERNETES, nodes, |n| match n {
        0 => format!("{},\n{config}", holding(n)),
        _ => holding(n),
    });
    let (mut taken, plan) = planned(file, &objects, &loaded)?;
    ensure!(
        plan.changes.len() == nodes,
        "not every node moves: {:?}",
        plan.blocked.first()
    );
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// `doctor` on nodes with blocks in each of their fields.
fn examined(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    examination(file, nodes, |n| n)
}

/// `doctor` on nodes of which two each hold the same block.
fn examined_twins(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    examination(file, nodes, |n| n / 2)
}

fn examination(file: &Path, nodes: usize, block: fn(usize) -> usize) -> Result<Vec<Taken>> {
    let loaded = loaded(pool(0, ONE_POOL))?;
    let objects = cluster(KUBERNETES, nodes, |n| {
        let block = format!("{}/26", address(block(n) * 64));
        format!(
            "{},\n{}",
            node(
                n,
                "a",
                &format!("\"podCIDR\":\"{block}\",\"podCIDRs\":[\"{block}\"]")
            ),
            cilium_node(n, &format!("{{\"podCIDRs\":[\"{block}\"]}}"))
        )
    });
    std::fs::write(file, objects).context("the cluster cannot be written")?;
    let runtime = runtime()?;
    let (read, observed) = measured("observe", || {
        runtime.block_on(observe_files(&[file], Extent::Examination, None))
    });
    let observed = observed?;
    let (mut doctor, findings) =
        measured("examine", || examine(Some(&loaded.desired), &observed, &[]));
    doctor.bytes = findings.len();
    Ok(vec![read, doctor])
}

/// The CiliumNode of a node; `ipam` is JSON.
fn cilium_node(n: usize, ipam: &str) -> String {
    format!(
        "{{\"apiVersion\":\"cilium.io/v2\",\"kind\":\"CiliumNode\",\"metadata\":{{\"name\":\"n{n}\",\"uid\":\"c{n}\",\"resourceVersion\":\"1\"}},\"spec\":{{\"ipam\":{ipam}}}}}"
    )
}
