//! Plans of growing clusters in a file: what planning, showing and applying them costs. It knows
//! nothing of how the costs are judged.

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use tokio::runtime::Runtime;

use super::{Taken, Unit, json, measured, shown};
use cilium_ipam::render::{Detail, PageLimit, diagnostics, human, log_text, markdown};
use ipam_cluster::{FileCluster, Opening};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::apply::Stop;
use ipam_controller::{
    BATCH, Job, Loaded, NoPorts, OnConflict, Sending, apply_until_settled, check_documents,
    observe_and_plan,
};
use ipam_plan::capacity::capacity;
use ipam_plan::overview::Overview;
use ipam_plan::plan::{Plan, PlanDocument};

/// Nodes of the largest cluster.
const MOST_NODES: usize = 100_000;
/// Nodes of the largest cluster with several objects or addresses of the files for each node.
const FEWER_NODES: usize = 25_600;
/// Pools of the largest directory.
pub(super) const MOST_POOLS: usize = 8_000;
/// Nodes of the cluster that the growing directories are planned for.
const FEW_NODES: usize = 200;
/// The default of `apply --parallelism`.
const PARALLELISM: NonZeroUsize = NonZeroUsize::new(16).unwrap();
/// Room for 524,288 blocks.
pub(super) const ONE_POOL: &str = "cidrs: [10.0.0.0/8, 11.0.0.0/8], blockSize: 26";

pub(super) const KUBERNETES: &str = "kubernetes";
pub(super) const MULTI_POOL: &str = "multi-pool";

/// Cilium 1.19 in the mode `IPAM`, and a kube-controller-manager that gives no blocks.
pub(super) const CILIUM: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cilium-config","namespace":"kube-system"},"data":{"ipam":"IPAM"}},
{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"cilium","namespace":"kube-system","labels":{"k8s-app":"cilium"}},"spec":{"template":{"spec":{"containers":[{"name":"cilium-agent","image":"quay.io/cilium/cilium:v1.19.3"}]}}}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kube-controller-manager-cp","namespace":"kube-system","labels":{"component":"kube-controller-manager"}},"spec":{"containers":[{"name":"c","command":["kube-controller-manager","--allocate-node-cidrs=false"]}]}},
{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["192.168.0.0/16"]}}"#;

/// A kind of plan.
pub struct Shape {
    pub name: &'static str,
    pub unit: Unit,
    /// The largest size.
    pub most: usize,
    /// Makes a cluster in this file and a plan of this size, and measures the parts of the program.
    pub measure: fn(&Path, usize) -> Result<Vec<Taken>>,
}

pub(super) fn shape(
    name: &'static str,
    unit: Unit,
    most: usize,
    measure: fn(&Path, usize) -> Result<Vec<Taken>>,
) -> Shape {
    Shape {
        name,
        unit,
        most,
        measure,
    }
}

pub fn shapes() -> Vec<Shape> {
    use Unit::{Nodes, Pools};
    vec![
        shape("assignments", Nodes, MOST_NODES, assignments),
        shape("blocked nodes", Nodes, MOST_NODES, blocked_nodes),
        shape("ranges of one pool", Nodes, FEWER_NODES, ranges_of_one_pool),
        shape("pinned nodes", Nodes, FEWER_NODES, pinned_nodes),
        shape(
            "reserved addresses",
            Nodes,
            FEWER_NODES,
            reserved_under_nodes,
        ),
        shape("moved nodes", Nodes, FEWER_NODES, moved_nodes),
        shape("racks", Pools, MOST_POOLS, racks),
        shape("pools of Pods", Pools, MOST_POOLS, pod_pools),
        shape("idle pools", Pools, MOST_POOLS, idle_pools),
    ]
}

/// A plan that gives each of these nodes a block, and its apply.
fn assignments(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let loaded = loaded(pool(0, ONE_POOL))?;
    assigned_and_applied(file, &free_nodes(nodes), &loaded, nodes)
}

/// A pool with one range for each of these nodes.
fn ranges_of_one_pool(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let ranges: Vec<String> = (0..nodes)
        .map(|n| format!("{}/26", address(n * 64)))
        .collect();
    let spec = format!("cidrs: [{}], blockSize: 26", ranges.join(", "));
    let loaded = loaded(pool(0, &spec))?;
    assigned_and_applied(file, &free_nodes(nodes), &loaded, nodes)
}

/// A pin for each of these nodes.
fn pinned_nodes(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let pin = |n: usize| {
        let spec = format!("pool: p0, podCIDRs: [{}/26]", address(n * 64));
        xtask::pools::document("NodeAssignment", &format!("n{n}"), &spec)
    };
    let loaded = loaded(pool(0, ONE_POOL) + &(0..nodes).map(pin).collect::<String>())?;
    assigned_and_applied(file, &free_nodes(nodes), &loaded, nodes)
}

/// A pool for each of these nodes, which only that node's rack selects.
fn racks(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let text = (0..pools).map(|n| pool(n, &of_rack(n, &format!("r{n}"))));
    let loaded = loaded(text.collect())?;
    let nodes = cluster(KUBERNETES, pools, |n| node(n, &format!("r{n}"), ""));
    assigned_and_applied(file, &nodes, &loaded, pools)
}

fn assigned_and_applied(
    file: &Path,
    cluster: &str,
    loaded: &Loaded,
    nodes: usize,
) -> Result<Vec<Taken>> {
    let (mut taken, plan) = planned(file, cluster, loaded)?;
    ensure!(plan.changes.len() == nodes, "not every node gets a block");
    taken.extend(rendered(&plan, loaded));
    taken.push(applied(file, loaded, nodes)?);
    Ok(taken)
}

/// Nodes that hold blocks of a pool which reserves as many addresses, and are all misplaced.
fn reserved_under_nodes(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let reserved: Vec<String> = (0..nodes).map(|n| address(n * 64 + 1)).collect();
    let spec = format!("{ONE_POOL}, reserved: [{}]", reserved.join(", "));
    let loaded = loaded(pool(0, &spec))?;
    let (mut taken, plan) = planned(file, &cluster(KUBERNETES, nodes, holding), &loaded)?;
    ensure!(plan.misplaced.len() == nodes, "not every node is misplaced");
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// Nodes that settings of their own have moved to their pins.
fn moved_nodes(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let pin = |n: usize| {
        let spec = format!("pool: p0, podCIDRs: [11.{}/26]", &address(n * 64)[3..]);
        xtask::pools::document("NodeAssignment", &format!("n{n}"), &spec)
    };
    let policy = xtask::pools::document("IPAMPolicy", "policy", "writePath: node-config");
    let loaded = loaded(policy + &pool(0, ONE_POOL) + &(0..nodes).map(pin).collect::<String>())?;
    let config = |n: usize| {
        format!(
            "{},\n{{\"apiVersion\":\"cilium.io/v2\",\"kind\":\"CiliumNodeConfig\",\"metadata\":{{\"name\":\"cilium-ipam-n{n}\",\"namespace\":\"kube-system\",\"uid\":\"c{n}\",\"resourceVersion\":\"1\",\"labels\":{{\"app.kubernetes.io/managed-by\":\"cilium-ipam\"}}}},\"spec\":{{\"nodeSelector\":{{\"matchLabels\":{{\"kubernetes.io/hostname\":\"n{n}\"}}}},\"defaults\":{{\"ipv4-range\":\"11.{}/26\"}}}}}}",
            holding(n),
            &address(n * 64)[3..]
        )
    };
    let (mut taken, plan) = planned(file, &cluster(KUBERNETES, nodes, config), &loaded)?;
    ensure!(plan.changes.is_empty(), "a node moves again");
    ensure!(plan.unchanged.len() == nodes, "not every node is unchanged");
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// A plan for ipam `multi-pool`, with a node for each of these pools.
fn pod_pools(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let text = (0..pools).map(|n| pool(n, &of_rack(n, &format!("r{n}"))));
    let loaded = loaded(text.collect())?;
    let nodes = cluster(MULTI_POOL, pools, |n| {
        let allocated = format!(
            "{{\"apiVersion\":\"cilium.io/v2\",\"kind\":\"CiliumNode\",\"metadata\":{{\"name\":\"n{n}\",\"uid\":\"c{n}\",\"resourceVersion\":\"1\"}},\"spec\":{{\"ipam\":{{\"pools\":{{\"allocated\":[{{\"pool\":\"default\",\"cidrs\":[\"172.{}/28\"]}}]}}}}}}}}",
            &address(n * 16)[3..]
        );
        format!("{},\n{allocated}", node(n, &format!("r{n}"), ""))
    });
    let (mut taken, plan) = planned(file, &nodes, &loaded)?;
    ensure!(plan.changes.len() == 2 * pools, "not every pool is made");
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// A plan in which no pool selects any of these nodes.
fn blocked_nodes(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let loaded = loaded(pool(0, &of_rack(0, "nowhere")))?;
    let (mut taken, plan) = planned(file, &free_nodes(nodes), &loaded)?;
    ensure!(plan.blocked.len() == nodes, "not every node is blocked");
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// A plan with this many pools that select no node, each of which is a finding.
fn idle_pools(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let text = (0..pools).map(|n| pool(n, &of_rack(n, &format!("r{n}"))));
    let loaded = loaded(text.collect())?;
    let (mut taken, plan) = planned(file, &free_nodes(FEW_NODES), &loaded)?;
    ensure!(
        plan.findings.len() >= pools,
        "not every idle pool is a finding"
    );
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

pub(super) fn planned(file: &Path, cluster: &str, loaded: &Loaded) -> Result<(Vec<Taken>, Plan)> {
    std::fs::write(file, cluster).context("the cluster cannot be written")?;
    let runtime = runtime()?;
    let cluster = FileCluster::open(file, Opening::Read)?;
    let job = Job::files(loaded);
    let (taken, outcome) = measured("plan", || {
        runtime.block_on(observe_and_plan(&cluster, &job))
    });
    let (observed, plan) = outcome?;
    let (overview, _) = measured("overview", || {
        let capacity = capacity(&observed, Some((&loaded.desired, &plan)));
        Overview::of(&plan, &loaded.desired, &observed, &capacity)
    });
    Ok((vec![taken, overview], plan))
}

/// The plan in every form that `plan` prints.
pub(super) fn rendered(plan: &Plan, loaded: &Loaded) -> Vec<Taken> {
    let (made, document) = measured("document", || PlanDocument::new(plan, "pools"));
    let mut taken = vec![made];
    for (findings, text, markup, data, detail) in [
        ("findings", "human", "Markdown", "JSON", Detail::Short),
        (
            "findings --show-all",
            "human --show-all",
            "Markdown --show-all",
            "JSON --show-all",
            Detail::Full,
        ),
    ] {
        let document = match detail {
            Detail::Short => document.clone().cut(),
            Detail::Full => document.clone(),
        };
        taken.push(shown(findings, || {
            log_text(&diagnostics(&plan.findings, &loaded.documents, detail)).into_owned()
        }));
        taken.push(shown(text, || human(&document, detail)));
        taken.push(shown(markup, || {
            markdown(&document, detail, PageLimit::COMMENT)
        }));
        taken.push(shown(data, || json(&document)));
    }
    taken
}

/// `apply --cluster FILE`, from opening the file to the last write.
fn applied(file: &Path, loaded: &Loaded, nodes: usize) -> Result<Taken> {
    let runtime = runtime()?;
    let (mut taken, applied) = measured("apply", || runtime.block_on(apply(file, loaded)));
    let applied = applied?;
    ensure!(applied == nodes, "{applied} of {nodes} nodes were written");
    taken.bytes = usize::try_from(std::fs::metadata(file)?.len())?;
    Ok(taken)
}

async fn apply(file: &Path, loaded: &Loaded) -> Result<usize> {
    let cluster = FileCluster::open(file, Opening::Write)?;
    let job = Job::files(loaded);
    let (observed, plan) = observe_and_plan(&cluster, &job).await?;
    let stop = Stop::default();
    let mut sending = Sending {
        batch: BATCH,
        limit: PARALLELISM.into(),
        on_conflict: OnConflict::Replan,
        stop: &stop,
        on_event: &mut |_| {},
    };
    let sent = apply_until_settled(
        &cluster,
        &NoPorts,
        &job,
        observed,
        plan.changes,
        &mut sending,
    );
    match sent.await {
        (applied, None) => {
            cluster.save_all()?;
            Ok(applied.applied())
        }
        (_, Some(error)) => bail!(error),
    }
}

pub(super) fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .enable_all()
        .build()
        .context("no runtime")
}

pub(super) fn loaded(text: String) -> Result<Loaded> {
    let documents = Documents {
        files: vec![SourceFile {
            path: "pools/a.yaml".into(),
            text: text.into(),
        }],
    };
    let loaded = check_documents(documents, Vec::new());
    ensure!(!loaded.has_errors(), "the pools have faults");
    Ok(loaded)
}

pub(super) fn pool(n: usize, spec: &str) -> String {
    xtask::pools::document("IPPool", &format!("p{n}"), spec)
}

/// The spec of the `n`-th pool, for the nodes of a rack.
pub(super) fn of_rack(n: usize, rack: &str) -> String {
    let (high, low) = (n >> 8 & 255, n & 255);
    format!(
        "cidrs: [10.{high}.{low}.0/24], blockSize: 26, nodeSelector: {{matchLabels: {{rack: {rack}}}}}"
    )
}

pub(super) fn free_nodes(nodes: usize) -> String {
    cluster(KUBERNETES, nodes, |n| node(n, "a", ""))
}

/// A cluster with Cilium in this mode, and these objects.
pub(super) fn cluster(ipam: &str, objects: usize, object: impl Fn(usize) -> String) -> String {
    cluster_of(&CILIUM.replace("IPAM", ipam), objects, object)
}

/// A cluster with these first objects, and further ones.
pub(super) fn cluster_of(first: &str, objects: usize, object: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(objects * 256 + 2048);
    text.push_str("{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n");
    text.push_str(first);
    for n in 0..objects {
        text.push_str(",\n");
        text.push_str(&object(n));
    }
    text.push_str("\n]}\n");
    text
}

/// The `n`-th Node, which holds the `n`-th block.
pub(super) fn holding(n: usize) -> String {
    let block = format!("{}/26", address(n * 64));
    node(
        n,
        "a",
        &format!("\"podCIDR\":\"{block}\",\"podCIDRs\":[\"{block}\"]"),
    )
}

pub(super) fn node(n: usize, rack: &str, spec: &str) -> String {
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"n{n}\",\"uid\":\"u{n}\",\"resourceVersion\":\"{}\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{{\"rack\":\"{rack}\",\"kubernetes.io/hostname\":\"n{n}\"}}}},\"spec\":{{{spec}}}}}",
        n + 1
    )
}

/// The `n`-th address of 10.0.0.0/8.
pub(super) fn address(n: usize) -> String {
    format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255)
}
