//! `bench plan`: a whole `cilium-ipam plan` on a real API server, from the start of the process to
//! its end, against the raw paged LIST of the same objects: just after a CiliumNode was written, and
//! when the server has forgotten all earlier states.

use std::ffi::OsStr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use testbed::{ControlPlane, Program, build};
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;
use xtask::{cluster, fleet, node};

use crate::pairs::Pairs;
use crate::process::timed;
use crate::raw;
use crate::samples::Samples;

/// The size of the documented figure.
pub const NODES: usize = 5_000;
const RATIO_LIMIT: f64 = 0.6;
const RSS_LIMIT_MIB: f64 = 40.0;

/// Instead of the server's 5 minutes.
const COMPACTION: Duration = Duration::from_secs(30);
/// Every interval, the server compacts what is older than the interval before; every 15 s, its cache
/// drops it too (apiserver `pkg/storage/etcd3/compact.go` and `pkg/storage/cacher/compactor.go` @ 1.36).
const FORGOTTEN: Duration = Duration::from_secs(2 * COMPACTION.as_secs() + 20);

/// How long ago the last CiliumNode was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastWrite {
    Now,
    LongAgo,
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let mut options = cluster::options();
    let interval = format!("--etcd-compaction-interval={}s", COMPACTION.as_secs());
    options.apiserver_flags.push(interval);
    let programs = build(&[Program::KubeApiserver, Program::Etcd])?;
    let plane = cluster::start_with(&programs, options)?;
    eprintln!("bench plan: creating {nodes} Nodes and as many CiliumNodes");
    fleet::create_cilium_nodes(&plane, 0..nodes)?;
    fleet::create_nodes(&plane, 0..nodes)?;
    let pools = Pools::racks()?;
    for last_write in [LastWrite::Now, LastWrite::LongAgo] {
        match last_write {
            LastWrite::Now => write(&plane)?,
            LastWrite::LongAgo => sleep(FORGOTTEN),
        }
        measure(&tool, &plane, &pools, nodes, last_write)?;
    }
    Ok(())
}

fn write(plane: &ControlPlane) -> Result<()> {
    let label = json!({"metadata": {"labels": {"written": "now"}}});
    plane.patch(&node::cilium_node_path(0), &label)?;
    Ok(())
}

fn measure(
    tool: &Tool,
    plane: &ControlPlane,
    pools: &Pools,
    nodes: usize,
    last_write: LastWrite,
) -> Result<()> {
    let [plan, kubeconfig, output, json] =
        ["plan", "--kubeconfig", "--output", "json"].map(OsStr::new);
    let arguments = [
        plan,
        pools.path(),
        kubeconfig,
        plane.kubeconfig().as_os_str(),
        output,
        json,
    ];
    // The runs that do not count.
    let summary = &tool.json(&arguments)?["summary"];
    ensure!(
        summary["assign"] == nodes && summary["blocked"] == 0,
        "not the plan that is to be measured: {summary}"
    );
    let bytes = raw::list(plane.client())?.bytes;

    let mut rss = Samples::default();
    let pairs = Pairs::measure(
        || {
            let run = timed(&tool.words(&arguments))?;
            rss.add(run.peak_rss_mib);
            Ok(run.milliseconds)
        },
        || Ok(raw::list(plane.client())?.milliseconds),
    )?;
    println!(
        "raw LIST of {} KiB, warm connection, ms: {}",
        bytes / 1024,
        pairs.theirs.spread()
    );
    println!(
        "plan --output json, whole process, ms: {}",
        pairs.ours.spread()
    );
    let name = match last_write {
        LastWrite::Now => "plan",
        LastWrite::LongAgo => "plan_of_a_quiet_cluster",
    };
    let line = Line::new(name).with("nodes", nodes);
    pairs
        .at_most(line, "ratio", RATIO_LIMIT)
        .measured("raw_list_ms", pairs.theirs.median())
        .measured("plan_ms", pairs.ours.median())
        .at_most("peak_rss_mib", rss.max(), "rss_limit_mib", RSS_LIMIT_MIB)
        .print();
    Ok(())
}
