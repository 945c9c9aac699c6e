//! Plans of growing clusters in a file: what planning, showing and applying them costs. It knows
//! nothing of how the costs are judged.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use tokio::runtime::Runtime;

use super::{Taken, json, measured, shown};
use cilium_ipam::render::{Detail, diagnostics, human, log_text, markdown};
use ipam_cluster::{FileCluster, Opening};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::apply::Stop;
use ipam_controller::{
    BATCH, Job, Loaded, NoPorts, OnConflict, Sending, apply_until_settled, check_documents,
    observe_and_plan,
};
use ipam_planner::plan::{Plan, PlanDocument};

/// Nodes of the largest cluster.
pub const MOST_NODES: usize = 100_000;
/// Pools of the largest directory.
pub const MOST_POOLS: usize = 8_000;
/// Nodes of the cluster that the growing directories are planned for.
const FEW_NODES: usize = 200;
/// The default of `apply --parallelism`.
const PARALLELISM: NonZeroUsize = NonZeroUsize::new(16).unwrap();
/// Room for 524,288 blocks.
const ONE_POOL: &str = "cidrs: [10.0.0.0/8, 11.0.0.0/8], blockSize: 26";

/// Cilium 1.19 with `ipam: kubernetes`, and a kube-controller-manager that gives no blocks.
const CILIUM: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cilium-config","namespace":"kube-system"},"data":{"ipam":"kubernetes"}},
{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"cilium","namespace":"kube-system","labels":{"k8s-app":"cilium"}},"spec":{"template":{"spec":{"containers":[{"name":"cilium-agent","image":"quay.io/cilium/cilium:v1.19.3"}]}}}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kube-controller-manager-cp","namespace":"kube-system","labels":{"component":"kube-controller-manager"}},"spec":{"containers":[{"name":"c","command":["kube-controller-manager","--allocate-node-cidrs=false"]}]}},
{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["192.168.0.0/16"]}}"#;

/// A plan that gives each of these nodes a block, and its apply.
pub fn assignments(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let loaded = loaded(pool(0, ONE_POOL))?;
    let (mut taken, plan) = planned(file, nodes, &loaded)?;
    ensure!(plan.changes.len() == nodes, "not every node gets a block");
    taken.extend(rendered(&plan, &loaded));
    taken.push(applied(file, &loaded, nodes)?);
    Ok(taken)
}

/// A plan in which no pool selects any of these nodes.
pub fn blocked_nodes(file: &Path, nodes: usize) -> Result<Vec<Taken>> {
    let loaded = loaded(pool(0, &of_rack(0, "nowhere")))?;
    let (mut taken, plan) = planned(file, nodes, &loaded)?;
    ensure!(plan.blocked.len() == nodes, "not every node is blocked");
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// A plan with this many pools that select no node, each of which is a finding.
pub fn idle_pools(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let text = (0..pools).map(|n| pool(n, &of_rack(n, &format!("r{n}"))));
    let loaded = loaded(text.collect())?;
    let (mut taken, plan) = planned(file, FEW_NODES, &loaded)?;
    ensure!(
        plan.findings.len() >= pools,
        "not every idle pool is a finding"
    );
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

fn planned(file: &Path, nodes: usize, loaded: &Loaded) -> Result<(Vec<Taken>, Plan)> {
    std::fs::write(file, cluster(nodes)).context("the cluster cannot be written")?;
    let runtime = runtime()?;
    let cluster = FileCluster::open(file, Opening::Read)?;
    let job = Job::files(loaded);
    let (taken, outcome) = measured("plan", || {
        runtime.block_on(observe_and_plan(&cluster, &job))
    });
    let (_, plan) = outcome?;
    Ok((vec![taken], plan))
}

/// The plan in every form that `plan` prints.
fn rendered(plan: &Plan, loaded: &Loaded) -> Vec<Taken> {
    let (made, document) = measured("document", || PlanDocument::new(plan, "pools"));
    let mut taken = vec![made];
    for (findings, text, markup, data, detail) in [
        ("findings", "human", "Markdown", "JSON", Detail::Short),
        (
            "findings --full",
            "human --full",
            "Markdown --full",
            "JSON --full",
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
        taken.push(shown(markup, || markdown(&document, detail)));
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
        parallelism: PARALLELISM,
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
        (applied, None) => Ok(applied.applied()),
        (_, Some(error)) => bail!(error),
    }
}

fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .enable_all()
        .build()
        .context("no runtime")
}

fn loaded(text: String) -> Result<Loaded> {
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

fn pool(n: usize, spec: &str) -> String {
    xtask::pools::document("IPPool", &format!("p{n}"), spec)
}

/// The spec of the `n`-th pool, for the nodes of a rack.
fn of_rack(n: usize, rack: &str) -> String {
    let (high, low) = (n >> 8 & 255, n & 255);
    format!(
        "cidrs: [10.{high}.{low}.0/24], blockSize: 26, nodeSelector: {{matchLabels: {{rack: {rack}}}}}"
    )
}

/// A cluster with Cilium and Nodes that hold no block.
fn cluster(nodes: usize) -> String {
    let mut text = String::with_capacity(nodes * 256 + 2048);
    text.push_str("{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n");
    text.push_str(CILIUM);
    for n in 0..nodes {
        // A String takes everything.
        let _ = write!(
            text,
            ",\n{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"n{n}\",\"uid\":\"u{n}\",\"resourceVersion\":\"{}\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{{\"rack\":\"a\"}}}},\"spec\":{{}}}}",
            n + 1
        );
    }
    text.push_str("\n]}\n");
    text
}
