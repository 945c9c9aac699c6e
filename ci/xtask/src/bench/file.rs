//! `bench file`: a whole `cilium-ipam plan` on a cluster kept in a JSON file, against Python that
//! does nothing but `json.load` the same file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::ser::{Serialize, Serializer};
use serde_json::ser::PrettyFormatter;
use serde_json::{Value, json};
use xtask::line::Line;
use xtask::node;
use xtask::pools::Pools;
use xtask::tool::Tool;

use crate::pairs::Pairs;
use crate::process::timed;
use crate::samples::Samples;

/// The size of the documented figure.
pub const NODES: usize = 100_000;
const RATIO_LIMIT: f64 = 0.5;
const JSON_LOAD: &str = "import json,sys; json.load(open(sys.argv[1]))";

/// What `kubectl get configmaps,daemonsets,nodes -o json` prints, one object at a time.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    api_version: &'static str,
    items: Items,
    kind: &'static str,
    metadata: Value,
}

/// The objects of a cluster with this many nodes.
struct Items(usize);

impl Serialize for Items {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(cilium().into_iter().chain((0..self.0).map(stored_node)))
    }
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let pools = Pools::racks()?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let file = folder.path().join("cluster.json");
    eprintln!("bench file: writing a cluster of {nodes} nodes");
    write(&file, nodes)?;
    measure(&tool, &pools, &file, nodes)
}

fn measure(tool: &Tool, pools: &Pools, file: &Path, nodes: usize) -> Result<()> {
    let [plan, cluster, output, json] = ["plan", "--cluster", "--output", "json"].map(OsStr::new);
    let arguments = [plan, pools.path(), cluster, file.as_os_str(), output, json];
    let python = ["python3", "-c", JSON_LOAD]
        .map(OsStr::new)
        .into_iter()
        .chain([file.as_os_str()]);
    let python: Vec<&OsStr> = python.collect();
    let summary = &tool.json(&arguments)?["summary"];
    ensure!(
        summary["assign"] == nodes && summary["blocked"] == 0,
        "not the plan that is to be measured: {summary}"
    );

    let (mut ours_rss, mut load_rss) = (Samples::default(), Samples::default());
    let run = |words: &[&OsStr], rss: &mut Samples| {
        let run = timed(words)?;
        rss.add(run.peak_rss_mib);
        Ok(run.milliseconds)
    };
    let words = tool.words(&arguments);
    let pairs = Pairs::measure(
        || run(&words, &mut ours_rss),
        || run(&python, &mut load_rss),
    )?;
    let (ours, load) = (&pairs.ours, &pairs.theirs);
    println!("python3 json.load, whole process, ms: {}", load.spread());
    println!("plan --output json, whole process, ms: {}", ours.spread());
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let file_mib = std::fs::metadata(file)?.len() as f64 / 1_048_576.0;
    let line = Line::new("file").with("nodes", nodes);
    pairs
        .at_most(line, "ratio", RATIO_LIMIT)
        .measured("json_load_ms", load.median())
        .measured("plan_ms", ours.median())
        .at_most("peak_rss_mib", ours_rss.max(), "file_mib", file_mib)
        .measured("json_load_rss_mib", load_rss.max())
        .print();
    Ok(())
}

/// Writes a cluster of this many nodes without blocks.
pub fn write(file: &Path, nodes: usize) -> Result<()> {
    let list = List {
        api_version: "v1",
        items: Items(nodes),
        kind: "List",
        metadata: json!({"resourceVersion": ""}),
    };
    let output = BufWriter::with_capacity(
        1 << 20,
        File::create(file).context("the cluster cannot be written")?,
    );
    // kubectl's indentation.
    let mut serializer =
        serde_json::Serializer::with_formatter(output, PrettyFormatter::with_indent(b"    "));
    list.serialize(&mut serializer)?;
    serializer
        .into_inner()
        .flush()
        .context("the cluster cannot be written")
}

/// The objects by which Cilium's version and settings are known.
fn cilium() -> [Value; 2] {
    let container = json!({"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.19.3"});
    [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-config", "namespace": "kube-system"},
            "data": {"ipam": "kubernetes", "enable-ipv4": "true", "enable-ipv6": "false"}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "cilium", "namespace": "kube-system", "labels": {"k8s-app": "cilium"}},
            "spec": {"template": {"spec": {"containers": [container]}}}}),
    ]
}

/// With what a server adds.
fn stored_node(index: usize) -> Value {
    let mut node = node::node(index);
    node["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    node["metadata"]["resourceVersion"] = json!((1_000 + index).to_string());
    node["metadata"]["uid"] = json!(format!("0e6f1d0c-5a3b-4c1d-9e2f-{index:012x}"));
    node
}
